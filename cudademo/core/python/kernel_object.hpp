// The callable that Python sees: kernel[grid, block](*arguments).
#pragma once

#include <Python.h>

namespace cudademo {

// Adds the types KernelBase and Launcher to a module. Returns -1 with a Python error set on failure.
int add_kernel_types(PyObject* module);

}  // namespace cudademo
