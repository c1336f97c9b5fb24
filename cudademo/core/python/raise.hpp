// From C++ errors to Python's.
#pragma once

#include <Python.h>

namespace cudademo {

// A Python error is set; whoever catches this lets it be.
struct PythonError {};

// Within a catch block: sets the Python error that the exception at hand stands for, of the classes
// in cudademo/errors.py, with its facts as attributes. Needs the GIL. Returns null, as CPython
// wants it.
PyObject* raise_current() noexcept;

}  // namespace cudademo
