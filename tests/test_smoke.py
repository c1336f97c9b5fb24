"""What must hold of an installed wheel, alone: no conftest, no stub, no GPU.

`pytest --noconftest test_smoke.py`, copied to any folder, checks what is installed.
"""

from __future__ import annotations

import cudademo


def test_a_kernel_is_compiled_and_looked_at():
    source = "template <typename T> __global__ void scale(T* x, T a) { x[threadIdx.x] *= a; }"
    kernel = cudademo.kernel(source, "scale<T>", T="float")
    assert str(kernel.signature()) == "scale<float>(float* x, float a)"
    assert ".entry" in kernel.ptx()
    assert kernel.cubin()[:4] == b"\x7fELF"


def test_the_kernels_and_templates_are_there():
    from cudademo import resources

    names = {
        path.name for name in ("kernels", "templates") for path in resources.folder(name).iterdir()
    }
    assert names >= {"sum_single.cu", "sum_double.cu", "elementwise.cu.j2", "reduction.cu.j2"}


def test_the_operators_work_on_the_cpu():
    import torch

    a = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(cudademo.sum_double_op(a, a[0]), a + a[0])
    assert torch.equal(cudademo.sum_single_op(a), torch.tensor([15.0]))


def test_the_package_is_typed():
    from importlib.resources import files

    assert files("cudademo").joinpath("py.typed").is_file()
    assert files("cudademo").joinpath("_core.pyi").is_file()
