// The callable that Python sees: kernel[grid, block](*arguments).
#pragma once

#include <Python.h>

#include "launch.hpp"

namespace cudademo {

// Adds the types KernelBase and Launcher to a module. Returns -1 with a Python error set on
// failure.
int add_kernel_types(PyObject* module);

// Whether kernels that are given no array run on the emulator. Ask and tell with the GIL held.
bool emulating();
void set_emulating(bool on);

// For callables of the core: the plan of a KernelBase whose bound argument, if any, has this dtype.
// Made now if need be, but not while `stream` is being captured. Throws as a launch does.
Plan& plan_of(PyObject* kernel, Dtype dtype, int device, driver::Stream stream);

// Launches with the GIL released: the driver blocks while its queue is full.
void launch_released(Plan& plan, const LaunchConfig& config, void** parameters,
                     driver::Stream stream);

}  // namespace cudademo
