#include "python/configuration.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "driver.hpp"
#include "errors.hpp"
#include "python/object.hpp"
#include "python/tensor.hpp"

namespace cudademo {

namespace {

[[noreturn]] void bad_subscript(const std::string& kernel, std::string got) {
  throw ArgumentError(
      kernel, -1,
      "kernel[grid, block] or kernel[grid, block, shared_bytes], where grid and block are "
      "an int or a tuple of up to three",
      std::move(got));
}

std::int64_t dimension(const std::string& kernel, PyObject* value) {
  const Object index(PyIndex_Check(value) ? PyNumber_Index(value) : nullptr);
  if (!index) {
    PyErr_Clear();
    bad_subscript(kernel, describe(value, {}) +
                              (PyFloat_Check(value) ? "; cudademo.ceil_div divides upwards" : ""));
  }
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (overflow != 0) bad_subscript(kernel, describe(value, {}));
  return number;
}

[[noreturn]] void out_of_range(const std::string& kernel, const std::string& what,
                               const std::string& limit) {
  throw LaunchError(kernel + ": " + what + "; the limit is " + limit, "cuLaunchKernel",
                    driver::error_invalid_value, "CUDA_ERROR_INVALID_VALUE");
}

// The limits are those of every GPU since compute capability 3.0 (CUDA Programming Guide, technical
// specifications).
Dim3 parse_dim(const std::string& kernel, PyObject* value, const char* what, const Dim3& limits,
               std::int64_t least) {
  std::array<std::int64_t, 3> numbers{1, 1, 1};
  if (PyTuple_Check(value) || PyList_Check(value)) {
    const Object fast(PySequence_Fast(value, ""));
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(fast.get());
    if (count < 1 || count > 3) bad_subscript(kernel, describe(value, {}));
    for (Py_ssize_t i = 0; i < count; ++i) {
      numbers[static_cast<std::size_t>(i)] =
          dimension(kernel, PySequence_Fast_GET_ITEM(fast.get(), i));
    }
  } else {
    numbers[0] = dimension(kernel, value);
  }
  const std::array<std::uint32_t, 3> most{limits.x, limits.y, limits.z};
  for (std::size_t i = 0; i < 3; ++i) {
    if (numbers[i] >= least && numbers[i] <= most[i]) continue;
    out_of_range(kernel, std::string(what) + "." + "xyz"[i] + " is " + std::to_string(numbers[i]),
                 std::to_string(least) + " to " + std::to_string(most[i]));
  }
  return {static_cast<std::uint32_t>(numbers[0]), static_cast<std::uint32_t>(numbers[1]),
          static_cast<std::uint32_t>(numbers[2])};
}

}  // namespace

LaunchConfig parse_config(const std::string& kernel, PyObject* subscript) {
  constexpr Dim3 grid_limits{0x7FFFFFFF, 65535, 65535};
  constexpr Dim3 block_limits{1024, 1024, 64};
  if (!PyTuple_Check(subscript)) bad_subscript(kernel, describe(subscript, {}));
  const Py_ssize_t count = PyTuple_GET_SIZE(subscript);
  if (count != 2 && count != 3) {
    bad_subscript(kernel, std::to_string(count) + (count == 1 ? " value" : " values"));
  }
  LaunchConfig config;
  config.grid = parse_dim(kernel, PyTuple_GET_ITEM(subscript, 0), "grid", grid_limits, 0);
  config.block = parse_dim(kernel, PyTuple_GET_ITEM(subscript, 1), "block", block_limits, 1);
  if (config.block.count() > 1024) {
    out_of_range(kernel, "a block of " + std::to_string(config.block.count()) + " threads", "1024");
  }
  if (count == 3) {
    const std::int64_t bytes = dimension(kernel, PyTuple_GET_ITEM(subscript, 2));
    if (bytes < 0 || bytes > 0x7FFFFFFF) {
      out_of_range(kernel, std::to_string(bytes) + " bytes of dynamic shared memory",
                   "that of the device");
    }
    config.shared_bytes = static_cast<std::uint32_t>(bytes);
  }
  return config;
}

}  // namespace cudademo
