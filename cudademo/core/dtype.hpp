// The element types of tensors, and the C++ types that stand for them in a kernel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cudademo {

enum class Dtype : std::uint8_t {
  unknown,
  boolean,
  uint8,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  uint64,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
  complex32,
  complex64,
  complex128,
  float8_e4m3fn,
  float8_e5m2,
  float8_e8m0fnu,
  float8_e4m3fnuz,
  float8_e5m2fnuz,
};

inline constexpr int dtype_count = 22;

// A set of dtypes, one bit each.
using DtypeSet = std::uint32_t;
inline constexpr DtypeSet any_dtype = ~DtypeSet{0};

constexpr DtypeSet set_of(Dtype dtype) { return DtypeSet{1} << static_cast<unsigned>(dtype); }

struct DtypeInfo {
  std::string_view name;      // torch's name: "bfloat16"
  std::string_view cpp_type;  // "__nv_bfloat16"; empty where CUDA has none
  std::string_view header;    // "cuda_bf16.h"; empty where none is needed
  std::uint8_t bytes;
};

const DtypeInfo& info(Dtype dtype);

// By torch's name; Dtype::unknown where there is none of that name.
Dtype dtype_named(std::string_view name);

// From DLPack's type code and width in bits.
Dtype dtype_from_dlpack(std::uint8_t code, std::uint8_t bits) noexcept;

// From an array interface's type string, such as "<f4"; unknown for the rest, among them void
// types.
Dtype dtype_from_typestr(std::string_view typestr) noexcept;

// "float32 or complex64"
std::string names(DtypeSet set);

}  // namespace cudademo
