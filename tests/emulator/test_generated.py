"""Random programs: the emulator and a GPU against what a GPU recorded, and the emulator against
itself on PTX that looks quite different.

The answers are in answers/generated-*.json, one file a GPU, written by record_generated.py.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

import cudademo

np = pytest.importorskip("numpy")

import generated  # noqa: E402
import record  # noqa: E402
import record_generated  # noqa: E402

# What ptxas 13.0 makes wrong code of when it optimises, from -O1 on. In program_53 the threads of a
# warp that a recursive function returns to first go past the __syncthreads() behind it before the
# others have done their atomicAnd(), and so read another sum than those do.
CONTRADICTED = {"program_53"}

ANSWERS = sorted(record.ANSWERS.glob("generated-*.json"))
EACH = pytest.mark.parametrize("program", generated.PROGRAMS, ids=lambda program: program.kernel)

_modules = functools.cache(generated.compiled)


@functools.cache
def emulated(program: generated.Program) -> Any:
    return program.run(_modules()[program.kernel], "cpu")


def check(program: generated.Program, path: Path, words: Any) -> None:
    recorded = json.loads(path.read_text()).get(program.kernel)
    if recorded is None:
        pytest.skip(f"not recorded in {path.name}")
    found = record_generated.summary(program, words)
    again = "is of another program or inputs: run record_generated.py"
    assert recorded["digest"] == found["digest"], f"{path.name} {again}"
    assert found == recorded


@EACH
@pytest.mark.parametrize("path", ANSWERS or [None], ids=lambda path: path.stem if path else "none")
def test_the_emulator_answers_as_the_gpu_did(program: generated.Program, path: Path | None) -> None:
    if path is None:
        pytest.skip("not recorded: run record_generated.py on a GPU")
    if program.kernel in CONTRADICTED:
        with pytest.raises(AssertionError, match="crc"):
            check(program, path, emulated(program))
        return
    check(program, path, emulated(program))


@pytest.mark.gpu
@EACH
def test_the_gpu_answers_as_it_did(program: generated.Program) -> None:
    path = record_generated.path_for(record.gpu_name())
    if not path.exists():
        pytest.skip(f"not recorded: run record_generated.py to write {path.name}")
    check(program, path, program.run(_modules()[program.kernel], "cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", sorted(CONTRADICTED))
def test_machine_code_that_is_not_optimised_answers_as_the_emulator(kernel: str) -> None:
    program = next(known for known in generated.PROGRAMS if known.kernel == kernel)
    module = generated.make_module([program], ["--ptxas-options=-O0"])
    assert np.array_equal(program.run(module, "cuda"), emulated(program))


@EACH
def test_unoptimised_code_gives_the_same(program: generated.Program) -> None:
    module = _modules(("--device-debug",))[program.kernel]
    assert np.array_equal(program.run(module, "cpu"), emulated(program))


@EACH
def test_another_order_of_blocks_and_warps_gives_the_same(program: generated.Program) -> None:
    with cudademo.use_emulator(cudademo._core.emulating(), seed=1 + program.number, checks=False):
        words = program.run(_modules()[program.kernel], "cpu")
    assert np.array_equal(words, emulated(program))


def test_the_programs_are_the_same_everywhere() -> None:
    # Or else the answers kept in the repository are for others.
    assert len({program.digest for program in generated.PROGRAMS}) == len(generated.PROGRAMS)
    assert {number: generated.Program(number).digest for number in (0, 41, 99)} == {
        0: 2819680710,
        41: 2409519108,
        99: 1682781167,
    }


def test_programs_do_not_all_come_to_the_same() -> None:
    words = [emulated(program)[:-4] for program in generated.PROGRAMS[:10]]
    assert all(len(set(found.tolist())) > generated.COUNT / 2 for found in words)
    assert len({found.tobytes() for found in words}) == len(words)


def test_what_is_kept_changes_with_every_word() -> None:
    program = generated.PROGRAMS[0]
    words = emulated(program).copy()
    words[generated.COUNT - 1] ^= 1
    assert record_generated.summary(program, words) != record_generated.summary(
        program, emulated(program)
    )
