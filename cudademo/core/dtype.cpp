#include "dtype.hpp"

#include <array>

namespace cudademo {

namespace {

constexpr std::array<DtypeInfo, dtype_count> table{{
    {"unknown", "", "", 0},
    {"bool", "bool", "", 1},
    {"uint8", "unsigned char", "", 1},
    {"int8", "signed char", "", 1},
    {"uint16", "unsigned short", "", 2},
    {"int16", "short", "", 2},
    {"uint32", "unsigned int", "", 4},
    {"int32", "int", "", 4},
    {"uint64", "unsigned long long", "", 8},
    {"int64", "long long", "", 8},
    {"float16", "__half", "cuda_fp16.h", 2},
    {"bfloat16", "__nv_bfloat16", "cuda_bf16.h", 2},
    {"float32", "float", "", 4},
    {"float64", "double", "", 8},
    {"complex32", "__half2", "cuda_fp16.h", 4},
    {"complex64", "cuda::std::complex<float>", "cuda/std/complex", 8},
    {"complex128", "cuda::std::complex<double>", "cuda/std/complex", 16},
    {"float8_e4m3fn", "__nv_fp8_e4m3", "cuda_fp8.h", 1},
    {"float8_e5m2", "__nv_fp8_e5m2", "cuda_fp8.h", 1},
    {"float8_e8m0fnu", "__nv_fp8_e8m0", "cuda_fp8.h", 1},
    {"float8_e4m3fnuz", "", "", 1},
    {"float8_e5m2fnuz", "", "", 1},
}};

// One entry for each (code, bits) that DLPack 1.3 defines and torch has a dtype for.
constexpr Dtype by_width(std::uint8_t bits, Dtype b8, Dtype b16, Dtype b32, Dtype b64) {
  switch (bits) {
    case 8:
      return b8;
    case 16:
      return b16;
    case 32:
      return b32;
    case 64:
      return b64;
    default:
      return Dtype::unknown;
  }
}

}  // namespace

const DtypeInfo& info(Dtype dtype) { return table[static_cast<std::size_t>(dtype)]; }

Dtype dtype_named(std::string_view name) {
  for (std::size_t i = 1; i < table.size(); ++i) {
    if (table[i].name == name) return static_cast<Dtype>(i);
  }
  return Dtype::unknown;
}

Dtype dtype_from_dlpack(std::uint8_t code, std::uint8_t bits) noexcept {
  switch (code) {
    case 0:
      return by_width(bits, Dtype::int8, Dtype::int16, Dtype::int32, Dtype::int64);
    case 1:
      return by_width(bits, Dtype::uint8, Dtype::uint16, Dtype::uint32, Dtype::uint64);
    case 2:
      return by_width(bits, Dtype::unknown, Dtype::float16, Dtype::float32, Dtype::float64);
    case 4:
      return bits == 16 ? Dtype::bfloat16 : Dtype::unknown;
    case 5:
      if (bits == 128) return Dtype::complex128;
      return by_width(bits, Dtype::unknown, Dtype::unknown, Dtype::complex32, Dtype::complex64);
    case 6:
      return bits == 8 ? Dtype::boolean : Dtype::unknown;
    case 10:
      return Dtype::float8_e4m3fn;
    case 11:
      return Dtype::float8_e4m3fnuz;
    case 12:
      return Dtype::float8_e5m2;
    case 13:
      return Dtype::float8_e5m2fnuz;
    case 14:
      return Dtype::float8_e8m0fnu;
    default:
      return Dtype::unknown;
  }
}

Dtype dtype_from_typestr(std::string_view typestr) noexcept {
  if (typestr.size() < 3 || typestr[0] == '>') return Dtype::unknown;
  const std::string_view width = typestr.substr(2);
  const std::uint8_t bits = width == "1"    ? 8
                            : width == "2"  ? 16
                            : width == "4"  ? 32
                            : width == "8"  ? 64
                            : width == "16" ? 128
                                            : 0;
  switch (typestr[1]) {
    case 'b':
      return bits == 8 ? Dtype::boolean : Dtype::unknown;
    case 'i':
      return dtype_from_dlpack(0, bits);
    case 'u':
      return dtype_from_dlpack(1, bits);
    case 'f':
      return dtype_from_dlpack(2, bits);
    case 'c':
      return dtype_from_dlpack(5, bits);
    default:
      return Dtype::unknown;
  }
}

std::string names(DtypeSet set) {
  if (set == any_dtype) return "any dtype";
  std::string text;
  for (int i = 1; i < dtype_count; ++i) {
    if ((set & set_of(static_cast<Dtype>(i))) == 0) continue;
    if (!text.empty()) text += " or ";
    text += table[static_cast<std::size_t>(i)].name;
  }
  return text;
}

}  // namespace cudademo
