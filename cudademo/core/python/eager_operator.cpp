#include "python/eager_operator.hpp"

#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver.hpp"
#include "errors.hpp"
#include "python/kernel_object.hpp"
#include "python/object.hpp"
#include "python/raise.hpp"
#include "python/tensor.hpp"
#include "python/torch_state.hpp"

namespace cudademo {

namespace {

constexpr std::uintptr_t pack_bytes = 16;

bool is_dense(const dlpack::Tensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (std::int32_t i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

bool same_shape(const dlpack::Tensor& a, const dlpack::Tensor& b) {
  if (a.ndim != b.ndim) return false;
  for (std::int32_t i = 0; i < a.ndim; ++i) {
    if (a.shape[i] != b.shape[i]) return false;
  }
  return true;
}

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % pack_bytes == 0;
}

// A dense tensor with elements on a CUDA device, of a real dtype, at a pack's boundary.
bool is_simple(const dlpack::Tensor& tensor, Dtype dtype, DtypeSet takes) {
  return tensor.device.type == dlpack::device_cuda && (takes & set_of(dtype)) != 0 &&
         tensor.data != nullptr && is_aligned(dlpack::data_of(tensor)) && is_dense(tensor);
}

DtypeSet parse_dtypes(PyObject* names) {
  DtypeSet set = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
    if (name == nullptr) throw PythonError();
    set |= set_of(dtype_named(name));
  }
  return set;
}

// How a call around torch's dispatcher goes on.
enum class Route : std::uint8_t {
  directly,       // nothing to record
  with_gradient,  // to autograd's own entry
  not_at_all,     // to the dispatcher
};

bool are_plain(const TorchState& torch, PyObject* const* tensors, Py_ssize_t count) {
  return std::all_of(tensors, tensors + count, [&](PyObject* x) { return torch.is_plain(x); });
}

Route route(const TorchState& torch, PyObject* const* tensors, Py_ssize_t count) {
  if (!are_plain(torch, tensors, count) || torch.is_watching()) return Route::not_at_all;
  bool requires_grad = false;
  for (Py_ssize_t i = 0; i < count && !requires_grad; ++i) {
    requires_grad = torch.requires_grad(tensors[i]);
  }
  if (!requires_grad || !torch.is_recording()) return Route::directly;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!torch.is_cuda(tensors[i])) return Route::not_at_all;
  }
  return torch.is_transforming() ? Route::not_at_all : Route::with_gradient;
}

// out = kernel(a, b, out, n) for two tensors of one shape and dtype.
struct Pair {
  static constexpr Py_ssize_t arity = 2;
  static constexpr const char* type_name = "cudademo._core.EagerPair";
  static constexpr const char* doc =
      "EagerPair(kernel, empty_like, dtypes, block, with_gradient)\n\n"
      "Called with two tensors: the result, or None where the call is not a simple one.";

  TorchState torch;
  Object kernel;  // of (a, b, out, n); its dtype is that of argument 0
  Object empty_like;
  DtypeSet takes;
  std::uint32_t block;
  Object with_gradient;  // of (a, b)

  static Pair parse(PyObject* arguments) {
    PyObject *kernel = nullptr, *empty_like = nullptr, *dtypes = nullptr, *with_gradient = nullptr;
    unsigned block = 0;
    if (!PyArg_ParseTuple(arguments, "OOO!IO", &kernel, &empty_like, &PyTuple_Type, &dtypes, &block,
                          &with_gradient)) {
      throw PythonError();
    }
    return {TorchState(),         keep(kernel), keep(empty_like),
            parse_dtypes(dtypes), block,        keep(with_gradient)};
  }

  // The result, or a null object where the call is not as simple as that.
  Object call(PyObject* const* tensors) const {
    PyObject* a = tensors[0];
    PyObject* b = tensors[1];
    const auto left = exchange_view(a);
    const auto right = left ? exchange_view(b) : std::nullopt;
    if (!right) return {};
    const Dtype dtype = dtype_of(*left);
    if (dtype != dtype_of(*right) || left->device.id != right->device.id ||
        !same_shape(*left, *right) || !is_simple(*left, dtype, takes) ||
        !is_simple(*right, dtype, takes)) {
      return {};
    }
    std::int64_t n = dlpack::elements(*left);
    if (n < 2) return {};  // a single element may be lazily negated
    const int device = left->device.id;
    void* first = dlpack::data_of(*left);
    void* second = dlpack::data_of(*right);

    Object out(PyObject_CallOneArg(empty_like.get(), a));
    if (!out) throw PythonError();
    const auto result = exchange_view(out.get());
    if (!result || !is_aligned(dlpack::data_of(*result))) return {};
    void* third = dlpack::data_of(*result);

    Borrower borrower;
    const driver::Stream stream = borrower.stream(device);
    Plan& plan = plan_of(kernel.get(), dtype, device, stream);
    const auto per_thread = static_cast<std::int64_t>(pack_bytes / info(dtype).bytes);
    const std::int64_t threads = (n + per_thread - 1) / per_thread;
    LaunchConfig config;
    config.grid.x = static_cast<std::uint32_t>((threads + block - 1) / block);
    config.block.x = block;
    void* parameters[] = {&first, &second, &third, &n};
    launch_released(plan, config, parameters, stream);
    return out;
  }
};

// How arrays up to a size are summed.
struct Tier {
  std::int64_t most_bytes;
  Object kernel;  // of (x, n, out, workspace)
  std::uint32_t block;
  std::int64_t bytes_per_block;
  std::int64_t most_blocks;

  static Tier parse(PyObject* fields) {
    long long most_bytes = 0, bytes_per_block = 0, most_blocks = 0;
    PyObject* kernel = nullptr;
    unsigned block = 0;
    if (!PyArg_ParseTuple(fields, "LOILL", &most_bytes, &kernel, &block, &bytes_per_block,
                          &most_blocks)) {
      throw PythonError();
    }
    return {most_bytes, keep(kernel), block, bytes_per_block, most_blocks};
  }
};

// How one dtype is summed on one device.
struct TotalRule {
  Dtype dtype;
  int device;
  Object result;            // a tensor like the result
  std::vector<Tier> tiers;  // by size; the last one takes all
};

// out = kernel(x, n, out, workspace) for a dense tensor: the sum of all elements.
struct Total {
  static constexpr Py_ssize_t arity = 1;
  static constexpr const char* type_name = "cudademo._core.EagerTotal";
  static constexpr const char* doc =
      "EagerTotal(rule_for, workspace_for, empty_like, dtypes, with_gradient)\n\n"
      "Called with a tensor: its sum, or None where the call is not a simple one.";

  TorchState torch;
  Object rule_for;       // (dtype name, device) -> (a tensor like the result, tiers)
  Object workspace_for;  // device -> tensor, for a launch on torch's current stream there
  Object empty_like;
  DtypeSet takes;
  Object with_gradient;         // of (x)
  std::deque<TotalRule> rules;  // one in use stays put when another thread adds its own

  struct Workspace {
    int device;
    driver::Stream stream;
    Object tensor;
    void* data;
  };
  std::vector<Workspace> workspaces;

  static Total parse(PyObject* arguments) {
    PyObject *rule_for = nullptr, *workspace_for = nullptr, *empty_like = nullptr;
    PyObject *dtypes = nullptr, *with_gradient = nullptr;
    if (!PyArg_ParseTuple(arguments, "OOOO!O", &rule_for, &workspace_for, &empty_like,
                          &PyTuple_Type, &dtypes, &with_gradient)) {
      throw PythonError();
    }
    return {TorchState(),
            keep(rule_for),
            keep(workspace_for),
            keep(empty_like),
            parse_dtypes(dtypes),
            keep(with_gradient),
            {},
            {}};
  }

  const TotalRule& rule(Dtype dtype, int device) {
    for (const TotalRule& known : rules) {
      if (known.dtype == dtype && known.device == device) return known;
    }
    const std::string name(info(dtype).name);
    const Object fields(PyObject_CallFunction(rule_for.get(), "si", name.c_str(), device));
    if (!fields) throw PythonError();
    PyObject *result = nullptr, *tiers = nullptr;
    if (!PyArg_ParseTuple(fields.get(), "OO!", &result, &PyTuple_Type, &tiers)) throw PythonError();
    TotalRule fresh{dtype, device, keep(result), {}};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tiers); ++i) {
      fresh.tiers.push_back(Tier::parse(PyTuple_GET_ITEM(tiers, i)));
    }
    if (fresh.tiers.empty()) throw Error("a rule needs a tier");
    rules.push_back(std::move(fresh));
    return rules.back();
  }

  // A graph under capture has a workspace of its own, which only Python's side knows.
  void* workspace(int device, driver::Stream stream, bool capturing) {
    if (!capturing) {
      for (const Workspace& known : workspaces) {
        if (known.stream == stream && known.device == device) return known.data;
      }
    }
    Object tensor(PyObject_CallFunction(workspace_for.get(), "i", device));
    if (!tensor) throw PythonError();
    const auto view = exchange_view(tensor.get());
    if (!view) throw Error("the workspace is no tensor");
    void* data = dlpack::data_of(*view);
    if (!capturing) workspaces.push_back({device, stream, std::move(tensor), data});
    return data;
  }

  // The result, or a null object where the call is not as simple as that.
  Object call(PyObject* const* tensors) {
    PyObject* x = tensors[0];
    const auto view = exchange_view(x);
    if (!view || view->device.type != dlpack::device_cuda || view->data == nullptr) return {};
    const Dtype dtype = dtype_of(*view);
    std::int64_t n = dlpack::elements(*view);
    if ((takes & set_of(dtype)) == 0 || !is_dense(*view) || n < 2) return {};
    const int device = view->device.id;
    void* data = dlpack::data_of(*view);

    const TotalRule& how = rule(dtype, device);
    Object out(PyObject_CallOneArg(empty_like.get(), how.result.get()));
    const auto result = out ? exchange_view(out.get()) : std::nullopt;
    if (!result) throw PythonError();
    void* sum = dlpack::data_of(*result);

    Borrower borrower;
    const driver::Stream stream = borrower.stream(device);
    const driver::ContextGuard guard(driver::primary_context(device));
    void* scratch = workspace(device, stream, driver::is_capturing(stream));
    const std::int64_t bytes = n * info(dtype).bytes;
    const auto tier = std::find_if(how.tiers.begin(), how.tiers.end() - 1,
                                   [bytes](const Tier& t) { return bytes <= t.most_bytes; });
    const std::int64_t blocks = (bytes + tier->bytes_per_block - 1) / tier->bytes_per_block;
    LaunchConfig config;
    config.grid.x = static_cast<std::uint32_t>(std::min(blocks, tier->most_blocks));
    config.block.x = tier->block;
    Plan& plan = plan_of(tier->kernel.get(), dtype, device, stream);
    void* parameters[] = {&data, &n, &sum, &scratch};
    launch_released(plan, config, parameters, stream);
    return out;
  }
};

// The Python callable around an operation: called, it asks torch where the call has to go; its
// method `forward` goes straight on. Both answer None where the call is not a simple one. The
// core's own code makes few, so none has a cycle to collect.
template <typename Operation>
struct Callable {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  Operation* operation;

  static Callable& of(PyObject* self) { return *reinterpret_cast<Callable*>(self); }

  static PyObject* answer(Object out) {
    if (!out) Py_RETURN_NONE;
    return out.release();
  }

  static void check_count(Py_ssize_t count, PyObject* keywords) {
    if (count == Operation::arity && keywords == nullptr) return;
    throw ArgumentError(Operation::type_name, -1, std::to_string(Operation::arity) + " tensors",
                        std::to_string(count) + (keywords ? " and keywords" : ""));
  }

  static PyObject* call(PyObject* self, PyObject* const* arguments, std::size_t flagged_count,
                        PyObject* keywords) {
    try {
      check_count(PyVectorcall_NARGS(flagged_count), keywords);
      Operation& operation = *of(self).operation;
      switch (route(operation.torch, arguments, Operation::arity)) {
        case Route::directly:
          return answer(operation.call(arguments));
        case Route::with_gradient:
          return PyObject_Vectorcall(operation.with_gradient.get(), arguments, Operation::arity,
                                     nullptr);
        case Route::not_at_all:
          break;
      }
      return answer({});
    } catch (...) {
      return raise_current();
    }
  }

  static PyObject* forward(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    try {
      check_count(count, nullptr);
      Operation& operation = *of(self).operation;
      const bool plain = are_plain(operation.torch, arguments, count);
      return answer(plain ? operation.call(arguments) : Object());
    } catch (...) {
      return raise_current();
    }
  }

  static PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject*) {
    try {
      auto operation = std::make_unique<Operation>(Operation::parse(arguments));
      PyObject* self = type->tp_alloc(type, 0);
      if (self == nullptr) throw PythonError();
      of(self).vectorcall = call;
      of(self).operation = operation.release();
      return self;
    } catch (...) {
      return raise_current();
    }
  }

  static void dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete of(self).operation;
    type->tp_free(self);
    Py_DECREF(type);
  }

  // Adds the type under the last part of its name. Returns -1 with a Python error set on failure.
  static int add_to(PyObject* module) {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(Callable, vectorcall), READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr},
    };
    static PyMethodDef methods[] = {
        {"forward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(forward)),
         METH_FASTCALL, "forward(*tensors): as a call, without asking torch for a gradient."},
        {nullptr, nullptr, 0, nullptr},
    };
    static PyType_Slot slots[] = {
        {Py_tp_doc, const_cast<char*>(Operation::doc)},
        {Py_tp_methods, methods},
        {Py_tp_new, reinterpret_cast<void*>(make)},
        {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
        {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
        {Py_tp_members, members},
        {0, nullptr},
    };
    static PyType_Spec spec{Operation::type_name, sizeof(Callable), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};
    const Object type(PyType_FromSpec(&spec));
    if (!type) return -1;
    const char* short_name = std::strrchr(Operation::type_name, '.') + 1;
    return PyModule_AddObjectRef(module, short_name, type.get());
  }
};

}  // namespace

int add_operator_types(PyObject* module) {
  if (Callable<Pair>::add_to(module) != 0) return -1;
  return Callable<Total>::add_to(module);
}

}  // namespace cudademo
