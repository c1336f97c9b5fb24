"""Those who launch the subject kernel: each one's imports, first launch, and calling loop.

Loops are written in each one's natural syntax, without a wrapper in between: the Python loop and
the call are part of what its user pays, and are left in.
"""

# Third parties here come and go, and most have no stubs.
# mypy: disable-error-code="import-untyped, import-not-found, unused-ignore"

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bare_nvrtc
import subject
import torch
from measure import BURST_CALLS, Loop, Missing, Timed, burst
from subject import BLOCK, GRID, KERNEL_NAME, SOURCE, SOURCE_INT32, Arrays

OURS = "cudademo"
OURS_INLINE = "cudademo k[grid, block](...)"
RAW = "raw cuLaunchKernel in C"
BARE = "bare NVRTC"
CUDA_CORE = "cuda.core"
CUPY = "CuPy"
CUPY_ON_TORCH = "CuPy on torch's stream"
COMPILE_KERNEL = "torch.cuda._compile_kernel"
TRITON = "Triton"
LOAD_INLINE = "load_inline"


@dataclass(frozen=True)
class Peer:
    """A competitor. `prepare` stays outside every clock of a first launch; `build` is inside."""

    name: str
    module: str | None
    build: Callable[[Arrays], Loop]

    def prepare(self) -> None:
        if self.module:
            importlib.import_module(self.module)


def build_ours(arrays: Arrays) -> Loop:
    a, b, c, n = arrays
    launch = _our_kernel()[GRID, BLOCK]

    def loop(count: int) -> None:
        for _ in range(count):
            launch(a, b, c, n)

    return loop


def build_ours_inline(arrays: Arrays) -> Loop:
    a, b, c, n = arrays
    kernel = _our_kernel()
    grid, block = GRID, BLOCK

    def loop(count: int) -> None:
        for _ in range(count):
            kernel[grid, block](a, b, c, n)

    return loop


def build_bare(arrays: Arrays) -> Loop:
    kernel = _bare_kernel()
    stream = torch.cuda.current_stream().cuda_stream
    pointers = [array.data_ptr() for array in arrays[:3]]

    def loop(count: int) -> None:
        for _ in range(count):
            kernel.launch(GRID, BLOCK, stream, pointers, arrays.n)

    return loop


def build_cuda_core(arrays: Arrays) -> Loop:
    """On a stream of its own, with plain addresses: its fastest way, and without torch tensors."""
    try:
        core = importlib.import_module("cuda.core")
        core.Program  # noqa: B018
    except AttributeError:
        core = importlib.import_module("cuda.core.experimental")
    device = core.Device(torch.cuda.current_device())
    device.set_current()
    options = core.ProgramOptions(std="c++17", arch=subject.architecture())
    code = core.Program(SOURCE, code_type="c++", options=options).compile("cubin")
    kernel = code.get_kernel(KERNEL_NAME)
    config = core.LaunchConfig(grid=GRID, block=BLOCK)
    launch, stream = core.launch, device.create_stream()
    a, b, c = (array.data_ptr() for array in arrays[:3])
    n = arrays.n

    def loop(count: int) -> None:
        for _ in range(count):
            launch(stream, config, kernel, a, b, c, n)

    return loop


def build_cupy(arrays: Arrays) -> Loop:
    """CuPy on its own ground: its arrays, its stream."""
    cupy: Any = importlib.import_module("cupy")
    kernel = cupy.RawKernel(SOURCE, KERNEL_NAME, options=tuple(subject.nvrtc_options()))
    a, b, c = (cupy.from_dlpack(array) for array in arrays[:3])
    n, grid, block = arrays.n, (GRID,), (BLOCK,)
    stream = cupy.cuda.Stream(non_blocking=True)

    def loop(count: int) -> None:
        with stream:
            for _ in range(count):
                kernel(grid, block, (a, b, c, n))

    return loop


def build_cupy_on_torch(arrays: Arrays) -> Loop:
    """CuPy as a torch user has to call it: torch's tensors, torch's current stream."""
    cupy: Any = importlib.import_module("cupy")
    external, current = cupy.cuda.ExternalStream, torch.cuda.current_stream
    kernel = cupy.RawKernel(SOURCE, KERNEL_NAME, options=tuple(subject.nvrtc_options()))
    a, b, c, n = arrays
    grid, block = (GRID,), (BLOCK,)

    def loop(count: int) -> None:
        for _ in range(count):
            with external(current().cuda_stream):
                kernel(grid, block, (a.data_ptr(), b.data_ptr(), c.data_ptr(), n))

    return loop


def build_compile_kernel(arrays: Arrays) -> Loop:
    compile_kernel: Any = getattr(torch.cuda, "_compile_kernel", None)
    if compile_kernel is None:
        raise Missing("this torch has no torch.cuda._compile_kernel")
    kernel = compile_kernel(SOURCE_INT32, KERNEL_NAME, nvcc_options=subject.nvrtc_options())
    a, b, c, n = arrays
    grid, block = (GRID, 1, 1), (BLOCK, 1, 1)

    def loop(count: int) -> None:
        for _ in range(count):
            kernel(grid, block, [a, b, c, n])

    return loop


def build_triton(arrays: Arrays) -> Loop:
    launch: Any = importlib.import_module("triton_add").add_arrays[(GRID,)]
    a, b, c, n = arrays
    block = BLOCK

    def loop(count: int) -> None:
        for _ in range(count):
            launch(a, b, c, n, BLOCK=block)

    return loop


def build_load_inline(arrays: Arrays) -> Loop:
    """A pybind11 function compiled by nvcc and the host compiler against torch's headers."""
    cpp_extension = importlib.import_module("torch.utils.cpp_extension")
    if cpp_extension.CUDA_HOME is None or shutil.which("ninja") is None:
        raise Missing("load_inline needs nvcc and ninja")
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", ".".join(subject.architecture()[3:]))
    declaration = "void launch_add(torch::Tensor a, torch::Tensor b, torch::Tensor c, int64_t n);"
    definition = f"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
{SOURCE}
void launch_add(torch::Tensor a, torch::Tensor b, torch::Tensor c, int64_t n) {{
  {KERNEL_NAME}<<<{GRID}, {BLOCK}, 0, c10::cuda::getCurrentCUDAStream()>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}}
"""
    launch = cpp_extension.load_inline(
        "cudademo_bench_add", declaration, definition, functions=["launch_add"]
    ).launch_add
    a, b, c, n = arrays

    def loop(count: int) -> None:
        for _ in range(count):
            launch(a, b, c, n)

    return loop


def raw_burst(arrays: Arrays) -> Timed:
    """Host seconds of one raw launch; the loop and its clock are in C."""
    function = _raw_library().raw_burst
    function.restype = ctypes.c_double
    pointer, unsigned = ctypes.c_void_p, ctypes.c_uint
    function.argtypes = [pointer, unsigned, unsigned, pointer, pointer, pointer, pointer,
                         ctypes.c_longlong, ctypes.c_int]  # fmt: skip
    kernel = _bare_kernel()
    stream = torch.cuda.current_stream().cuda_stream
    a, b, c = (array.data_ptr() for array in arrays[:3])

    def timed() -> float:
        seconds: float = function(
            kernel.handle, GRID, BLOCK, stream, a, b, c, arrays.n, BURST_CALLS
        )
        if seconds < 0:
            raise RuntimeError(f"cuLaunchKernel: status {-seconds:.0f}")
        return seconds / BURST_CALLS

    return timed


PEERS = {
    peer.name: peer
    for peer in (
        Peer(OURS, "cudademo", build_ours),
        Peer(OURS_INLINE, "cudademo", build_ours_inline),
        Peer(BARE, None, build_bare),
        Peer(CUDA_CORE, "cuda.core", build_cuda_core),
        Peer(CUPY, "cupy", build_cupy),
        Peer(CUPY_ON_TORCH, "cupy", build_cupy_on_torch),
        Peer(LOAD_INLINE, "torch.utils.cpp_extension", build_load_inline),
        Peer(TRITON, "triton", build_triton),
        Peer(COMPILE_KERNEL, None, build_compile_kernel),
    )
}


def launcher(name: str, arrays: Arrays) -> Timed:
    """The competitor's burst, after a first launch whose result was right."""
    if name == RAW:
        timed = raw_burst(arrays)
        timed()
    else:
        peer = PEERS[name]
        peer.prepare()
        loop = peer.build(arrays)
        loop(1)
        timed = burst(loop)
    torch.cuda.synchronize()
    subject.check(arrays)
    return timed


def _our_kernel() -> Any:
    cudademo: Any = importlib.import_module("cudademo")
    return cudademo.kernel(SOURCE, KERNEL_NAME, options=subject.nvrtc_options())


def _bare_kernel() -> bare_nvrtc.LoadedKernel:
    options = [*subject.nvrtc_options(), f"-arch={subject.architecture()}", "-lineinfo"]
    cubin = bare_nvrtc.compile_cubin(bare_nvrtc.find_nvrtc(), SOURCE, options)
    return bare_nvrtc.LoadedKernel(cubin, KERNEL_NAME)


@functools.cache
def _raw_library() -> ctypes.CDLL:
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        raise Missing("no host compiler")
    source = Path(__file__).with_name("raw_launch.cpp")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "raw_launch.so")
        subprocess.run(
            [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"],
            check=True,
        )
        return ctypes.CDLL(str(library))
