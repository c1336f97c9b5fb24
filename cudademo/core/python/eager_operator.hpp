// Operators on torch tensors that go around torch's dispatcher when nothing there needs to know of
// the call.
#pragma once

#include <Python.h>

namespace cudademo {

// Adds the types EagerPair and EagerTotal to a module. Returns -1 with a Python error set on
// failure.
int add_operator_types(PyObject* module);

}  // namespace cudademo
