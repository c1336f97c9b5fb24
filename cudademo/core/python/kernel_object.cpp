// kernel[grid, block] makes a Launcher, whose call runs no Python once the plan for its dtypes,
// block and device is known. For an unknown one the subclass in Python is asked:
// KernelBase._resolve(dtypes, block, device) -> Plan.
#include "python/kernel_object.hpp"

#include <pybind11/pybind11.h>
#include <structmember.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "launch.hpp"
#include "python/announcement.hpp"
#include "python/configuration.hpp"
#include "python/convert.hpp"
#include "python/object.hpp"
#include "python/raise.hpp"
#include "python/tensor.hpp"

namespace cudademo {

namespace {

constexpr std::size_t max_bound = 16;

// What selects a plan.
struct PlanKey {
  std::array<Dtype, max_bound> dtypes{};
  Dim3 block{};
  int device = 0;

  bool operator==(const PlanKey&) const = default;
};

struct KnownPlan {
  PlanKey key;
  std::shared_ptr<Plan> plan;
};

struct KernelState {
  std::string name;                // what errors call it before a specialisation is known
  std::vector<std::size_t> bound;  // positions of the arguments whose dtypes specialise it
  bool block_bound = false;        // the block specialises it too
  std::vector<KnownPlan> plans;    // guarded by the GIL
  std::size_t recent = 0;
};

struct KernelObject {
  PyObject ob_base;
  KernelState* state;
};

struct LauncherObject {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  KernelObject* kernel;  // owned
  LaunchConfig config;
};

PyTypeObject* launcher_type = nullptr;

bool is_emulating = false;  // guarded by the GIL

// Up to `Inline` items on the stack, more on the heap. Items start uninitialised if T does.
template <typename T, std::size_t Inline>
class Items {
 public:
  explicit Items(std::size_t count) {
    if (count <= Inline) return;
    heap_ = std::make_unique_for_overwrite<T[]>(count);
    data_ = heap_.get();
  }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  T* data() noexcept { return data_; }

 private:
  std::unique_ptr<T[]> heap_;
  T inline_[Inline];
  T* data_ = inline_;
};

constexpr std::size_t inline_arguments = 16;

struct alignas(scalar_slot_bytes) Slot {
  std::byte bytes[scalar_slot_bytes];
};

// Views of struct arguments, given back after the launch.
class Views {
 public:
  ~Views() {
    for (Py_buffer& view : views_) PyBuffer_Release(&view);
  }
  void* add(PyObject* value, const Parameter& parameter) {
    Py_buffer view;
    view_bytes(value, parameter, view);
    views_.push_back(view);
    return view.buf;
  }

 private:
  std::vector<Py_buffer> views_;
};

class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() { PyEval_RestoreThread(state_); }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

std::string plural(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// ---- kernel[grid, block] ----

PyObject* launcher_call(PyObject* self, PyObject* const* arguments, std::size_t flagged_count,
                        PyObject* keywords);

PyObject* kernel_subscript(PyObject* self, PyObject* subscript) {
  try {
    auto* kernel = reinterpret_cast<KernelObject*>(self);
    if (kernel->state == nullptr) throw Error("the kernel is not initialised");
    const LaunchConfig config = parse_config(kernel->state->name, subscript);
    auto* launcher = PyObject_New(LauncherObject, launcher_type);
    if (launcher == nullptr) throw PythonError();
    launcher->vectorcall = launcher_call;
    Py_INCREF(self);
    launcher->kernel = kernel;
    launcher->config = config;
    return reinterpret_cast<PyObject*>(launcher);
  } catch (...) {
    return raise_current();
  }
}

// ---- plans ----

Plan* find_plan(KernelState& kernel, const PlanKey& key) {
  if (kernel.recent < kernel.plans.size() && kernel.plans[kernel.recent].key == key) {
    return kernel.plans[kernel.recent].plan.get();
  }
  for (std::size_t i = 0; i < kernel.plans.size(); ++i) {
    if (kernel.plans[i].key != key) continue;
    kernel.recent = i;
    return kernel.plans[i].plan.get();
  }
  return nullptr;
}

std::shared_ptr<Plan> ask_python(PyObject* self, const KernelState& kernel, const PlanKey& key) {
  namespace py = pybind11;
  py::tuple dtypes(kernel.bound.size());
  for (std::size_t i = 0; i < kernel.bound.size(); ++i) {
    dtypes[i] = py::str(std::string(info(key.dtypes[i]).name));
  }
  try {
    const py::object plan = py::reinterpret_borrow<py::object>(self).attr("_resolve")(
        dtypes, py::make_tuple(key.block.x, key.block.y, key.block.z), key.device);
    return plan.cast<std::shared_ptr<Plan>>();
  } catch (py::error_already_set& error) {
    error.restore();
    throw PythonError();
  }
}

// The plan, made now if need be.
Plan& plan_for(PyObject* self, KernelState& kernel, const PlanKey& key) {
  if (Plan* plan = find_plan(kernel, key)) return *plan;
  std::shared_ptr<Plan> plan = ask_python(self, kernel, key);
  if (Plan* made_meanwhile = find_plan(kernel, key)) return *made_meanwhile;
  kernel.plans.push_back({key, std::move(plan)});
  kernel.recent = kernel.plans.size() - 1;
  return *kernel.plans.back().plan;
}

void refuse_during_capture(const KernelState& kernel, int device, driver::Stream stream) {
  const driver::ContextGuard guard(driver::primary_context(device));
  if (!driver::is_capturing(stream)) return;
  throw Error(kernel.name +
              " would have to be compiled or loaded while a CUDA graph is being captured, which "
              "would break the capture: launch it once with these dtypes and this block before "
              "the capture, or call kernel.preload(...)");
}

// ---- the launch ----

constexpr int no_device = -1;

struct Call {
  KernelState& kernel;
  PyObject* const* arguments;
  std::size_t count;
};

// The one device of all arrays, or no_device where there are none. Arrays of the CPU's memory are
// the emulator's, where no other is.
int common_device(const Call& call, Array* arrays) {
  int device = no_device;
  std::size_t first = 0;
  for (std::size_t i = 0; i < call.count; ++i) {
    if (arrays[i].place != Array::Place::device || arrays[i].device == device) continue;
    if (device == no_device) {
      device = arrays[i].device;
      first = i;
      continue;
    }
    throw ArgumentError(
        call.kernel.name, static_cast<int>(i),
        "an array on cuda:" + std::to_string(device) + ", as argument " + std::to_string(first),
        describe(call.arguments[i], arrays[i]));
  }
  for (std::size_t i = 0; device == no_device && i < call.count; ++i) {
    if (is_reachable(arrays[i], driver::emulator_ordinal)) device = driver::emulator_ordinal;
  }
  return device;
}

PlanKey key_of(const Call& call, const LaunchConfig& config, int device, Array* arrays) {
  PlanKey key;
  key.device = device;
  if (call.kernel.block_bound) key.block = config.block;
  for (std::size_t i = 0; i < call.kernel.bound.size(); ++i) {
    const std::size_t position = call.kernel.bound[i];
    if (position >= call.count) {
      throw ArgumentError(call.kernel.name, static_cast<int>(position),
                          "an array, whose dtype selects the kernel",
                          plural(call.count, "argument") + " in all");
    }
    const Array& array = arrays[position];
    if (!is_reachable(array, device) || array.dtype == Dtype::unknown) {
      throw ArgumentError(call.kernel.name, static_cast<int>(position),
                          "an array, whose dtype selects the kernel",
                          describe(call.arguments[position], array));
    }
    key.dtypes[i] = array.dtype;
  }
  return key;
}

std::string expected_array(const Parameter& parameter, int device) {
  return declaration(parameter) + ": a " + names(parameter.accepts) + " array " +
         (device == driver::emulator_ordinal ? "in the CPU's memory"
                                             : "on cuda:" + std::to_string(device));
}

// The address that goes into a pointer's slot.
void* pointer_argument(PyObject* value, const Array& array, const Parameter& parameter,
                       int device) {
  if (!is_reachable(array, device)) {
    if (value == Py_None) return nullptr;
    void* address = nullptr;
    if (array.place == Array::Place::none && raw_pointer(value, address)) return address;
    throw Unfit{expected_array(parameter, device)};
  }
  if ((parameter.accepts & set_of(array.dtype)) == 0)
    throw Unfit{expected_array(parameter, device)};
  if (array.data == nullptr && array.elements != 0) {
    throw Unfit{expected_array(parameter, device) +
                " with memory behind it: this one is freed, or has none (meta, FakeTensor)"};
  }
  if ((reinterpret_cast<std::uintptr_t>(array.data) & (parameter.alignment - 1)) != 0) {
    throw Unfit{expected_array(parameter, device) + " at a multiple of " +
                std::to_string(parameter.alignment) + " bytes: this one is a view in between"};
  }
  if (parameter.writes && array.read_only) {
    throw Unfit{expected_array(parameter, device) +
                " that may be written to: this one is read-only"};
  }
  return array.data;
}

// Fills one slot; returns the address that the driver reads the argument from.
void* pack(PyObject* value, const Array& array, const Parameter& parameter, int device, Slot& slot,
           Views& views) {
  switch (parameter.kind) {
    case Parameter::Kind::pointer: {
      void* address = pointer_argument(value, array, parameter, device);
      std::memcpy(slot.bytes, &address, sizeof(address));
      return slot.bytes;
    }
    case Parameter::Kind::scalar:
      if (array.place != Array::Place::none) {
        throw Unfit{declaration(parameter) + ": a Python number (item() reads one from an array)"};
      }
      convert_scalar(value, parameter, slot.bytes);
      return slot.bytes;
    case Parameter::Kind::bytes:
      return views.add(value, parameter);
  }
  return nullptr;
}

[[noreturn]] void wrong_count(const Plan& plan, std::size_t count) {
  const Signature& signature = plan.signature();
  throw ArgumentError(plan.name(), -1,
                      plural(signature.parameters.size(), "argument") + " " + signature.text(),
                      std::to_string(count));
}

// What a call's keywords ask for.
struct Wishes {
  std::optional<driver::Stream> stream;  // none: torch's current one
  int stream_device = no_device;         // as far as the stream tells
  bool cooperative = false;
};

Wishes read_keywords(const Call& call, PyObject* keywords, PyObject* const* values) {
  Wishes wishes;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i) {
    PyObject* keyword = PyTuple_GET_ITEM(keywords, i);
    if (PyUnicode_CompareWithASCIIString(keyword, "cooperative") == 0) {
      const int truth = PyObject_IsTrue(values[i]);
      if (truth < 0) throw PythonError();
      wishes.cooperative = truth != 0;
      continue;
    }
    if (PyUnicode_CompareWithASCIIString(keyword, "stream") != 0) {
      throw ArgumentError(call.kernel.name, -1, "the keywords stream= and cooperative= alone",
                          describe(keyword, {}));
    }
    if (values[i] == Py_None) continue;
    try {
      wishes.stream = stream_handle(values[i], wishes.stream_device);
    } catch (const Refused& refused) {
      throw ArgumentError(call.kernel.name, -1,
                          "stream= a torch, CuPy or numba stream, an object with __cuda_stream__, "
                          "or a handle as int",
                          refused.got);
    }
  }
  return wishes;
}

Array borrow_argument(const Call& call, std::size_t i, Borrower& borrower) {
  try {
    return borrower.borrow(call.arguments[i]);
  } catch (const Refused& refused) {
    throw ArgumentError(call.kernel.name, static_cast<int>(i), "an array with its data in memory",
                        refused.got);
  }
}

// Where a kernel of numbers alone runs.
int device_without_arrays() {
  return emulating() ? driver::emulator_ordinal : driver::current_device();
}

void launch(LauncherObject& launcher, const Call& call, PyObject* keywords) {
  const Wishes wishes =
      keywords ? read_keywords(call, keywords, call.arguments + call.count) : Wishes();
  std::optional<Borrower> storage;
  Borrower& borrower = wishes.stream ? storage.emplace(*wishes.stream) : storage.emplace();

  Items<Array, inline_arguments> arrays(call.count);
  for (std::size_t i = 0; i < call.count; ++i) {
    ::new (&arrays[i]) Array(borrow_argument(call, i, borrower));  // in place: a copy costs 5 ns
  }
  int device = common_device(call, arrays.data());
  if (device == no_device) {
    device = wishes.stream_device != no_device ? wishes.stream_device : device_without_arrays();
  }
  if (wishes.stream_device != no_device && wishes.stream_device != device) {
    throw ArgumentError(call.kernel.name, -1, "a stream of cuda:" + std::to_string(device),
                        "one of cuda:" + std::to_string(wishes.stream_device));
  }
  const driver::Stream stream = borrower.stream(device);

  const PlanKey key = key_of(call, launcher.config, device, arrays.data());
  Plan* plan = find_plan(call.kernel, key);
  if (plan == nullptr) [[unlikely]] {
    if (device != driver::emulator_ordinal) refuse_during_capture(call.kernel, device, stream);
    plan = &plan_for(reinterpret_cast<PyObject*>(launcher.kernel), call.kernel, key);
  }

  const std::vector<Parameter>& parameters = plan->signature().parameters;
  if (parameters.size() != call.count) wrong_count(*plan, call.count);
  Items<Slot, inline_arguments> slots(call.count);
  Items<void*, inline_arguments> addresses(call.count);
  Views views;
  for (std::size_t i = 0; i < call.count; ++i) {
    try {
      addresses[i] = pack(call.arguments[i], arrays[i], parameters[i], device, slots[i], views);
    } catch (const Unfit& unfit) {
      throw ArgumentError(plan->name(), static_cast<int>(i), unfit.expected,
                          describe(call.arguments[i], arrays[i]));
    }
  }
  if (borrower.has_producers()) borrower.wait_for_producers(device);
  if (plan->is_emulated()) [[unlikely]]
    announce(plan->name(), call.arguments, arrays.data(), call.count, borrower);
  if (wishes.cooperative) [[unlikely]] {
    LaunchConfig config = launcher.config;
    config.cooperative = true;
    launch_released(*plan, config, addresses.data(), stream);
  } else {
    launch_released(*plan, launcher.config, addresses.data(), stream);
  }
  if (borrower.has_producers()) borrower.let_producers_wait(device);
}

PyObject* launcher_call(PyObject* self, PyObject* const* arguments, std::size_t flagged_count,
                        PyObject* keywords) {
  try {
    auto& launcher = *reinterpret_cast<LauncherObject*>(self);
    const Call call{*launcher.kernel->state, arguments,
                    static_cast<std::size_t>(PyVectorcall_NARGS(flagged_count))};
    launch(launcher, call, keywords);
    Py_RETURN_NONE;
  } catch (...) {
    return raise_current();
  }
}

// ---- the types ----

int kernel_init(PyObject* self, PyObject* arguments, PyObject*) {
  const char* name = nullptr;
  PyObject* bound = nullptr;
  int block_bound = 0;
  if (!PyArg_ParseTuple(arguments, "sO!p", &name, &PyTuple_Type, &bound, &block_bound)) return -1;
  try {
    auto state = std::make_unique<KernelState>();
    state->name = name;
    state->block_bound = block_bound != 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bound); ++i) {
      const Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(bound, i));
      if (position < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "positions count from 0");
        return -1;
      }
      state->bound.push_back(static_cast<std::size_t>(position));
    }
    if (state->bound.size() > max_bound) {
      PyErr_Format(PyExc_ValueError, "at most %zu arguments can bind types", max_bound);
      return -1;
    }
    delete std::exchange(reinterpret_cast<KernelObject*>(self)->state, state.release());
    return 0;
  } catch (...) {
    raise_current();
    return -1;
  }
}

void kernel_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<KernelObject*>(self)->state;
  type->tp_free(self);
  Py_DECREF(type);
}

// _prepare(dtypes, block, device) -> Plan: as a launch would find or make it.
PyObject* kernel_prepare(PyObject* self, PyObject* arguments) {
  namespace py = pybind11;
  PyObject* dtypes = nullptr;
  unsigned x = 1, y = 1, z = 1;
  PlanKey key;
  if (!PyArg_ParseTuple(arguments, "O!(III)i", &PyTuple_Type, &dtypes, &x, &y, &z, &key.device)) {
    return nullptr;
  }
  try {
    KernelState& state = *reinterpret_cast<KernelObject*>(self)->state;
    if (static_cast<std::size_t>(PyTuple_GET_SIZE(dtypes)) != state.bound.size()) {
      throw ArgumentError(state.name, -1, plural(state.bound.size(), "dtype"),
                          std::to_string(PyTuple_GET_SIZE(dtypes)));
    }
    for (std::size_t i = 0; i < state.bound.size(); ++i) {
      const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(dtypes, static_cast<Py_ssize_t>(i)));
      if (name == nullptr) return nullptr;
      key.dtypes[i] = dtype_named(name);
    }
    if (state.block_bound) key.block = {x, y, z};
    plan_for(self, state, key);
    return py::cast(state.plans[state.recent].plan).release().ptr();
  } catch (...) {
    return raise_current();
  }
}

void launcher_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_DECREF(reinterpret_cast<PyObject*>(reinterpret_cast<LauncherObject*>(self)->kernel));
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* launcher_repr(PyObject* self) {
  try {
    const auto& launcher = *reinterpret_cast<LauncherObject*>(self);
    const std::string text =
        "<launcher of " + launcher.kernel->state->name + ", " + describe(launcher.config) + ">";
    return PyUnicode_FromString(text.c_str());
  } catch (...) {
    return raise_current();
  }
}

PyMethodDef kernel_methods[] = {
    {"_prepare", kernel_prepare, METH_VARARGS,
     "_prepare(dtypes, block, device) -> Plan: as a launch would find or make it."},
    {nullptr, nullptr, 0, nullptr},
};

template <typename Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

PyType_Slot kernel_slots[] = {
    {Py_tp_doc, const_cast<char*>("The base of cudademo.Kernel: kernel[grid, block] -> Launcher.")},
    {Py_tp_init, slot(kernel_init)},
    {Py_tp_dealloc, slot(kernel_dealloc)},
    {Py_mp_subscript, slot(kernel_subscript)},
    {Py_tp_methods, kernel_methods},
    {0, nullptr},
};
PyType_Spec kernel_spec{"cudademo._core.KernelBase", sizeof(KernelObject), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, kernel_slots};

PyMemberDef launcher_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(LauncherObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot launcher_slots[] = {
    {Py_tp_doc, const_cast<char*>("A kernel with its grid and block: call it with the arguments.")},
    {Py_tp_dealloc, slot(launcher_dealloc)},
    {Py_tp_call, slot(PyVectorcall_Call)},
    {Py_tp_repr, slot(launcher_repr)},
    {Py_tp_members, launcher_members},
    {0, nullptr},
};
PyType_Spec launcher_spec{
    "cudademo._core.Launcher", sizeof(LauncherObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    launcher_slots};

}  // namespace

Plan& plan_of(PyObject* kernel, Dtype dtype, int device, driver::Stream stream) {
  KernelState& state = *reinterpret_cast<KernelObject*>(kernel)->state;
  PlanKey key;
  key.device = device;
  if (!state.bound.empty()) key.dtypes[0] = dtype;
  if (Plan* plan = find_plan(state, key)) return *plan;
  refuse_during_capture(state, device, stream);
  return plan_for(kernel, state, key);
}

void launch_released(Plan& plan, const LaunchConfig& config, void** parameters,
                     driver::Stream stream) {
  const GilRelease released;
  plan.launch(config, parameters, stream);
}

bool emulating() { return is_emulating; }

void set_emulating(bool on) { is_emulating = on; }

int add_kernel_types(PyObject* module) {
  const Object kernel(PyType_FromSpec(&kernel_spec));
  Object launcher(PyType_FromSpec(&launcher_spec));
  if (!kernel || !launcher) return -1;
  if (PyModule_AddObjectRef(module, "KernelBase", kernel.get()) != 0) return -1;
  if (PyModule_AddObjectRef(module, "Launcher", launcher.get()) != 0) return -1;
  launcher_type = reinterpret_cast<PyTypeObject*>(launcher.release());  // kept for good
  return 0;
}

}  // namespace cudademo
