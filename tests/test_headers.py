"""Which headers count, and that the standard ones compile."""

from __future__ import annotations

from pathlib import Path

import pytest

import cudademo
from cudademo import headers


def digest(source: str, folder: Path | None = None, **given: str) -> str:
    found = headers.scan(
        source,
        origin_dir=folder,
        include_dirs=[],
        headers=given,
        toolkit_dirs=list,
        memo_dir=None,
    )
    return found.digest


def test_only_an_inner_header_changes_and_the_digest_changes(tmp_path):
    (tmp_path / "a.cuh").write_text('#include "b.cuh"\n')
    (tmp_path / "b.cuh").write_text("#define B 1\n")
    before = digest('#include "a.cuh"', tmp_path)
    (tmp_path / "b.cuh").write_text("#define B 2\n")
    assert digest('#include "a.cuh"', tmp_path) != before


def test_a_folder_that_moves_changes_nothing(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.cuh").write_text("#define A 1\n")
    assert digest('#include "a.cuh"', tmp_path / "here") == digest(
        '#include "a.cuh"', tmp_path / "there"
    )


@pytest.mark.parametrize(
    "include",
    ['#include "a.cuh"', '# include"a.cuh"', '#\\\ninclude "a.cuh"', '#/**/include "a.cuh"',
     '#define A "a.cuh"\n#include A', '#if __has_include("a.cuh")\n#endif'],
)  # fmt: skip
def test_every_spelling_of_an_include_is_seen(tmp_path, include):
    (tmp_path / "a.cuh").write_text("#define A 1\n")
    before = digest(include, tmp_path)
    (tmp_path / "a.cuh").write_text("#define A 2\n")
    assert digest(include, tmp_path) != before


def test_a_header_given_as_text_comes_first(tmp_path):
    (tmp_path / "a.cuh").write_text("#define A 1\n")
    assert digest('#include "a.cuh"', tmp_path, **{"a.cuh": "x"}) == digest(
        '#include "a.cuh"', None, **{"a.cuh": "x"}
    )


def test_standard_headers_compile_together():
    names = ["cstdint", "cmath", "cfloat", "climits", "cassert", "cstddef", "cstdio", "cstring"]
    names += ["stdint.h", "math.h", "float.h", "limits.h", "stddef.h", "type_traits", "limits"]
    source = "".join(f"#include <{name}>\n" for name in names)
    source += """
    extern "C" __global__ void k(float* x, std::int64_t n) {
      static_assert(std::is_same_v<std::uint8_t, unsigned char>);
      assert(n < INT32_MAX);
      x[0] = std::fmin(std::sqrt(x[1]), FLT_MAX) + std::numeric_limits<float>::epsilon() + INT_MAX;
    }"""
    assert "k" in cudademo.kernel(source, "k").ptx()


@pytest.mark.parametrize(
    ("name", "wheel"),
    [("cub/cub.cuh", "nvidia-cuda-cccl"), ("cuda_fp16.h", "nvidia-cuda-runtime"),
     ("crt/mma.h", "nvidia-cuda-crt"),
     ("curand_kernel.h", "nvidia-curand"), ("vector", "host"), ("mine.cuh", "include_dirs=")],
)  # fmt: skip
def test_a_missing_header_names_what_brings_it(name, wheel):
    assert wheel in headers.hint(name, list)
