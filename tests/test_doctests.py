"""The examples in the docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import cudademo

NOT_PYTHON = ("__main__", "_core", "libcudademo_emulator")
MODULES = ["cudademo", *(f"cudademo.{info.name}" for info in pkgutil.iter_modules(
    cudademo.__path__) if info.name not in NOT_PYTHON)]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_hold(name: str) -> None:
    module = importlib.import_module(name)
    from cudademo import sum_double_op, sum_single_op

    del sum_double_op, sum_single_op  # fetched late: in the package's own names from now on
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    found = sum(
        len(test.examples)
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
    )
    assert found > 10
