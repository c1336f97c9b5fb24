// What cudademo/*.py sees of the core. Names and conversions only.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cache.hpp"
#include "compiler.hpp"
#include "driver.hpp"
#include "dynlib.hpp"
#include "errors.hpp"
#include "launch.hpp"
#include "module.hpp"
#include "nvrtc.hpp"
#include "python/announcement.hpp"
#include "python/eager_operator.hpp"
#include "python/kernel_object.hpp"
#include "python/raise.hpp"
#include "python/tensor.hpp"

namespace py = pybind11;
using namespace cudademo;
using namespace pybind11::literals;

namespace {

using Release = py::call_guard<py::gil_scoped_release>;

// Asks CPython, at most every 20 ms, whether a signal such as Ctrl-C has come in.
class SignalWatch {
 public:
  bool operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + std::chrono::milliseconds(20);
    const py::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
  }

 private:
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now();
};

std::shared_ptr<Binary> compile_source(const Nvrtc& nvrtc, std::string source, std::string name,
                                       std::string architecture,
                                       std::map<std::string, std::string> headers,
                                       std::vector<std::string> options,
                                       std::vector<std::string> kernels) {
  const CompileRequest request{std::move(source),  std::move(name),    std::move(architecture),
                               std::move(headers), std::move(options), std::move(kernels)};
  const py::gil_scoped_release released;
  return std::make_shared<Binary>(compile(nvrtc, request, SignalWatch()));
}

const KernelEntry& entry_of(const Binary& binary, const std::string& kernel) {
  const auto found = binary.kernels.find(kernel);
  if (found == binary.kernels.end()) throw Error("the binary has no kernel " + kernel);
  return found->second;
}

const char* kind_name(Parameter::Kind kind) {
  switch (kind) {
    case Parameter::Kind::pointer:
      return "pointer";
    case Parameter::Kind::scalar:
      return "scalar";
    default:
      return "bytes";
  }
}

py::tuple load_entry(const Cache& cache, const std::string& digest, const std::string& key) {
  Cache::Found found = [&] {
    const py::gil_scoped_release released;
    return cache.load(digest, key);
  }();
  py::object binary = py::none();
  if (found.binary) binary = py::cast(std::make_shared<Binary>(std::move(*found.binary)));
  return py::make_tuple(binary, found.fault);
}

std::vector<std::pair<std::string, std::pair<int, int>>> list_devices() {
  std::vector<std::pair<std::string, std::pair<int, int>>> list;
  for (const driver::DeviceInfo& device : driver::devices()) {
    list.push_back({device.name, {device.capability_major, device.capability_minor}});
  }
  return list;
}

using EmulatorOptions =
    std::tuple<bool, std::uint64_t, std::uint64_t, unsigned, std::pair<int, int>>;

EmulatorOptions emulator_options() {
  CudademoEmulatorOptions options{};
  driver::emulator().get_options(&options);
  return {options.checks != 0,
          options.seed,
          options.budget,
          options.threads,
          {options.capability_major, options.capability_minor}};
}

void configure_emulator(bool checks, std::uint64_t seed, std::uint64_t budget, unsigned threads,
                        std::pair<int, int> capability) {
  const CudademoEmulatorOptions options{checks ? 1 : 0,   seed, budget, threads, capability.first,
                                        capability.second};
  driver::emulator().configure(&options);
}

std::pair<int, int> device_capability(int ordinal) {
  return {driver::device_attribute(ordinal, driver::device_capability_major),
          driver::device_attribute(ordinal, driver::device_capability_minor)};
}

// The C++ type and the header of a dtype, both empty where CUDA has none.
std::pair<std::string_view, std::string_view> cpp_type(const std::string& dtype) {
  const DtypeInfo& known = info(dtype_named(dtype));
  return {known.cpp_type, known.header};
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "The core of cudademo in C++: compile, keep, load and launch. Not a public interface.";
  // NOLINTNEXTLINE(performance-unnecessary-value-param): pybind11's own signature
  py::register_exception_translator([](std::exception_ptr error) {
    if (!error) return;
    try {
      std::rethrow_exception(error);
    } catch (const py::builtin_exception&) {
      throw;
    } catch (const py::error_already_set&) {
      throw;
    } catch (const PythonError&) {
      raise_current();
    } catch (const Error&) {
      raise_current();
    } catch (const Cancelled&) {
      raise_current();
    }
  });

  py::class_<Parameter>(m, "Parameter", "One parameter of a kernel.")
      .def_readonly("type", &Parameter::type, "As C++ spells it: 'float const*'.")
      .def_readwrite("name", &Parameter::name, "The source's own name, or ''.")
      .def_readonly("size", &Parameter::size, "Bytes.")
      .def_readonly("writes", &Parameter::writes, "True for a pointer to non-const.")
      .def_property_readonly(
          "kind", [](const Parameter& p) { return kind_name(p.kind); },
          "'pointer', 'scalar' or 'bytes' (a struct by value).")
      .def_property_readonly(
          "dtype", [](const Parameter& p) { return std::string(info(p.dtype).name); },
          "torch's name of a scalar's type.")
      .def_property_readonly(
          "accepts", [](const Parameter& p) { return names(p.accepts); },
          "The dtypes of arrays that a pointer takes, in words.");

  py::class_<Binary, std::shared_ptr<Binary>>(m, "Binary", "What one compile brought forth.")
      .def_readonly("architecture", &Binary::architecture)
      .def_readonly("ptx", &Binary::ptx)
      .def_readonly("log", &Binary::log)
      .def_property_readonly("cubin", [](const Binary& b) { return py::bytes(b.cubin); })
      .def_property_readonly("kernels",
                             [](const Binary& b) {
                               py::list list;
                               for (const auto& [name, entry] : b.kernels) list.append(name);
                               return list;
                             })
      .def(
          "lowered_name",
          [](const Binary& b, const std::string& k) { return entry_of(b, k).lowered_name; },
          "kernel"_a)
      .def(
          "parameters",
          [](const Binary& b, const std::string& k) { return entry_of(b, k).signature.parameters; },
          "kernel"_a);

  py::class_<Nvrtc, std::shared_ptr<Nvrtc>>(m, "Nvrtc", "An opened NVRTC library.")
      .def(py::init<std::string>(), "path"_a, Release())
      .def_property_readonly("path", &Nvrtc::path)
      .def_property_readonly("version", &Nvrtc::version)
      .def_property_readonly("architectures", &Nvrtc::architectures);

  py::class_<Cache>(m, "Cache", "The on-disk store of binaries. Its methods raise nothing.")
      .def(py::init<std::filesystem::path>(), "folder"_a)
      .def("load", &load_entry, "digest"_a, "key"_a, "(Binary or None, what went wrong or '').")
      .def("store", &Cache::store, "digest"_a, "key"_a, "binary"_a, Release(),
           "What went wrong, or ''.")
      .def("path_of", &Cache::path_of, "digest"_a);

  py::class_<Resources>(m, "Resources", "What one kernel takes of a device.")
      .def_readonly("registers", &Resources::registers, "Of a thread.")
      .def_readonly("shared_bytes", &Resources::shared_bytes, "Static, of a block.")
      .def_readonly("constant_bytes", &Resources::constant_bytes)
      .def_readonly("local_bytes", &Resources::local_bytes, "Of a thread: spills and arrays.")
      .def_readonly("max_threads_per_block", &Resources::max_threads_per_block);

  py::class_<Plan, std::shared_ptr<Plan>>(m, "Plan", "One kernel on one device.")
      .def_property_readonly("name", &Plan::name)
      .def_property_readonly("device", &Plan::ordinal)
      .def_property_readonly("resources", &Plan::resources)
      .def("max_active_blocks", &Plan::max_active_blocks, "block_threads"_a, "shared_bytes"_a,
           Release())
      .def_property_readonly("parameters", [](const Plan& p) { return p.signature().parameters; });

  m.def(
      "make_plan",
      [](const std::string& digest, const Binary& binary, const std::string& kernel,
         const std::string& name, int device, const std::vector<std::string>& parameter_names) {
        return std::make_shared<Plan>(resident_module(digest, binary, device),
                                      entry_of(binary, kernel), name, device, parameter_names);
      },
      "digest"_a, "binary"_a, "kernel"_a, "name"_a, "device"_a, "parameter_names"_a, Release());
  m.def("compile", &compile_source, "nvrtc"_a, "source"_a, "name"_a, "architecture"_a, "headers"_a,
        "options"_a, "kernels"_a);
  m.def("cpp_type", &cpp_type, "dtype"_a);
  m.def("loaded_library", &loaded_library, "stem"_a);
  m.def("driver_version", &driver::version, Release());
  m.def("devices", &list_devices, Release());
  m.def(
      "capture_id",
      [](std::uintptr_t stream) {
        return driver::capture_id(reinterpret_cast<driver::Stream>(stream));
      },
      "stream"_a, "The number of the CUDA graph capture under way on a stream; 0 for none.");
  m.def("device_capability", &device_capability, "device"_a, Release());
  m.attr("emulator_ordinal") = driver::emulator_ordinal;
  m.def("emulating", &emulating, "True while kernels without arrays run on the emulator.");
  m.def("set_emulating", &set_emulating, "on"_a);
  m.def("emulator_options", &emulator_options,
        "(checks, seed, budget, threads, (major, minor)) of the emulator.");
  m.def("configure_emulator", &configure_emulator, "checks"_a, "seed"_a, "budget"_a, "threads"_a,
        "capability"_a);
  m.def(
      "set_reachable",
      [](const py::tuple& arrays) {
        try {
          set_reachable(arrays.ptr());
        } catch (const Refused& refused) {
          throw py::type_error(refused.got);
        }
      },
      "arrays"_a);
  m.def(
      "reachable", [] { return py::reinterpret_steal<py::tuple>(reachable().release()); },
      "Arrays that launches on the emulator may touch beside their arguments.");
  m.def(
      "emulator_executed", [] { return driver::emulator().executed(); },
      "Instructions executed by the emulator's threads, in this process so far.");
  if (add_kernel_types(m.ptr()) != 0 || add_operator_types(m.ptr()) != 0) {
    throw py::error_already_set();
  }
}
