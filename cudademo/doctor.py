"""What cudademo needs of a machine: what is there, what is not, and what to do about it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import _core, cache, compilation, toolchain
from .errors import Error


@dataclass(frozen=True)
class Check:
    """One thing looked at.

    Attributes:
        name: of the thing.
        text: what was found.
        remedy: what to do about a fault; '' where there is none.
        fatal: True where nothing can be compiled like this.
    """

    name: str
    text: str
    remedy: str = ""
    fatal: bool = False


def run(show: Callable[[str], object] = print) -> int:
    """Show the report; returns 0, or 1 where nothing can be compiled."""
    checks = list(report())
    for check in checks:
        show(f"{check.name + ':':<9}{check.text}")
        if check.remedy:
            show(f"{'':<9}-> {check.remedy}")
    return int(any(check.fatal for check in checks))


def report() -> Iterator[Check]:
    """All checks, in the order in which a launch needs things. Raises nothing."""
    yield _driver()
    yield from _gpus()
    yield _torch()
    yield from _nvrtc()
    yield _cache()


def _driver() -> Check:
    try:
        major, minor = _core.driver_version()
    except Error as error:
        text = f"none: kernels can be compiled and looked at, not launched ({error})"
        return Check("driver", text)
    return Check("driver", f"supports CUDA {major}.{minor}")


def _gpus() -> Iterator[Check]:
    try:
        devices = _core.devices()
    except Error:
        return
    if not devices:
        yield Check("GPU", "none", "start the machine or container with its GPUs passed through")
    for ordinal, (name, capability) in enumerate(devices):
        text = f"{ordinal}: {name}, compute capability {capability[0]}.{capability[1]}"
        try:
            target, _ = toolchain.target(compilation.current_toolchain(), capability)
            yield Check("GPU", f"{text}, kernels are compiled for {target}")
        except Error as error:
            yield Check("GPU", text, str(error))


def _torch() -> Check:
    try:
        import torch
    except Exception as error:  # a broken torch fails in many ways, and each is to be shown
        return Check("torch", f"cannot be imported: {error}", "pip install torch", fatal=True)
    cuda = torch.version.cuda
    text = f"{torch.__version__}, " + (f"built for CUDA {cuda}" if cuda else "without CUDA")
    remedy = ""
    if cuda is None and compilation.first_capability() is not None:
        remedy = "install a build of torch with CUDA: https://pytorch.org/get-started/locally"
    return Check("torch", text, remedy)


def _nvrtc() -> Iterator[Check]:
    try:
        tools = compilation.current_toolchain()
        toolchain.open_nvrtc(tools)
    except Error as error:
        yield Check("NVRTC", "does not work", str(error), fatal=True)
        return
    version = f"{tools.version[0]}.{tools.version[1]}"
    yield Check("NVRTC", f"{version}, {tools.nvrtc} (found by: {tools.found_by})")
    folders = toolchain.include_dirs(tools)
    for folder in folders:
        found = toolchain.header_version(folder)
        text = str(folder) + (f", CUDA {found[0]}.{found[1]}" if found else "")
        yield Check("headers", text)
    if not any((folder / "cuda_fp16.h").exists() for folder in folders):
        remedy = f"pip install 'cudademo[cu{tools.version[0]}]'"
        yield Check("headers", "no cuda_fp16.h: float16 and bfloat16 do not compile", remedy)
    elif not any((folder / "cuda" / "std").is_dir() for folder in folders):
        remedy = f"pip install 'cudademo[cu{tools.version[0]}]'"
        yield Check("headers", "no CCCL: CUB, Thrust and <type_traits> are missing", remedy)


def _cache() -> Check:
    folder = cache.folder()
    remedy = "name a folder that you can write to in CUDADEMO_CACHE_DIR"
    if folder is None:
        return Check("cache", "none: each process compiles anew", remedy)
    entries = [path.stat().st_size for path in folder.glob("??/*.cubin")]
    text = f"{folder}, {len(entries)} kernels, {sum(entries) / 1e6:.1f} MB"
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):  # permissions alone do not tell
            return Check("cache", text)
    except OSError as error:
        return Check("cache", f"{text}, cannot be written to: {error.strerror}", remedy)
