"""Matrices of a warp on the emulator: mma, wmma, ldmatrix and their kin."""

from __future__ import annotations

from typing import Any

import pytest

import cudademo

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from fragments import WIDTHS, extents, from_registers, to_registers  # noqa: E402
from planted import Planted, assert_is_found, run  # noqa: E402

DTYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "f32": torch.float32,
    "f64": torch.float64, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
}  # fmt: skip
RANGES = {"s8": (-128, 127), "u8": (0, 255), "s4": (-8, 7), "u4": (0, 15)}
CLASSES = {"f32": "f", "f64": "d"}


def draw(kind: str, shape: tuple[int, int], seed: int) -> Any:
    """A random matrix: float64 with values of the kind, or int64."""
    generator = torch.Generator().manual_seed(seed)
    if kind in RANGES:
        low, high = RANGES[kind]
        return torch.randint(low, high + 1, shape, generator=generator)
    made = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "tf32":
        bits = made.float().view(torch.int32) & ~0x1FFF
        return bits.view(torch.float32).double()
    return made.to(DTYPES[kind]).double()


def patterns(kind: str, values: Any) -> Any:
    """The bits of each element."""
    if kind not in DTYPES:
        return values.numpy().astype(np.uint64)
    exact = values.to(DTYPES[kind])
    width = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[WIDTHS[kind]]
    return exact.view(width).numpy().astype(np.uint64)


def values(kind: str, bits: Any) -> Any:
    """The elements as float64, or int64."""
    if kind == "s32":
        return torch.from_numpy(bits.astype(np.uint32).view(np.int32).astype(np.int64))
    word = {16: np.int16, 32: np.int32, 64: np.int64}[WIDTHS[kind]]
    return (
        torch.from_numpy(bits.astype(f"u{WIDTHS[kind] // 8}").view(word))
        .view(DTYPES[kind])
        .double()
    )


def multiply(shape: str, kinds: str, a: Any, b: Any, c: Any, more: str = "") -> Any:
    """What one mma.sync gives; `kinds` are those of d, a, b, c."""
    d_kind, a_kind, b_kind, c_kind = kinds.split(".")
    inputs = [
        to_registers(part, shape, kind, patterns(kind, matrix))
        for part, kind, matrix in (("a", a_kind, a), ("b", b_kind, b), ("c", c_kind, c))
    ]
    width = WIDTHS[d_kind]
    m, n, _ = extents(shape)
    count = m * n // 32 // max(32 // width, 1)
    operands, asm_inputs, at = [], [], count
    for values_, kind in zip(inputs, (a_kind, b_kind, c_kind), strict=True):
        letter = CLASSES.get(kind, "r")
        name = "abc"[len(operands)]
        cpp = {"f": "float", "d": "double", "r": "unsigned"}[letter]
        operands.append((f"const {cpp}* {name}", values_.shape[1]))
        asm_inputs += [
            f'"{letter}"({name}[threadIdx.x * {values_.shape[1]} + {i}])'
            for i in range(values_.shape[1])
        ]
    letter = CLASSES.get(d_kind, "r")
    cpp = {"f": "float", "d": "double", "r": "unsigned"}[letter]
    lists = []
    at = 0
    for length in (count, *(length for _, length in operands)):
        lists.append("{" + ", ".join(f"%{at + i}" for i in range(length)) + "}")
        at += length
    outputs = ", ".join(f'"={letter}"(d[threadIdx.x * {count} + {i}])' for i in range(count))
    source = f"""
    __global__ void k({", ".join(text for text, _ in operands)}, {cpp}* d) {{
      asm volatile("mma.sync.aligned.{shape}.row.col.{kinds}{more} {", ".join(lists)};"
                   : {outputs} : {", ".join(asm_inputs)});
    }}"""
    arrays = [
        torch.from_numpy(registers).view(
            {"f": torch.float32, "d": torch.float64}.get(CLASSES.get(kind, "r"), torch.uint32)
        )
        for registers, kind in zip(inputs, (a_kind, b_kind, c_kind), strict=True)
    ]
    out = torch.zeros(
        32, count, dtype={"f": torch.float32, "d": torch.float64}.get(letter, torch.uint32)
    )
    architecture = "compute_90" if "64" in a_kind or a_kind.startswith("e") else "compute_80"
    cudademo.kernel(source, "k", architecture=architecture)[1, 32](*arrays, out)
    found = out.numpy().view(np.uint64 if width == 64 else np.uint32)
    return values(d_kind, from_registers("c", shape, d_kind, found))


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [
        ("m16n8k8", "f16.f16.f16.f16"),
        ("m16n8k8", "f32.f16.f16.f32"),
        ("m16n8k8", "f32.bf16.bf16.f32"),
        ("m16n8k16", "f16.f16.f16.f16"),
        ("m16n8k16", "f32.f16.f16.f32"),
        ("m16n8k16", "f32.bf16.bf16.f32"),
        ("m16n8k4", "f32.tf32.tf32.f32"),
        ("m16n8k8", "f32.tf32.tf32.f32"),
        ("m16n8k32", "f32.e4m3.e4m3.f32"),
        ("m16n8k32", "f32.e5m2.e4m3.f32"),
        ("m8n8k4", "f64.f64.f64.f64"),
        ("m16n8k4", "f64.f64.f64.f64"),
        ("m16n8k8", "f64.f64.f64.f64"),
        ("m16n8k16", "f64.f64.f64.f64"),
    ],
)
def test_mma_multiplies_floats(shape: str, kinds: str) -> None:
    d, a_kind, b_kind, c_kind = kinds.split(".")
    m, n, k = extents(shape)
    a, b, c = draw(a_kind, (m, k), 1), draw(b_kind, (k, n), 2), draw(c_kind, (m, n), 3)
    unit = {"f16": 2.0**-11, "f32": 2.0**-23, "f64": k * 2.0**-53}[d]  # torch sums in f64 too
    error = unit * (abs(a) @ abs(b) + abs(c))
    assert (abs(multiply(shape, kinds, a, b, c) - (a @ b + c)) <= error).all()


@pytest.mark.parametrize("shape", ["m8n8k16", "m16n8k16", "m16n8k32"])
@pytest.mark.parametrize(("a_kind", "b_kind"), [("s8", "s8"), ("u8", "u8"), ("s8", "u8")])
def test_mma_multiplies_bytes(shape: str, a_kind: str, b_kind: str) -> None:
    m, n, k = extents(shape)
    a, b = draw(a_kind, (m, k), 4), draw(b_kind, (k, n), 5)
    c = torch.randint(-(2**20), 2**20, (m, n), generator=torch.Generator().manual_seed(6))
    assert torch.equal(multiply(shape, f"s32.{a_kind}.{b_kind}.s32", a, b, c), a @ b + c)


@pytest.mark.parametrize("shape", ["m8n8k32", "m16n8k32", "m16n8k64"])
def test_mma_multiplies_halves_of_bytes(shape: str) -> None:
    m, n, k = extents(shape)
    a, b, c = draw("s4", (m, k), 7), draw("u4", (k, n), 8), draw("s8", (m, n), 9)
    assert torch.equal(multiply(shape, "s32.s4.u4.s32", a, b, c), a @ b + c)


def test_mma_of_integers_wraps_or_saturates() -> None:
    a = torch.full((16, 16), 127)
    b = torch.full((16, 8), 127)
    c = torch.full((16, 8), 2**31 - 5)
    wrapped = multiply("m16n8k16", "s32.s8.s8.s32", a, b, c)
    assert (wrapped == 16 * 127 * 127 + 2**31 - 5 - 2**32).all()
    assert (multiply("m16n8k16", "s32.s8.s8.s32", a, b, c, ".satfinite") == 2**31 - 1).all()
    low = multiply("m16n8k16", "s32.s8.s8.s32", -a, b, -c, ".satfinite")
    assert (low == -(2**31)).all()


def test_mma_of_tf32_ignores_the_lowest_bits() -> None:
    a = torch.full((16, 8), 1.0 + 2.0**-23, dtype=torch.float64)
    b, c = torch.ones(8, 8, dtype=torch.float64), torch.zeros(16, 8, dtype=torch.float64)
    assert (multiply("m16n8k8", "f32.tf32.tf32.f32", a, b, c) == 8).all()


VOLTA = """
// Four products of 8 by 4 and 4 by 8: of lanes 4 p to 4 p + 3 and 16 + 4 p to 16 + 4 p + 3.
__global__ void k(const unsigned* a, const unsigned* b, const float* c, float* d) {{
  const int p = threadIdx.x / 4 % 4, own = threadIdx.x % 4 + threadIdx.x / 16 * 4;
  a += (p * 8 + own) * 2;
  b += (p * 8 + own) * 2;
  float r[8];
  auto at = [&](int i) {{
    const int row = (threadIdx.x & 1) + (i & 2) + threadIdx.x / 16 * 4;
    return p * 64 + row * 8 + (i & 4) + (threadIdx.x & 2) + (i & 1);
  }};
  for (int i = 0; i < 8; ++i) r[i] = c[at(i)];
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 "
               "{{%0, %1, %2, %3, %4, %5, %6, %7}}, {{%8, %9}}, {{%10, %11}}, "
               "{{%0, %1, %2, %3, %4, %5, %6, %7}};"
               : "+f"(r[0]), "+f"(r[1]), "+f"(r[2]), "+f"(r[3]), "+f"(r[4]), "+f"(r[5]),
                 "+f"(r[6]), "+f"(r[7])
               : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
  for (int i = 0; i < 8; ++i) d[at(i)] = r[i];
}}""".replace("{{", "{").replace("}}", "}")


def test_mma_of_m8n8k4_in_f16_is_four_products() -> None:
    generator = torch.Generator().manual_seed(1)
    a = torch.randint(-9, 9, (4, 8, 4), generator=generator).half()
    b = torch.randint(-9, 9, (4, 8, 4), generator=generator).half()  # its columns as rows
    c = torch.randint(-9, 9, (4, 8, 8), generator=generator).float()
    d = torch.zeros_like(c)
    cudademo.kernel(VOLTA, "k")[1, 32](a.view(torch.uint32), b.view(torch.uint32), c, d)
    assert torch.equal(d.double(), a.double() @ b.double().mT + c.double())


GEMM = """
#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda/std/type_traits>
using namespace nvcuda;

// One warp: c = 2 (a b), elementwise on the fragment, from and to shared memory or global.
template <class T, class In, class Acc, int M, int N, int K, class LayoutA, class LayoutB,
          bool Shared>
__global__ void gemm(const In* a, const In* b, Acc* c, int k, int by_columns) {
  __shared__ alignas(128) In tile[M * K];
  __shared__ alignas(128) Acc result[M * N];
  constexpr bool a_rows = cuda::std::is_same_v<LayoutA, wmma::row_major>;
  constexpr bool b_rows = cuda::std::is_same_v<LayoutB, wmma::row_major>;
  wmma::fragment<wmma::matrix_a, M, N, K, T, LayoutA> left;
  wmma::fragment<wmma::matrix_b, M, N, K, T, LayoutB> right;
  wmma::fragment<wmma::accumulator, M, N, K, Acc> sum;
  wmma::fill_fragment(sum, Acc(0));
  for (int i = 0; i < k; i += K) {
    const In* from = a + (a_rows ? i : i * M);
    const int stride = a_rows ? k : M;
    if (Shared) {
      for (int j = threadIdx.x; j < M * K; j += 32)
        tile[j] = a_rows ? from[j / K * k + j % K] : from[j];
      __syncwarp();
      wmma::load_matrix_sync(left, tile, a_rows ? K : M);
      __syncwarp();
    } else {
      wmma::load_matrix_sync(left, from, stride);
    }
    wmma::load_matrix_sync(right, b + (b_rows ? i * N : i), b_rows ? N : k);
    wmma::mma_sync(sum, left, right, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = sum.x[i] + sum.x[i];
  const auto layout = by_columns ? wmma::mem_col_major : wmma::mem_row_major;
  if (Shared) {
    wmma::store_matrix_sync(result, sum, by_columns ? M : N, layout);
    __syncwarp();
    for (int j = threadIdx.x; j < M * N; j += 32) c[j] = result[j];
  } else {
    wmma::store_matrix_sync(c, sum, by_columns ? M : N, layout);
  }
}
"""
WMMA = {
    "half": ("half", "half", torch.float16),
    "bf16": ("__nv_bfloat16", "__nv_bfloat16", torch.bfloat16),
    "tf32": ("wmma::precision::tf32", "float", torch.float32),
    "s8": ("signed char", "signed char", torch.int8),
    "u8": ("unsigned char", "unsigned char", torch.uint8),
    "double": ("double", "double", torch.float64),
}
KINDS_OF_16 = [("half", "float"), ("half", "half"), ("bf16", "float"), ("s8", "int"), ("u8", "int")]


@pytest.mark.parametrize(
    ("kind", "result", "shape"),
    [
        *((*kinds, (m, n, 16)) for kinds in KINDS_OF_16 for m, n in ((16, 16), (32, 8), (8, 32))),
        ("tf32", "float", (16, 16, 8)),
        ("double", "double", (8, 8, 4)),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("a_rows", "b_rows", "c_rows", "shared"), [(1, 0, 1, True), (0, 1, 0, False)]
)
@pytest.mark.usefixtures("wmma_header")
def test_wmma_multiplies(
    kind: str, result: str, shape: tuple[int, int, int], a_rows: int, b_rows: int, c_rows: int,
    shared: bool,
) -> None:  # fmt: skip
    cpp, element, dtype = WMMA[kind]
    out_dtype = {"float": torch.float32, "half": torch.float16, "int": torch.int32,
                 "double": torch.float64}[result]  # fmt: skip
    m, n, k = shape
    depth = 4 * k
    generator = torch.Generator().manual_seed(m)
    low = 0 if dtype is torch.uint8 else -5
    a = torch.randint(low, 6, (m, depth), generator=generator).to(dtype)
    b = torch.randint(low, 6, (depth, n), generator=generator).to(dtype)
    c = torch.zeros((m, n) if c_rows else (n, m), dtype=out_dtype)
    layouts = ", ".join(f"wmma::{'row' if rows else 'col'}_major" for rows in (a_rows, b_rows))
    name = f"gemm<{cpp}, {element}, {result}, {m}, {n}, {k}, {layouts}, {str(shared).lower()}>"
    kernel = cudademo.kernel(GEMM, name)
    kernel[1, 32](
        a if a_rows else a.T.contiguous(), b if b_rows else b.T.contiguous(), c, depth, 1 - c_rows
    )
    assert torch.equal((c if c_rows else c.T).double(), 2 * (a.double() @ b.double()))


MOVES = """
__device__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

template <int Count, bool Trans>
__global__ void load(const unsigned short* x, unsigned* out) {
  __shared__ alignas(16) unsigned short s[32 * 24];  // rows 48 bytes apart
  for (int i = threadIdx.x; i < Count * 64; i += 32) s[i / 8 * 24 + i % 8] = x[i];
  __syncwarp();
  const unsigned row = place(s + threadIdx.x % (Count * 8) * 24);
  unsigned r[4] = {};
  if (Count == 1 && !Trans)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0]) : "r"(row));
  if (Count == 1 && Trans)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0]) : "r"(row));
  if (Count == 2 && !Trans)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(row));
  if (Count == 2 && Trans)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(row));
  if (Count == 4 && !Trans)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row));
  if (Count == 4 && Trans)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "l"(s + threadIdx.x % (Count * 8) * 24));
  for (int i = 0; i < Count; ++i) out[i * 32 + threadIdx.x] = r[i];
}

template <bool Trans>
__global__ void store(const unsigned* x, unsigned short* out) {
  __shared__ alignas(16) unsigned short s[32 * 8];
  unsigned r[4];
  for (int i = 0; i < 4; ++i) r[i] = x[i * 32 + threadIdx.x];
  const unsigned row = place(s + threadIdx.x * 8);
  if (Trans)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%4], {%0, %1, %2, %3};"
                 :: "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(row));
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%4], {%0, %1, %2, %3};"
                 :: "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(row));
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) out[i] = s[i];
}

__global__ void transpose(const unsigned* x, unsigned* out) {
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out[threadIdx.x])
               : "r"(x[threadIdx.x]));
}
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix_gives_each_lane_two_neighbours(count: int, transposed: bool) -> None:
    x = np.arange(count * 64, dtype=np.uint16) * 257 + 3
    out = torch.zeros(count * 32, dtype=torch.uint32)
    name = f"load<{count}, {str(transposed).lower()}>"
    cudademo.kernel(MOVES, name)[1, 32](torch.from_numpy(x), out)
    matrices = x.reshape(count, 8, 8)
    wanted = (matrices.transpose(0, 2, 1) if transposed else matrices).reshape(-1)
    assert np.array_equal(out.numpy().view(np.uint16), wanted)


@pytest.mark.parametrize("transposed", [False, True])
def test_stmatrix_puts_back_what_ldmatrix_gave(transposed: bool) -> None:
    x = np.arange(256, dtype=np.uint16) * 251 + 7
    out = torch.zeros(256, dtype=torch.uint16)
    kernel = cudademo.kernel(MOVES, f"store<{str(transposed).lower()}>", architecture="compute_90")
    kernel[1, 32](torch.from_numpy(x.view(np.uint32)), out)
    matrices = x.reshape(4, 8, 8)
    wanted = matrices.transpose(0, 2, 1) if transposed else matrices
    assert np.array_equal(out.numpy(), wanted.reshape(-1))


def test_movmatrix_transposes() -> None:
    x = np.arange(64, dtype=np.uint16) * 1001
    out = torch.zeros(32, dtype=torch.uint32)
    cudademo.kernel(MOVES, "transpose")[1, 32](torch.from_numpy(x.view(np.uint32)), out)
    assert np.array_equal(out.numpy().view(np.uint16).reshape(8, 8), x.reshape(8, 8).T)


LDMATRIX = """
__global__ void k(float* x) {
  __shared__ alignas(16) unsigned short s[64];
  for (int i = threadIdx.x; i < 64; i += blockDim.x) s[i] = i;
  __syncthreads();
  unsigned at = (unsigned)__cvta_generic_to_shared(s + threadIdx.x % 8 * 8), r = 0;
  @
  x[threadIdx.x] = r;
}"""
READ = 'asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(at));'
GENERIC = READ.replace(".shared", "").replace('"r"(at)', '"l"(row)')
WMMA_FAULT = """
#include <mma.h>
using namespace nvcuda;
__global__ void k(float* x) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 1.f);
  @
}"""
PLANTED = {
    "a row of ldmatrix at no multiple of 16 bytes": Planted(
        "misaligned", "no multiple of 16", LDMATRIX,
        f"at += threadIdx.x == 3 ? 8 : 0; {READ}  // FAULT", READ,
    ),
    "a row of ldmatrix past the end": Planted(
        "out of bounds", "past the end of shared memory (128 bytes)", LDMATRIX,
        f"at += 16; {READ}  // FAULT", READ,
    ),
    "an ldmatrix of global memory": Planted(
        "out of bounds", "not in shared memory", LDMATRIX,
        f"void* row = x;\n{GENERIC}  // FAULT", f"void* row = s;\n{GENERIC}",
    ),
    "an ldmatrix of what nobody wrote": Planted(
        "uninitialised read", "no thread has written", LDMATRIX.replace("s[64]", "s[128]"),
        f"at += 128; {READ}  // FAULT", READ,
    ),
    "a barrier forgotten behind ldmatrix": Planted(
        "race", "with no barrier between the two", LDMATRIX,
        f"if (threadIdx.x < 32)\n{READ}\nelse s[threadIdx.x] = 1;  // FAULT",
        f"if (threadIdx.x < 32)\n{READ}\n__syncthreads();\n"
        "if (threadIdx.x >= 32) s[threadIdx.x] = 1;",
        block=64,
    ),
    "ldmatrix by half a warp": Planted(
        "deadlock", "wait at a synchronisation of their warp", LDMATRIX,
        f"if (threadIdx.x < 16) {READ}  // FAULT", READ,
    ),
    "a matrix of wmma past the end": Planted(
        "out of bounds", "past the end of argument 0", WMMA_FAULT,
        "wmma::store_matrix_sync(x + 8, c, 16, wmma::mem_row_major);  // FAULT",
        "wmma::store_matrix_sync(x, c, 16, wmma::mem_row_major);",
    ),
    "a matrix of wmma at no multiple of 32 bytes": Planted(
        "misaligned", "no multiple of 32 bytes", WMMA_FAULT,
        "wmma::store_matrix_sync(x + 4, c, 8, wmma::mem_row_major);  // FAULT",
        "wmma::store_matrix_sync(x + 8, c, 8, wmma::mem_row_major);",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_at_its_line(name: str, request: pytest.FixtureRequest) -> None:
    if "wmma" in name:
        request.getfixturevalue("wmma_header")
    assert_is_found(PLANTED[name])


@pytest.mark.parametrize("name", PLANTED)
def test_the_mended_kernel_runs(name: str, request: pytest.FixtureRequest) -> None:
    if "wmma" in name:
        request.getfixturevalue("wmma_header")
    run(PLANTED[name], PLANTED[name].mended)


def test_a_matrix_is_of_a_whole_warp() -> None:
    kernel = cudademo.kernel(MOVES, "transpose")
    x = torch.zeros(32, dtype=torch.uint32)
    with pytest.raises(
        cudademo.EmulatorError, match="of all 32 threads of a warp, and here are 16"
    ):
        kernel[1, 16](x, x.clone())
