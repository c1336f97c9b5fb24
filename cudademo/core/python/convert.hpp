// Python values converted to a kernel's scalar and struct parameters.
#pragma once

#include <Python.h>

#include <cstddef>
#include <string>

#include "signature.hpp"

namespace cudademo {

// The widest scalar: a complex128.
inline constexpr std::size_t scalar_slot_bytes = 16;

// A value does not fit; `expected` is what the parameter takes.
struct Unfit {
  std::string expected;
};

// Writes `value` as the parameter's own type into `slot`, of scalar_slot_bytes. Throws Unfit.
void convert_scalar(PyObject* value, const Parameter& parameter, void* slot);

// A struct by value: a view of `value`'s bytes, of exactly the parameter's size. Throws Unfit. The
// caller releases the view after the launch.
void view_bytes(PyObject* value, const Parameter& parameter, Py_buffer& view);

// The address in a ctypes.c_void_p: the way to pass a raw pointer on purpose. False for anything
// else.
bool raw_pointer(PyObject* value, void*& address);

}  // namespace cudademo
