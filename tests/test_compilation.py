"""Keys, the cache on disk, one compile a key, and what a failed compile says."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import pytest
import torch

import cudademo
from cudademo import CacheWarning, CompileError, _core, compilation

SOURCE = 'extern "C" __global__ void k(float* x) { x[0] = VALUE; }'


def made(source: str = SOURCE, **given: object) -> compilation.Compiled:
    given = {"defines": {"VALUE": 1}, **given}
    return cudademo.kernel(source, "k", **given).latest().compiled  # type: ignore[arg-type]


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("??/*.cubin"))


def test_a_second_process_would_find_the_entry_on_disk(fresh_cache, monkeypatch):
    first = made()
    monkeypatch.setattr(compilation, "_ready", {})
    second = made()
    assert (first.origin, second.origin) == ("compiler", "disk cache")
    assert first.binary.cubin == second.binary.cubin
    assert len(entries(fresh_cache)) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"source": SOURCE + " "},
        {"defines": {"VALUE": 2}},
        {"options": ["--use_fast_math"]},
        {"architecture": "sm_80"},
        {"source": '#include "h"\n' + SOURCE, "headers": {"h": ""}},
        {"source": '#include "h"\n' + SOURCE, "headers": {"h": "//"}},
    ],
)
def test_whatever_the_compiler_sees_is_in_the_key(fresh_cache, changed):
    assert made(**changed).digest != made().digest


def test_the_name_of_the_folder_is_not_in_the_key(fresh_cache, tmp_path):
    digests = set()
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "k.cu").write_text(SOURCE)
        module = cudademo.load(tmp_path / name / "k.cu", defines={"VALUE": 1})
        digests.add(module.k.latest().compiled.digest)
    assert len(digests) == 1


def test_an_entry_that_cannot_be_read_is_compiled_anew_and_mended(fresh_cache, monkeypatch):
    made()
    (entry,) = entries(fresh_cache)
    entry.unlink()
    entry.symlink_to(entry.name)  # open fails, whoever asks
    monkeypatch.setattr(compilation, "_ready", {})
    with pytest.warns(CacheWarning, match="was not used: read: "):
        assert made().origin == "compiler"
    monkeypatch.setattr(compilation, "_ready", {})
    assert made().origin == "disk cache"


@pytest.mark.parametrize("damage", ["truncated", "zeroed", "flipped", "empty"])
def test_a_damaged_entry_is_compiled_anew_and_mended(fresh_cache, monkeypatch, damage):
    good = made().binary.cubin
    (entry,) = entries(fresh_cache)
    data = entry.read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    entry.write_bytes(
        {"truncated": data[:100], "zeroed": bytes(len(data)), "flipped": flipped, "empty": b""}[
            damage
        ]
    )
    monkeypatch.setattr(compilation, "_ready", {})
    with pytest.warns(CacheWarning, match="was not used"):
        assert made().origin == "compiler"
    monkeypatch.setattr(compilation, "_ready", {})
    again = made()
    assert (again.origin, again.binary.cubin) == ("disk cache", good)


def test_a_folder_that_cannot_be_written_is_one_warning(tmp_path, monkeypatch, fresh_cache):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUDADEMO_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(CacheWarning) as warned:
        assert made().origin == "compiler"
    assert len(warned) == 1
    assert made(defines={"VALUE": 3}).origin == "compiler"  # a second warning would be an error


def test_a_source_that_fails_can_be_mended_and_tells_the_line(fresh_cache):
    with pytest.raises(CompileError) as caught:
        made("\n\n" + SOURCE.replace("VALUE", "nothing"))
    error = caught.value
    assert error.diagnostics[0].line == 3
    assert 'identifier "nothing" is undefined' in str(error)
    assert "3 |" in str(error)
    assert "nothing" in error.log
    assert "nothing" in error.source
    assert made().origin == "compiler"


@pytest.mark.parametrize(
    "name",
    ["k", "ns::k<float>"],
)
def test_kernels_plain_and_templated_in_a_namespace_resolve(fresh_cache, name):
    source = "namespace ns { template <class T> __global__ void k(T* x) {} }"
    if name == "k":
        source = "__global__ void k(float* x) {}"
    assert str(cudademo.kernel(source, name).signature()) == f"{name}(float* x)"


def test_a_typo_lists_the_kernels_that_there_are(fresh_cache):
    source = "namespace ns { template <class T> __global__ void scale(T* x) {} }"
    with pytest.raises(CompileError) as caught:
        cudademo.kernel(source, "ns::scael<float>").ptx()
    assert "the source has: ns::scale<class T>" in str(caught.value)
    assert "did you mean ns::scale" in str(caught.value)


def test_users_macros_of_one_letter_do_no_harm(fresh_cache):
    letters = "".join(f"#define {letter} 1\n" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert made(letters.replace("#define VALUE 1\n", "") + SOURCE).binary.kernels == ["k"]


def test_threads_share_one_compile_and_one_failure(fresh_cache, monkeypatch):
    calls = []
    compile_ = _core.compile

    def counted(*arguments: object) -> object:
        calls.append(1)
        return compile_(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(_core, "compile", counted)
    results: list[object] = []

    def use(source: str) -> None:
        try:
            results.append(made(source).digest)
        except CompileError as error:
            results.append(type(error))

    for source, distinct in ((SOURCE, str), (SOURCE.replace("VALUE", "bad"), type)):
        calls.clear()
        results.clear()
        gate = threading.Barrier(16)

        def wait_and_use(source: str = source, gate: threading.Barrier = gate) -> None:
            gate.wait()
            use(source)

        threads = [threading.Thread(target=wait_and_use) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(results)) == 1
        assert isinstance(results[0], distinct)
        if distinct is str:
            assert len(calls) == 1
    assert made().digest  # and a right source still works


def test_threads_with_a_key_each_are_all_right(fresh_cache):
    gate = threading.Barrier(8)
    results = {}

    def use(value: int) -> None:
        gate.wait()
        results[value] = made(defines={"VALUE": value})

    threads = [threading.Thread(target=use, args=(value,)) for value in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({compiled.digest for compiled in results.values()}) == 8
    assert len(entries(fresh_cache)) == 8
    for value, compiled in results.items():
        (bits,) = struct.unpack("<I", struct.pack("<f", value))  # as PTX writes the float
        assert f", {bits};" in compiled.binary.ptx


def test_half_operators_work_without_flags(fresh_cache):
    source = """#include <cuda_fp16.h>
    extern "C" __global__ void k(__half* x) { x[0] = x[0] + x[1] * x[2]; }"""
    assert "k" in made(source).binary.kernels


def test_the_types_header_is_included_and_lines_stay_right(fresh_cache):
    kernel = cudademo.kernel(
        "template <class T> __global__ void k(T* x) { x[0] = T(1) + y; }", "k<T>",
        T=cudademo.dtype_of(0),
    )  # fmt: skip
    with pytest.raises(CompileError) as caught:
        kernel.specialize(T=torch.float16).ptx()
    assert caught.value.diagnostics[0].line == 1
