"""The standard headers that NVRTC has none of, as device code can have them."""

from __future__ import annotations

import re
from collections.abc import Iterable


def _from_cuda(name: str) -> str:
    """CUDA's own implementation, under the standard's names."""
    using = "namespace std { using namespace ::cuda::std; }"
    return f"#pragma once\n#include <cuda/std/{name}>\n{using}\n"


# What device code uses most is declared here in a few lines; CUDA's own would cost 10 ms each.
_STDINT = """#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
typedef long long intmax_t;
typedef unsigned long long uintmax_t;
typedef signed char int_fast8_t, int_least8_t;
typedef short int_fast16_t, int_least16_t;
typedef int int_fast32_t, int_least32_t;
typedef long long int_fast64_t, int_least64_t;
typedef unsigned char uint_fast8_t, uint_least8_t;
typedef unsigned short uint_fast16_t, uint_least16_t;
typedef unsigned int uint_fast32_t, uint_least32_t;
typedef unsigned long long uint_fast64_t, uint_least64_t;
#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
#define SIZE_MAX 18446744073709551615ULL
"""

_MATH = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign",
    "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "fdim", "floor", "fma",
    "fmax", "fmin", "fmod", "frexp", "hypot", "ilogb", "isfinite", "isinf", "isnan", "ldexp",
    "lgamma", "llrint", "llround", "log", "log10", "log1p", "log2", "logb", "lrint", "lround",
    "modf", "nan", "nearbyint", "nextafter", "pow", "remainder", "remquo", "rint", "round",
    "scalbln", "scalbn", "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc",
    "abs",
]  # fmt: skip


def _in_std(names: Iterable[str]) -> str:
    """The compiler's own global functions, in namespace std as well."""
    return "namespace std {" + "".join(f" using ::{name};" for name in names) + " }\n"


def _integers() -> str:
    names = re.findall(r"\w+_t\b", _STDINT)
    return _guarded(_STDINT) + _in_std(dict.fromkeys(names))


def _guarded(text: str) -> str:
    """Macros only where CUDA's headers have not defined them; theirs come later without asking.

    They have the same values in other words, which is remark 47 of the compiler's.
    """
    defined = re.sub(r"^#define (\w+)(.*)$", r"#ifndef \1\n#define \1\2\n#endif", text, flags=re.M)
    return defined.replace("#pragma once\n", "#pragma once\n#pragma nv_diag_suppress 47\n", 1)


_CSTDDEF = """#pragma once
typedef decltype(nullptr) nullptr_t;
typedef long ptrdiff_t;
namespace std { using ::size_t; using ::ptrdiff_t; using ::nullptr_t; }
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#ifndef NULL
#define NULL 0
#endif
"""
_CLIMITS = """#pragma once
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MIN (-9223372036854775807L - 1)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL
"""
_CFLOAT = """#pragma once
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN_EXP (-125)
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MAX_10_EXP 38
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define FLT_TRUE_MIN 1.401298464e-45F
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN_EXP (-1021)
#define DBL_MAX_EXP 1024
#define DBL_MIN_10_EXP (-307)
#define DBL_MAX_10_EXP 308
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_TRUE_MIN 4.9406564584124654e-324
"""
_MATH_MACROS = """#pragma once
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VALF INFINITY
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)
#endif
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
"""
# Declared by the compiler itself; the header has nothing to add.
_BUILT_IN = "#pragma once\n"

STANDARD: dict[str, str] = {
    "cstdint": _integers(),
    "stdint.h": _integers(),
    "cstddef": _CSTDDEF,
    "stddef.h": _CSTDDEF,
    "climits": _guarded(_CLIMITS),
    "limits.h": _guarded(_CLIMITS),
    "cfloat": _guarded(_CFLOAT),
    "float.h": _guarded(_CFLOAT),
    "cmath": _MATH_MACROS + _in_std(_MATH),
    "math.h": _MATH_MACROS,
    "cassert": _BUILT_IN,
    "assert.h": _BUILT_IN,
    "cstdio": _BUILT_IN + _in_std(["printf"]),
    "stdio.h": _BUILT_IN,
    "cstring": _BUILT_IN + _in_std(["memcpy", "memset"]),
    "string.h": _BUILT_IN,
    "cstdlib": _BUILT_IN + _in_std(["malloc", "free", "abs"]),
    "stdlib.h": _BUILT_IN,
    **{
        name: _from_cuda(name)
        for name in (
            "array", "atomic", "barrier", "bit", "chrono", "complex", "concepts", "expected",
            "functional", "initializer_list", "iterator", "latch", "limits", "numbers", "numeric",
            "optional", "ratio", "semaphore", "span", "tuple", "type_traits", "utility", "variant",
        )
    },
}  # fmt: skip
"""The standard headers that device code can have, in place of the host's."""
