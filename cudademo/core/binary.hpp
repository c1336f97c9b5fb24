// What one compile brings forth: kept on disk by the cache, loaded by a module.
#pragma once

#include <map>
#include <string>

#include "signature.hpp"

namespace cudademo {

struct KernelEntry {
  std::string lowered_name;  // the symbol in the cubin
  std::string probe;         // the mangled probe from which the signature is read
  Signature signature;
};

struct Binary {
  std::string architecture;  // "sm_90", or "compute_90" where the image is PTX
  std::string cubin;         // empty where only PTX could be made
  std::string ptx;
  std::string log;                             // the compiler's words, warnings included
  std::map<std::string, KernelEntry> kernels;  // by name expression

  // What the driver loads.
  const std::string& image() const noexcept { return cubin.empty() ? ptx : cubin; }
};

}  // namespace cudademo
