#include "python/convert.hpp"

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "narrow.hpp"
#include "python/object.hpp"

namespace cudademo {

namespace {

template <typename T>
void store(void* slot, T value) {
  std::memcpy(slot, &value, sizeof(T));
}

template <typename T>
Unfit not_integer(const Parameter& parameter) {
  return {declaration(parameter) + ": an integer from " +
          std::to_string(std::numeric_limits<T>::min()) + " to " +
          std::to_string(std::numeric_limits<T>::max())};
}

template <typename T>
void store_signed(PyObject* value, const Parameter& parameter, void* slot) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow != 0 || number < std::numeric_limits<T>::min() ||
      number > std::numeric_limits<T>::max()) {
    throw not_integer<T>(parameter);
  }
  store(slot, static_cast<T>(number));
}

template <typename T>
void store_unsigned(PyObject* value, const Parameter& parameter, void* slot) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(value);
  const bool failed = number == ~0ULL && PyErr_Occurred() != nullptr;
  if (failed) PyErr_Clear();
  if (failed || number > std::numeric_limits<T>::max()) throw not_integer<T>(parameter);
  store(slot, static_cast<T>(number));
}

void store_integer(PyObject* value, const Parameter& parameter, void* slot) {
  switch (parameter.dtype) {
    case Dtype::int8:
      return store_signed<std::int8_t>(value, parameter, slot);
    case Dtype::int16:
      return store_signed<std::int16_t>(value, parameter, slot);
    case Dtype::int32:
      return store_signed<std::int32_t>(value, parameter, slot);
    case Dtype::int64:
      return store_signed<std::int64_t>(value, parameter, slot);
    case Dtype::uint8:
      return store_unsigned<std::uint8_t>(value, parameter, slot);
    case Dtype::uint16:
      return store_unsigned<std::uint16_t>(value, parameter, slot);
    case Dtype::uint32:
      return store_unsigned<std::uint32_t>(value, parameter, slot);
    default:
      return store_unsigned<std::uint64_t>(value, parameter, slot);
  }
}

void convert_integer(PyObject* value, const Parameter& parameter, void* slot) {
  if (PyLong_Check(value)) return store_integer(value, parameter, slot);
  const Object index(PyIndex_Check(value) ? PyNumber_Index(value) : nullptr);
  if (index.get() == nullptr) {
    PyErr_Clear();
    throw Unfit{declaration(parameter) + ": an integer"};
  }
  store_integer(index.get(), parameter, slot);
}

double as_double(PyObject* value, const Parameter& parameter) {
  if (PyFloat_CheckExact(value)) return PyFloat_AS_DOUBLE(value);
  const double number = PyFloat_AsDouble(value);
  if (number == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    throw Unfit{declaration(parameter) + ": a number"};
  }
  return number;
}

float as_float(double value, const Parameter& parameter) {
  const auto narrowed = static_cast<float>(value);
  if (std::isinf(narrowed) && !std::isinf(value)) {
    throw Unfit{declaration(parameter) + ": a number of at most 3.4e38 in size"};
  }
  return narrowed;
}

void convert_narrow(PyObject* value, const Parameter& parameter, void* slot) {
  const auto bits = narrow(as_double(value, parameter), parameter.dtype);
  if (!bits) {
    throw Unfit{declaration(parameter) + ": a number that " +
                std::string(info(parameter.dtype).name) + " can hold"};
  }
  std::memcpy(slot, &*bits, info(parameter.dtype).bytes);  // little-endian: the low byte first
}

std::complex<double> as_complex(PyObject* value, const Parameter& parameter) {
  const Py_complex number = PyComplex_AsCComplex(value);
  if (number.real == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    throw Unfit{declaration(parameter) + ": a complex number"};
  }
  return {number.real, number.imag};
}

void convert_boolean(PyObject* value, const Parameter& parameter, void* slot) {
  if (value == Py_True || value == Py_False) return store(slot, value == Py_True);
  const Object index(PyIndex_Check(value) ? PyNumber_Index(value) : nullptr);
  const long number = index.get() ? PyLong_AsLong(index.get()) : -1;
  if (PyErr_Occurred()) PyErr_Clear();
  if (number != 0 && number != 1) throw Unfit{declaration(parameter) + ": True or False"};
  store(slot, number == 1);
}

}  // namespace

void convert_scalar(PyObject* value, const Parameter& parameter, void* slot) {
  switch (parameter.dtype) {
    case Dtype::boolean:
      return convert_boolean(value, parameter, slot);
    case Dtype::float32:
      return store(slot, as_float(as_double(value, parameter), parameter));
    case Dtype::float64:
      return store(slot, as_double(value, parameter));
    case Dtype::float16:
    case Dtype::bfloat16:
    case Dtype::float8_e4m3fn:
    case Dtype::float8_e5m2:
    case Dtype::float8_e8m0fnu:
      return convert_narrow(value, parameter, slot);
    case Dtype::complex64: {
      const std::complex<double> number = as_complex(value, parameter);
      return store(slot, std::complex<float>(as_float(number.real(), parameter),
                                             as_float(number.imag(), parameter)));
    }
    case Dtype::complex128:
      return store(slot, as_complex(value, parameter));
    default:
      return convert_integer(value, parameter, slot);
  }
}

void view_bytes(PyObject* value, const Parameter& parameter, Py_buffer& view) {
  const std::string expected = declaration(parameter) + ": " + std::to_string(parameter.size) +
                               " bytes of a struct (bytes, a ctypes.Structure, a numpy record)";
  if (PyObject_GetBuffer(value, &view, PyBUF_ANY_CONTIGUOUS) != 0) {
    PyErr_Clear();
    throw Unfit{expected};
  }
  if (view.len != static_cast<Py_ssize_t>(parameter.size)) {
    const std::string got = std::to_string(view.len);
    PyBuffer_Release(&view);
    throw Unfit{expected + "; these are " + got};
  }
}

bool raw_pointer(PyObject* value, void*& address) {
  if (!PyObject_CheckBuffer(value)) return false;
  Py_buffer view;
  if (PyObject_GetBuffer(value, &view, PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    return false;
  }
  const std::string_view format = view.format ? view.format : "";
  const bool pointer = view.ndim == 0 && view.len == sizeof(void*) && format.ends_with('P');
  if (pointer) std::memcpy(&address, view.buf, sizeof(void*));
  PyBuffer_Release(&view);
  return pointer;
}

}  // namespace cudademo
