"""Copies and barriers that do not block: cp.async, mbarrier, and what CUDA C++ builds of them."""

from __future__ import annotations

import pytest

import cudademo

torch = pytest.importorskip("torch")

from planted import Planted, assert_is_found, run  # noqa: E402

CP = """
#include <cuda_pipeline.h>
__device__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

template <int Bytes>
__global__ void copy(const unsigned char* x, unsigned char* y, int source_bytes, int ignore) {
  __shared__ alignas(16) unsigned char s[64 * Bytes];
  const unsigned char* from = x + threadIdx.x * Bytes;
  const unsigned to = place(s + threadIdx.x * Bytes);
  if (source_bytes < 0)
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %3, 0; "
                 "cp.async.ca.shared.global [%0], [%1], %2, p; }"
                 :: "r"(to), "l"(from), "n"(Bytes), "r"(ignore));
  else if (Bytes == 16 && source_bytes == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" :: "r"(to), "l"(from));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(to), "l"(from), "n"(Bytes), "r"(source_bytes));
  asm volatile("cp.async.wait_all;");
  __syncthreads();
  for (int i = threadIdx.x; i < 64 * Bytes; i += 64) y[i] = s[i];
}

// y[i] = 2 x[i], through `Stages` buffers.
template <int Stages>
__global__ void stages(const float* x, float* y, int tiles) {
  __shared__ float s[Stages][64];
  const auto fetch = [&](int tile) {
    if (tile < tiles) {
      __pipeline_memcpy_async(&s[tile % Stages][threadIdx.x], x + tile * 64 + threadIdx.x, 4);
    }
    __pipeline_commit();
  };
  for (int i = 0; i < Stages - 1; ++i) fetch(i);
  for (int tile = 0; tile < tiles; ++tile) {
    fetch(tile + Stages - 1);
    __pipeline_wait_prior(Stages - 1);
    __syncthreads();
    y[tile * 64 + 63 - threadIdx.x] = 2 * s[tile % Stages][63 - threadIdx.x];
    __syncthreads();
  }
}
"""


@pytest.mark.parametrize("size", [4, 8, 16])
def test_cp_async_copies_and_fills_with_zeros(size: int) -> None:
    x = torch.randint(1, 256, (64, size), dtype=torch.uint8)
    kernel = cudademo.kernel(CP, f"copy<{size}>")
    for count in (size, size - 1, 3, 0):
        y = torch.zeros_like(x)
        kernel[1, 64](x, y, count, 0)
        assert torch.equal(y[:, :count], x[:, :count])
        assert not y[:, count:].any()
    for ignore in (0, 1):
        y = torch.zeros_like(x)
        kernel[1, 64](x, y, -1, ignore)
        assert torch.equal(y, torch.zeros_like(x) if ignore else x)


def test_cp_async_may_read_less_than_it_writes_at_the_end() -> None:
    x = torch.randint(1, 256, (64 * 16 - 9,), dtype=torch.uint8)
    y = torch.zeros(64 * 16, dtype=torch.uint8)
    kernel = cudademo.kernel(CP, "copy<16>")
    kernel[1, 64](x, y, 7, 0)
    assert torch.equal(
        y.view(64, 16)[:, :7].flatten()[: 64 * 7],
        torch.cat([x, x[:9]]).view(64, 16)[:, :7].flatten(),
    )
    with pytest.raises(cudademo.EmulatorError, match="1 byte over the end of argument 0"):
        kernel[1, 64](x, y, 8, 0)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_groups_of_copies_are_waited_for_in_order(stages: int) -> None:
    x = torch.randn(10 * 64)
    y = torch.zeros_like(x)
    cudademo.kernel(CP, f"stages<{stages}>")[1, 64](x, y, 10)
    assert torch.equal(y, 2 * x)


CPP = """
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
using barrier = cuda::barrier<cuda::thread_scope_block>;

// y[i] = x[255 - i] - i, in as many phases of one barrier as there are blocks of 64.
__global__ void arrive_and_wait(const float* x, float* y) {
  __shared__ barrier b;
  __shared__ float s[64];
  if (threadIdx.x == 0) init(&b, blockDim.x);
  __syncthreads();
  for (int i = 0; i < 256; i += 64) {
    s[threadIdx.x] = x[i + threadIdx.x];
    b.arrive_and_wait();
    y[255 - i - threadIdx.x] = s[63 - (63 - threadIdx.x)] - (255 - i - (int)threadIdx.x);
    b.wait(b.arrive());
  }
}

// Warp 0 produces, the others consume: two buffers, a barrier for each being full and being empty.
__global__ void producer_and_consumers(const float* x, float* y, int tiles) {
  __shared__ barrier full[2], empty[2];
  __shared__ float s[2][32];
  if (threadIdx.x < 2) {
    init(full + threadIdx.x, blockDim.x);
    init(empty + threadIdx.x, blockDim.x);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int i = 0; i < tiles; ++i) {
      empty[i % 2].arrive_and_wait();
      s[i % 2][threadIdx.x] = x[i * 32 + threadIdx.x];
      (void)full[i % 2].arrive();
    }
  } else {
    (void)empty[0].arrive();
    (void)empty[1].arrive();
    for (int i = 0; i < tiles; ++i) {
      full[i % 2].arrive_and_wait();
      if (threadIdx.x / 32 == 1 + i % (blockDim.x / 32 - 1)) {
        y[i * 32 + threadIdx.x % 32] = s[i % 2][31 - threadIdx.x % 32];
      }
      (void)empty[i % 2].arrive();
    }
  }
}

__global__ void drop(float* y) {
  __shared__ barrier b;
  __shared__ float s[64];
  if (threadIdx.x == 0) init(&b, blockDim.x);
  __syncthreads();
  if (threadIdx.x >= 32) {
    s[threadIdx.x] = threadIdx.x;
    b.arrive_and_drop();
    return;
  }
  b.arrive_and_wait();
  s[threadIdx.x] = s[threadIdx.x + 32];
  b.arrive_and_wait();
  y[threadIdx.x] = s[31 - threadIdx.x];
}

__global__ void barrier_copy(const float* x, float* y) {
  __shared__ barrier b;
  __shared__ alignas(16) float s[256];
  auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&b, blockDim.x);
  block.sync();
  cuda::memcpy_async(block, s, x, sizeof(float) * 256, b);
  b.arrive_and_wait();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) y[i] = s[255 - i];
}

__global__ void thread_copy(const float* x, float* y) {
  __shared__ barrier b;
  __shared__ float s[64];
  if (threadIdx.x == 0) init(&b, blockDim.x);
  __syncthreads();
  for (int i = 0; i < 256; i += 64) {
    cuda::memcpy_async(s + threadIdx.x, x + i + threadIdx.x, cuda::aligned_size_t<4>(4), b);
    b.arrive_and_wait();
    y[255 - i - threadIdx.x] = s[threadIdx.x];
    b.arrive_and_wait();
  }
}

__global__ void group_copy(const float* x, float* y) {
  __shared__ alignas(16) float s[2][128];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s[0], x, sizeof(s[0]));
  cg::memcpy_async(block, s[1], x + 128, cuda::aligned_size_t<16>(sizeof(s[1])));
  cg::wait_prior<1>(block);
  for (int i = threadIdx.x; i < 128; i += blockDim.x) y[255 - i] = s[0][i];
  cg::wait(block);
  for (int i = threadIdx.x; i < 128; i += blockDim.x) y[127 - i] = s[1][i];
}

__global__ void thread_pipeline(const float* x, float* y) {
  __shared__ float s[2][64];
  auto pipeline = cuda::make_pipeline();
  const auto fetch = [&](int i) {
    pipeline.producer_acquire();
    if (i < 4) {
      cuda::memcpy_async(&s[i % 2][threadIdx.x], x + i * 64 + threadIdx.x, sizeof(float), pipeline);
    }
    pipeline.producer_commit();
  };
  fetch(0);
  for (int i = 0; i < 4; ++i) {
    fetch(i + 1);
    cuda::pipeline_consumer_wait_prior<1>(pipeline);
    __syncthreads();
    y[255 - i * 64 - threadIdx.x] = s[i % 2][threadIdx.x];
    __syncthreads();
    pipeline.consumer_release();
  }
}

__global__ void block_pipeline(const float* x, float* y) {
  __shared__ alignas(16) float s[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  for (int fetched = 0, i = 0; i < 4; ++i) {
    for (; fetched < 4 && fetched < i + 2; ++fetched) {
      pipeline.producer_acquire();
      cuda::memcpy_async(block, s[fetched % 2], x + fetched * 64, sizeof(s[0]), pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    y[255 - i * 64 - threadIdx.x] = s[i % 2][threadIdx.x];
    pipeline.consumer_release();
  }
}

// Half of the block produces, half consumes.
__global__ void parted_pipeline(const float* x, float* y) {
  __shared__ alignas(16) float s[2][32];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  using role = cuda::pipeline_role;
  auto pipeline =
      cuda::make_pipeline(block, &state, threadIdx.x < 32 ? role::producer : role::consumer);
  for (int i = 0; i < 8; ++i) {
    if (threadIdx.x < 32) {
      pipeline.producer_acquire();
      cuda::memcpy_async(&s[i % 2][threadIdx.x], x + i * 32 + threadIdx.x, sizeof(float), pipeline);
      pipeline.producer_commit();
    } else {
      pipeline.consumer_wait();
      y[255 - i * 32 - (threadIdx.x - 32)] = s[i % 2][threadIdx.x - 32];
      pipeline.consumer_release();
    }
  }
}
"""


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(
    "name",
    [
        "barrier_copy", "thread_copy", "group_copy", "thread_pipeline", "block_pipeline",
        "parted_pipeline",
    ],
)  # fmt: skip
def test_copies_of_cpp_arrive(name: str, seed: int, capability: tuple[int, int]) -> None:
    x = torch.randn(256)
    y = torch.zeros_like(x)
    with cudademo.use_emulator(True, seed=seed, capability=capability):
        cudademo.kernel(CPP, name)[1, 64](x, y)
    assert torch.equal(y, x.flip(0))


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
@pytest.mark.parametrize("seed", [0, 5])
def test_barriers_of_cpp_part_phases(seed: int, capability: tuple[int, int]) -> None:
    x = torch.arange(256, dtype=torch.float32)
    y = torch.full_like(x, -1)
    with cudademo.use_emulator(True, seed=seed, capability=capability):
        cudademo.kernel(CPP, "arrive_and_wait")[1, 64](x, y)
        assert torch.equal(y, x.flip(0) - x)
        cudademo.kernel(CPP, "producer_and_consumers")[1, 128](x, y, 8)
        assert torch.equal(y.view(8, 32), x.view(8, 32).flip(1))
        cudademo.kernel(CPP, "drop")[1, 64](y)
        assert torch.equal(y[:32], x[32:64].flip(0))


COPY_16 = (
    'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: '
    '"r"((unsigned)__cvta_generic_to_shared(s)), "l"'
)
PIPELINE = """
#include <cuda_pipeline.h>
__global__ void k(float* x) {
  __shared__ alignas(16) float s[64];
  const int i = threadIdx.x;
  float y = 0;
  @
  x[i] = y;
}"""
BARRIER = """
#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;
__global__ void k(float* x) {
  __shared__ barrier b;
  __shared__ float s[64];
  const int i = threadIdx.x;
  @
}"""
INIT = "if (i == 0) init(&b, blockDim.x);\n__syncthreads();\n"
COPY = "__pipeline_memcpy_async(s + i, x + i, 4);\n__pipeline_commit();\n"
TWO = f"{COPY}__pipeline_memcpy_async(s + 32 + i, x + 32 + i, 4);\n__pipeline_commit();\n"
PLANTED = {
    "a copy that is not waited for": Planted(
        "race", "an asynchronous copy at line 7 still writes, for which nothing has waited",
        PIPELINE,
        f"{COPY}__syncthreads();\ny = s[i];  // FAULT",
        f"{COPY}__pipeline_wait_prior(0);\n__syncthreads();\ny = s[i];",
    ),
    "a copy over old numbers that is not waited for": Planted(
        "race", "an asynchronous copy at line 8 still writes", PIPELINE,
        f"s[i] = 1;\n{COPY}y = s[i];  // FAULT",
        f"s[i] = 1;\n{COPY}__pipeline_wait_prior(0);\ny = s[i];",
    ),
    "a group too few that is waited for": Planted(
        "race", "an asynchronous copy at line 9 still writes", PIPELINE,
        f"{TWO}__pipeline_wait_prior(1);\ny = s[i]\n+ s[32 + i];  // FAULT",
        f"{TWO}__pipeline_wait_prior(1);\ny = s[i];\n__pipeline_wait_prior(0);\ny += s[32 + i];",
    ),
    "a group that is not committed": Planted(
        "race", "an asynchronous copy at line 7 still writes", PIPELINE,
        "__pipeline_memcpy_async(s + i, x + i, 4);\n__pipeline_wait_prior(0);\ny = s[i];  // FAULT",
        f"{COPY}__pipeline_wait_prior(0);\ny = s[i];",
    ),
    "a write to where a copy is under way": Planted(
        "race", "write of 4 bytes", PIPELINE,
        f"{COPY}s[i] = 1;  // FAULT\n__pipeline_wait_prior(0);",
        f"{COPY}__pipeline_wait_prior(0);\ns[i] = 1;",
    ),
    "a barrier forgotten behind the wait": Planted(
        "race", "of the block writes at line 7, with no barrier between the two", PIPELINE,
        f"{COPY}__pipeline_wait_prior(0);\nif (i >= 32) y = s[i - 32];  // FAULT",
        f"{COPY}__pipeline_wait_prior(0);\n__syncthreads();\nif (i >= 32) y = s[i - 32];", block=64,
    ),
    "a barrier forgotten before a buffer's next copy": Planted(
        "race", "with no barrier between the two", PIPELINE,
        f"s[i] = 1;\n__syncthreads();\ny = s[i ^ 32];  // FAULT\n{COPY}__pipeline_wait_prior(0);",
        f"s[i] = 1;\n__syncthreads();\ny = s[i ^ 32];\n__syncthreads();\n{COPY}"
        "__pipeline_wait_prior(0);", block=64,
    ),
    "a copy from past the end": Planted(
        "out of bounds", "past the end of argument 0", PIPELINE,
        "__pipeline_memcpy_async(s + i, x + 225 + i, 4);  // FAULT\n__pipeline_commit();",
        "__pipeline_memcpy_async(s + i, x + 224 + i, 4);\n__pipeline_commit();",
    ),
    "a copy to past the end": Planted(
        "out of bounds", "past the end of shared memory", PIPELINE,
        "__pipeline_memcpy_async(s + 33 + i, x + i, 4);  // FAULT\n__pipeline_commit();",
        "__pipeline_memcpy_async(s + 32 + i, x + i, 4);\n__pipeline_commit();",
    ),
    "a copy of 16 bytes from between": Planted(
        "misaligned", "no multiple of 16", PIPELINE,
        f"{COPY_16}(x + 1));  // FAULT",
        f"if (i == 0) {COPY_16}(x + 128));",
    ),
    "a barrier that never completes": Planted(
        "deadlock", "at which 1 of 65 arrivals are missing", BARRIER,
        f"{INIT.replace('blockDim.x', 'blockDim.x + 1')}b.arrive_and_wait();  // FAULT",
        f"{INIT}b.arrive_and_wait();", block=64,
    ),
    "a thread that waits without arriving": Planted(
        "deadlock", "at which 32 of 64 arrivals are missing", BARRIER,
        f"{INIT}if (i < 32) b.arrive_and_wait(); else b.wait_parity(false);  // FAULT",
        f"{INIT}if (i < 32) b.arrive_and_wait();\nelse (void)b.arrive(), b.wait_parity(false);",
        block=64,
    ),
    "a barrier that was not made": Planted(
        "uninitialised read", "no thread has written", BARRIER,
        "b.arrive_and_wait();  // FAULT", f"{INIT}b.arrive_and_wait();",
    ),
    "a barrier used before all know that it is made": Planted(
        "race", "with no barrier between the two", BARRIER,
        "if (i == 0) init(&b, blockDim.x);\nb.arrive_and_wait();  // FAULT",
        f"{INIT}b.arrive_and_wait();", block=64,
    ),
    "more arrivals than a barrier waits for": Planted(
        "barrier", "3 arrivals at an mbarrier that waits for 2", BARRIER,
        "if (i == 0) init(&b, 2);\n__syncthreads();\nif (i == 0) (void)b.arrive(4);  // FAULT",
        "if (i == 0) init(&b, 3);\n__syncthreads();\nif (i == 0) (void)b.arrive(3);",
    ),
    "a wait that was forgotten": Planted(
        "race", "with no barrier between the two", BARRIER,
        f"{INIT}s[i] = i;\nauto token = b.arrive();\nif (i >= 32) x[i] = s[63 - i];  // FAULT\n"
        "b.wait(static_cast<barrier::arrival_token&&>(token));",
        f"{INIT}s[i] = i;\nauto token = b.arrive();\n"
        "b.wait(static_cast<barrier::arrival_token&&>(token));\nx[i] = s[63 - i];", block=64,
    ),
    "a write behind the arrival": Planted(
        "race", "with no barrier between the two", BARRIER,
        f"{INIT}auto token = b.arrive();\ns[i] = i;\n"
        "b.wait(static_cast<barrier::arrival_token&&>(token));\nx[i] = s[63 - i];  // FAULT",
        f"{INIT}s[i] = i;\nauto token = b.arrive();\n"
        "b.wait(static_cast<barrier::arrival_token&&>(token));\nx[i] = s[63 - i];", block=64,
    ),
}  # fmt: skip

# Each asm statement that a fault is looked for in is on one line: compilers differ in which line of
# several they name.
BULK = """
#define TRY_WAIT "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; " \\
                 "selp.b32 %0, 1, 0, p; }"
#define LOAD "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes " \\
             "[%0], [%1], %2, [%3];"
#define EXPECT "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
__device__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ bool is_over(unsigned long long* bar, int parity) {
  unsigned over;
  asm volatile(TRY_WAIT : "=r"(over) : "r"(place(bar)), "r"(parity) : "memory");
  return over;
}
__device__ void load(void* to, const void* from, int bytes, unsigned long long* bar) {
  asm volatile(LOAD :: "r"(place(to)), "l"(from), "r"(bytes), "r"(place(bar)) : "memory");
}
__device__ void expect(unsigned long long* bar, int bytes) {
  asm volatile(EXPECT :: "r"(place(bar)), "r"(bytes) : "memory");
}
__device__ void store(void* to, const void* from, int bytes) {
  asm volatile("fence.proxy.async.shared::cta;\\n"
               "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\\n"
               "cp.async.bulk.commit_group;"
               :: "l"(to), "r"(place(from)), "r"(bytes) : "memory");
}
__device__ void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__global__ void k(float* x) {
  __shared__ alignas(16) float s[2][64];
  __shared__ unsigned long long bar;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(place(&bar)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  @
}"""
BULK_LOOP = """
  for (int i = 0; i < 4; ++i) {
    if (threadIdx.x == 0) {
      expect(&bar, 256);
      load(s[0], x + 64 * i, 128, &bar);
      load(s[0] + 32, x + 64 * i + 32, 128, &bar);
    }
    while (!is_over(&bar, i % 2)) {}
    s[1][threadIdx.x] = 2 * s[0][63 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
      store(x + 64 * i, s[1], 256);
      wait_for_stores();
    }
    __syncthreads();
  }"""
LOADED = 'asm volatile(LOAD :: "r"(place(to)), "l"(from), "r"(bytes), "r"(place(bar)) : "memory");'
LOAD = "if (threadIdx.x == 0) {\nexpect(&bar, 256);\nload(s[0], x, 256, &bar);\n}\n"
WAIT = "while (!is_over(&bar, 0)) {}\n"
STORE = "s[0][threadIdx.x] = 1;\n__syncthreads();\nif (threadIdx.x == 0) {\nstore(x, s[0], 256);\n"


def test_bulk_copies_come_and_go() -> None:
    found = run(Planted("", "", BULK, "", "", 64, (9, 0)), BULK_LOOP)
    wanted = 2 * torch.arange(256, dtype=torch.float32).view(4, 64).flip(1).flatten()
    assert torch.equal(found, wanted)


BULK_PLANTED = {
    "a bulk copy that is not waited for": (
        "race", "an asynchronous copy at line 14 still writes",
        f"{LOAD}__syncthreads();\nx[threadIdx.x + 64] = s[0][threadIdx.x];  // FAULT",
        f"{LOAD}__syncthreads();\n{WAIT}x[threadIdx.x + 64] = s[0][threadIdx.x];",
    ),
    "a bulk copy of more than is expected": (
        "deadlock", "0 of 1 arrivals and -16 bytes are missing",
        LOAD.replace("bar, 256", "bar, 240") + WAIT, LOAD + WAIT,
    ),
    "a bulk copy past the end": (
        "out of bounds", "past the end of argument 0",
        "if (threadIdx.x == 0) load(s[0], x + 196, 256, &bar);", LOAD + WAIT,
    ),
    "a bulk copy of an odd size": (
        "misaligned", "a bulk copy of 40 bytes",
        "if (threadIdx.x == 0) load(s[0], x, 40, &bar);", LOAD + WAIT,
    ),
    "a source that changes while a bulk copy reads it": (
        "race", "a bulk copy still reads, for which nothing has waited",
        f"{STORE}}}\n__syncthreads();\ns[0][threadIdx.x] = 2;  // FAULT",
        f"{STORE}wait_for_stores();\n}}\n__syncthreads();\ns[0][threadIdx.x] = 2;",
    ),
}  # fmt: skip
# Where the fault is in a function of the source's own.
BULK_MARKS = {
    "deadlock": 'asm volatile(TRY_WAIT : "=r"(over) : "r"(place(bar)), "r"(parity) : "memory");',
    "out of bounds": LOADED,
    "misaligned": LOADED,
}
for _name, (_kind, _text, _faulty, _mended) in BULK_PLANTED.items():
    _mark = BULK_MARKS.get(_kind, "\0")
    _source = BULK.replace(_mark, _mark + "  // FAULT")
    PLANTED[_name] = Planted(_kind, _text, _source, _faulty, _mended, 64, (9, 0))


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_at_its_line(name: str) -> None:
    assert_is_found(PLANTED[name])


@pytest.mark.parametrize("name", PLANTED)
def test_the_mended_kernel_runs(name: str) -> None:
    run(PLANTED[name], PLANTED[name].mended)
