"""Instructions that no GPU at hand has answered, against NumPy and torch."""

from __future__ import annotations

import pytest

import cudademo
from cudademo import EmulatorError

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from forms import COUNT, FORMS, Form  # noqa: E402
from test_forms import run  # noqa: E402

VECTORS = [
    form for form in FORMS.values() if ".v" in form.name and form.name[:4] in ("red.", "atom")
]


def bits_of(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int32)


def kernel(parameters: str, body: str) -> cudademo.Kernel:
    source = f'extern "C" __global__ void k({parameters}) {{ const int i = threadIdx.x; {body} }}'
    return cudademo.kernel(source, "k")


def columns(form: Form) -> list[torch.Tensor]:
    """The form's operands as torch's numbers, the packed ones as two columns."""
    kind = form.operands[0]
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[
        kind.removesuffix("x2")
    ]
    integer = np.int32 if kind == "f32" else np.int16
    return [
        torch.from_numpy(column.view(integer).copy()).view(dtype).reshape(COUNT, -1)
        for column in form.inputs
    ]


def flushed(x: torch.Tensor) -> torch.Tensor:
    """As for scalars, f32 in global memory is flushed, and halves are not."""
    return torch.where(x.abs() < 2.0**-126, x * 0, x) if x.dtype == torch.float32 else x


@pytest.mark.parametrize("form", VECTORS, ids=[form.name for form in VECTORS])
def test_an_atomic_on_a_vector_is_one_for_each_element(form):
    a, b, c, x = columns(form)
    count = len(form.results)
    held = [(a, b)[k % 2] for k in range(count)]
    if form.name.startswith("atom"):
        right = held
    elif ".add." in form.name:
        # As for scalars, f32 in global memory is flushed, and halves are not.
        flush = (
            (lambda t: t)
            if a.dtype != torch.float32
            else lambda t: torch.where(t.abs() < 2.0**-126, t * 0, t)
        )
        right = [flush(flush(cell) + flush((c, x)[k % 2])) for k, cell in enumerate(held)]
    else:
        pick = torch.minimum if ".min." in form.name else torch.maximum
        right = []
        for k, cell in enumerate(held):
            other = (c, x)[k % 2]
            one, two = cell.float(), other.float()
            chosen = torch.where(two.isnan(), one, torch.where(one.isnan(), two, pick(one, two)))
            right.append(chosen.to(a.dtype))
    found = run(form, "cpu")
    integer = np.int32 if a.dtype == torch.float32 else np.int16
    for k in range(count):
        made = torch.from_numpy(found[:, k].copy().view(integer)).view(a.dtype).reshape(COUNT, -1)
        torch.testing.assert_close(made, right[k], rtol=0, atol=0, equal_nan=True)


def test_a_vector_atomic_off_its_alignment_or_over_the_end_is_found():
    body = 'asm volatile("red.global.add.v2.f32 [%0], {%1, %1};" :: "l"(x + n), "f"(1.f));'
    add = kernel("float* x, int n", body)
    x = torch.zeros(4)
    add[1, 1](x, 2)
    assert x.tolist() == [0, 0, 1, 1]
    with pytest.raises(EmulatorError, match="no multiple of 8"):
        add[1, 1](x, 1)
    with pytest.raises(EmulatorError, match="just past the end of argument 0"):
        add[1, 1](x, 4)


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    float("inf"),
    -float("inf"),
    float("nan"),
    1e-40,
    -1e-40,
    2.5,
    -7.0,
]


@pytest.mark.parametrize("flags", ["", ".ftz", ".NaN", ".abs", ".ftz.NaN.abs"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_minimum_and_maximum_of_three(name, flags):
    text = f"{name}{flags}.f32 %0, %1, %2, %3;"
    body = f'asm("{text}" : "=f"(out[i]) : "f"(a[i]), "f"(b[i]), "f"(c[i]));'
    grid = torch.cartesian_prod(*[torch.tensor(SPECIAL)] * 3)[:1024]
    a, b, c = (column.contiguous() for column in grid.T)
    out = torch.empty_like(a)
    kernel("const float* a, const float* b, const float* c, float* out", body)[1, 1024](
        a, b, c, out
    )
    given = grid.double()
    if ".ftz" in flags:
        given = torch.where(given.abs() < 2.0**-126, given * 0, given)
    if ".abs" in flags:
        given = given.abs()
    with_nan = {"min": torch.minimum, "max": torch.maximum}[name]
    without = {"min": torch.fmin, "max": torch.fmax}[name]
    pick = with_nan if ".NaN" in flags else without
    wanted = pick(pick(given[:, 0], given[:, 1]), given[:, 2]).float()
    torch.testing.assert_close(out, wanted, rtol=0, atol=0, equal_nan=True)
    # Of two zeros the negative one is the smaller.
    zeros = (wanted == 0) & ~wanted.isnan()
    signs = given[zeros].signbit()
    among = torch.where(given[zeros] == 0, signs, name == "max")
    negative = among.any(1) if name == "min" else among.all(1)
    assert torch.equal(out[zeros].signbit(), negative)


@pytest.mark.parametrize("flags", ["", ".abs", ".NaN", ".abs.NaN"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_a_warp_reduces_floats(name, flags):
    text = f"redux.sync.{name}{flags}.f32 %0, %1, 0xffffffff;"
    body = f'asm volatile("{text}" : "=f"(out[i]) : "f"(x[i]));'
    x = torch.randn(5, 32, generator=torch.Generator().manual_seed(3))
    x[1, 7] = float("nan")
    x[2] = float("nan")
    x[3] = -float("inf")
    x[4] = 0.0
    x[4, 9] = -0.0
    reduce = kernel("const float* x, float* out", body)
    for row in x:
        out = torch.empty(32)
        reduce[1, 32](row, out)
        given = row.abs() if ".abs" in flags else row
        if given.isnan().all() or (".NaN" in flags and given.isnan().any()):
            assert bits_of(out).unique().tolist() == [0x7FFFFFFF]
            continue
        rest = given[~given.isnan()]
        wanted = rest.min() if name == "min" else rest.max()
        if wanted == 0:  # only in the last row
            wanted = torch.tensor(-0.0 if name == "min" and ".abs" not in flags else 0.0)
        assert bits_of(out).unique().tolist() == [bits_of(wanted).item()]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_two_floats_in_one_register(name):
    text = f"{name}.rn.f32x2 %0, %1, %2" + (", %3;" if name == "fma" else ";")
    sources = ' "l"(a[i]), "l"(b[i])' + (', "l"(c[i])' if name == "fma" else "")
    body = f'asm("{text}" : "=l"(out[i]) : {sources});'
    a, b, c = torch.randn(3, 64, 2, generator=torch.Generator().manual_seed(5))
    out = torch.empty(64, 2)
    as_pairs = [tensor.view(torch.int64).flatten() for tensor in (a, b, c, out)]
    whole = "const long long* a, const long long* b, const long long* c, long long* out"
    kernel(whole, body)[1, 64](*as_pairs)
    exact = {
        "add": a.double() + b.double(),
        "sub": a.double() - b.double(),
        "mul": a.double() * b.double(),
        "fma": a.double() * b.double() + c.double(),
    }[name]
    torch.testing.assert_close(out, exact.float(), rtol=1e-7, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["add", "sub", "fma"])
def test_halves_are_widened_without_loss(name, dtype):
    kind = "f16" if dtype is torch.float16 else "bf16"
    is_fused = name == "fma"
    text = f"{name}.rn.f32.{kind} %0, %1, " + ("%2, %3;" if is_fused else "%3;")
    body = f'asm("{text}" : "=f"(out[i]) : "h"(a[i]), "h"(b[i]), "f"(c[i]));'
    generator = torch.Generator().manual_seed(7)
    a, b = (torch.randn(64, generator=generator).to(dtype) for _ in range(2))
    c, out = torch.randn(64, generator=generator), torch.empty(64)
    parameters = "const short* a, const short* b, const float* c, float* out"
    kernel(parameters, body)[1, 64](a.view(torch.int16), b.view(torch.int16), c, out)
    exact = {
        "add": a.double() + c.double(),
        "sub": a.double() - c.double(),
        "fma": a.double() * b.double() + c.double(),
    }[name]
    torch.testing.assert_close(out, exact.float(), rtol=1e-7, atol=0)


@pytest.mark.parametrize("name", ["min", "max"])
def test_a_modifier_may_follow_the_type(name):
    # CUDA's headers write min.s16x2.relu, the manual min.relu.s16x2.
    found = []
    x, y = torch.randint(-(2**31), 2**31 - 1, (2, 64), generator=torch.Generator().manual_seed(1))
    x, y = x.int(), y.int()
    for text in (f"{name}.s16x2.relu", f"{name}.relu.s16x2"):
        body = f'asm("{text} %0, %1, %2;" : "=r"(out[i]) : "r"(a[i]), "r"(b[i]));'
        out = torch.empty_like(x)
        kernel("const int* a, const int* b, int* out", body)[1, 64](x, y, out)
        found.append(out.view(torch.int16))
    pick = torch.minimum if name == "min" else torch.maximum
    wanted = pick(x.view(torch.int16), y.view(torch.int16)).clamp(min=0)
    assert torch.equal(found[0], wanted)
    assert torch.equal(found[1], wanted)


def test_a_cluster_of_one_block_maps_addresses_to_itself():
    body = r"""
    __shared__ int word;
    word = 5;
    unsigned there = 0, rank = 9;
    const unsigned here = (unsigned)__cvta_generic_to_shared(&word);
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(n));
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank) : "r"(there));
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(out[0]) : "r"(there));
    long long generic = 0;
    asm volatile("mapa.u64 %0, %1, 0;" : "=l"(generic) : "l"(&word));
    out[1] = rank;
    out[2] = *reinterpret_cast<int*>(generic);
    """
    mapped = kernel("int* out, int n", body)
    out = torch.full((3,), -1, dtype=torch.int32)
    mapped[1, 1](out, 0)
    assert out.tolist() == [5, 0, 5]
    with pytest.raises(EmulatorError, match="block 1 of a cluster that has one block"):
        mapped[1, 1](out, 1)


def test_sixteen_bytes_are_loaded_stored_exchanged_and_compared():
    body = r"""
    long long* p = x + 2 * i;
    asm volatile(
        "{ .reg .b128 a, b, c; ld.global.b128 a, [%0]; mov.b128 b, {%1, %2};"
        "atom.global.cas.b128 c, [%0], a, b; atom.global.exch.b128 c, [%0], a;"
        "st.global.b128 [%3], c; }"
        :: "l"(p), "l"(7ll + i), "l"(-1ll), "l"(y + 2 * i) : "memory");
    """
    x = torch.arange(64, dtype=torch.int64)
    y = torch.zeros_like(x)
    kernel("long long* x, long long* y", body)[1, 32](x, y)
    assert torch.equal(x, torch.arange(64))
    assert y.view(32, 2).tolist() == [[7 + i, -1] for i in range(32)]


def test_the_stack_is_restored_where_it_was_saved():
    body = r"""
    long long first = 0, second = 1;
    for (int turn = 0; turn < 1000; ++turn) {
      asm volatile("{ .reg .u64 top, at; stacksave.u64 top; alloca.u64 at, 1024; mov.u64 %0, at;"
                   "st.local.u32 [at], %1; stackrestore.u64 top; }"
                   : "=l"(second) : "r"(turn) : "memory");
      if (turn == 0) first = second;
    }
    out[i] = first == second;
    """
    out = torch.zeros(32, dtype=torch.int32)
    kernel("int* out", body)[1, 32](out)
    assert out.tolist() == [1] * 32


def test_hints_and_policies_change_nothing():
    body = r"""
    float value = 0;
    asm volatile(
        "{ .reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 0.5;"
        "prefetch.global.L2 [%1]; ld.global.L2::cache_hint.f32 %0, [%1], policy;"
        "st.global.L2::cache_hint.f32 [%1], 0f40000000, policy;"
        "red.global.add.L2::cache_hint.f32 [%1], %0, policy;"
        "griddepcontrol.wait; griddepcontrol.launch_dependents; pmevent 1; }"
        : "=f"(value) : "l"(x + i) : "memory");
    """
    x = torch.arange(32.0)
    kernel("float* x", body)[1, 32](x)
    assert torch.equal(x, torch.arange(32.0) + 2)


@pytest.mark.parametrize(
    "text",
    [
        "multimem.red.relaxed.sys.global.add.u32 [%0], 1;",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [0], 1, [8];",
        "txq.width.b32 r, [%0];",
    ],
)
def test_what_is_not_emulated_says_so(text):
    body = f'asm volatile("{{ .reg .b32 r; {text} }}" :: "l"(x) : "memory");'
    with pytest.raises(EmulatorError, match="not emulated: ") as caught:
        kernel("float* x", body)[1, 1](torch.zeros(4))
    assert caught.value.kind == "unsupported"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("red.global.add.v2.u32 [%0], {r, r};", "not on a vector"),
        ("atom.global.exch.v2.b64 {l, l}, [%0], {l, l};", "not on a vector"),
        ("atom.global.cas.v2.b32 {r, r}, [%0], {r, r}, {r, r};", "not on a vector"),
        ("vshl.s32.s32.s32.clamp r, r, r;", "a count of bits is u32"),
        ("vshr.s32.s32.s32.wrap r, r, r;", "a count of bits is u32"),
    ],
)
def test_what_no_instruction_takes_is_refused(text, why):
    body = f'asm volatile("{{ .reg .b32 r; .reg .b64 l; {text} }}" :: "l"(x) : "memory");'
    with pytest.raises(EmulatorError, match=why) as caught:
        kernel("float* x", body)[1, 1](torch.zeros(4))
    assert caught.value.kind == "unsupported"
