#include "signature.hpp"

#include <cxxabi.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>

#include "errors.hpp"

namespace cudademo {

namespace {

struct Pointee {
  std::string_view type;
  DtypeSet accepts;
  std::uint32_t alignment;
};

constexpr DtypeSet byte_types = set_of(Dtype::int8) | set_of(Dtype::uint8);
constexpr DtypeSet single = set_of(Dtype::float32) | set_of(Dtype::complex64);
constexpr DtypeSet twice = set_of(Dtype::float64) | set_of(Dtype::complex128);
constexpr DtypeSet half = set_of(Dtype::float16) | set_of(Dtype::complex32);

// The C++ types with a dtype of their own. CUDA's vector types take tensors of their element's
// dtype.
constexpr std::array pointees{
    Pointee{"bool", set_of(Dtype::boolean), 1},
    Pointee{"char", byte_types, 1},
    Pointee{"signed char", set_of(Dtype::int8), 1},
    Pointee{"unsigned char", set_of(Dtype::uint8), 1},
    Pointee{"short", set_of(Dtype::int16), 2},
    Pointee{"unsigned short", set_of(Dtype::uint16), 2},
    Pointee{"int", set_of(Dtype::int32), 4},
    Pointee{"unsigned int", set_of(Dtype::uint32), 4},
    Pointee{"long", set_of(Dtype::int64), 8},
    Pointee{"unsigned long", set_of(Dtype::uint64), 8},
    Pointee{"long long", set_of(Dtype::int64), 8},
    Pointee{"unsigned long long", set_of(Dtype::uint64), 8},
    Pointee{"__half", set_of(Dtype::float16), 2},
    Pointee{"__nv_bfloat16", set_of(Dtype::bfloat16), 2},
    Pointee{"float", set_of(Dtype::float32), 4},
    Pointee{"double", set_of(Dtype::float64), 8},
    Pointee{"__nv_fp8_e4m3", set_of(Dtype::float8_e4m3fn), 1},
    Pointee{"__nv_fp8_e5m2", set_of(Dtype::float8_e5m2), 1},
    Pointee{"__nv_fp8_e8m0", set_of(Dtype::float8_e8m0fnu), 1},
    Pointee{"__half2", half, 4},
    Pointee{"__nv_bfloat162", set_of(Dtype::bfloat16), 4},
    Pointee{"__nv_fp8x2_e4m3", set_of(Dtype::float8_e4m3fn), 2},
    Pointee{"__nv_fp8x4_e4m3", set_of(Dtype::float8_e4m3fn), 4},
    Pointee{"__nv_fp8x2_e5m2", set_of(Dtype::float8_e5m2), 2},
    Pointee{"__nv_fp8x4_e5m2", set_of(Dtype::float8_e5m2), 4},
    Pointee{"char2", set_of(Dtype::int8), 2},
    Pointee{"char4", set_of(Dtype::int8), 4},
    Pointee{"uchar2", set_of(Dtype::uint8), 2},
    Pointee{"uchar4", set_of(Dtype::uint8), 4},
    Pointee{"short2", set_of(Dtype::int16), 4},
    Pointee{"short4", set_of(Dtype::int16), 8},
    Pointee{"ushort2", set_of(Dtype::uint16), 4},
    Pointee{"ushort4", set_of(Dtype::uint16), 8},
    Pointee{"int2", set_of(Dtype::int32), 8},
    Pointee{"int3", set_of(Dtype::int32), 4},
    Pointee{"int4", set_of(Dtype::int32), 16},
    Pointee{"uint2", set_of(Dtype::uint32), 8},
    Pointee{"uint3", set_of(Dtype::uint32), 4},
    Pointee{"uint4", set_of(Dtype::uint32), 16},
    Pointee{"longlong2", set_of(Dtype::int64), 16},
    Pointee{"longlong4", set_of(Dtype::int64), 16},
    Pointee{"ulonglong2", set_of(Dtype::uint64), 16},
    Pointee{"ulonglong4", set_of(Dtype::uint64), 16},
    Pointee{"float2", single, 8},
    Pointee{"float3", set_of(Dtype::float32), 4},
    Pointee{"float4", single, 16},
    Pointee{"double2", twice, 16},
    Pointee{"double4", twice, 16},
};

// "cuda::std::__4::complex<float>", "thrust::...::complex<double>" and the like, whatever the
// inline namespaces.
std::optional<Pointee> complex_pointee(std::string_view type) {
  const auto named = [type](std::string_view end) {
    return type.ends_with(end) && type.find("::") != std::string_view::npos;
  };
  if (named("::complex<float>")) return Pointee{type, set_of(Dtype::complex64), 8};
  if (named("::complex<double>")) return Pointee{type, set_of(Dtype::complex128), 16};
  return std::nullopt;
}

std::optional<Pointee> find_pointee(std::string_view type) {
  for (const Pointee& pointee : pointees) {
    if (pointee.type == type) return pointee;
  }
  return complex_pointee(type);
}

// The dtype of a scalar parameter; the vector types have none of their own.
Dtype scalar_dtype(std::string_view type) {
  if (type == "char") return Dtype::int8;
  if (type.starts_with("__half2")) return Dtype::unknown;
  const std::optional<Pointee> pointee = find_pointee(type);
  if (!pointee) return Dtype::unknown;
  for (int i = 1; i < dtype_count; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    const bool complex = dtype == Dtype::complex64 || dtype == Dtype::complex128;
    if (pointee->accepts == set_of(dtype) && (info(dtype).bytes == pointee->alignment || complex)) {
      const bool vector =
          type.back() >= '2' && type.back() <= '4' && !type.starts_with("__nv_fp8_");
      return vector ? Dtype::unknown : dtype;
    }
  }
  return Dtype::unknown;
}

std::string demangle(const std::string& lowered) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(lowered.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0) throw Error("the compiler's name " + lowered + " does not demangle");
  return text.get();
}

// Splits at the commas that are inside no bracket.
std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == ']' || c == '}') --depth;
    if (c != ',' || depth != 0) continue;
    parts.push_back(list.substr(start, i - start));
    start = list.find_first_not_of(' ', i + 1);
  }
  if (start < list.size()) parts.push_back(list.substr(start));
  return parts;
}

std::uint32_t parse_size(std::string_view text) {
  std::uint32_t size = 0;
  std::from_chars(text.data(), text.data() + text.size(), size);
  return size;
}

}  // namespace

Parameter parse_parameter(std::string_view type, std::uint32_t size) {
  Parameter parameter;
  parameter.type = type;
  parameter.size = size;
  if (!type.ends_with('*')) {
    parameter.dtype = scalar_dtype(type);
    parameter.kind =
        parameter.dtype == Dtype::unknown ? Parameter::Kind::bytes : Parameter::Kind::scalar;
    return parameter;
  }
  parameter.kind = Parameter::Kind::pointer;
  std::string_view pointee = type.substr(0, type.size() - 1);
  constexpr std::string_view const_suffix = " const";
  constexpr std::string_view volatile_suffix = " volatile";
  parameter.writes = true;
  if (pointee.ends_with(volatile_suffix)) pointee.remove_suffix(volatile_suffix.size());
  if (pointee.ends_with(const_suffix)) {
    pointee.remove_suffix(const_suffix.size());
    parameter.writes = false;
  }
  if (pointee == "void") {
    parameter.accepts = any_dtype;
  } else if (pointee.ends_with('*')) {
    parameter.accepts = set_of(Dtype::int64) | set_of(Dtype::uint64);
    parameter.alignment = sizeof(void*);
  } else if (const std::optional<Pointee> known = find_pointee(pointee)) {
    parameter.accepts = known->accepts;
    parameter.alignment = known->alignment;
  } else {
    parameter.accepts = set_of(Dtype::uint8);  // a struct of the user's: raw bytes
  }
  return parameter;
}

std::string declaration(const Parameter& parameter) {
  return parameter.name.empty() ? parameter.type : parameter.type + " " + parameter.name;
}

std::string Signature::text() const {
  std::string text = "(";
  for (const Parameter& parameter : parameters) {
    if (text.size() > 1) text += ", ";
    text += declaration(parameter);
  }
  return text + ")";
}

Signature parse_probe(const std::string& lowered) {
  const std::string text = demangle(lowered);
  const auto fail = [&text] { return Error("cannot read a kernel's parameters from " + text); };
  // name<void (T1, T2), layout<s1u, s2u> >, or with "void (*)(" where the expression is a pointer
  const std::size_t open = text.find('<');
  const std::size_t close = text.rfind('>');
  if (open == std::string::npos || close == std::string::npos) throw fail();
  const auto arguments = split(std::string_view(text).substr(open + 1, close - open - 1));
  if (arguments.size() != 2) throw fail();
  const std::string_view function = arguments[0];
  const std::string_view layout = arguments[1];
  const bool pointer = function.find("(*)(") != std::string_view::npos;
  const std::size_t list_open = function.find('(', pointer ? function.find("(*)(") + 3 : 0);
  const std::size_t list_close = function.rfind(')');
  const std::size_t sizes_open = layout.find('<');
  const std::size_t sizes_close = layout.rfind('>');
  if (list_open == std::string_view::npos || list_close == std::string_view::npos ||
      sizes_open == std::string_view::npos || sizes_close == std::string_view::npos) {
    throw fail();
  }
  const auto types = split(function.substr(list_open + 1, list_close - list_open - 1));
  const auto sizes = split(layout.substr(sizes_open + 1, sizes_close - sizes_open - 1));
  if (types.size() != sizes.size()) throw fail();
  Signature signature;
  for (std::size_t i = 0; i < types.size(); ++i) {
    signature.parameters.push_back(parse_parameter(types[i], parse_size(sizes[i])));
  }
  return signature;
}

}  // namespace cudademo
