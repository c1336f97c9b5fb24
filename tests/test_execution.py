"""What a kernel sees of its launch, on the emulator and on a GPU."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import pytest
import torch

import cudademo
from cudademo import ArgumentError, LaunchError

HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"


def make(parameters: str, body: str, prefix: str = "") -> cudademo.Kernel:
    source = f'{prefix}\nextern "C" __global__ void k({parameters}) {{ {body} }}'
    return cudademo.kernel(source, "k")


@pytest.mark.parametrize(
    ("type_", "value", "dtype"),
    [
        ("bool", True, torch.bool),
        ("signed char", -128, torch.int8),
        ("unsigned char", 255, torch.uint8),
        ("short", -32768, torch.int16),
        ("unsigned short", 65535, torch.uint16),
        ("int", -(2**31), torch.int32),
        ("unsigned", 2**32 - 1, torch.uint32),
        ("long long", -(2**63), torch.int64),
        ("unsigned long long", 2**64 - 1, torch.uint64),
        ("float", 0.1, torch.float32),
        ("double", 0.1, torch.float64),
        ("__half", 0.1, torch.float16),
        ("__nv_bfloat16", 0.1, torch.bfloat16),
    ],
)
def test_a_number_is_the_parameters_type(kernel_device, type_, value, dtype):
    out = torch.zeros(1, dtype=dtype, device=kernel_device)
    # Between parameters of other sizes, so that a wrong offset shows.
    k = make(f"bool before, {type_} s, char after, {type_}* out", "*out = s;", HEADERS)
    k[1, 1](False, value, 0, out)
    assert out.cpu().view(torch.uint8).tolist() == (
        torch.tensor([value], dtype=dtype).view(torch.uint8).tolist()
    )


def test_a_struct_is_seen_member_by_member(kernel_device):
    class Shape(ctypes.Structure):
        _fields_ = [("scale", ctypes.c_double), ("count", ctypes.c_int), ("flag", ctypes.c_bool)]

    out = torch.zeros(3, dtype=torch.float64, device=kernel_device)
    k = make(
        "Shape s, double* out",
        "out[0] = s.scale; out[1] = s.count; out[2] = s.flag;",
        "struct Shape { double scale; int count; bool flag; };",
    )
    k[1, 1](Shape(2.5, -7, True), out)
    assert out.tolist() == [2.5, -7.0, 1.0]


def test_none_is_null_and_a_view_starts_at_its_first_element(kernel_device):
    x = torch.arange(10.0, device=kernel_device)
    out = torch.zeros(2, device=kernel_device)
    k = make("const float* none, const float* x, float* out",
             "out[0] = none == nullptr; out[1] = x[0];")  # fmt: skip
    k[1, 1](None, x[3:], out)
    assert out.tolist() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("grid", "block"),
    [(1, 1), (7, 33), ((2, 3), (4, 5)), ((2, 3, 4), (5, 3, 2)), ((1, 1, 65535), 1), (3, 1024)],
)
def test_grid_and_block_are_as_they_were_given(kernel_device, grid, block):
    def extents(given: Any) -> tuple[int, int, int]:
        x, y, z = (*(given if isinstance(given, tuple) else (given,)), 1, 1)[:3]
        return x, y, z

    (gx, gy, gz), (bx, by, bz) = extents(grid), extents(block)
    out = torch.zeros((gz, gy, gx, bz, by, bx), dtype=torch.int32, device=kernel_device)
    k = make(
        "int* out",
        "int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;"
        "int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;"
        "int i = block * blockDim.x * blockDim.y * blockDim.z + thread;"
        "out[i] += i + 1;",
    )
    k[grid, block](out)
    assert torch.equal(out.cpu().flatten(), torch.arange(1, out.numel() + 1, dtype=torch.int32))


@pytest.mark.parametrize("shared_bytes", [4, 48 << 10, 100 << 10, 160 << 10])
def test_dynamic_shared_memory_is_there_to_its_last_byte(kernel_device, shared_bytes):
    out = torch.zeros(2, dtype=torch.int32, device=kernel_device)
    k = make(
        "int* out, int words",
        "extern __shared__ int memory[];"
        "for (int i = threadIdx.x; i < words; i += blockDim.x) memory[i] = i;"
        "__syncthreads();"
        "if (threadIdx.x != 0) return;"
        "unsigned bytes; asm(\"mov.u32 %0, %%dynamic_smem_size;\" : \"=r\"(bytes));"
        "out[0] = bytes; out[1] = memory[words - 1];",
    )  # fmt: skip
    k[1, 64, shared_bytes](out, shared_bytes // 4)
    assert out.tolist() == [shared_bytes, shared_bytes // 4 - 1]


def test_more_shared_memory_than_there_is_is_refused_and_the_next_launch_works(kernel_device):
    out = torch.zeros(1, dtype=torch.int32, device=kernel_device)
    k = make("int* out", "extern __shared__ int memory[]; memory[0] = 5; out[0] = memory[0];")
    with pytest.raises(LaunchError, match="shared"):
        k[1, 1, 512 << 10](out)
    k[1, 1, 4](out)
    assert out.item() == 5


def test_more_threads_than_a_block_may_have_are_refused(kernel_device):
    out = torch.zeros(1, device=kernel_device)
    with pytest.raises(LaunchError, match="1024"):
        make("float* out", "*out = 1;")[1, 1025](out)
    assert out.item() == 0


def test_an_empty_grid_runs_nothing(kernel_device):
    out = torch.zeros(1, device=kernel_device)
    make("float* out", "*out = 1;")[0, 32](out)
    assert out.item() == 0


def test_each_dtype_and_each_block_is_its_own_variant(kernel_device):
    source = """template <typename T, int BLOCK> __global__ void fill(T* x, int n) {
      int i = blockIdx.x * BLOCK + threadIdx.x;
      if (i < n) x[i] = static_cast<T>(BLOCK + i);
    }"""
    fill = cudademo.kernel(
        source, "fill<T, BLOCK>", T=cudademo.dtype_of(0), BLOCK=cudademo.block_dim
    )
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
        for block in (32, 128):
            x = torch.zeros(100, dtype=dtype, device=kernel_device)
            fill[cudademo.ceil_div(100, block), block](x, 100)
            assert torch.equal(x.cpu(), (block + torch.arange(100)).to(dtype))


def test_constants_and_globals_of_a_module_keep_their_values_between_launches(kernel_device):
    module = cudademo.module(
        "__constant__ int table[3] = {10, 20, 30}; __device__ int calls = 5;"
        'extern "C" __global__ void k(int* out) { calls += 1; out[0] = calls + table[2]; }'
    )
    out = torch.zeros(1, dtype=torch.int32, device=kernel_device)
    for count in (36, 37, 38):
        module.kernel("k")[1, 1](out)
        assert out.item() == count


def test_threads_of_the_host_launch_at_once(kernel_device):
    k = make("float* x, float a, int n",
             "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += a;")  # fmt: skip
    xs = [torch.zeros(1000, device=kernel_device) for _ in range(8)]

    def launch(a: int) -> None:
        for _ in range(10):
            k[4, 256](xs[a], float(a), 1000)

    threads = [threading.Thread(target=launch, args=(a,)) for a in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [x.unique().tolist() for x in xs] == [[10.0 * a] for a in range(8)]


def test_numpys_arrays_are_read_and_written_by_the_emulator():
    numpy = pytest.importorskip("numpy")
    x, y = numpy.arange(100, dtype=numpy.float32), numpy.ones(100, numpy.float32)
    k = make("const float* x, float* y, int n",
             "int i = threadIdx.x; if (i < n) y[i] += 2 * x[i];")  # fmt: skip
    k[1, 128](x, y, 100)
    assert numpy.array_equal(y, 2 * x + 1)
    y.flags.writeable = False
    with pytest.raises(ArgumentError):
        k[1, 128](x, y, 100)
