"""Several processes and their ends: kills, forks, interrupts, exits."""

from __future__ import annotations

import signal
from pathlib import Path

import child
import pytest

# Says when it is about to compile, which then takes a second at least.
SLOW = """
import cudademo
from cudademo import _core
compile_ = _core.compile
def told(*arguments):
    print("compiling", flush=True)
    return compile_(*arguments)
_core.compile = told
s = '''#include <type_traits>
#include <cuda/std/tuple>
#include <cub/block/block_radix_sort.cuh>
extern "C" __global__ void k(int* x) {
  using Sort = cub::BlockRadixSort<int, 128, 8>;
  __shared__ typename Sort::TempStorage storage;
  int mine[8]; for (int i = 0; i < 8; ++i) mine[i] = x[i];
  Sort(storage).Sort(mine); for (int i = 0; i < 8; ++i) x[i] = mine[i]; }'''
"""
QUICK = """
import cudademo
s = 'extern "C" __global__ void k(int n) {}'
k = cudademo.kernel(s, "k")
"""


def test_after_a_kill_in_mid_compile_the_next_process_finishes(tmp_path: Path) -> None:
    code = SLOW + "print(len(cudademo.kernel(s, 'k').cubin()) > 0)"
    cache = str(tmp_path / "cache")
    victim = child.start(code, tmp_path, CUDADEMO_CACHE_DIR=cache)
    assert victim.stdout is not None
    assert victim.stdout.readline() == "compiling\n"
    victim.kill()
    victim.communicate()
    assert victim.returncode == -signal.SIGKILL
    assert not list(Path(cache).glob("??/*"))
    ran = child.run(code, tmp_path, CUDADEMO_CACHE_DIR=cache)
    assert (ran.stdout, ran.stderr) == ("compiling\nTrue\n", "")
    assert len(list(Path(cache).glob("??/*"))) == 1


def test_an_interrupt_stops_a_compile_and_the_next_one_works(tmp_path: Path) -> None:
    code = (
        SLOW
        + """
import signal  # a job in a shell's background inherits that it is ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    cudademo.kernel(s, "k").cubin()
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(len(cudademo.kernel('extern "C" __global__ void q() {}', "q").cubin()) > 0)
"""
    )
    process = child.start(code, tmp_path, CUDADEMO_CACHE_DIR=str(tmp_path / "cache"))
    assert process.stdout is not None
    assert process.stdout.readline() == "compiling\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (out, err, process.returncode) == ("interrupted\ncompiling\nTrue\n", "", 0)


@pytest.mark.usefixtures("driver")
def test_import_then_fork_then_use_in_the_child_works(tmp_path: Path) -> None:
    code = (
        QUICK
        + """
import os
pid = os.fork()
if pid == 0:
    k[1, 32](7)
    os._exit(0)
print(os.waitpid(pid, 0)[1])
"""
    )
    ran = child.run(code, tmp_path)
    assert (ran.stdout, ran.stderr) == ("0\n", "")


@pytest.mark.usefixtures("driver")
def test_use_then_fork_then_use_in_the_child_says_spawn(tmp_path: Path) -> None:
    code = (
        QUICK
        + """
import os, warnings
k[1, 32](7)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Python 3.12's, of a fork beside threads
    pid = os.fork()
if pid == 0:
    try:
        k[1, 32](7)
    except cudademo.ToolchainError as error:
        os._exit(3 if "'spawn'" in str(error) else 4)
    os._exit(0)
status = os.waitpid(pid, 0)[1]
k[1, 32](7)  # and the parent is as well as before
print(os.waitstatus_to_exitcode(status))
"""
    )
    ran = child.run(code, tmp_path)
    assert (ran.stdout, ran.stderr) == ("3\n", "")


@pytest.mark.usefixtures("driver")
def test_a_process_that_launched_ends_without_a_word(tmp_path: Path) -> None:
    code = (
        QUICK
        + """
k[1, 32](7)
class Late:
    def __del__(self, k=k):
        k.cubin()
late = Late()
import sys; sys.modules["kept"] = late
"""
    )
    ran = child.run(code, tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.usefixtures("driver")
def test_a_launch_from_a_warm_cache_does_not_open_nvrtc(tmp_path: Path) -> None:
    code = QUICK + "k[1, 32](7); print(cudademo._core.loaded_library('libnvrtc.so'))"
    cache = str(tmp_path / "cache")
    cold, warm = (child.run(code, tmp_path, CUDADEMO_CACHE_DIR=cache) for _ in "ab")
    assert "libnvrtc" in cold.stdout, cold.stderr
    assert (warm.stdout, warm.stderr) == ("None\n", "")


def test_eight_processes_at_once_leave_whole_entries_only(tmp_path: Path) -> None:
    code = """
import cudademo
print("ready", flush=True)
input()
for i in range(8):
    s = f'extern "C" __global__ void k(float* x) {{ x[0] = {i}; }}'
    assert cudademo.kernel(s, "k").cubin()
"""
    cache = tmp_path / "cache"
    running = [child.start(code, tmp_path, CUDADEMO_CACHE_DIR=str(cache)) for _ in range(8)]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    ended = [process.communicate() for process in running]
    assert [err for _, err in ended] == [""] * 8
    assert [process.returncode for process in running] == [0] * 8
    assert len(list(cache.glob("??/*.cubin"))) == 8
    assert len(list(cache.glob("??/*"))) == 8
    ran = child.run(code.replace("input()", ""), tmp_path, CUDADEMO_CACHE_DIR=str(cache))
    assert ran.stderr == ""


def test_a_home_that_cannot_be_written_to_is_one_warning(tmp_path: Path) -> None:
    code = """
import os
del os.environ["CUDADEMO_CACHE_DIR"]
os.environ.pop("XDG_CACHE_HOME", None)
os.environ["HOME"] = "/proc"  # not even root writes there
import cudademo
for i in range(2):
    s = f'extern "C" __global__ void k(float* x) {{ x[0] = {i}; }}'
    assert cudademo.kernel(s, "k").cubin()
"""
    ran = child.run(code, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("CacheWarning") == 1
    assert "CUDADEMO_CACHE_DIR" in ran.stderr


def test_a_folder_of_another_user_that_anyone_can_write_to_is_refused(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    import cudademo

    fresh_cache.mkdir()
    fresh_cache.chmod(0o777)
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    kernel = cudademo.kernel('extern "C" __global__ void k(float* x) {}', "k")
    with pytest.warns(cudademo.CacheWarning, match="belongs to another user"):
        assert kernel.latest().compiled.origin == "compiler"
    assert not list(fresh_cache.iterdir())
