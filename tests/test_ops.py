"""The two operators: against torch, on whatever device there is, and through its transforms."""

from __future__ import annotations

import itertools

import pytest
import torch

from cudademo import sum_double_op, sum_single_op, use_emulator

REAL = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
        torch.bfloat16, torch.float32, torch.float64]  # fmt: skip
COMPLEX = [torch.complex64, torch.complex128]


@pytest.fixture(params=["torch", "emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Where the tensors are; those of the CPU are torch's own affair, or the emulator's."""
    with use_emulator(request.param == "emulator"):
        yield "cuda" if request.param == "cuda" else "cpu"


def tensor(shape, dtype, device):
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(shape, generator=generator, dtype=torch.float64) * 10
    if dtype.is_complex:
        values = torch.complex(values, torch.randn(shape, generator=generator).double())
    return values.to(dtype).to(device)


def views(x):
    yield x
    yield x.transpose(0, -1)
    yield x[..., ::2]
    yield x[1:]
    yield x[:1].expand(3, *x.shape[1:]) if len(x) else x


@pytest.mark.parametrize("dtype", REAL + COMPLEX)
@pytest.mark.parametrize("shape", [(0, 2), (1, 1), (7, 5), (128, 130), (1 << 14, 3)])
def test_sum_double_is_torchs_sum_bit_for_bit(device, dtype, shape):
    for x in views(tensor(shape, dtype, device)):
        assert torch.equal(sum_double_op(x, x), x + x)


@pytest.mark.parametrize(("left", "right"), [*itertools.product(REAL + COMPLEX, repeat=2)])
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_sum_double_promotes_and_broadcasts_as_torch(device, left, right):
    a, b = tensor((5, 1, 7), left, device), tensor((4, 1), right, device)
    for x, y in ((a, b), (a.mT, b[:1]), (a[0, 0, 0], b)):
        got, expected = sum_double_op(x, y), x + y
        assert got.dtype == expected.dtype
        if got.dtype == torch.complex32:  # torch compares none of these
            got, expected = got.to(torch.complex64), expected.to(torch.complex64)
        assert torch.equal(got, expected)


@pytest.mark.parametrize("dtype", REAL + COMPLEX)
@pytest.mark.parametrize("shape", [(0, 2), (1, 1), (7, 5), (128, 130), (1 << 14, 3)])
def test_sum_single_is_right_to_the_dtypes_rounding(device, dtype, shape):
    for x in views(tensor(shape, dtype, device)):
        wide = torch.complex128 if dtype.is_complex else torch.float64
        expected = x.to(wide).sum().reshape(1)
        got = sum_single_op(x)
        assert got.dtype == x.sum().dtype
        epsilon = torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0
        scale = x.to(wide).abs().sum().item()
        tolerance = epsilon * expected.abs().item() + (1e-7 if epsilon else 0) * scale
        assert (got.to(wide) - expected).abs().item() <= tolerance


def test_sum_single_accumulates_wider_than_the_dtype(kernel_device):
    ones = torch.ones((1 << 24) + 1, device=kernel_device)
    assert sum_single_op(ones).item() == torch.tensor((1 << 24) + 1.0).item()
    tenth = torch.full((10**6,), 0.01, dtype=torch.float16, device=kernel_device)
    expected = (tenth.double().sum()).half()
    assert sum_single_op(tenth).item() == expected.item()


@pytest.mark.gpu
def test_sum_single_gives_the_same_bits_each_time():
    x = torch.randn(10_000_001, device="cuda")
    assert len({sum_single_op(x).item() for _ in range(20)}) == 1


def test_sum_single_gives_the_same_bits_in_whatever_order_its_blocks_run():
    x = torch.randn(300_001, generator=torch.Generator().manual_seed(1))
    found = set()
    for seed in range(8):
        with use_emulator(seed=seed):
            found.add(sum_single_op(x).item())
    assert len(found) == 1


@pytest.mark.gpu
def test_more_than_two_to_the_31_elements():
    x = torch.ones((1 << 31) + 5, dtype=torch.uint8, device="cuda")
    assert sum_single_op(x).item() == (1 << 31) + 5
    assert sum_double_op(x, x)[-1].item() == 2
    assert sum_single_op(x[1:].expand(2, -1)[:, ::2]).item() == 2 * ((1 << 30) + 2)


def test_first_and_second_gradients(device):
    a = tensor((3, 1, 4), torch.float64, device).requires_grad_()
    b = tensor((5, 1), torch.float64, device).requires_grad_()
    z = tensor((3, 2), torch.complex128, device).requires_grad_()
    assert torch.autograd.gradcheck(sum_double_op, (a, b))
    assert torch.autograd.gradgradcheck(sum_double_op, (a, b))
    assert torch.autograd.gradcheck(sum_single_op, (a,))
    assert torch.autograd.gradgradcheck(sum_single_op, (a,))
    assert torch.autograd.gradcheck(sum_single_op, (z,))


def test_gradients_keep_each_operands_dtype(device):
    a = tensor((3,), torch.float32, device).requires_grad_()
    b = tensor((2, 3), torch.float64, device).requires_grad_()
    sum_double_op(a, b).sum().backward()
    assert (a.grad.dtype, a.grad.tolist()) == (torch.float32, [2.0, 2.0, 2.0])
    assert b.grad.dtype == torch.float64


def test_no_grad_records_nothing(device):
    a = tensor((3,), torch.float32, device).requires_grad_()
    with torch.no_grad():
        assert not sum_double_op(a, a).requires_grad
        assert not sum_single_op(a).requires_grad


# torch.func.jvp scripts its own decompositions.
@pytest.mark.filterwarnings("ignore:.torch.jit.script.:DeprecationWarning")
def test_transforms_see_through_tensors_that_record_as_well(device):
    x = tensor((3,), torch.float32, device)
    w = tensor((3,), torch.float32, device).requires_grad_()

    def total(x):
        return sum_single_op(sum_double_op(sum_double_op(x, w), x)).sum()

    assert torch.func.grad(total)(x).tolist() == [2.0] * 3
    assert torch.func.jvp(total, (x,), (torch.ones_like(x),))[1].item() == 6.0
    total(x).backward()
    assert w.grad.tolist() == [1.0] * 3


def test_torchs_own_check_of_operators_passes(device):
    a = tensor((3, 1), torch.float64, device).requires_grad_()
    b = tensor((4,), torch.float64, device).requires_grad_()
    torch.library.opcheck(torch.ops.cudademo.sum_double.default, (a, b))
    torch.library.opcheck(torch.ops.cudademo.sum_single.default, (a,))


@pytest.mark.filterwarnings("default")  # of torch's compiler
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_whole_graph_is_compiled(device, backend):
    def function(x, y):
        return sum_single_op(sum_double_op(x, y) * 2)

    compiled = torch.compile(function, fullgraph=True, backend=backend)
    x, y = tensor((3, 4), torch.float32, device), tensor((4,), torch.float32, device)
    torch.testing.assert_close(compiled(x, y), function(x, y))


def test_batches_are_mapped(device):
    a, b = tensor((6, 3, 4), torch.float32, device), tensor((4,), torch.float32, device)
    assert torch.equal(torch.vmap(sum_double_op, (0, None))(a, b), a + b)
    torch.testing.assert_close(torch.vmap(sum_single_op)(a), a.sum((1, 2)).reshape(6, 1))


@pytest.mark.gpu
def test_a_cuda_graph_replays_with_changed_input():
    x = torch.ones(100_000, device="cuda")
    sum_single_op(sum_double_op(x, x))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = sum_single_op(sum_double_op(x, x))
    for value in (3.0, 5.0):
        x.fill_(value)
        graph.replay()
        assert total.item() == 2 * value * 100_000


@pytest.mark.gpu
def test_graphs_that_replay_at_once_do_not_disturb_one_another():
    x = torch.ones(1 << 22, device="cuda")
    sum_single_op(x)
    graphs, totals = [], []
    for _ in range(20):  # more than the stock of workspaces
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            totals.append(sum_single_op(x))
        graphs.append((graph, torch.cuda.Stream()))
    for _ in range(20):
        for graph, stream in graphs:
            with torch.cuda.stream(stream):
                graph.replay()
        sum_single_op(x)
    torch.cuda.synchronize()
    assert {total.item() for total in totals} == {float(1 << 22)}


def test_autocast_is_left_alone(device):
    x = torch.ones(8, device=device)
    with torch.autocast(device):
        assert sum_double_op(x, x).dtype == torch.float32


@pytest.mark.gpu
def test_a_side_stream_is_the_stream_of_the_launch():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.ones(1 << 20, device="cuda")
        total = sum_single_op(sum_double_op(x, x))
    stream.synchronize()
    assert total.item() == 2 << 20


def test_what_torch_refuses_is_refused(device):
    a, b = torch.ones(3, device=device), torch.ones(4, device=device)
    with pytest.raises(RuntimeError):
        sum_double_op(a, b)
    with pytest.raises((TypeError, RuntimeError)):
        sum_single_op([1.0])
