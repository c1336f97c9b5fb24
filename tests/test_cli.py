"""The commands, as a user types them."""

from __future__ import annotations

import re
from pathlib import Path

import child
import pytest

from cudademo import cli, doctor

EMULATED = "kernels are being emulated on the CPU: the same results, slowly\n"
AXPY = """template <typename T, int BLOCK>
__global__ void axpy(const T* x, T* y, T a, long long n) {
  long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}"""


@pytest.fixture
def axpy(tmp_path: Path) -> str:
    path = tmp_path / "axpy.cu"
    path.write_text(AXPY)
    return str(path)


def test_ptx_is_printed_for_the_bindings(axpy, capsys):
    assert cli.main(["ptx", axpy, "axpy<T, BLOCK>", "T=bfloat16", "BLOCK=256"]) == 0
    text = capsys.readouterr().out
    assert text.count(".entry") == 1
    assert "bf16" in text


def test_the_target_can_be_named(axpy, capsys):
    assert cli.main(["ptx", axpy, "axpy<float, 64>", "--arch", "sm_80"]) == 0
    assert ".target sm_80" in capsys.readouterr().out


def test_a_template_argument_can_be_any_cpp_text(axpy, capsys):
    assert cli.main(["ptx", axpy, "axpy<T, 64>", "T=long long"]) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["axpy<T, BLOCK>", "T"], "a binding is NAME=VALUE, not 'T'"),
        (["axpz<float, 64>"], "did you mean axpy"),
        (["axpy<T, 64>", "T=nonsense"], "nonsense"),
    ],
)
def test_a_fault_is_one_message_and_status_1(axpy, capsys, arguments, text):
    assert cli.main(["ptx", axpy, *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("cudademo: ")
    assert text in captured.err


def test_a_file_that_is_not_there_is_named(capsys):
    assert cli.main(["ptx", "/nowhere/k.cu", "k"]) == 1
    assert "/nowhere/k.cu" in capsys.readouterr().err


def test_no_command_shows_the_usage(capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main([])
    assert "usage: cudademo" in capsys.readouterr().err


def test_the_demo_asserts_times_and_shows_what_was_compiled(tmp_path):
    code = "from cudademo.cli import main; raise SystemExit(main(['demo']))"
    ran = child.run(code, tmp_path, CUDADEMO_CACHE_DIR=str(tmp_path / "cache"))
    emulated = "No GPU" in ran.stdout
    assert (ran.returncode, ran.stderr) == (0, EMULATED if emulated else "")
    for name in ("sum_single", "sum_double"):
        assert re.search(rf"^Average time cost of {name} is \d+\.\d{{4}} ms$", ran.stdout, re.M)
    assert (
        len(re.findall(r"^  for (?:sm|compute)_\w+, from the compiler, in ", ran.stdout, re.M)) == 2
    )
    assert len(re.findall(r"^  \.\w+ \.entry \w+\(", ran.stdout, re.M)) == 2
    again = child.run(code, tmp_path, CUDADEMO_CACHE_DIR=str(tmp_path / "cache"))
    assert again.stdout.count("from the disk cache") == 2


def test_without_a_gpu_the_demo_says_so(tmp_path):
    code = "from cudademo.cli import main; raise SystemExit(main(['demo']))"
    ran = child.run(code, tmp_path, CUDADEMO_DRIVER="/nowhere", CUDA_VISIBLE_DEVICES="")
    assert ran.stdout.startswith("No GPU: the kernels run on the CPU, by the emulator.")
    assert ran.stderr == EMULATED
    assert "for compute_80, from " in ran.stdout


def test_the_module_is_a_command_too(tmp_path):
    code = "import runpy, sys; sys.argv = ['cudademo', 'doctor']; runpy.run_module('cudademo')"
    ran = child.run(code, tmp_path)
    assert "NVRTC:" in ran.stdout, ran.stderr


def test_doctor_names_all_that_a_launch_needs(capsys):
    assert cli.main(["doctor"]) == 0
    shown = capsys.readouterr().out
    names = [line.split(":")[0] for line in shown.splitlines() if not line.startswith(" ")]
    assert set(names) >= {"driver", "torch", "NVRTC", "headers", "cache"}
    assert "found by: " in shown


def test_doctor_says_what_to_do_about_a_missing_nvrtc(tmp_path):
    code = "from cudademo.cli import main; raise SystemExit(main(['doctor']))"
    ran = child.run(code, tmp_path, CUDADEMO_NVRTC="/nowhere/libnvrtc.so.13")
    assert ran.returncode == 1
    assert "NVRTC:   does not work" in ran.stdout
    assert "/nowhere/libnvrtc.so.13" in ran.stdout


def test_doctor_says_what_to_do_about_a_folder_that_cannot_be_written_to(monkeypatch):
    monkeypatch.setenv("CUDADEMO_CACHE_DIR", "/proc/cudademo")
    (check,) = (check for check in doctor.report() if check.name == "cache")
    assert "cannot be written to" in check.text
    assert "CUDADEMO_CACHE_DIR" in check.remedy


def test_doctor_works_without_a_driver(tmp_path):
    code = "from cudademo.cli import main; raise SystemExit(main(['doctor']))"
    ran = child.run(code, tmp_path, CUDADEMO_DRIVER="/nowhere/libcuda.so.1")
    assert ran.returncode == 0
    assert "driver:  none: kernels can be compiled and looked at, not launched" in ran.stdout
