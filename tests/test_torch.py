"""Raw kernels within torch's own machinery: compiled functions, operators of a user, graphs."""

from __future__ import annotations

import pytest
import torch

import cudademo

# What torch's compiler warns of is its own affair.
pytestmark = pytest.mark.filterwarnings("default")

AXPY = """template <typename T> __global__ void axpy(const T* x, T* y, T a, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}"""
axpy = cudademo.kernel(AXPY, "axpy<T>", T=cudademo.dtype_of(0))


def launch(x: torch.Tensor, y: torch.Tensor, a: float) -> None:
    axpy[cudademo.ceil_div(x.numel(), 256), 256](x, y, a, x.numel())


@torch.library.custom_op("cudademo_tests::axpy_", mutates_args=("y",))
def axpy_(x: torch.Tensor, y: torch.Tensor, a: float) -> None:
    launch(x, y, a)


def tensors(device: str = "cuda") -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(1000, device=device), torch.randn(1000, device=device)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_an_operator_that_mutates_is_compiled_whole(kernel_device, backend):
    def function(x, y):
        axpy_(x, y, 2.0)
        return y * 3

    x, y = tensors(kernel_device)
    expected = (2 * x + y) * 3
    torch.testing.assert_close(
        torch.compile(function, fullgraph=True, backend=backend)(x, y), expected
    )


def test_torchs_own_check_of_an_operator_that_mutates_passes(kernel_device):
    torch.library.opcheck(axpy_, (*tensors(kernel_device), 2.0))


def test_a_raw_kernel_in_a_compiled_function_is_launched(kernel_device):
    def function(x, y):
        z = x * 2
        launch(z, y, 1.0)
        return y + 1

    x, y = tensors(kernel_device)
    expected = 2 * x + y + 1
    torch.testing.assert_close(torch.compile(function, backend="aot_eager")(x, y), expected)


@pytest.mark.gpu
def test_a_first_launch_under_capture_is_refused_and_a_later_one_is_captured():
    kernel = cudademo.kernel(AXPY + "\n// of its own", "axpy<T>", T=cudademo.dtype_of(0))
    x, y = tensors()

    def run() -> None:
        kernel[4, 256](x, y, 2.0, 1000)

    def capture_too_early() -> None:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.mul(x, 2)
            run()

    with pytest.raises(cudademo.Error, match=r"axpy<T>.*being captured"):
        capture_too_early()
    kernel.preload(T=torch.float32)
    graph = torch.cuda.CUDAGraph()
    before = y.clone()
    with torch.cuda.graph(graph):
        run()
    for value in (3.0, 5.0):
        x.fill_(value)
        y.copy_(before)
        graph.replay()
        assert torch.equal(y, 2 * x + before)


def test_a_freed_tensor_is_refused_and_the_next_launch_works(kernel_device):
    x, y = tensors(kernel_device)
    freed = torch.ones(1000, device=kernel_device)
    freed.untyped_storage().resize_(0)
    with pytest.raises(cudademo.ArgumentError, match="freed"):
        launch(freed, y, 1.0)
    expected = x + y
    launch(x, y, 1.0)
    assert torch.equal(y, expected)


@pytest.mark.gpu
def test_the_streams_order_is_kept():
    x, y = torch.zeros(1 << 22, device="cuda"), torch.zeros(1 << 22, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(50):
            x.add_(1)
        launch(x, y, 1.0)
    launch_stream = torch.cuda.current_stream()
    launch_stream.wait_stream(side)
    assert y.eq(50).all()


@pytest.mark.gpu
def test_a_fault_of_an_earlier_kernel_is_reported_as_such(tmp_path):
    import child

    code = """
import torch, cudademo
bad = cudademo.kernel('extern "C" __global__ void bad(float* x) { x[1ll << 40] = 1; }', "bad")
good = cudademo.kernel('extern "C" __global__ void good(float* x) { x[0] = 1; }', "good")
x = torch.zeros(1, device="cuda")
good[1, 1](x)
bad[1, 1](x)
try:
    torch.cuda.synchronize()
except RuntimeError:
    pass
try:
    good[1, 1](x)
except cudademo.LaunchError as error:
    print(error)
"""
    ran = child.run(code, tmp_path)
    assert "An earlier kernel or copy failed" in ran.stdout, ran.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in ran.stdout
