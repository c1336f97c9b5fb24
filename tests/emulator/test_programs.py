"""Whole programs on the emulator, against torch: calls, locks, output, order, the operators."""

from __future__ import annotations

import re

import pytest

import cudademo

torch = pytest.importorskip("torch")


def test_functions_call_themselves_and_are_called_through_pointers():
    source = """
    __device__ __noinline__ int fibonacci(int n) {
      return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
    }
    __device__ __noinline__ int square(int n) { return n * n; }
    __device__ __noinline__ int negate(int n) { return -n; }
    __device__ int (*functions[3])(int) = {fibonacci, square, negate};
    __global__ void k(int* out) { out[threadIdx.x] = functions[threadIdx.x % 3](threadIdx.x); }
    """
    out = torch.zeros(12, dtype=torch.int32)
    cudademo.kernel(source, "k")[1, 12](out)
    assert out.tolist() == [0, 1, -2, 2, 16, -5, 8, 49, -8, 34, 100, -11]


def test_lanes_that_hold_a_lock_in_turn_all_get_it():
    source = """
    __global__ void k(int* lock, int* count) {
      bool done = false;
      while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
          *count += 1;
          __threadfence();
          atomicExch(lock, 0);
          done = true;
        }
      }
    }"""
    lock, count = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    cudademo.kernel(source, "k")[3, 64](lock, count)
    assert count.item() == 192


def test_printf_prints_in_the_order_of_threads(capfd):
    source = r"""
    #include <cstdio>
    __global__ void k(double x) {
      printf("%d/%u %s %5.2f %%|%lld\n", threadIdx.x, blockDim.x, "text", x, 1ll << 40);
    }"""
    cudademo.kernel(source, "k")
    with cudademo.use_emulator():
        cudademo.kernel(source, "k")[1, 2](2.5)
    assert capfd.readouterr().out == "".join(
        f"{i}/2 text  2.50 %|1099511627776\n" for i in range(2)
    )


def test_a_switch_and_constants_and_local_arrays():
    source = """
    __constant__ float factors[4] = {1.f, 10.f, 100.f, 1000.f};
    __global__ void k(const int* which, float* out, int n) {
      float values[8];
      for (int i = 0; i < 8; ++i) values[i] = i * factors[i % n];
      float y = 0;
      switch (which[threadIdx.x]) {
        case 0: y = values[1]; break;
        case 1: y = values[threadIdx.x % 8]; break;
        case 2: y = sinf(threadIdx.x); break;
        case 3: y = -1; break;
        case 4: y = expf(-values[2]); break;
        case 5: y = values[7] * 2; break;
      }
      out[threadIdx.x] = y;
    }"""
    which = torch.arange(64, dtype=torch.int32) % 7
    out = torch.zeros(64)
    cudademo.kernel(source, "k")[1, 64](which, out, 4)
    values = [i * [1.0, 10.0, 100.0, 1000.0][i % 4] for i in range(8)]
    lane = torch.arange(64)
    choices = torch.stack([
        torch.full((64,), values[1]), torch.tensor(values)[lane % 8], torch.sin(lane.float()),
        torch.full((64,), -1.0), torch.exp(torch.full((64,), -values[2])),
        torch.full((64,), values[7] * 2), torch.zeros(64),
    ])  # fmt: skip
    torch.testing.assert_close(out, choices[which.long(), lane])


def test_the_same_launch_gives_the_same_bits_and_a_seed_another_order():
    source = """
    __global__ void k(float* total, const float* x) {
      atomicAdd(total, x[blockIdx.x * blockDim.x + threadIdx.x]);
    }"""
    x = torch.randn(8 * 64, generator=torch.Generator().manual_seed(1)) * 1e3

    def total(seed: int) -> float:
        out = torch.zeros(1)
        with cudademo.use_emulator(seed=seed):
            cudademo.kernel(source, "k")[8, 64](out, x)
        return out.item()

    assert total(0) == total(0)
    assert total(3) == total(3)
    assert len({total(seed) for seed in range(6)}) > 1
    assert total(5) == pytest.approx(x.double().sum().item(), rel=1e-3)


def test_instructions_are_counted_once_for_each_thread():
    source = "__global__ void k(int* x) { x[blockIdx.x * blockDim.x + threadIdx.x] += blockDim.x; }"
    kernel = cudademo.kernel(source, "k")
    with cudademo.use_emulator() as emulator:
        body = kernel.ptx().split("{", 1)[1]
        written = re.findall(r"^\s+[a-z][^;]*;", body, re.MULTILINE)  # not the declarations' dots
        kernel[3, 40](torch.zeros(120, dtype=torch.int32))
    assert emulator.executed == len(written) * 120


def test_dynamic_shared_memory_beyond_48_kilobytes():
    source = """
    __global__ void k(int* out, int n) {
      extern __shared__ int shared[];
      for (int i = threadIdx.x; i < n; i += blockDim.x) shared[i] = i;
      __syncthreads();
      out[threadIdx.x] = shared[n - 1 - threadIdx.x];
    }"""
    n = 25_000
    out = torch.zeros(64, dtype=torch.int32)
    cudademo.kernel(source, "k")[1, 64, 4 * n](out, n)
    assert out.tolist() == list(range(n - 1, n - 65, -1))
    with pytest.raises(cudademo.LaunchError, match="bytes of dynamic shared memory"):
        cudademo.kernel(source, "k")[1, 64, 300_000](out, n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.complex64])
@pytest.mark.parametrize("shape", [(0,), (1,), (1000,), (3, 4, 5), (70_001,)])
def test_the_operators_agree_with_torch(dtype, shape):
    from cudademo import sum_double_op, sum_single_op

    a = torch.randn(shape).mul(10).to(dtype)
    b = torch.randn(shape).mul(10).to(dtype)
    with cudademo.use_emulator():
        torch.testing.assert_close(sum_double_op(a, b), a + b)
        torch.testing.assert_close(sum_double_op(a.flip(0), b[..., :1]), a.flip(0) + b[..., :1])
        wide = a.to(torch.complex128 if dtype.is_complex else torch.float64).sum()
        wanted = torch.int64 if dtype is torch.int8 else dtype
        torch.testing.assert_close(sum_single_op(a)[0], wide.to(wanted))
        torch.testing.assert_close(sum_single_op(a.expand(2, *shape))[0], (wide * 2).to(wanted))
        torch.testing.assert_close(sum_single_op(a.movedim(0, -1))[0], wide.to(wanted))


def test_the_operators_have_their_gradients():
    from cudademo import sum_double_op, sum_single_op

    a, b = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    with cudademo.use_emulator():
        torch.autograd.gradcheck(sum_double_op, (a, b))
        torch.autograd.gradcheck(sum_single_op, (a,))
