#include "python/eager_operator.hpp"

#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
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

namespace cudademo {

namespace {

constexpr std::uintptr_t pack_bytes = 16;

Object keep(PyObject* borrowed) {
  Py_INCREF(borrowed);
  return Object(borrowed);
}

Object member(PyObject* object, const char* name) {
  Object value(PyObject_GetAttrString(object, name));
  if (!value) throw PythonError();
  return value;
}

Object import(const char* name) {
  Object module(PyImport_ImportModule(name));
  if (!module) throw PythonError();
  return module;
}

// What torch has to be asked before a call may go around it.
class TorchState {
 public:
  TorchState()
      : tensor_(member(import("torch").get(), "Tensor")),
        parameter_(member(import("torch.nn").get(), "Parameter")),
        dispatch_depth_(member(import("torch._C").get(), "_len_torch_dispatch_stack")),
        forward_ad_(import("torch.autograd.forward_ad")),
        level_name_(PyUnicode_InternFromString("_current_level")),
        requires_grad_(PyUnicode_InternFromString("requires_grad")) {
    if (!level_name_ || !requires_grad_) throw PythonError();
  }

  // A tensor of torch's own, not of a subclass that may mean something else by an operator.
  bool is_plain(PyObject* object) const {
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
    return type == tensor_.get() || type == parameter_.get();
  }

  // True where a mode of torch's watches all operators, or forward-mode derivatives are being
  // taken.
  bool is_watching() const {
    const Object depth(PyObject_CallNoArgs(dispatch_depth_.get()));
    if (!depth) throw PythonError();
    if (PyLong_AsLong(depth.get()) != 0) return true;
    PyObject* level =
        PyDict_GetItemWithError(PyModule_GetDict(forward_ad_.get()), level_name_.get());
    if (level == nullptr) {
      PyErr_Clear();
      return true;  // another torch than we know
    }
    return PyLong_AsLong(level) >= 0;
  }

  bool requires_grad(PyObject* tensor) const {
    const Object answer(PyObject_GetAttr(tensor, requires_grad_.get()));
    if (!answer) throw PythonError();
    return answer.get() == Py_True;
  }

 private:
  Object tensor_, parameter_, dispatch_depth_, forward_ad_, level_name_, requires_grad_;
};

bool is_dense(const dlpack::Tensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (std::int32_t i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

std::int64_t elements(const dlpack::Tensor& tensor) {
  std::int64_t count = 1;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) count *= tensor.shape[i];
  return count;
}

bool same_shape(const dlpack::Tensor& a, const dlpack::Tensor& b) {
  if (a.ndim != b.ndim) return false;
  for (std::int32_t i = 0; i < a.ndim; ++i) {
    if (a.shape[i] != b.shape[i]) return false;
  }
  return true;
}

void* data_of(const dlpack::Tensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % pack_bytes == 0;
}

// A dense tensor with elements on a CUDA device, of a real dtype, at a pack's boundary.
bool is_simple(const dlpack::Tensor& tensor, Dtype dtype, DtypeSet takes) {
  return tensor.device.type == dlpack::device_cuda && (takes & set_of(dtype)) != 0 &&
         tensor.data != nullptr && is_aligned(data_of(tensor)) && is_dense(tensor);
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
  TorchState torch;
  Object kernel;     // of (a, b, out, n); its dtype is that of argument 0
  Object streaming;  // the same for arrays larger than the L2 cache
  Object empty_like;
  DtypeSet takes;
  std::int64_t streaming_elements;
  std::uint32_t block;

  // The result, or a null object where the call is not as simple as that. `guarded`: torch is
  // asked.
  Object call(PyObject* a, PyObject* b, bool guarded) const {
    if (!torch.is_plain(a) || !torch.is_plain(b)) return {};
    if (guarded && (torch.requires_grad(a) || torch.requires_grad(b) || torch.is_watching())) {
      return {};
    }
    const auto left = exchange_view(a);
    const auto right = left ? exchange_view(b) : std::nullopt;
    if (!right) return {};
    const Dtype dtype = dtype_from_dlpack(left->dtype.code, left->dtype.bits);
    if (dtype != dtype_from_dlpack(right->dtype.code, right->dtype.bits) ||
        left->device.id != right->device.id || !same_shape(*left, *right) ||
        !is_simple(*left, dtype, takes) || !is_simple(*right, dtype, takes)) {
      return {};
    }
    std::int64_t n = elements(*left);
    if (n < 2) return {};  // a single element may be lazily negated
    const int device = left->device.id;
    void* first = data_of(*left);
    void* second = data_of(*right);

    Object out(PyObject_CallOneArg(empty_like.get(), a));
    if (!out) throw PythonError();
    const auto result = exchange_view(out.get());
    if (!result || !is_aligned(data_of(*result))) return {};
    void* third = data_of(*result);

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
  TorchState torch;
  Object rule_for;       // (dtype name, device) -> the fields of a TotalRule
  Object workspace_for;  // device -> tensor, for a launch on torch's current stream there
  Object empty_like;
  DtypeSet takes;
  std::vector<TotalRule> rules;

  struct Workspace {
    int device;
    driver::Stream stream;
    Object tensor;
    void* data;
  };
  std::vector<Workspace> workspaces;

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
    void* data = data_of(*view);
    if (!capturing) workspaces.push_back({device, stream, std::move(tensor), data});
    return data;
  }

  // The result, or a null object where the call is not as simple as that. `guarded`: torch is
  // asked.
  Object call(PyObject* x, bool guarded) {
    if (!torch.is_plain(x)) return {};
    if (guarded && (torch.requires_grad(x) || torch.is_watching())) return {};
    const auto view = exchange_view(x);
    if (!view || view->device.type != dlpack::device_cuda || view->data == nullptr) return {};
    const Dtype dtype = dtype_from_dlpack(view->dtype.code, view->dtype.bits);
    std::int64_t n = elements(*view);
    if ((takes & set_of(dtype)) == 0 || !is_dense(*view) || n < 2) return {};
    const int device = view->device.id;
    void* data = data_of(*view);

    const TotalRule& how = rule(dtype, device);
    Object out(PyObject_CallOneArg(empty_like.get(), how.result.get()));
    const auto result = out ? exchange_view(out.get()) : std::nullopt;
    if (!result) throw PythonError();
    void* sum = data_of(*result);

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

struct TotalObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  Total* total;
  bool guarded;
};

PyObject* total_call(PyObject* self, PyObject* const* arguments, std::size_t flagged_count,
                     PyObject* keywords) {
  try {
    auto& object = *reinterpret_cast<TotalObject*>(self);
    if (PyVectorcall_NARGS(flagged_count) != 1 || keywords != nullptr) {
      throw ArgumentError("EagerTotal", -1, "a tensor", "something else");
    }
    Object out = object.total->call(arguments[0], object.guarded);
    if (!out) Py_RETURN_NONE;
    return out.release();
  } catch (...) {
    return raise_current();
  }
}

PyObject* total_new(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject *rule_for = nullptr, *workspace_for = nullptr, *empty_like = nullptr, *dtypes = nullptr;
  int guarded = 0;
  if (!PyArg_ParseTuple(arguments, "OOOO!p", &rule_for, &workspace_for, &empty_like, &PyTuple_Type,
                        &dtypes, &guarded)) {
    return nullptr;
  }
  try {
    Object self(type->tp_alloc(type, 0));
    if (!self) throw PythonError();
    auto& object = *reinterpret_cast<TotalObject*>(self.get());
    object.total = new Total{TorchState(),
                             keep(rule_for),
                             keep(workspace_for),
                             keep(empty_like),
                             parse_dtypes(dtypes),
                             {},
                             {}};
    object.vectorcall = total_call;
    object.guarded = guarded != 0;
    return self.release();
  } catch (...) {
    return raise_current();
  }
}

void total_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<TotalObject*>(self)->total;
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef total_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(TotalObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot total_slots[] = {
    {Py_tp_doc,
     const_cast<char*>("EagerTotal(rule_for, workspace_for, empty_like, dtypes, guarded)\n\nCalled "
                       "with a tensor: its sum, or None where the call is not a simple one.")},
    {Py_tp_new, reinterpret_cast<void*>(total_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(total_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, total_members},
    {0, nullptr},
};
PyType_Spec total_spec{"cudademo._core.EagerTotal", sizeof(TotalObject), 0,
                       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, total_slots};

struct PairObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  Pair* pair;
  bool guarded;
};

PyObject* pair_call(PyObject* self, PyObject* const* arguments, std::size_t flagged_count,
                    PyObject* keywords) {
  try {
    const auto& object = *reinterpret_cast<PairObject*>(self);
    if (PyVectorcall_NARGS(flagged_count) != 2 || keywords != nullptr) {
      throw ArgumentError("EagerPair", -1, "two tensors", "something else");
    }
    Object out = object.pair->call(arguments[0], arguments[1], object.guarded);
    if (!out) Py_RETURN_NONE;
    return out.release();
  } catch (...) {
    return raise_current();
  }
}

PyObject* pair_new(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject *kernel = nullptr, *streaming = nullptr, *empty_like = nullptr, *dtypes = nullptr;
  long long streaming_elements = 0;
  unsigned block = 0;
  int guarded = 0;
  if (!PyArg_ParseTuple(arguments, "OOOO!LIp", &kernel, &streaming, &empty_like, &PyTuple_Type,
                        &dtypes, &streaming_elements, &block, &guarded)) {
    return nullptr;
  }
  try {
    Object self(type->tp_alloc(type, 0));
    if (!self) throw PythonError();
    auto& object = *reinterpret_cast<PairObject*>(self.get());
    object.pair = new Pair{
        TorchState(),       keep(kernel), keep(streaming), keep(empty_like), parse_dtypes(dtypes),
        streaming_elements, block};
    object.vectorcall = pair_call;
    object.guarded = guarded != 0;
    return self.release();
  } catch (...) {
    return raise_current();
  }
}

void pair_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<PairObject*>(self)->pair;
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef pair_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PairObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot pair_slots[] = {
    {Py_tp_doc, const_cast<char*>(
                    "EagerPair(kernel, streaming, empty_like, dtypes, streaming_elements, block, "
                    "guarded)\n\nCalled with two tensors: the result, or None where the call is "
                    "not a simple one.")},
    {Py_tp_new, reinterpret_cast<void*>(pair_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(pair_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, pair_members},
    {0, nullptr},
};
PyType_Spec pair_spec{"cudademo._core.EagerPair", sizeof(PairObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, pair_slots};

}  // namespace

int add_operator_types(PyObject* module) {
  const Object pair(PyType_FromSpec(&pair_spec));
  const Object total(PyType_FromSpec(&total_spec));
  if (!pair || !total) return -1;
  if (PyModule_AddObjectRef(module, "EagerPair", pair.get()) != 0) return -1;
  return PyModule_AddObjectRef(module, "EagerTotal", total.get());
}

}  // namespace cudademo
