"""What a user can look at: PTX, machine code, source, signature, resources."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import cudademo
from cudademo import Error, ToolchainError, inspect

SCALE = """template <typename T> __global__ void scale(T* x, T a) { x[threadIdx.x] *= a; }"""


@pytest.fixture
def scale() -> cudademo.Kernel:
    return cudademo.kernel(SCALE, "scale<T>", T=cudademo.dtype_of(0))


def test_each_variant_is_looked_at_by_its_bindings(scale):
    assert ".entry _Z5scaleIfEvPT_S0_(" in scale.ptx(T=torch.float32)
    assert ".entry _Z5scaleIdEvPT_S0_(" in scale.ptx(T=torch.float64)
    assert scale.cubin(T=torch.float64)[:4] == b"\x7fELF"
    assert scale.source(T=torch.float32).endswith(SCALE)


def test_without_a_launch_the_free_names_are_asked_for(scale):
    with pytest.raises(Error, match=r"T come from a launch.*T=torch\.float32"):
        scale.ptx()


def test_a_signature_has_names_types_and_what_is_written(scale):
    signature = scale.signature(T=torch.bfloat16)
    assert str(signature) == "scale<__nv_bfloat16>(__nv_bfloat16* x, __nv_bfloat16 a)"
    assert [p.name for p in signature.parameters] == ["x", "a"]


def test_machine_code_is_text(scale):
    try:
        text = scale.sass(T=torch.float32)
    except ToolchainError as error:
        pytest.skip(str(error))
    assert "FMUL" in text


def test_a_variant_without_machine_code_says_why():
    with pytest.raises(ToolchainError, match="PTX only"):
        inspect.disassemble(b"")


def test_line_information_leads_to_a_source_that_outlives_the_compile(scale):
    ptx = scale.ptx(T=torch.float32)
    files = [line.split('"')[1] for line in ptx.splitlines() if ".file" in line]
    assert any(Path(file).is_file() and SCALE in Path(file).read_text() for file in files)


@pytest.mark.usefixtures("stub")
def test_resources_are_the_devices(scale):
    scale.preload(T=torch.float32)
    resources = scale.resources()
    assert resources.max_threads_per_block == 1024
    assert resources.registers > 0


def test_a_module_lists_its_kernels_and_has_them_as_attributes():
    module = cudademo.module(
        'extern "C" __global__ void f(int n) {} extern "C" __global__ void g() {}'
    )
    assert module.kernels == ["f", "g"]
    assert str(module.f.signature()) == "f(int n)"
    assert {"f", "g"} <= set(dir(module))
    with pytest.raises(AttributeError, match="no kernel h; the source has: f, g"):
        _ = module.h


def test_kernels_compiled_together_share_one_binary():
    source = "template <int N> __global__ void f(float* x) { x[0] = N; }"
    module = cudademo.module(source, kernels=["f<1>", "f<2>"])
    one, two = module.kernel("f<1>").latest(), module.kernel("f<2>").latest()
    assert one.compiled.digest == two.compiled.digest
    assert len(one.compiled.binary.kernels) == 2
