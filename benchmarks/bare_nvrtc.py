"""NVRTC and the CUDA driver through ctypes, with nothing in between: the floor of a cold start.

It checks every status and does nothing else: no cache, no signature, no argument checks.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence

from measure import Missing

_FIND_NVRTC = (
    "import torch; from cuda.pathfinder import load_nvidia_dynamic_lib as load;"
    "print(load('nvrtc').abs_path)"
)


def find_nvrtc() -> str:
    """The path of the NVRTC that a process with torch in it would use.

    Looked for in another process: finding it loads it, and loading is what a cold start pays for.
    """
    known = os.environ.get("BENCH_NVRTC")
    if known:
        return known
    found = subprocess.run(
        [sys.executable, "-c", _FIND_NVRTC], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        lines = found.stderr.strip().splitlines()
        raise Missing(f"no NVRTC: {lines[-1] if lines else 'cuda.pathfinder failed'}")
    return found.stdout.strip().splitlines()[-1]


def nvrtc_version(path: str) -> tuple[int, int]:
    """Major and minor version of the NVRTC at `path`; loads it into this process."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(ctypes.CDLL(path).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
    return major.value, minor.value


def compile_cubin(nvrtc_path: str, source: str, options: Sequence[str]) -> bytes:
    """Open NVRTC and compile `source` to a cubin; raises RuntimeError with the log."""
    nvrtc = ctypes.CDLL(nvrtc_path)
    program = ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"bare.cu", 0, None, None
    )
    _check(created, "nvrtcCreateProgram")
    flags = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    status = nvrtc.nvrtcCompileProgram(program, len(options), flags)
    size = ctypes.c_size_t()
    if status != 0:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        raise RuntimeError(f"nvrtcCompileProgram: status {status}\n{log.value.decode()}")
    _check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "nvrtcGetCUBINSize")
    cubin = ctypes.create_string_buffer(size.value)
    _check(nvrtc.nvrtcGetCUBIN(program, cubin), "nvrtcGetCUBIN")
    _check(nvrtc.nvrtcDestroyProgram(ctypes.byref(program)), "nvrtcDestroyProgram")
    return cubin.raw


class LoadedKernel:
    """A kernel out of a cubin, in the current context; never unloaded."""

    def __init__(self, cubin: bytes, name: str) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        library, kernel, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self._cubin = cubin
        loaded = self._driver.cuLibraryLoadData(
            ctypes.byref(library), cubin, None, None, 0, None, None, 0
        )
        _check(loaded, "cuLibraryLoadData")
        got = self._driver.cuLibraryGetKernel(ctypes.byref(kernel), library, name.encode())
        _check(got, "cuLibraryGetKernel")
        # A CUfunction launches a little faster than a CUkernel, which is looked up each time.
        _check(
            self._driver.cuKernelGetFunction(ctypes.byref(function), kernel), "cuKernelGetFunction"
        )
        self.handle: int = function.value or 0

    def launch(self, grid: int, block: int, stream: int, pointers: Sequence[int], n: int) -> None:
        """Launch with some pointers and one 64-bit integer."""
        values = [*(ctypes.c_void_p(pointer) for pointer in pointers), ctypes.c_longlong(n)]
        slots = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        status = self._driver.cuLaunchKernel(
            ctypes.c_void_p(self.handle),
            grid, 1, 1, block, 1, 1, 0, ctypes.c_void_p(stream), slots, None,
        )  # fmt: skip
        _check(status, "cuLaunchKernel")


def _check(status: int, call: str) -> None:
    if status != 0:
        raise RuntimeError(f"{call}: status {status}")
