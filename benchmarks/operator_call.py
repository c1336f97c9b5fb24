"""The host time of the two operators beside torch's own, with and without recording a gradient."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import peers
import subject
import torch
from measure import (
    Budget,
    Loop,
    Row,
    burst,
    interleaved,
    ratio,
    require_gpu,
    synchronise,
    tabulated,
)

SUITE = "operator"
DISPATCHED = "torch.ops.cudademo"
CUSTOM_OP = "torch.library.custom_op"
FUNCTION = "autograd.Function"

Operation = Callable[..., torch.Tensor]


def run(budget: Budget) -> Iterator[Row]:
    """Microseconds a call with allocation, and each one's ratio to torch's own operation."""
    require_gpu()
    ours: Any = importlib.import_module("cudademo")
    for requires_grad in (False, True):
        grad = "with a gradient" if requires_grad else "no gradient"
        a, b = (x.requires_grad_(requires_grad) for x in subject.arrays()[:2])
        pair: dict[str, tuple[Loop, Operation]] = {
            "a + b": (_plus(a, b), torch.add),
            peers.OURS: (_pair(ours.sum_double_op, a, b), ours.sum_double_op),
            DISPATCHED: (
                _pair(torch.ops.cudademo.sum_double, a, b),
                torch.ops.cudademo.sum_double,
            ),
        }
        bare = _bare_function(ours) if requires_grad else _bare_custom_op(ours)
        pair[FUNCTION if requires_grad else CUSTOM_OP] = (_pair(bare, a, b), bare)
        yield from _compare(f"sum_double, {grad}", pair, (a, b), torch.add, "a + b", budget)
        single: dict[str, tuple[Loop, Operation]] = {
            "x.sum()": (_method(a), torch.sum),
            peers.OURS: (_single(ours.sum_single_op, a), ours.sum_single_op),
            DISPATCHED: (
                _single(torch.ops.cudademo.sum_single, a),
                torch.ops.cudademo.sum_single,
            ),
        }
        yield from _compare(f"sum_single, {grad}", single, (a,), torch.sum, "x.sum()", budget)


def _compare(
    case: str,
    competitors: dict[str, tuple[Loop, Operation]],
    inputs: tuple[torch.Tensor, ...],
    reference: Operation,
    base: str,
    budget: Budget,
) -> Iterator[Row]:
    expected = reference(*(x.detach().double() for x in inputs))
    for who, (_, operation) in competitors.items():
        got = operation(*inputs)
        torch.testing.assert_close(
            got.detach().double().reshape(expected.shape), expected, rtol=1e-6, atol=1e-4, msg=who
        )
    timed = {who: burst(loop) for who, (loop, _) in competitors.items()}
    rows, failures = tabulated(SUITE, case, interleaved(timed, budget.host_rounds, synchronise))
    yield from failures
    for row in rows.values():
        yield row
        yield ratio(row, rows[base], base)


def _plus(a: torch.Tensor, b: torch.Tensor) -> Loop:
    def loop(count: int) -> None:
        for _ in range(count):
            a + b

    return loop


def _method(x: torch.Tensor) -> Loop:
    def loop(count: int) -> None:
        for _ in range(count):
            x.sum()

    return loop


def _pair(operation: Operation, a: torch.Tensor, b: torch.Tensor) -> Loop:
    def loop(count: int) -> None:
        for _ in range(count):
            operation(a, b)

    return loop


def _single(operation: Operation, x: torch.Tensor) -> Loop:
    def loop(count: int) -> None:
        for _ in range(count):
            operation(x)

    return loop


def _launch_subject(ours: Any) -> Operation:
    """The subject kernel with an allocation: what a user writes first."""
    kernel = ours.kernel(subject.SOURCE, subject.KERNEL_NAME)[subject.GRID, subject.BLOCK]

    def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = torch.empty_like(a)
        kernel(a, b, c, a.numel())
        return c

    return add


def _bare_custom_op(ours: Any) -> Operation:
    """The same made an operator by torch's high-level way."""
    add = _launch_subject(ours)

    @torch.library.custom_op("cudademo_bench::add", mutates_args=())
    def custom_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return add(a, b)

    return custom_add


def _bare_function(ours: Any) -> Operation:
    """The same with a gradient, as the tutorial wrapped it."""
    add = _launch_subject(ours)

    class Add(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return add(a, b)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return grad, grad

    return Add.apply
