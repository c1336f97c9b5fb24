"""The video instructions against the manual's definition, in Python's integers.

A form of forms.py is read anew here: its opcode, types, modifiers, and the parts of its operands.
"""

from __future__ import annotations

import operator
import re

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("torch")

from forms import FORMS, Form  # noqa: E402
from test_forms import run  # noqa: E402

VIDEO = [form for form in FORMS.values() if re.match(r"v(?!ote)", form.name)]
COMPUTE = {
    "vadd": operator.add,
    "vsub": operator.sub,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
    "vavrg": lambda a, b: (a + b + 1) // 2 if a + b >= 0 else (a + b) // 2,
}
COMPARE = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}


def number(bits: int, width: int, is_signed: bool) -> int:
    bits &= (1 << width) - 1
    return bits - (1 << width) if is_signed and bits >> (width - 1) else bits


def clamp(value: int, width: int, is_signed: bool) -> int:
    least = -(1 << (width - 1)) if is_signed else 0
    return max(least, min(value, least + (1 << width) - 1))


def place(selector: str) -> tuple[int, int]:
    """The width and the lowest bit of a part."""
    if not selector:
        return 32, 0
    width = {"b": 8, "h": 16}[selector[0]]
    return width, int(selector[1]) * width


def part(bits: int, selector: str, is_signed: bool) -> int:
    width, low = place(selector)
    return number(bits >> low, width, is_signed)


def merged(value: int, around: int, width: int, low: int) -> int:
    field = ((1 << width) - 1) << low
    return (around & ~field & 0xFFFFFFFF) | (value << low & field)


def right(form: Form, a: int, b: int, c: int = 0) -> int:
    opcode, *modifiers = form.text.split()[0].split(".")
    places = [word.strip(",; ").lstrip("-$") for word in form.text.split()[1:]]
    selectors = [word.partition(".")[2] for word in places]
    signs = [modifier == "s32" for modifier in modifiers if modifier in ("s32", "u32")]
    if opcode.startswith("vset"):
        signs.insert(0, False)
    if opcode == "vmad":
        return product(form, modifiers, selectors, signs, (a, b, c)) & 0xFFFFFFFF
    if opcode[-1] in "24":
        return side_by_side(opcode, modifiers, selectors, signs, (a, b, c)) & 0xFFFFFFFF
    x, y = part(a, selectors[1], signs[1]), part(b, selectors[2], signs[2])
    if opcode in ("vshl", "vshr"):
        by = y % 32 if "wrap" in modifiers else min(y, 32)
        value = x << by if opcode == "vshl" else x >> by
    else:
        value = compute(opcode, modifiers)(x, y)
    width, low = place(selectors[0])
    if "sat" in modifiers:
        value = clamp(value, width, signs[0])
    third = number(c, 32, signs[0])
    for name, second in (("add", operator.add), ("min", min), ("max", max)):
        if name in modifiers:
            value = second(value, third)
    return merged(value, c, width, low)


def compute(opcode, modifiers):
    if opcode == "vset":
        return next(COMPARE[modifier] for modifier in modifiers if modifier in COMPARE)
    return COMPUTE[opcode]


def side_by_side(opcode, modifiers, selectors, signs, operands) -> int:
    a, b, c = operands
    count = int(opcode[-1])
    width = 32 // count
    elements = [source >> (width * i) for source in (a, b) for i in range(count)]
    default = "".join(str(i) for i in reversed(range(2 * count)))
    mask = selectors[0][1:] or default[count:]
    first = (selectors[1][1:] or default[count:])[::-1]
    second = (selectors[2][1:] or default[:count])[::-1]
    made = c
    for i in range(count):
        if str(i) not in mask:
            continue
        x = number(elements[int(first[i])], width, signs[1])
        y = number(elements[int(second[i])], width, signs[2])
        value = int(compute(opcode[:-1], modifiers)(x, y))
        if "sat" in modifiers:
            value = clamp(value, width, signs[0])
        made = made + value if "add" in modifiers else merged(value, made, width, width * i)
    return made


def product(form, modifiers, selectors, signs, operands) -> int:
    x, y = (part(operands[i], selectors[i + 1], signs[i + 1]) for i in (0, 1))
    negative = [f"-${name}" in form.text for name in "abc"]
    is_signed = any([signs[1], signs[2], negative[0] != negative[1], negative[2]])
    value = -x * y if negative[0] != negative[1] else x * y
    third = number(operands[2], 32, is_signed)
    value += (-third if negative[2] else third) + ("po" in modifiers)
    value >>= 7 * ("shr7" in modifiers) + 15 * ("shr15" in modifiers)
    return clamp(value, 32, is_signed) if "sat" in modifiers else value


@pytest.mark.parametrize("form", VIDEO, ids=[form.name for form in VIDEO])
def test_the_emulator_computes_what_the_manual_defines(form):
    found = run(form, "cpu")[:, 0]
    columns = [[int(bits) for bits in column] for column in form.inputs]
    wanted = [right(form, *operands) for operands in zip(*columns, strict=True)]
    assert found.tolist() == wanted
