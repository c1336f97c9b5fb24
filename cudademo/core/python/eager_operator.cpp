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

// out = kernel(a, b, out, n) for two tensors of one shape and dtype.
struct Pair {
  static constexpr Py_ssize_t arity = 2;
  static constexpr const char* type_name = "cudademo._core.EagerPair";
  static constexpr const char* doc =
      "EagerPair(kernel, streaming, empty_like, dtypes, streaming_elements, block, guarded)\n\n"
      "Called with two tensors: the result, or None where the call is not a simple one.";

  TorchState torch;
  Object kernel;     // of (a, b, out, n); its dtype is that of argument 0
  Object streaming;  // the same for arrays larger than the L2 cache
  Object empty_like;
  DtypeSet takes;
  std::int64_t streaming_elements;
  std::uint32_t block;

  static Pair parse(PyObject* arguments, int& guarded) {
    PyObject *kernel = nullptr, *streaming = nullptr, *empty_like = nullptr, *dtypes = nullptr;
    long long streaming_elements = 0;
    unsigned block = 0;
    if (!PyArg_ParseTuple(arguments, "OOOO!LIp", &kernel, &streaming, &empty_like, &PyTuple_Type,
                          &dtypes, &streaming_elements, &block, &guarded)) {
      throw PythonError();
    }
    return {
        TorchState(),       keep(kernel), keep(streaming), keep(empty_like), parse_dtypes(dtypes),
        streaming_elements, block};
  }

  // The result, or a null object where the call is not as simple as that. `guarded`: torch is
  // asked.
  Object call(PyObject* const* tensors, bool guarded) const {
    PyObject* a = tensors[0];
    PyObject* b = tensors[1];
    if (!torch.is_plain(a) || !torch.is_plain(b)) return {};
    if (guarded && (torch.requires_grad(a) || torch.requires_grad(b) || torch.is_watching())) {
      return {};
    }
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
    PyObject* chosen = n >= streaming_elements ? streaming.get() : kernel.get();
    Plan& plan = plan_of(chosen, dtype, device, stream);
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

// How one dtype is summed on one device.
struct TotalRule {
  Dtype dtype;
  int device;
  Object one_block, many_blocks, streaming;  // kernels of (x, n, out, workspace)
  Object result;                             // a tensor like the result
  std::int64_t one_block_elements, streaming_elements, bytes_per_block;
  std::uint32_t one_block_threads, threads, most_blocks;
};

// out = kernel(x, n, out, workspace) for a dense tensor: the sum of all elements.
struct Total {
  static constexpr Py_ssize_t arity = 1;
  static constexpr const char* type_name = "cudademo._core.EagerTotal";
  static constexpr const char* doc =
      "EagerTotal(rule_for, workspace_for, empty_like, dtypes, guarded)\n\n"
      "Called with a tensor: its sum, or None where the call is not a simple one.";

  TorchState torch;
  Object rule_for;       // (dtype name, device) -> the fields of a TotalRule
  Object workspace_for;  // device -> tensor, for a launch on torch's current stream there
  Object empty_like;
  DtypeSet takes;
  std::deque<TotalRule> rules;  // one in use stays put when another thread adds its own

  struct Workspace {
    int device;
    driver::Stream stream;
    Object tensor;
    void* data;
  };
  std::vector<Workspace> workspaces;

  static Total parse(PyObject* arguments, int& guarded) {
    PyObject *rule_for = nullptr, *workspace_for = nullptr, *empty_like = nullptr;
    PyObject* dtypes = nullptr;
    if (!PyArg_ParseTuple(arguments, "OOOO!p", &rule_for, &workspace_for, &empty_like,
                          &PyTuple_Type, &dtypes, &guarded)) {
      throw PythonError();
    }
    return {TorchState(),
            keep(rule_for),
            keep(workspace_for),
            keep(empty_like),
            parse_dtypes(dtypes),
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
    PyObject *one = nullptr, *many = nullptr, *stream = nullptr, *result = nullptr;
    TotalRule fresh{dtype, device, {}, {}, {}, {}, 0, 0, 0, 0, 0, 0};
    long long one_block_elements = 0, streaming_elements = 0, bytes_per_block = 0;
    if (!PyArg_ParseTuple(fields.get(), "OOOOLLLIII", &one, &many, &stream, &result,
                          &one_block_elements, &streaming_elements, &bytes_per_block,
                          &fresh.one_block_threads, &fresh.threads, &fresh.most_blocks)) {
      throw PythonError();
    }
    fresh.one_block = keep(one);
    fresh.many_blocks = keep(many);
    fresh.streaming = keep(stream);
    fresh.result = keep(result);
    fresh.one_block_elements = one_block_elements;
    fresh.streaming_elements = streaming_elements;
    fresh.bytes_per_block = bytes_per_block;
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

  // The result, or a null object where the call is not as simple as that. `guarded`: torch is
  // asked.
  Object call(PyObject* const* tensors, bool guarded) {
    PyObject* x = tensors[0];
    if (!torch.is_plain(x)) return {};
    if (guarded && (torch.requires_grad(x) || torch.is_watching())) return {};
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
    LaunchConfig config;
    PyObject* kernel = how.one_block.get();
    config.block.x = how.one_block_threads;
    if (n > how.one_block_elements) {
      kernel = n >= how.streaming_elements ? how.streaming.get() : how.many_blocks.get();
      config.block.x = how.threads;
      const std::int64_t bytes = n * info(dtype).bytes;
      const std::int64_t blocks = (bytes + how.bytes_per_block - 1) / how.bytes_per_block;
      config.grid.x = static_cast<std::uint32_t>(std::min<std::int64_t>(blocks, how.most_blocks));
    }
    Plan& plan = plan_of(kernel, dtype, device, stream);
    void* parameters[] = {&data, &n, &sum, &scratch};
    launch_released(plan, config, parameters, stream);
    return out;
  }
};

// The Python callable around an operation. The core's own code makes few, so none has a cycle to
// collect.
template <typename Operation>
struct Callable {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  Operation* operation;
  bool guarded;

  static Callable& of(PyObject* self) { return *reinterpret_cast<Callable*>(self); }

  static PyObject* call(PyObject* self, PyObject* const* arguments, std::size_t flagged_count,
                        PyObject* keywords) {
    try {
      const Py_ssize_t count = PyVectorcall_NARGS(flagged_count);
      if (count != Operation::arity || keywords != nullptr) {
        throw ArgumentError(Operation::type_name, -1, std::to_string(Operation::arity) + " tensors",
                            std::to_string(count) + (keywords ? " and keywords" : ""));
      }
      Object out = of(self).operation->call(arguments, of(self).guarded);
      if (!out) Py_RETURN_NONE;
      return out.release();
    } catch (...) {
      return raise_current();
    }
  }

  static PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject*) {
    try {
      int guarded = 0;
      auto operation = std::make_unique<Operation>(Operation::parse(arguments, guarded));
      PyObject* self = type->tp_alloc(type, 0);
      if (self == nullptr) throw PythonError();
      of(self).vectorcall = call;
      of(self).operation = operation.release();
      of(self).guarded = guarded != 0;
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
    static PyType_Slot slots[] = {
        {Py_tp_doc, const_cast<char*>(Operation::doc)},
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
