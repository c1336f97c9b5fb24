"""Faults planted in kernels: each is found, at its line; and the same kernel mended runs."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import cudademo
from cudademo import EmulatorError

torch = pytest.importorskip("torch")

from planted import marked_line  # noqa: E402


class Planted(NamedTuple):
    """A kernel `k(float* x, int n)` with a fault in the line marked FAULT, and without it."""

    kind: str
    faulty: str
    mended: str
    block: int = 64
    text: str = ""
    grid: int = 1


PLANTED = {
    "one past the end": Planted(
        "out of bounds",
        "x[threadIdx.x + 1] = 1.f;  // FAULT",
        "if (threadIdx.x < 63) x[threadIdx.x + 1] = 1.f;",
        text="just past the end of argument 0, float32 of shape (64,)",
    ),
    "before the start": Planted(
        "out of bounds",
        "x[(int)threadIdx.x - 1] += 1.f;  // FAULT",
        "if (threadIdx.x) x[(int)threadIdx.x - 1] += 1.f;",
        text="4 bytes before the start of argument 0",
    ),
    "a null pointer": Planted(
        "out of bounds",
        "float* p = reinterpret_cast<float*>(n - 64ll);\n*p = 1.f;  // FAULT",
        "float* p = n ? x : nullptr;\n*p = 1.f;",
        block=1,
        text="a null pointer",
    ),
    "a wide load over the end": Planted(
        "out of bounds",
        "float4 v = reinterpret_cast<float4*>(x)[threadIdx.x];  // FAULT\nx[0] = v.w;",
        "float4 v = reinterpret_cast<float4*>(x)[threadIdx.x / 4];\nif (v.w > 9.f) x[0] = v.w;",
        text="past the end of argument 0",
    ),
    "shared memory too small": Planted(
        "out of bounds",
        "__shared__ float s[63];\ns[threadIdx.x] = 1.f;  // FAULT\n"
        "__syncthreads();\nx[0] = s[n - 64];",
        "__shared__ float s[64];\ns[threadIdx.x] = 1.f;\n__syncthreads();\nx[0] = s[n - 64];",
        text="past the end of shared memory (252 bytes)",
    ),
    # The address and its bytes have no sum in 64 bits.
    "the last word of all shared addresses": Planted(
        "out of bounds",
        'asm volatile("st.shared.u32 [%0], %1;" :: "l"(60ll - n), "r"(1));  // FAULT',
        '__shared__ int s[1];\nasm volatile("st.shared.u32 [%0], %1;" :: '
        '"l"(__cvta_generic_to_shared(s)), "r"(1));',
        text="past the end of shared memory (0 bytes)",
    ),
    "a misaligned vector": Planted(
        "misaligned",
        "float2 v = *reinterpret_cast<float2*>(x + 1 + threadIdx.x % 2);  // FAULT\n"
        "x[0] = v.x + v.y;",
        "float2 v = *reinterpret_cast<float2*>(x + 2 * (threadIdx.x % 2));\n"
        "if (v.x + v.y > 9) x[0] = v.y;",
        text="no multiple of 8",
    ),
    "shared memory that nobody wrote": Planted(
        "uninitialised read",
        "__shared__ float s[64];\nif (threadIdx.x) s[threadIdx.x] = 1.f;\n__syncthreads();\n"
        "x[threadIdx.x] = s[threadIdx.x];  // FAULT",
        "__shared__ float s[64];\ns[threadIdx.x] = 1.f;\n__syncthreads();\n"
        "x[threadIdx.x] = s[threadIdx.x];",
        text="in shared memory that no thread has written",
    ),
    # The fourth element counts only where it is used: compilers widen loads.
    "a vector that nobody wrote in full": Planted(
        "uninitialised read",
        "__shared__ __align__(16) int s[4];\nif (threadIdx.x < 3) s[threadIdx.x] = 1;\n"
        "__syncthreads();\nint a, b, c, d;\n"
        'asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), '
        '"=r"(d) : "r"((unsigned)__cvta_generic_to_shared(s)));  // FAULT\n'
        "x[threadIdx.x] = a + b + c + d;",
        "__shared__ __align__(16) int s[4];\nif (threadIdx.x < 3) s[threadIdx.x] = 1;\n"
        "__syncthreads();\nint a, b, c, d;\n"
        'asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), '
        '"=r"(d) : "r"((unsigned)__cvta_generic_to_shared(s)));\n'
        "x[threadIdx.x] = a + b + c;",
        text="in shared memory that no thread has written",
    ),
    "a barrier forgotten between a write and a read": Planted(
        "race",
        "__shared__ float s[64];\ns[threadIdx.x] = 0;\n__syncthreads();\n"
        "s[threadIdx.x] = 1.f;  // FAULT\n"
        "x[threadIdx.x] = s[63 - threadIdx.x];",
        "__shared__ float s[64];\ns[threadIdx.x] = 0;\n__syncthreads();\ns[threadIdx.x] = 1.f;\n"
        "__syncthreads();\nx[threadIdx.x] = s[63 - threadIdx.x];",
        text="with no barrier between the two",
    ),
    "a byte of a word that another thread reads": Planted(
        "race",
        "__shared__ int s[64];\ns[threadIdx.x] = 0;\n__syncthreads();\n"
        "reinterpret_cast<char*>(s + threadIdx.x)[1] = 1;  // FAULT\n"
        "x[threadIdx.x] = s[63 - threadIdx.x];",
        "__shared__ int s[64];\ns[threadIdx.x] = 0;\n__syncthreads();\n"
        "reinterpret_cast<char*>(s + threadIdx.x)[1] = 1;\n"
        "__syncthreads();\nx[threadIdx.x] = s[63 - threadIdx.x];",
        text="with no barrier between the two",
    ),
    "a barrier forgotten between a read and the next write": Planted(
        "race",
        "__shared__ float s[64];\nfor (int i = 0; i < 2; ++i) {\n"
        "s[threadIdx.x] = threadIdx.x + i;\n__syncthreads();\n"
        "x[threadIdx.x] += s[63 - threadIdx.x];  // FAULT\n}",
        "__shared__ float s[64];\nfor (int i = 0; i < 2; ++i) {\n__syncthreads();\n"
        "s[threadIdx.x] = threadIdx.x + i;\n__syncthreads();\n"
        "x[threadIdx.x] += s[63 - threadIdx.x];\n}",
        text="with no barrier between the two",
    ),
    "two lanes that write different numbers to one place": Planted(
        "race",
        "__shared__ float s[64];\ns[threadIdx.x / 2] = threadIdx.x;  // FAULT\n__syncthreads();\n"
        "x[threadIdx.x] = s[threadIdx.x / 2];",
        "__shared__ float s[64];\ns[threadIdx.x / 2] = threadIdx.x / 2;\n__syncthreads();\n"
        "x[threadIdx.x] = s[threadIdx.x / 2];",
        text="with no barrier between the two",
    ),
    # What changes nothing is no race among others of its kind, but is a write to those that differ.
    "a write that changes nothing and one that does": Planted(
        "race",
        "__shared__ int s[1];\nif (threadIdx.x == 0) s[0] = 0;\n__syncthreads();\n"
        "s[0] = threadIdx.x / 32;  // FAULT\n__syncthreads();\nx[threadIdx.x] = s[0];",
        "__shared__ int s[1];\nif (threadIdx.x == 0) s[0] = 0;\n__syncthreads();\n"
        "s[0] = threadIdx.x / 64;\n__syncthreads();\nx[threadIdx.x] = s[0];",
        text="of the block writes at line 6, with no barrier between the two",
    ),
    "a warp that counts on its lockstep": Planted(
        "race",
        "__shared__ float s[33];\ns[threadIdx.x] = threadIdx.x;\nif (threadIdx.x == 0) s[32] = 0;\n"
        "__syncwarp();\nfor (int i = 16; i > 0; i /= 2)\n"
        "s[threadIdx.x] += s[threadIdx.x + i & 31];  // FAULT",
        "__shared__ float s[33];\ns[threadIdx.x] = threadIdx.x;\nif (threadIdx.x == 0) s[32] = 0;\n"
        "__syncwarp();\nfor (int i = 16; i > 0; i /= 2) {\nfloat v = s[threadIdx.x + i & 31];\n"
        "__syncwarp();\ns[threadIdx.x] += v;\n__syncwarp();\n}",
        block=32,
        text="with no barrier between the two",
    ),
    "local memory that nobody wrote": Planted(
        "uninitialised read",
        "float a[8];\nfor (int i = 0; i < n / 16; ++i) a[i] = x[i];\n"
        "x[threadIdx.x] = a[threadIdx.x % 8];  // FAULT",
        "float a[8];\nfor (int i = 0; i < n / 8; ++i) a[i] = x[i];\n"
        "x[threadIdx.x] = a[threadIdx.x % 8];",
        text="in local memory that the thread has not written",
    ),
    "a barrier forgotten between threads that share an array": Planted(
        "race",
        "x[threadIdx.x] = threadIdx.x;  // FAULT\nfloat v = x[63 - threadIdx.x];\n"
        "__syncthreads();\nx[threadIdx.x] = v;",
        "x[threadIdx.x] = threadIdx.x;\n__syncthreads();\nfloat v = x[63 - threadIdx.x];\n"
        "__syncthreads();\nx[threadIdx.x] = v;",
        text="of the block reads at line 4, with no barrier between the two",
    ),
    "two blocks that write different numbers to one place": Planted(
        "race",
        "x[threadIdx.x] = blockIdx.x + 1;  // FAULT",
        "x[threadIdx.x] = gridDim.x + 1;",
        grid=2,
        text="of block (0, 0, 0) writes at line 3, with nothing that orders the two blocks",
    ),
    "a stencil in place": Planted(
        "race",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "float right = i + 1 < n ? x[i + 1] : 0;\n__syncthreads();\nx[i] += right + 1;  // FAULT",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "float right = threadIdx.x + 1 < blockDim.x ? x[i + 1] : 0;\n__syncthreads();\n"
        "x[i] += right + 1;",
        block=32,
        grid=2,
        text="of block (0, 0, 0) reads at line 4, with nothing that orders the two blocks",
    ),
    "a fence forgotten before the last block takes over": Planted(
        "race",
        "__shared__ bool last;\nif (threadIdx.x == 0) {\nx[blockIdx.x] = blockIdx.x;\n"
        "last = atomicAdd(&x[8], 1.f) == gridDim.x - 1;\n}\n__syncthreads();\n"
        "if (last && threadIdx.x < gridDim.x) x[16 + threadIdx.x] = x[threadIdx.x];  // FAULT",
        "__shared__ bool last;\nif (threadIdx.x == 0) {\nx[blockIdx.x] = blockIdx.x;\n"
        "__threadfence();\nlast = atomicAdd(&x[8], 1.f) == gridDim.x - 1;\n}\n__syncthreads();\n"
        "if (last && threadIdx.x < gridDim.x) x[16 + threadIdx.x] = x[threadIdx.x];",
        grid=4,
        text="writes at line 5, with nothing that orders the two blocks",
    ),
    "a barrier forgotten before the block says that it is done": Planted(
        "race",
        "__shared__ bool last;\n"
        "if (threadIdx.x >= 32) x[8 * blockIdx.x + threadIdx.x - 32] = blockIdx.x + 1;\n"
        "if (threadIdx.x == 0) {\n__threadfence();\n"
        "last = atomicAdd(&x[48], 1.f) == gridDim.x - 1;\n}\n__syncthreads();\n"
        "if (last && threadIdx.x < 16) x[16 + threadIdx.x] = x[threadIdx.x];  // FAULT",
        "__shared__ bool last;\n"
        "if (threadIdx.x >= 32) x[8 * blockIdx.x + threadIdx.x - 32] = blockIdx.x + 1;\n"
        "__syncthreads();\n"
        "if (threadIdx.x == 0) {\n__threadfence();\n"
        "last = atomicAdd(&x[48], 1.f) == gridDim.x - 1;\n}\n__syncthreads();\n"
        "if (last && threadIdx.x < 16) x[16 + threadIdx.x] = x[threadIdx.x];",
        block=40,
        grid=2,
        text="of block (0, 0, 0) writes at line 4, with nothing that orders the two blocks",
    ),
    "a count that one block clears and all increase": Planted(
        "race",
        "if (blockIdx.x == 0 && threadIdx.x == 0) x[0] = 7;\n"
        "if (threadIdx.x == 0) atomicAdd(x, 1.f);  // FAULT",
        "if (threadIdx.x == 0) atomicAdd(x, 1.f);",
        grid=2,
        text="of block (0, 0, 0) writes at line 3",
    ),
    "a count in shared memory that is cleared too late": Planted(
        "race",
        "__shared__ int count;\nif (threadIdx.x == 0) count = 0;\n"
        "atomicAdd(&count, 1);  // FAULT\n__syncthreads();\nx[0] = count;",
        "__shared__ int count;\nif (threadIdx.x == 0) count = 0;\n__syncthreads();\n"
        "atomicAdd(&count, 1);\n__syncthreads();\nx[0] = count;",
        text="writes at line 4",
    ),
    "a lock that is let go without a fence": Planted(
        "race",
        "if (threadIdx.x == 0) {\nint* lock = reinterpret_cast<int*>(x + 1);\n"
        "while (atomicCAS(lock, 0, 1) != 0) {}\nx[0] += 1;  // FAULT\natomicExch(lock, 0);\n}",
        "if (threadIdx.x == 0) {\nint* lock = reinterpret_cast<int*>(x + 1);\n"
        "while (atomicCAS(lock, 0, 1) != 0) {}\nx[0] += 1;\n__threadfence();\n"
        "atomicExch(lock, 0);\n}",
        grid=3,
        text="with nothing that orders the two blocks",
    ),
    "a table that is too short": Planted(
        "out of bounds",
        "x[0] = table[n / 16];  // FAULT",
        "x[0] = table[n / 32];",
        block=1,
        text="just past the end of the variable table",
    ),
    "a recursion without an end": Planted(
        "out of bounds",
        "x[0] = deep(x, n);",
        "x[0] = deep(x, 3 * n / 4 - 45);",
        block=1,
        text="the thread's stack of 512 KB is full",
    ),
    "an atomic at no multiple of its size": Planted(
        "misaligned",
        "atomicAdd(reinterpret_cast<unsigned long long*>(x + n % 3), 1ull);  // FAULT",
        "atomicAdd(reinterpret_cast<unsigned long long*>(x + n % 2), 1ull);",
        text="no multiple of 8",
    ),
    "a barrier in one branch of a warp": Planted(
        "barrier",
        "if (threadIdx.x % 2 == n % 2)\n  __syncthreads();  // FAULT\nx[0] = 1.f;",
        "__syncthreads();\nx[0] = 1.f;",
        text="it stands in divergent code",
    ),
    "a barrier behind an early return": Planted(
        "barrier",
        "if (threadIdx.x >= n - 32) return;\n__syncthreads();  // FAULT\nx[0] = 1.f;",
        "if (threadIdx.x >= n) return;\n__syncthreads();\nx[0] = 1.f;",
        text="not all threads come to",
    ),
    "lanes that wait for others": Planted(
        "deadlock",
        "if (threadIdx.x % 2 == n % 2)\n  x[0] = __shfl_sync(~0u, x[1], 0);  // FAULT",
        "x[0] = __shfl_sync(~0u, x[1], 0);",
        block=32,
        text="16 of warp 0 wait",
    ),
    "a lane that is not in its own mask": Planted(
        "invalid operation",
        "x[0] = __shfl_sync(0xffff, x[1], 0);  // FAULT",
        "if (threadIdx.x < 16) x[0] = __shfl_sync(0xffff, x[1], 0);",
        block=32,
        text="lane 16 is not in the mask",
    ),
    "a barrier for too few": Planted(
        "deadlock",
        'if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");  // FAULT\nx[0] = 1.f;',
        'asm volatile("bar.sync 1, 64;");\nx[0] = 1.f;',
        text="wait at barrier 1",
    ),
    "an assertion": Planted(
        "assertion",
        "assert(n < 64);  // FAULT\nx[0] = 1.f;",
        "assert(n <= 64);\nx[0] = 1.f;",
        text="assertion failed: n < 64",
    ),
    "a trap": Planted(
        "trap", "if (n == 64)\n  __trap();  // FAULT", "if (n == 63)\n  __trap();", text="trapped"
    ),
    "an endless loop": Planted(
        "endless loop",
        "volatile float* v = x;\nwhile (v[0] == 0.f) {}",
        "volatile float* v = x;\nv[0] = 1.f;\nwhile (v[0] == 0.f) {}",
        text="still running",
    ),
}


# In one line, so that the body begins at the third.
BEFORE = (
    "__constant__ float table[4] = {1, 2, 3, 4}; "
    "__device__ __noinline__ float deep(float* x, int n) { volatile float kept[4096]; "
    "for (int i = 0; i < 4096; ++i) kept[i] = x[i % 64]; "
    "return n <= 3 ? kept[n] : deep(x, n - 1) + kept[n % 64]; }"
)


def source_of(body: str) -> str:
    return f"{BEFORE}\n__global__ void k(float* x, int n) {{\n{body}\n}}"


def kernel(body: str) -> cudademo.Kernel:
    return cudademo.kernel(source_of(body), "k")


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_at_its_line(name: str) -> None:
    planted = PLANTED[name]
    limited = cudademo.use_emulator(cudademo._core.emulating(), budget=1 << 20)
    with limited, pytest.raises(EmulatorError) as caught:
        kernel(planted.faulty)[planted.grid, planted.block](torch.zeros(64), 64)
    error = caught.value
    assert error.kind == planted.kind
    assert planted.text in str(error)
    assert error.kernel == "k"
    if "FAULT" in planted.faulty:  # not of a loop, or a recursion, which is of many lines
        assert error.line == marked_line(source_of(planted.faulty))
        assert "FAULT" in str(error)


@pytest.mark.parametrize("name", PLANTED)
def test_the_mended_kernel_runs(name: str) -> None:
    planted = PLANTED[name]
    kernel(planted.mended)[planted.grid, planted.block](torch.zeros(64), 64)


NEIGHBOURS = """
template <class T> __device__ __noinline__ void put(T* to, T value) { *to = value; }

template <class T> __device__ void by_store(T* s) { s[threadIdx.x] = threadIdx.x; }
template <class T> __device__ void by_call(T* s) { put<T>(s + threadIdx.x, threadIdx.x); }
#ifdef MATRIX
#include <mma.h>
template <class T> __device__ void by_matrix(T* s) {
  using namespace nvcuda::wmma;
  fragment<accumulator, 16, 16, 16, T> all;
  fill_fragment(all, T(2));
  store_matrix_sync(s, all, 16, mem_col_major);
}
#endif

template <class T, void (*write)(T*)> __global__ void k(int* x) {
  __shared__ __align__(16) int s[128];
  for (int i = threadIdx.x; i < 128; i += 32) s[i] = 0;
  __syncthreads();
  write(reinterpret_cast<T*>(s));
  __syncthreads();
  for (int i = threadIdx.x; i < 128; i += 32) x[i] = s[i];
}
"""


@pytest.mark.parametrize(
    ("element", "way"),
    [
        *[(element, way) for element in ("char", "short") for way in ("by_store", "by_call")],
        ("__half", "by_matrix"),
    ],
)
def test_threads_that_write_parts_of_one_word_do_not_race(
    element: str, way: str, request: pytest.FixtureRequest
) -> None:
    defines = {}
    if way == "by_matrix":
        request.getfixturevalue("wmma_header")
        defines = {"MATRIX": 1}
    x = torch.zeros(128, dtype=torch.int32)
    with cudademo.use_emulator(True, capability=(8, 0)):
        cudademo.kernel(NEIGHBOURS, f"k<{element}, {way}<{element}>>", defines=defines)[1, 32](x)
    if way == "by_matrix":
        assert (x.view(torch.float16) == 2).all()
    else:
        parts = x.view(torch.int8 if element == "char" else torch.int16)
        assert torch.equal(parts[:32], torch.arange(32).to(parts.dtype))
        assert not parts[32:].any()


def test_blocks_that_write_the_same_at_one_time_do_not_race() -> None:
    x = torch.zeros(64)
    body = "for (int i = threadIdx.x; i < n; i += 32) x[i] = 3.f;"
    same = kernel(body)
    for _ in range(200):
        x.zero_()
        same[8, 32](x, 64)
    assert (x == 3).all()


def test_a_fault_names_block_thread_address_and_size() -> None:
    x = torch.zeros(70)
    where = "if (blockIdx.x == 1 && threadIdx.x == 6) x[blockIdx.x * 64 + threadIdx.x] = 1.f;"
    with pytest.raises(EmulatorError) as caught:
        kernel(where)[2, 64](x, 64)
    error = caught.value
    assert (error.block, error.thread) == ((1, 0, 0), (6, 0, 0))
    assert (error.address, error.size) == (x.data_ptr() + 280, 4)
    assert error.array == "argument 0, float32 of shape (70,)"


def test_a_view_ends_where_it_ends_not_where_its_storage_does() -> None:
    x = torch.zeros(64)
    with pytest.raises(EmulatorError, match=r"argument 0, float32 of shape \(32,\)"):
        kernel("x[n] = 1.f;")[1, 1](x[:32], 32)
    assert not x.any()


def keep_and_use() -> tuple[Any, Any]:
    """A kernel that keeps a pointer, and one that reads a word through it, at line 3."""
    module = cudademo.module(
        "__device__ float* kept;\n"
        'extern "C" __global__ void keep(float* x) { kept = x; }\n'
        'extern "C" __global__ void use(float* y, int i) { *y = kept[i]; }',
        kernels=["keep", "use"],
    )
    return module.kernel("keep")[1, 1], module.kernel("use")[1, 1]


def test_a_use_of_a_tensor_that_is_gone_is_told_from_a_step_out_of_bounds() -> None:
    keep, use = keep_and_use()
    x, y = torch.ones(64), torch.zeros(1)
    address = x.data_ptr() + 12
    keep(x)
    del x
    with pytest.raises(EmulatorError) as caught:
        use(y, 3)
    error = caught.value
    assert (error.kind, error.line, error.address) == ("use after free", 3, address)
    assert error.array == "argument 0, float32 of shape (64,), of an earlier launch of keep"
    assert f"in {error.array}, which is gone" in str(error)


def test_a_tensor_that_a_view_keeps_alive_is_not_gone() -> None:
    keep, use = keep_and_use()
    x, y = torch.ones(64), torch.zeros(1)
    keep(x)
    view = x[60:]
    del x
    with pytest.raises(EmulatorError) as caught:
        use(y, 3)
    assert caught.value.kind == "out of bounds"
    assert "argument 0, float32 of shape (64,), of an earlier launch of keep" in str(caught.value)
    del view
    with pytest.raises(EmulatorError, match="which is gone"):
        use(y, 3)


def test_a_live_tensor_that_a_launch_was_not_given_is_named_with_the_way_to_give_it() -> None:
    keep, use = keep_and_use()
    x, y = torch.arange(64.0), torch.zeros(1)
    keep(x)
    with pytest.raises(EmulatorError) as caught:
        use(y, 3)
    assert caught.value.kind == "out of bounds"
    assert "of an earlier launch of keep; this launch was not given it" in str(caught.value)
    assert "use_emulator(reachable=" in str(caught.value)
    with cudademo.use_emulator(reachable=[x]):
        use(y, 3)
    assert y.item() == 3
    with pytest.raises(EmulatorError, match="not given it"):
        use(y, 3)


def test_the_latest_owner_of_memory_counts() -> None:
    numpy = pytest.importorskip("numpy")
    keep, use = keep_and_use()
    memory, y = numpy.ones(64, numpy.float32), torch.zeros(1)
    keep(torch.from_numpy(memory))  # that tensor is gone, its memory is not
    keep(memory)
    with pytest.raises(EmulatorError, match="this launch was not given it") as caught:
        use(y, 3)
    assert caught.value.kind == "out of bounds"


def test_a_step_out_of_a_view_into_what_an_earlier_launch_was_given_is_out_of_bounds() -> None:
    x = torch.zeros(64)
    kernel("x[n - 1] = 1.f;")[1, 1](x, 64)
    with pytest.raises(EmulatorError, match=r"just past the end of argument 0, .* \(32,\)"):
        kernel("x[n] = 1.f;")[1, 1](x[:32], 32)


SUM_OF_ARRAYS = """
extern "C" __global__ void total(const long long* arrays, int count, float* out) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += reinterpret_cast<const float*>(arrays[i])[threadIdx.x];
  out[threadIdx.x] = sum;
}"""


def test_a_kernel_reaches_tensors_through_a_tensor_of_their_addresses() -> None:
    given = [torch.full((1 << 16,), float(i)) for i in range(5)]
    addresses = torch.tensor([x.data_ptr() for x in given])
    out = torch.zeros(32)
    total = cudademo.kernel(SUM_OF_ARRAYS, "total")[1, 32]
    with pytest.raises(EmulatorError, match=r"use_emulator\(reachable="):
        total(addresses, 5, out)
    with cudademo.use_emulator(reachable=given):
        total(addresses, 5, out)
    assert out.tolist() == [10.0] * 32


def test_a_step_out_of_a_reachable_array_is_found() -> None:
    keep, use = keep_and_use()
    x, y = torch.ones(64), torch.zeros(1)
    with cudademo.use_emulator(reachable=[y, x]):
        keep(x)
        with pytest.raises(EmulatorError, match="just past the end of reachable array 1, float32"):
            use(y, 64)


def test_only_arrays_in_the_memory_of_the_cpu_are_reachable() -> None:
    with pytest.raises(TypeError, match=r"reachable\[1\]: an array in the CPU's memory, not int 3"):
        cudademo.use_emulator(reachable=[torch.ones(1), 3])
    assert cudademo._core.reachable() == ()


def test_without_checks_arrays_of_earlier_launches_are_not_known() -> None:
    keep, use = keep_and_use()
    x, y = torch.ones(1 << 20), torch.zeros(1)
    with cudademo.use_emulator(cudademo._core.emulating(), checks=False):
        keep(x)
        del x
        with pytest.raises(EmulatorError) as caught:
            use(y, 1 << 19)
    assert caught.value.kind == "out of bounds"
    assert "earlier launch" not in str(caught.value)


def test_a_read_only_array_is_not_written_through_a_cast() -> None:
    numpy = pytest.importorskip("numpy")
    x = numpy.zeros(4, numpy.float32)
    x.flags.writeable = False
    k = cudademo.kernel("__global__ void k(const float* x) { *const_cast<float*>(x) = 1; }", "k")
    with pytest.raises(EmulatorError, match="read-only"):
        k[1, 1](x)


def test_the_next_launch_is_well_after_a_fault() -> None:
    x = torch.zeros(64)
    k = kernel("x[threadIdx.x] = n;")
    with pytest.raises(EmulatorError):
        k[1, 65](x, 3)
    k[1, 64](x, 5)
    assert (x == 5).all()


def test_without_checks_what_nobody_wrote_reads_as_something() -> None:
    body = "__shared__ float s[64];\nx[threadIdx.x] = s[threadIdx.x] * 0;"
    on = cudademo._core.emulating()
    with cudademo.use_emulator(on, checks=False):
        kernel(body)[1, 64](torch.zeros(64), 64)


def test_an_instruction_that_is_not_there_is_named() -> None:
    body = 'asm volatile("wgmma.fence.sync.aligned;");'
    with pytest.raises(EmulatorError, match=r"not emulated: wgmma.fence.sync.aligned") as caught:
        kernel(body)[1, 32](torch.zeros(1), 1)
    assert (caught.value.kind, caught.value.line) == ("unsupported", 3)


def test_what_the_options_were_before_comes_back(capfd: Any) -> None:
    before = cudademo._core.emulator_options()
    with cudademo.use_emulator(seed=7, capability=(9, 0)):
        assert cudademo._core.emulator_options()[1:] == (7, 1 << 28, 0, (9, 0))
    assert cudademo._core.emulator_options() == before
