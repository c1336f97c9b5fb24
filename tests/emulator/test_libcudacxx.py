"""cuda::atomic and cuda::std on the emulator."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from instantiations import Instantiations  # noqa: E402

ATOMICS = r"""
#include <cuda/atomic>
#include <cuda/std/type_traits>

// Every thread of every block adds, and finds what it needs in the values that it saw.
template <class T, cuda::thread_scope Scope, int Order>
__global__ void count(T* total, T* largest, T* bits, T* swapped, int* faults) {
  constexpr auto order = static_cast<cuda::memory_order>(Order);
  const T one = static_cast<T>(blockIdx.x * blockDim.x + threadIdx.x + 1);
  cuda::atomic_ref<T, Scope> sum(*total), most(*largest), last(*swapped);
  const T before = sum.fetch_add(one, order);
  if (before < T(0)) atomicAdd(faults, 1);
  if constexpr (cuda::std::is_integral_v<T>) {
    cuda::atomic_ref<T, Scope> mask(*bits);
    most.fetch_max(one, order);
    mask.fetch_or(one, order);
    mask.fetch_xor(T(1) << 20, order);
    mask.fetch_sub(T(0), order);
  } else {
    most.fetch_max(one, order);
  }
  // A loop of compare and exchange: adds twice each.
  T seen = last.load(cuda::memory_order_relaxed);
  while (!last.compare_exchange_weak(seen, seen + 2 * one, order, cuda::memory_order_relaxed)) {}
}

template <class T>
__global__ void hand_over(T* out) {
  __shared__ cuda::atomic<int, cuda::thread_scope_block> flag;
  __shared__ T message;
  if (threadIdx.x == 0) new (&flag) cuda::atomic<int, cuda::thread_scope_block>(0);
  __syncthreads();
  if (threadIdx.x == 32) {
    message = T(42);
    flag.store(1, cuda::memory_order_release);
  } else if (threadIdx.x == 0) {
    while (flag.load(cuda::memory_order_acquire) == 0) {}
    *out = message;
  }
}

__device__ cuda::atomic<unsigned, cuda::thread_scope_device> ticket;

extern "C" __global__ void last_block(const int* x, int* partial, int* total) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = x[blockIdx.x] * 3;
    is_last = ticket.fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1;
    if (is_last) {
      int sum = 0;
      for (unsigned i = 0; i < gridDim.x; ++i) sum += partial[i];
      *total = sum;
      ticket.store(0);
    }
  }
}
"""
SCOPES = ["block", "device", "system"]
ORDERS = {0: "relaxed", 2: "acquire", 3: "release", 4: "acq_rel", 5: "seq_cst"}
COUNTED = {torch.int32: "int", torch.int64: "long long", torch.float32: "float"}
COUNTED[torch.float64] = "double"

STANDARD = r"""
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/complex>
#include <cuda/std/limits>
#include <cuda/std/mdspan>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/variant>

template <class T>
__global__ void complex_numbers(const T* x, T* out) {
  using C = cuda::std::complex<T>;
  const int i = threadIdx.x;
  const C a(x[4 * i], x[4 * i + 1]), b(x[4 * i + 2], x[4 * i + 3]);
  const C made[] = {a * b, a / b, cuda::std::exp(a), cuda::std::sqrt(b), cuda::std::conj(a) - b,
                    C(cuda::std::abs(a), cuda::std::arg(b))};
  for (int k = 0; k < 6; ++k) {
    out[12 * i + 2 * k] = made[k].real();
    out[12 * i + 2 * k + 1] = made[k].imag();
  }
}

template <class T>
__global__ void bits(const T* x, int* out) {
  const T v = x[threadIdx.x];
  int* row = out + 8 * threadIdx.x;
  row[0] = cuda::std::popcount(v), row[1] = cuda::std::countl_zero(v);
  row[2] = cuda::std::countr_zero(v), row[3] = cuda::std::countl_one(v);
  row[4] = cuda::std::has_single_bit(v), row[5] = cuda::std::bit_width(v);
  row[6] = cuda::std::rotl(v, 5) == T(v << 5 | v >> (cuda::std::numeric_limits<T>::digits - 5));
  row[7] = cuda::std::bit_floor(v) == (v ? T(1) << (cuda::std::bit_width(v) - 1) : 0);
}

__device__ cuda::std::optional<int> halved(int n) {
  if (n % 2 != 0) return cuda::std::nullopt;
  return n / 2;
}

struct Twice {
  template <class T>
  __device__ int operator()(T value) const { return static_cast<int>(value * 2); }
};

extern "C" __global__ void containers(int* x, int n, int* out) {
  const int i = threadIdx.x;
  cuda::std::array<int, 5> table{3, 1, 4, 1, 5};
  table[i % 5] += i;
  int sum = 0;
  for (int value : table) sum += value;
  cuda::std::span<int> all(x, n);
  const auto some = all.subspan(i, 3);
  cuda::std::variant<int, float> either = i;
  if (i % 3 == 0) either = 0.5f * i;
  const int visited = cuda::std::visit(Twice(), either);
  const auto [first, second] = cuda::std::make_tuple(i, some.size());
  cuda::std::mdspan<int, cuda::std::extents<int, 4, cuda::std::dynamic_extent>> grid(x, n / 4);
  int* row = out + 6 * i;
  row[0] = sum, row[1] = some.front() + some.back(), row[2] = halved(i).value_or(-1);
  row[3] = visited, row[4] = first + static_cast<int>(second), row[5] = grid(i % 4, i % (n / 4));
}
"""
kernels = Instantiations()
kernels.add(
    ATOMICS,
    [
        f"count<{cpp}, cuda::thread_scope_{scope}, {order}>"
        for cpp, scope, order in itertools.product(COUNTED.values(), SCOPES, ORDERS)
    ]
    + [f"hand_over<{cpp}>" for cpp in ("int", "double")]
    + ["last_block"],
)
kernels.add(
    STANDARD,
    [f"complex_numbers<{cpp}>" for cpp in ("float", "double")]
    + [f"bits<{cpp}>" for cpp in ("unsigned", "unsigned long long", "unsigned short")]
    + ["containers"],
)


@pytest.mark.parametrize("order", ORDERS, ids=ORDERS.values())
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("dtype", COUNTED)
def test_atomics_lose_nothing(dtype, scope, order):
    blocks, threads = 3, 40
    total, largest, bits, swapped = (torch.zeros(1, dtype=dtype) for _ in range(4))
    faults = torch.zeros(1, dtype=torch.int32)
    name = f"count<{COUNTED[dtype]}, cuda::thread_scope_{scope}, {order}>"
    kernels[name][blocks, threads](total, largest, bits, swapped, faults)
    n = blocks * threads
    assert (faults.item(), total.item(), largest.item()) == (0, n * (n + 1) / 2, n)
    assert swapped.item() == n * (n + 1)
    assert bits.item() == (0 if dtype.is_floating_point else 127)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float64])
def test_a_release_hands_over_to_an_acquire(dtype):
    out = torch.zeros(1, dtype=dtype)
    kernels[f"hand_over<{COUNTED[dtype]}>"][1, 64](out)
    assert out.item() == 42


def test_the_last_block_finds_what_all_others_wrote():
    x = torch.arange(9, dtype=torch.int32)
    for _ in range(2):
        partial, total = torch.zeros_like(x), torch.zeros(1, dtype=torch.int32)
        kernels["last_block"][9, 32](x, partial, total)
        assert total.item() == 3 * x.sum().item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_complex_numbers(dtype):
    x = torch.randn(32, 4, dtype=dtype, generator=torch.Generator().manual_seed(2))
    out = torch.zeros(32, 6, 2, dtype=dtype)
    kernels[f"complex_numbers<{COUNTED[dtype]}>"][1, 32](x, out)
    a, b = torch.view_as_complex(x[:, :2].double()), torch.view_as_complex(x[:, 2:].double())
    right = [a * b, a / b, a.exp(), b.sqrt(), a.conj() - b, torch.complex(a.abs(), b.angle())]
    wanted = torch.view_as_real(torch.stack(right, 1)).to(dtype)
    torch.testing.assert_close(
        out, wanted, rtol=1e-5 if dtype is torch.float32 else 1e-12, atol=1e-6
    )


@pytest.mark.parametrize(
    ("cpp", "width"), [("unsigned short", 16), ("unsigned", 32), ("unsigned long long", 64)]
)
def test_bits(cpp, width):
    numbers = [0, 1, 2, 3, (1 << width) - 1, 1 << (width - 1), 0x1234 << (width - 16), 96]
    signed = [n - (1 << width) if n >> (width - 1) else n for n in numbers]
    dtypes = {16: (torch.int16, torch.uint16), 32: (torch.int32, torch.uint32)}
    stored, seen = dtypes.get(width, (torch.int64, torch.uint64))
    out = torch.zeros(8, 8, dtype=torch.int32)
    kernels[f"bits<{cpp}>"][1, 8](torch.tensor(signed, dtype=stored).view(seen), out)
    for n, row in zip(numbers, out.tolist(), strict=True):
        text = f"{n:0{width}b}"
        ends = [len(text) - len(text.lstrip("0")), len(text) - len(text.rstrip("0"))]
        ones = len(text) - len(text.lstrip("1"))
        single = int(text.count("1") == 1)
        assert row == [text.count("1"), *ends, ones, single, n.bit_length(), 1, 1]


def test_arrays_spans_optionals_variants_and_tuples():
    n = 32
    x = torch.arange(n, dtype=torch.int32) * 10
    out = torch.zeros(16, 6, dtype=torch.int32)
    kernels["containers"][1, 16](x, n, out)
    for i, row in enumerate(out.tolist()):
        half = -1 if i % 2 else i // 2
        visited = i if i % 3 == 0 else 2 * i
        wanted = [14 + i, x[i] + x[i + 2], half, visited, i + 3, x[i % 4 * (n // 4) + i % (n // 4)]]
        assert row == [int(value) for value in wanted]
