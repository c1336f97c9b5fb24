// A counted reference to a Python object.
#pragma once

#include <Python.h>

#include <utility>

namespace cudademo {

// Owns one reference, or none. Needs the GIL.
class Object {
 public:
  Object() = default;
  // Takes over a new reference.
  explicit Object(PyObject* owned) noexcept : object_(owned) {}
  ~Object() { Py_XDECREF(object_); }
  Object(Object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Object& operator=(Object&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  PyObject* get() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  PyObject* release() noexcept { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_ = nullptr;
};

// A new reference to an object that is somebody else's.
inline Object keep(PyObject* borrowed) {
  Py_INCREF(borrowed);
  return Object(borrowed);
}

// An attribute, or nothing where there is none; no error stays set.
inline Object attribute_or_none(PyObject* object, const char* name) {
  Object value(PyObject_GetAttrString(object, name));
  if (!value) PyErr_Clear();
  return value;
}

}  // namespace cudademo
