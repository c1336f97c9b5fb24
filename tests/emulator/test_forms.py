"""Every form of every instruction: what the emulator and a GPU answer, against what a GPU recorded.

The answers are in answers/, one file a GPU, written by record.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cudademo

np = pytest.importorskip("numpy")

import record  # noqa: E402
from form import COUNT, KINDS, PATTERN, Bits, Bound, Form, groups, make_module  # noqa: E402
from forms import CONTRADICTED, FORMS  # noqa: E402

ANSWERS = sorted(record.ANSWERS.glob("*.npz"))
# The bits of the fraction, and the exponent of the smallest normal number.
FLOATS = {"f16": (10, -14), "bf16": (7, -126), "f32": (23, -126), "f64": (52, -1022)}

_group = {form.name: group for group in groups(FORMS.values()) for form in group}
_modules: dict[str, Any] = {}  # by the name of the group's first form; None if it cannot be had
_recorded: dict[Path, dict[str, tuple[int, Bits]]] = {}


def run(form: Form, device: str) -> Bits:
    """The form's answers: from the module of its group, or alone where another form spoils that."""
    group = _group[form.name]
    first = group[0].name
    module = _modules.setdefault(first, make_module(group))
    if module is not None:
        try:
            return form.run(module, device)
        except Exception:
            _modules[first] = None
    return form.run(make_module([form]), device)


# All threads write the same word of shared memory, and read it with no barrier between.
RACY = ("cvta.shared.u64",)


def recorded(path: Path, form: Form) -> Bits:
    if path not in _recorded:
        _recorded[path] = record.load(path)[1]
    if form.name not in _recorded[path]:
        pytest.skip(f"not in {path.name}")
    digest, answers = _recorded[path][form.name]
    assert digest == form.digest, f"{path.name} is of another kernel or inputs: run record.py"
    return answers


def values(kind: str, bits: Bits) -> Any:
    """The numbers that patterns stand for, as float64."""
    if kind == "bf16":
        bits, kind = bits.astype(np.uint32) << np.uint32(16), "f32"
    real = bits.view({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind])
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return real.astype(float)


def differing(form: Form, right: Bits, found: Bits) -> list[int]:
    """The threads whose results are not what they may be."""
    wrong = np.zeros(COUNT, bool)
    for kind, one, other in zip(form.results, right.T, found.T, strict=True):
        if kind.removesuffix("x2") in FLOATS:
            halves = range(2 if kind.endswith("x2") else 1)
            for half in halves:
                width = PATTERN["h"] if kind.endswith("x2") else one.dtype
                parts = [(pattern >> (16 * half)).astype(width) for pattern in (one, other)]
                wrong |= ~_agree(form, kind.removesuffix("x2"), *parts)
        else:
            wrong |= one != other
    return [int(thread) for thread in np.flatnonzero(wrong)]


def _agree(form: Form, kind: str, right: Bits, found: Bits) -> Any:
    a, b = values(kind, right), values(kind, found)
    same = right == found
    if not form.nan_bits:
        same |= np.isnan(a) & np.isnan(b)
    if form.bound is None:
        return same
    # To the recorded answer's error comes half a unit of the other's own rounding.
    fraction, least = FLOATS[kind]
    exponent = np.maximum(np.frexp(np.where(np.isfinite(a), a, 0))[1] - 1, least)
    unit = np.ldexp(1.0, exponent - fraction)
    bound = form.bound
    with np.errstate(all="ignore"):
        allowed = np.maximum(bound.absolute, np.maximum(bound.relative * abs(a), bound.ulp * unit))
        near = abs(a - b) <= allowed + unit / 2
    return same | (np.isfinite(a) & np.isfinite(b) & near & ((a != 0) | (b != 0)))


def report(form: Form, right: Bits, found: Bits, wrong: list[int]) -> str:
    lines = [f"{form.text}   {len(wrong)} of {COUNT} threads differ"]
    for thread in wrong[:8]:
        operands = " ".join(f"{int(c[thread]):#0{2 + 2 * c.itemsize}x}" for c in form.inputs)
        texts = [
            " ".join(f"{int(value):#0{2 + 2 * row.itemsize}x}" for value in row)
            for row in (right[thread], found[thread])
        ]
        lines.append(f"thread {thread}: {operands} -> {texts[1]}, recorded {texts[0]}")
    return "\n".join(lines)


def check(form: Form, path: Path, device: str) -> None:
    right = recorded(path, form)
    found = run(form, device)
    wrong = differing(form, right, found)
    if device == "cpu" and form.name in CONTRADICTED:
        assert wrong, f"{path.name} agrees with the manual: take {form.name} from CONTRADICTED"
    else:
        assert not wrong, report(form, right, found, wrong)


@pytest.mark.parametrize("path", ANSWERS or [None], ids=lambda path: path.stem if path else "none")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_the_emulator_answers_as_the_gpu_did(form: Form, path: Path | None) -> None:
    if path is None:
        pytest.skip("no answers of a GPU: run record.py on one")
    with cudademo.use_emulator(cudademo._core.emulating(), checks=form.name not in RACY):
        check(form, path, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_the_gpu_answers_as_it_did(form: Form) -> None:
    import torch

    path = record.ANSWERS / f"{record.gpu_name()}.npz"
    if not path.exists():
        pytest.skip(f"no answers of this GPU: run record.py to write {path.name}")
    major, minor = torch.cuda.get_device_capability()
    if 10 * major + minor < form.capability:
        pytest.skip(f"needs compute capability {form.capability / 10}")
    check(form, path, "cuda")


def test_a_form_has_a_kernel_and_inputs_of_its_own() -> None:
    assert len({form.kernel for form in FORMS.values()}) == len(FORMS)
    for form in FORMS.values():
        registers = [KINDS[kind].register for kind in form.operands]
        assert [column.dtype for column in form.inputs] == [PATTERN[name] for name in registers]
        assert all(column.shape == (COUNT,) for column in form.inputs)
        assert len({KINDS[kind].register for kind in form.results}) == 1


def test_the_inputs_are_the_same_everywhere() -> None:
    # Or else the answers kept in the repository are for others.
    digests = {
        "add.sat.s32": 2296548024,
        "cvt.rn.f16.f64": 3795591947,
        "div.approx.f32": 3118472401,
        "fma.rn.f16x2": 3492639292,
        "match.any.sync.b64": 2554973373,
    }
    assert {name: FORMS[name].digest for name in digests} == digests


def test_answers_come_back_from_a_file(tmp_path: Path) -> None:
    answers = {
        "add.s32": np.arange(COUNT, dtype=np.uint32)[:, None],
        "add.s64": np.arange(COUNT, dtype=np.uint64)[:, None],
        "mov.b64 unpack": np.arange(2 * COUNT, dtype=np.uint32).reshape(COUNT, 2),
    }
    record.save(tmp_path / "a" / "gpu.npz", {"gpu": "a"}, answers)
    about, found = record.load(tmp_path / "a" / "gpu.npz")
    assert about == {"gpu": "a"}
    assert found.keys() == answers.keys()
    for name, (digest, bits) in found.items():
        assert digest == FORMS[name].digest
        assert np.array_equal(bits, answers[name])


@pytest.mark.parametrize(
    ("kind", "more", "right", "found", "agree"),
    [
        ("s32", {}, 5, 5, True),
        ("s32", {}, 5, 6, False),
        ("f32", {}, 0x7FC00001, 0x7FFFFFFF, True),
        ("f32", {"nan_bits": True}, 0x7FC00001, 0x7FFFFFFF, False),
        ("f32", {}, 0x00000000, 0x80000000, False),
        ("f32", {"bound": Bound(ulp=2)}, 0x3F800000, 0x3F800002, True),
        ("f32", {"bound": Bound(ulp=2)}, 0x3F800000, 0x3F800003, False),
        ("f32", {"bound": Bound(ulp=2)}, 0x00000000, 0x80000000, False),
        ("f32", {"bound": Bound(ulp=2)}, 0x7F7FFFFF, 0x7F800000, False),
        ("f32", {"bound": Bound(absolute=0.5)}, 0x3F800000, 0x3FC00000, True),
        ("bf16x2", {"bound": Bound(relative=0.01)}, 0x3F803F80, 0x3F803F81, True),
        ("bf16x2", {"bound": Bound(relative=0.01)}, 0x3F803F80, 0x3F833F80, False),
        ("f16x2", {}, 0x7E00_3C00, 0x7FFF_3C00, True),
        ("f16x2", {}, 0x7E00_3C00, 0x7E00_3C01, False),
    ],
)
def test_an_answer_may_differ_as_far_as_the_manual_says(
    kind: str, more: dict[str, Any], right: int, found: int, agree: bool
) -> None:
    form = Form("made up", "", (kind,), (), **more)
    patterns = [np.full((COUNT, 1), bits, np.uint32) for bits in (right, found)]
    assert (differing(form, *patterns) == []) is agree
