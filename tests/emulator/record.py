"""Run every form of forms.py on a device and keep the answers.

python tests/emulator/record.py --device cuda --out tests/emulator/answers/nvidia-h200.npz
python tests/emulator/record.py --device cpu --form add.sat.s32       one form, printed
python tests/emulator/record.py --form add.sat.s32 --source           its CUDA C++
python tests/emulator/record.py --compile sm_90                       what ptxas refuses
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from form import COUNT, Bits, Form, groups, make_module
from forms import FORMS

ANSWERS = Path(__file__).parent / "answers"
Result = TypeVar("Result")


def gpu_name() -> str:
    """The name of torch's current GPU, as the file of its answers is called."""
    import torch

    return re.sub(r"\W+", "-", torch.cuda.get_device_name().lower()).strip("-")


def save(path: Path, about: dict[str, Any], answers: dict[str, Bits]) -> None:
    """Write answers, all of one width as one array: a member of the file each would double it."""
    columns: dict[str, list[Bits]] = {}
    listed = []
    for name, found in answers.items():
        columns.setdefault(found.dtype.name, []).append(found.ravel())
        listed.append([name, found.dtype.name, found.shape[1], FORMS[name].digest])
    arrays = {width: np.concatenate(parts) for width, parts in columns.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = np.array(json.dumps({**about, "forms": listed}))
    np.savez_compressed(path, allow_pickle=False, header=text, **arrays)


def load(path: Path) -> tuple[dict[str, Any], dict[str, tuple[int, Bits]]]:
    """The header, and by the form's name its digest and answers."""
    answers = {}
    with np.load(path) as file:
        about = json.loads(str(file["header"]))
        arrays = {width: file[width] for width in file.files if width != "header"}
    starts = dict.fromkeys(arrays, 0)
    for name, width, count, digest in about.pop("forms"):
        start = starts[width]
        starts[width] += COUNT * count
        answers[name] = digest, arrays[width][start : starts[width]].reshape(COUNT, count)
    return about, answers


def each(
    forms: Iterable[Form], work: Callable[[Any, Form], Result], architecture: str | None = None
) -> Iterator[tuple[Form, Result | Exception]]:
    """Do something with each form and its module; a form whose group fails is tried alone.

    The groups are compiled ahead, in as many threads as there are processors.
    """
    pairs = [(group, make_module(group, architecture)) for group in groups(forms)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda pair: _attempt(_compile, pair[1], pair[0][0]), pairs))
    for group, module in pairs:
        for form in group:
            done = _attempt(work, module, form)
            if isinstance(done, Exception) and len(group) > 1:
                done = _attempt(work, make_module([form], architecture), form)
            yield form, done


def _attempt(work: Callable[[Any, Form], Result], module: Any, form: Form) -> Result | Exception:
    try:
        return work(module, form)
    except Exception as error:  # of any kind: it must not cost the other forms
        return error


def _compile(module: Any, form: Form) -> int:
    return len(module.kernel(form.kernel).cubin())


def compile_all(forms: Iterable[Form], architecture: str) -> dict[str, str]:
    """What the compiler says of each form that it refuses."""
    refused = {}
    for form, done in each(forms, _compile, architecture):
        if isinstance(done, Exception):
            refused[form.name] = str(done)
    return refused


def record(forms: Iterable[Form], device: str) -> tuple[dict[str, Bits], dict[str, str]]:
    """The answers, and the text of each failure."""
    answers, failures = {}, {}
    for form, done in each(forms, lambda module, form: form.run(module, device)):
        if isinstance(done, Exception):
            failures[form.name] = f"{type(done).__name__}: {done}"
        else:
            answers[form.name] = done
    return answers, failures


def header(device: str) -> dict[str, Any]:
    """What answered: the GPU, its driver, and the versions of what lies between."""
    import torch

    import cudademo

    found = {"device": device, "cudademo": cudademo.__version__, "torch": torch.__version__}
    found["numpy"] = np.__version__
    found["cuda"] = str(torch.version.cuda)
    if device.startswith("cuda"):
        major, minor = torch.cuda.get_device_capability()
        found["gpu"] = torch.cuda.get_device_name()
        found["capability"] = str(10 * major + minor)
        version = Path("/proc/driver/nvidia/version")
        text = version.read_text() if version.exists() else ""
        number = re.search(r"\b\d+\.\d+(\.\d+)?\b", text)
        found["driver"] = number[0] if number else "unknown"
    return found


def show(form: Form, answers: Bits) -> None:
    """Each thread's operands and results, in hexadecimal."""
    print(form.name, "|", form.text)
    for i, row in enumerate(answers):
        digits = 2 * row.itemsize
        operands = " ".join(f"{int(c[i]):0{2 * c.itemsize}x}" for c in form.inputs)
        print(f"{i:4} {operands} -> {' '.join(f'{int(value):0{digits}x}' for value in row)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for the emulator")
    parser.add_argument(
        "--out", type=Path, help="the .npz file to write; answers/GPU.npz by default"
    )
    parser.add_argument("--form", action="append", help="only this form, printed, not written")
    parser.add_argument("--source", action="store_true", help="print the sources; run nothing")
    parser.add_argument("--compile", metavar="ARCH", help="compile only, and say what is refused")
    chosen = parser.parse_args()

    forms = [FORMS[name] for name in chosen.form] if chosen.form else list(FORMS.values())
    if chosen.source:
        print("\n\n".join(form.source for form in forms))
        return 0
    if chosen.compile:
        limit = int(re.sub(r"\D", "", chosen.compile))
        within = [form for form in forms if form.capability <= limit]
        failures = compile_all(within, chosen.compile)
        print(f"{chosen.compile}: {len(within)} forms, {len(failures)} refused")
    else:
        answers, failures = record(forms, chosen.device)
        if chosen.form:
            for name, found in answers.items():
                show(FORMS[name], found)
        else:
            out = chosen.out or ANSWERS / f"{gpu_name()}.npz"
            save(out, header(chosen.device), answers)
            print(f"{out}: {len(answers)} forms, {out.stat().st_size / 1024:.0f} KiB")
        print(f"{len(failures)} failed")
    for name, text in failures.items():
        print(f"-- {name}: {text}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
