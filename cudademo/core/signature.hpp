// A kernel's parameters, as the compiler mangled them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dtype.hpp"

namespace cudademo {

// One parameter of a kernel.
struct Parameter {
  enum class Kind : std::uint8_t {
    pointer,  // a tensor, or null
    scalar,   // a number, converted to `dtype`
    bytes,    // a struct by value: `size` bytes
  };

  Kind kind = Kind::bytes;
  Dtype dtype = Dtype::unknown;  // a scalar's own type
  bool writes = false;           // a pointer to non-const
  std::uint32_t size = 0;        // bytes of the parameter itself
  std::uint32_t alignment = 1;   // bytes, a power of two: a pointer's address is a multiple of it
  DtypeSet accepts = 0;          // the dtypes that a pointer takes
  std::string type;              // as C++ spells it: "float const*"
  std::string name;              // the source's own, where it is known; empty otherwise
};

// "float* y", or "float*" where the name is not known.
std::string declaration(const Parameter& parameter);

struct Signature {
  std::vector<Parameter> parameters;

  // "(float const*, float*, long long)"
  std::string text() const;
};

// From the lowered name of a probe `template <class F, class Layout> __device__ char`, instantiated
// with the kernel's function type and the sizes of its parameters in bytes. Throws Error where it
// reads otherwise.
Signature parse_probe(const std::string& lowered);

// One parameter, from its type as a demangler spells it and its size in bytes.
Parameter parse_parameter(std::string_view type, std::uint32_t size);

}  // namespace cudademo
