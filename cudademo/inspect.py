"""Machine code as text, by the disassemblers of the CUDA toolkit."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile

from .errors import ToolchainError
from .toolchain import toolkit_roots

_TOOLS = (("nvdisasm", ["--print-code"]), ("cuobjdump", ["--dump-sass"]))


def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin.

    Raises:
        ToolchainError: neither nvdisasm nor cuobjdump is installed, or the cubin is empty (the
            device got PTX, and the driver keeps to itself what it made of that).
    """
    if not cubin:
        raise ToolchainError("this variant is PTX only: the driver compiles it, for a newer device")
    program, options = _tool()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [program, *options, file.name], capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise ToolchainError(f"{program} failed: {done.stderr.strip()}")
    return done.stdout


def entry_line(ptx: str, lowered_name: str) -> str:
    r"""The line of PTX that opens a kernel.

    >>> entry_line(".visible .entry f(\n)", "f")
    '.visible .entry f('
    """
    match = re.search(rf"^.*\.entry {re.escape(lowered_name)}\(.*$", ptx, re.MULTILINE)
    return match[0].strip() if match else ""


@functools.cache
def _tool() -> tuple[str, list[str]]:
    for name, options in _TOOLS:
        found = shutil.which(name) or _by_pathfinder(name)
        if found:
            return found, options
        for root in toolkit_roots():
            if (root / "bin" / name).exists():
                return str(root / "bin" / name), options
    raise ToolchainError(
        "no disassembler: nvdisasm or cuobjdump is needed; "
        "both come with the CUDA toolkit: pip install nvidia-cuda-nvdisasm or nvidia-cuda-cuobjdump"
    )


def _by_pathfinder(name: str) -> str | None:
    from cuda import pathfinder

    find = getattr(pathfinder, "find_nvidia_binary_utility", None)  # since 1.4
    return find(name) if find else None
