#include "python/tensor.hpp"

#include <array>
#include <string_view>

#include "python/object.hpp"
#include "python/raise.hpp"

namespace cudademo {

namespace {

// How arrays of one Python type are read.
enum class Access : std::uint8_t { none, exchange, torch, dlpack, interface, wrapper };

struct ArrayType {
  PyTypeObject* type = nullptr;  // owned, so that the address stays this type's
  Access access = Access::none;
  bool is_torch = false;
  const dlpack::ExchangeApi* api = nullptr;
};

// The types met so far, the latest in front of mind. Guarded by the GIL.
struct KnownTypes {
  std::array<ArrayType, 16> types{};
  std::size_t recent = 0;
  std::size_t next = 0;
  const dlpack::ExchangeApi* torch_api = nullptr;
};
KnownTypes known;

const dlpack::ExchangeApi* exchange_api(PyObject* type) {
  const Object capsule = attribute_or_none(type, "__dlpack_c_exchange_api__");
  if (!capsule || !PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api")) return nullptr;
  const auto* header = static_cast<const dlpack::ExchangeHeader*>(
      PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  while (header != nullptr && header->version.major != 1) header = header->previous;
  const auto* api = reinterpret_cast<const dlpack::ExchangeApi*>(header);
  return api != nullptr && api->tensor_from_object != nullptr ? api : nullptr;
}

PyObject* torch_module() {
  PyObject* modules = PyImport_GetModuleDict();
  return PyDict_GetItemString(modules, "torch");  // borrowed; null where torch is not imported
}

bool is_torch_type(PyObject* type) {
  PyObject* torch = torch_module();
  if (torch == nullptr) return false;
  const Object tensor = attribute_or_none(torch, "Tensor");
  const int result = tensor ? PyObject_IsSubclass(type, tensor.get()) : 0;
  if (result < 0) PyErr_Clear();
  return result == 1;
}

// A subclass of torch.Tensor that dispatches by itself, such as FakeTensor or DTensor: whatever
// memory it has is not its own, and to ask for it makes torch warn.
bool is_wrapper(PyObject* type) {
  const Object base = attribute_or_none(torch_module(), "Tensor");
  const Object usual = base ? attribute_or_none(base.get(), "__torch_dispatch__") : Object();
  const Object own = attribute_or_none(type, "__torch_dispatch__");
  return usual && own && usual.get() != own.get();
}

ArrayType classify(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  ArrayType result;
  result.type = type;
  result.is_torch = is_torch_type(object);
  if (result.is_torch && is_wrapper(object)) {
    result.access = Access::wrapper;
    return result;
  }
  result.api = exchange_api(object);
  if (result.api != nullptr) {
    result.access = Access::exchange;
    if (result.is_torch) known.torch_api = result.api;
  } else if (result.is_torch) {
    result.access = Access::torch;
  } else if (attribute_or_none(object, "__dlpack_device__")) {
    result.access = Access::dlpack;
  } else if (attribute_or_none(object, "__cuda_array_interface__")) {
    result.access = Access::interface;
  }
  return result;
}

const ArrayType& array_type(PyTypeObject* type) {
  if (known.types[known.recent].type == type) return known.types[known.recent];
  for (std::size_t i = 0; i < known.types.size(); ++i) {
    if (known.types[i].type != type) continue;
    known.recent = i;
    return known.types[i];
  }
  ArrayType fresh = classify(type);
  ArrayType& slot = known.types[known.next];
  Py_INCREF(type);
  Py_XDECREF(slot.type);
  slot = fresh;
  known.recent = known.next;
  known.next = (known.next + 1) % known.types.size();
  return slot;
}

// A scalar of Python's own, which is never an array.
bool is_plain(PyObject* object) {
  const PyTypeObject* type = Py_TYPE(object);
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || object == Py_None;
}

// The text of the Python error that is set, which is cleared.
std::string take_error_text() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  const Object owned_type(type);
  const Object owned_value(value);
  const Object owned_trace(trace);
  const Object text(value ? PyObject_Str(value) : nullptr);
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  std::string line = utf8 ? utf8 : "no reason given";
  PyErr_Clear();
  return line.substr(0, line.find('\n'));
}

bool call_is_true(PyObject* object, const char* method) {
  const Object answer(PyObject_CallMethod(object, method, nullptr));
  if (!answer) throw PythonError();
  return answer.get() == Py_True;
}

std::string type_name(PyObject* object) { return Py_TYPE(object)->tp_name; }

bool is_complex(Dtype dtype) {
  return dtype == Dtype::complex32 || dtype == Dtype::complex64 || dtype == Dtype::complex128;
}

// Lazily conjugated or negated tensors hold other numbers in memory than they mean.
void refuse_lazy(PyObject* object, Dtype dtype) {
  const char* state = nullptr;
  if (is_complex(dtype) && call_is_true(object, "is_conj")) state = "conjugated";
  if (state == nullptr && call_is_true(object, "is_neg")) state = "negated";
  if (state == nullptr) return;
  throw Refused{std::string("a lazily ") + state +
                " tensor (resolve_conj() and resolve_neg() give one with its numbers in memory)"};
}

// True for a real tensor whose last dimension is dense. Such a one is not lazy: the negative bit
// comes with the imaginary part of a conjugated tensor, whose strides are even.
bool is_surely_eager(const dlpack::Tensor& tensor, Dtype dtype) {
  if (is_complex(dtype) || tensor.ndim == 0 || tensor.strides == nullptr) return false;
  return tensor.strides[tensor.ndim - 1] == 1 && tensor.shape[tensor.ndim - 1] > 1;
}

Array read(const dlpack::Tensor& tensor) {
  Array array{};
  array.dtype = dtype_of(tensor);
  array.elements = dlpack::elements(tensor);
  array.device = tensor.device.id;
  array.place = dlpack::is_on_cuda(tensor) ? Array::Place::device : Array::Place::host;
  if (array.place == Array::Place::host) {
    array.device = dlpack::is_on_cpu(tensor) ? driver::emulator_ordinal : -1;
  }
  array.data = dlpack::data_of(tensor);
  return array;
}

std::int64_t as_integer(const Object& object) {
  if (!object) throw PythonError();
  const long long value = PyLong_AsLongLong(object.get());
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return value;
}

// The dtype of a torch.dtype object, by its name: "torch.float32".
Dtype dtype_from_torch(PyObject* dtype) {
  const Object text(PyObject_Str(dtype));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (utf8 == nullptr) throw PythonError();
  const std::string_view name = utf8;
  return dtype_named(name.substr(name.find('.') + 1));
}

driver::Stream as_stream(std::uintptr_t address) {
  return reinterpret_cast<driver::Stream>(address);
}

// Learns torch's table where no tensor of torch's has been seen yet: a kernel of numbers alone.
void meet_torch() {
  PyObject* torch = torch_module();
  const Object tensor = torch ? attribute_or_none(torch, "Tensor") : Object();
  if (tensor && PyType_Check(tensor.get())) {
    array_type(reinterpret_cast<PyTypeObject*>(tensor.get()));
  }
}

// torch's current stream by Python, for torch before 2.11.
driver::Stream torch_stream_by_name(int device) {
  PyObject* torch = torch_module();
  if (torch == nullptr) return nullptr;
  const Object core = attribute_or_none(torch, "_C");
  const Object get = core ? attribute_or_none(core.get(), "_cuda_getCurrentRawStream") : Object();
  if (!get) return nullptr;
  const Object value(PyObject_CallFunction(get.get(), "i", device));
  return as_stream(static_cast<std::uintptr_t>(as_integer(value)));
}

}  // namespace

Dtype dtype_of(const dlpack::Tensor& tensor) {
  if (tensor.dtype.lanes != 1) return Dtype::unknown;
  return dtype_from_dlpack(tensor.dtype.code, tensor.dtype.bits);
}

std::optional<dlpack::Tensor> exchange_view(PyObject* object) {
  const ArrayType& type = array_type(Py_TYPE(object));
  dlpack::Tensor tensor;
  if (type.access != Access::exchange) return std::nullopt;
  if (type.api->tensor_from_object(object, &tensor) == 0) return tensor;
  PyErr_Clear();
  return std::nullopt;
}

bool is_torch_tensor(PyObject* object) {
  const ArrayType& type = array_type(Py_TYPE(object));
  return type.is_torch && type.access != Access::wrapper;
}

Borrower::~Borrower() {
  for (PyObject* capsule : capsules_) Py_DECREF(capsule);
}

Array Borrower::borrow(PyObject* object) {
  if (is_plain(object)) return {};
  const ArrayType& type = array_type(Py_TYPE(object));
  switch (type.access) {
    case Access::none:  // its type says nothing; the object itself may
      if (PyObject_HasAttrString(object, "__cuda_array_interface__")) return from_interface(object);
      return {};
    case Access::exchange:
      return from_exchange(object, *type.api, type.is_torch);
    case Access::torch:
      return from_torch(object);
    case Access::dlpack:
      return from_dlpack(object);
    case Access::interface:
      return from_interface(object);
    case Access::wrapper:
      throw Refused{type_name(object) + ", which has no memory of its own"};
  }
  return {};
}

Array Borrower::from_exchange(PyObject* object, const dlpack::ExchangeApi& api, bool is_torch) {
  dlpack::Tensor tensor;
  if (api.tensor_from_object(object, &tensor) != 0) {
    throw Refused{type_name(object) + ", whose memory cannot be had: " + take_error_text()};
  }
  Array array = read(tensor);
  see(tensor, array);
  if (is_torch) {
    if (!is_surely_eager(tensor, array.dtype)) refuse_lazy(object, array.dtype);
  } else if (array.place == Array::Place::device && api.current_work_stream != nullptr) {
    void* producer = nullptr;
    if (api.current_work_stream(tensor.device.type, tensor.device.id, &producer) != 0) {
      throw PythonError();
    }
    producers_.push_back(static_cast<driver::Stream>(producer));
  }
  return array;
}

Array Borrower::from_torch(PyObject* object) {
  const auto call = [object](const char* method) {
    return Object(PyObject_CallMethod(object, method, nullptr));
  };
  Array array{};
  const Object dtype(PyObject_GetAttrString(object, "dtype"));
  if (!dtype) throw PythonError();
  array.dtype = dtype_from_torch(dtype.get());
  array.elements = as_integer(call("numel"));
  refuse_lazy(object, array.dtype);
  const Object on_gpu(PyObject_GetAttrString(object, "is_cuda"));
  if (!on_gpu) throw PythonError();
  array.place = on_gpu.get() == Py_True ? Array::Place::device : Array::Place::host;
  if (array.place == Array::Place::host) {
    const Object detached = call("detach");
    return detached ? from_dlpack(detached.get()) : throw PythonError();
  }
  array.device = static_cast<int>(as_integer(call("get_device")));
  const Object address = call("data_ptr");
  if (!address)
    throw Refused{type_name(object) + ", whose memory cannot be had: " + take_error_text()};
  array.data = PyLong_AsVoidPtr(address.get());
  return array;
}

Array Borrower::from_dlpack(PyObject* object) {
  const Object place(PyObject_CallMethod(object, "__dlpack_device__", nullptr));
  int type = 0;
  int ordinal = 0;
  if (!place || !PyArg_ParseTuple(place.get(), "ii", &type, &ordinal)) throw PythonError();
  Array array{};
  const bool on_gpu = type == dlpack::device_cuda || type == dlpack::device_cuda_managed;
  if (!on_gpu && type != dlpack::device_cpu && type != dlpack::device_cuda_host) {
    array.place = Array::Place::host;
    array.device = -1;
    return array;
  }
  const Object method(PyObject_GetAttrString(object, "__dlpack__"));
  const Object none(PyTuple_New(0));
  // DLPack's convention: 1 is the legacy default stream, whose handle is null.
  const auto handle = on_gpu ? reinterpret_cast<std::uintptr_t>(stream(ordinal)) : 0;
  const unsigned long long consumer = handle == 0 ? 1 : handle;
  const Object versioned(
      on_gpu ? Py_BuildValue("{s:K,s:(ii)}", "stream", consumer, "max_version", 1, 0)
             : Py_BuildValue("{s:(ii)}", "max_version", 1, 0));
  Object capsule(method ? PyObject_Call(method.get(), none.get(), versioned.get()) : nullptr);
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {  // an owner from before DLPack 1.0
    PyErr_Clear();
    const Object plain(on_gpu ? Py_BuildValue("{s:K}", "stream", consumer) : PyDict_New());
    capsule = Object(PyObject_Call(method.get(), none.get(), plain.get()));
  }
  if (!capsule) throw Refused{type_name(object) + ": " + take_error_text()};
  const dlpack::Tensor* tensor = nullptr;
  bool read_only = false;
  if (void* exported = PyCapsule_GetPointer(capsule.get(), "dltensor_versioned")) {
    const auto& managed = *static_cast<dlpack::ManagedTensorVersioned*>(exported);
    tensor = &managed.tensor;
    read_only = (managed.flags & dlpack::flag_read_only) != 0;
  } else {
    PyErr_Clear();
    exported = PyCapsule_GetPointer(capsule.get(), "dltensor");
    if (exported == nullptr) throw PythonError();
    tensor = &static_cast<dlpack::ManagedTensor*>(exported)->tensor;
  }
  array = read(*tensor);
  array.read_only = read_only;
  // JAX's arrays are immutable, whatever their export says.
  if (std::string_view(Py_TYPE(object)->tp_name).find("ArrayImpl") != std::string_view::npos) {
    array.read_only = true;
  }
  see(*tensor, array);
  capsules_.push_back(capsule.release());  // never consumed: its destructor gives the export back
  return array;
}

Array Borrower::from_interface(PyObject* object) {
  const Object interface(PyObject_GetAttrString(object, "__cuda_array_interface__"));
  if (!interface) throw Refused{type_name(object) + ": " + take_error_text()};
  PyObject* shape = PyDict_GetItemString(interface.get(), "shape");
  PyObject* typestr = PyDict_GetItemString(interface.get(), "typestr");
  PyObject* data = PyDict_GetItemString(interface.get(), "data");
  PyObject* producer = PyDict_GetItemString(interface.get(), "stream");
  const char* type = typestr ? PyUnicode_AsUTF8(typestr) : nullptr;
  if (!shape || !type || !data || !PyTuple_Check(shape) || !PyTuple_Check(data)) {
    PyErr_Clear();
    throw Refused{type_name(object) + " with a malformed __cuda_array_interface__"};
  }
  Array array{};
  array.place = Array::Place::device;
  array.dtype = dtype_from_typestr(type);
  array.elements = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
    array.elements *= PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
  }
  array.data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
  array.read_only = PyObject_IsTrue(PyTuple_GetItem(data, 1)) == 1;
  if (PyErr_Occurred()) throw PythonError();
  if (array.data != nullptr) {
    array.device = driver::device_of_pointer(array.data);
  } else {
    array.device = driver::current_device();
  }
  if (producer != nullptr && producer != Py_None) {
    const auto handle = static_cast<std::uintptr_t>(PyLong_AsUnsignedLongLong(producer));
    if (PyErr_Occurred()) throw PythonError();
    producers_.push_back(as_stream(handle == 1 ? 0 : handle));
  }
  return array;
}

// Of the arrays so far this is the next: launches borrow each argument in turn.
void Borrower::see(const dlpack::Tensor& tensor, const Array& array) {
  if (!is_reachable(array, driver::emulator_ordinal)) return;
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  std::int64_t dense = 1;
  std::string shape;
  for (std::int32_t i = tensor.ndim; i-- > 0;) {
    const std::int64_t stride = tensor.strides != nullptr ? tensor.strides[i] : dense;
    const std::int64_t reach = (tensor.shape[i] - 1) * stride;
    (reach < 0 ? lowest : highest) += reach;
    dense *= tensor.shape[i];
    shape = std::to_string(tensor.shape[i]) + (shape.empty() ? "" : ", ") + shape;
  }
  if (tensor.ndim == 1) shape += ",";
  const std::int64_t bytes = (tensor.dtype.bits * tensor.dtype.lanes + 7) / 8;
  const auto* first = static_cast<const std::byte*>(array.data);
  const bool is_empty = array.elements == 0 || first == nullptr;
  host_views_.push_back(
      {first + (is_empty ? 0 : lowest * bytes), first + (is_empty ? 0 : (highest + 1) * bytes),
       std::string(info(array.dtype).name) + " of shape (" + shape + ")", !array.read_only});
}

driver::Stream Borrower::stream(int device) {
  if (device == driver::emulator_ordinal) return nullptr;
  if (has_stream_) return stream_;
  if (known.torch_api == nullptr) meet_torch();
  if (known.torch_api != nullptr && known.torch_api->current_work_stream != nullptr) {
    void* current = nullptr;
    if (known.torch_api->current_work_stream(dlpack::device_cuda, device, &current) != 0) {
      throw PythonError();
    }
    stream_ = static_cast<driver::Stream>(current);
  } else {
    stream_ = torch_stream_by_name(device);
  }
  has_stream_ = true;
  return stream_;
}

void Borrower::wait_for_producers(int device) {
  const driver::ContextGuard guard(driver::primary_context(device));
  for (driver::Stream producer : producers_) {
    if (producer != stream_) driver::wait_for(stream_, producer);
  }
}

void Borrower::let_producers_wait(int device) {
  const driver::ContextGuard guard(driver::primary_context(device));
  for (driver::Stream producer : producers_) {
    if (producer != stream_) driver::wait_for(producer, stream_);
  }
}

driver::Stream stream_handle(PyObject* object, int& device) {
  if (PyLong_Check(object)) {
    const unsigned long long address = PyLong_AsUnsignedLongLong(object);
    if (!PyErr_Occurred()) return as_stream(address);
    PyErr_Clear();
    throw Refused{"a number that is no address"};
  }
  for (const char* name : {"cuda_stream", "ptr"}) {  // torch's, CuPy's
    const Object address = attribute_or_none(object, name);
    if (!address || !PyLong_Check(address.get())) continue;
    const Object index = attribute_or_none(object, "device_index");
    if (index && PyLong_Check(index.get())) device = static_cast<int>(PyLong_AsLong(index.get()));
    return as_stream(reinterpret_cast<std::uintptr_t>(PyLong_AsVoidPtr(address.get())));
  }
  const Object protocol(PyObject_HasAttrString(object, "__cuda_stream__")
                            ? PyObject_CallMethod(object, "__cuda_stream__", nullptr)
                            : nullptr);
  int version = 0;
  unsigned long long address = 0;
  if (protocol && PyArg_ParseTuple(protocol.get(), "iK", &version, &address)) {
    return as_stream(address);
  }
  PyErr_Clear();
  throw Refused{type_name(object)};
}

std::string describe(PyObject* object, const Array& array) {
  if (array.place == Array::Place::none) {
    if (object == Py_None) return "None";
    const Object text(PyObject_Repr(object));
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    PyErr_Clear();
    std::string value = utf8 ? utf8 : "?";
    if (value.size() > 60) value = value.substr(0, 57) + "...";
    return type_name(object) + " " + value;
  }
  const std::string dtype(info(array.dtype).name);
  const std::string name = type_name(object);
  const std::string what =
      name.find("Tensor") != std::string::npos || name.find("Parameter") != std::string::npos
          ? "tensor"
          : name;
  if (array.place == Array::Place::host && array.device != driver::emulator_ordinal) {
    return dtype + " " + what + " in memory that no kernel reaches";
  }
  if (array.place == Array::Place::host) {
    return (array.dtype == Dtype::unknown ? "" : dtype + " ") + what + " in the CPU's memory";
  }
  return dtype + " " + what + " on cuda:" + std::to_string(array.device);
}

}  // namespace cudademo
