// The subscript of a kernel, kernel[grid, block] or kernel[grid, block, shared_bytes], read.
#pragma once

#include <Python.h>

#include <string>

#include "launch.hpp"

namespace cudademo {

// `kernel` is what errors call the kernel. Throws ArgumentError where the subscript is none, and
// LaunchError where a number is beyond what CUDA allows.
LaunchConfig parse_config(const std::string& kernel, PyObject* subscript);

}  // namespace cudademo
