// What the emulator is told before a launch: the memory that the kernel may touch, and whose it is.
#pragma once

#include <Python.h>

#include <cstddef>
#include <string>

#include "python/object.hpp"
#include "python/tensor.hpp"

namespace cudademo {

// The arguments of this thread's next launch, as `arrays` describes each, and the reachable arrays.
// `borrower` has borrowed the arguments and nothing else. Throws Error for a reachable array whose
// memory can no longer be had.
void announce(const std::string& kernel, PyObject* const* arguments, const Array* arrays,
              std::size_t count, Borrower& borrower);

// Arrays that any emulated launch may touch, though they are none of its arguments: a tuple, which
// is kept. Throws Refused, with its words for the first that no emulated kernel can take.
void set_reachable(PyObject* tuple);
// New reference.
Object reachable();

}  // namespace cudademo
