"""Arrays of other owners: by DLPack's exchange table, its capsules, and the real libraries."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import pytest
from stub import Stub

import cudademo
from cudademo import ArgumentError

CUDA, METAL = 2, 8
FLOAT32, BFLOAT16 = (2, 32, 1), (4, 16, 1)
ADDRESS = 0x200000


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    """DLTensor, as DLPack 1.3 lays it out."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32),
        ("dtype", DataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor),
    ]  # fmt: skip


FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
WORK_STREAM = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class ExchangeApi(ctypes.Structure):
    """DLPackExchangeAPI, of which a borrower needs the last two functions."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p), ("managed_from", ctypes.c_void_p),
        ("managed_to", ctypes.c_void_p), ("from_object", FROM_OBJECT), ("stream", WORK_STREAM),
    ]  # fmt: skip


def capsule(structure: ctypes.Structure, name: bytes) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    return new(ctypes.addressof(structure), name, None)


def fill(tensor: Tensor, array: Any) -> None:
    extents = (ctypes.c_int64 * len(array.shape))(*array.shape)
    array.kept = extents
    tensor.data, tensor.device = array.address, Device(*array.device)
    tensor.ndim, tensor.dtype = len(array.shape), DataType(*array.dtype)
    tensor.shape, tensor.strides, tensor.byte_offset = extents, None, array.offset


class Array:
    """What all of them have."""

    def __init__(self, dtype: Any = FLOAT32, device: Any = (CUDA, 0), *, offset: int = 0) -> None:
        self.address, self.shape = ADDRESS, (8,)
        self.dtype, self.device, self.offset = dtype, device, offset


@FROM_OBJECT
def from_object(array: Any, out: Any) -> int:
    fill(out.contents, array)
    return 0


@WORK_STREAM
def work_stream(device_type: int, device: int, out: Any) -> int:
    out[0] = 0x77
    return 0


API_NAME = b"dlpack_exchange_api"
API = ExchangeApi(1, 3, None, None, None, None, from_object, work_stream)
FUTURE = ExchangeApi(2, 0, ctypes.addressof(API), None, None, None, from_object, work_stream)


class Exchanged(Array):
    """By the table on its type."""

    __dlpack_c_exchange_api__ = capsule(API, API_NAME)


class ExchangedLater(Array):
    """By a table of a later DLPack, which has the one that is known as its previous."""

    __dlpack_c_exchange_api__ = capsule(FUTURE, API_NAME)


class Exported(Array):
    """By __dlpack__."""

    flags = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        self.options = options
        self.managed = Versioned(1, 0, None, None, self.flags)
        fill(self.managed.tensor, self)
        return capsule(self.managed, b"dltensor_versioned")


class ExportedReadOnly(Exported):
    flags = 1


class ExportedLegacy(Exported):
    """An owner from before DLPack 1.0, which knows of no version."""

    def __dlpack__(self, *, stream: int | None = None) -> Any:  # type: ignore[override]
        self.managed = Tensor()
        fill(self.managed, self)
        return capsule(self.managed, b"dltensor")


def make(parameters: str) -> cudademo.Kernel:
    return cudademo.kernel(f'extern "C" __global__ void k({parameters}) {{}}', "k")


def address_sent(stub: Stub, array: Any) -> int:
    stub.record_parameters(1)
    make("float* x")[1, 32](array)
    return int.from_bytes(stub.parameter(0, 8), "little")


@pytest.mark.parametrize("kind", [Exchanged, ExchangedLater, Exported, ExportedLegacy])
def test_an_array_of_anyones_arrives_as_the_address_of_its_first_element(stub, kind):
    assert address_sent(stub, kind(offset=16)) == ADDRESS + 16


@pytest.mark.parametrize("kind", [Exchanged, Exported])
def test_dlpacks_dtypes_are_known(stub, kind):
    with pytest.raises(ArgumentError, match="got bfloat16 E"):
        make("float* x")[1, 32](kind(BFLOAT16))
    cudademo.kernel(AXPY, "axpy<T>", T=cudademo.dtype_of(0))[1, 32](
        kind(BFLOAT16), kind(BFLOAT16), 1.0, 8
    )


@pytest.mark.parametrize("kind", [Exchanged, Exported])
def test_an_array_where_no_kernel_runs_is_refused(stub, kind):
    with pytest.raises(ArgumentError, match="in memory that no kernel reaches"):
        make("float* x")[1, 32](kind(device=(METAL, 0)))
    assert stub.launches == 0


def test_the_launch_and_the_tables_stream_wait_for_one_another(stub):
    make("float* x")[1, 32](Exchanged())
    assert stub.count("cuStreamWaitEvent") == 2


def test_an_exporter_is_told_the_stream_of_the_launch(stub):
    array = Exported()
    make("float* x")[1, 32](array, stream=0x55)
    assert array.options["stream"] == 0x55
    make("float* x")[1, 32](array, stream=0)
    assert array.options["stream"] == 1  # DLPack's word for the legacy default stream


def test_a_read_only_export_is_an_input_and_no_output(stub):
    make("const float* x")[1, 32](ExportedReadOnly())
    with pytest.raises(ArgumentError, match="read-only"):
        make("float* x")[1, 32](ExportedReadOnly())


def test_the_device_of_the_array_is_that_of_the_launch(stub):
    make("float* x")[1, 32](Exchanged(device=(CUDA, 1)))
    assert stub.device == 1


# What these libraries warn of is their own affair.
theirs = pytest.mark.filterwarnings("default")

AXPY = """template <typename T> __global__ void axpy(const T* x, T* y, T a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}"""


def axpy() -> cudademo.Kernel:
    return cudademo.kernel(AXPY, "axpy<T>", T=cudademo.dtype_of(0))


def test_a_torch_without_the_table_is_read_by_its_attributes(kernel_device):
    import torch

    class Old(torch.Tensor):
        __dlpack_c_exchange_api__ = None  # torch before 2.11

    x, y = torch.arange(1000.0, device=kernel_device), torch.ones(1001, device=kernel_device)[1:]
    where = "on cuda:0" if x.is_cuda else "in the CPU's memory"
    axpy()[4, 256](x.as_subclass(Old), y.as_subclass(Old), 2.0, 1000)
    assert torch.equal(y.cpu(), 2 * torch.arange(1000.0) + 1)
    with pytest.raises(ArgumentError, match=f"got float32 Old {where}"):
        axpy()[4, 256](x.double(), y.as_subclass(Old), 2.0, 1000)
    lazy = torch.zeros(8, dtype=torch.complex64, device=kernel_device).conj().imag.as_subclass(Old)
    with pytest.raises(ArgumentError, match="negated"):
        axpy()[4, 256](lazy, y, 2.0, 8)


@pytest.mark.gpu
@theirs
def test_cupys_arrays_are_read_and_written():
    cupy = pytest.importorskip("cupy")
    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.ones(1000, dtype=cupy.float32)
    axpy()[4, 256](x, y, 2.0, 1000)
    cupy.testing.assert_array_equal(y, 2 * cupy.arange(1000, dtype=cupy.float32) + 1)


@pytest.mark.gpu
@theirs
def test_cupys_arrays_on_cupys_stream_and_torchs_on_torchs_are_in_order():
    cupy = pytest.importorskip("cupy")
    import torch

    stream = cupy.cuda.Stream(non_blocking=True)
    y = torch.zeros(1 << 22, device="cuda")
    with stream:
        x = cupy.ones(1 << 22, dtype=cupy.float32)
        for _ in range(50):
            x = x + 1
        axpy()[1 << 14, 256](x, y, 1.0, 1 << 22)
    assert y.eq(51).all()


@pytest.mark.gpu
@theirs
def test_jaxs_arrays_are_inputs_and_no_outputs(monkeypatch):
    monkeypatch.setitem(os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    import torch

    if jax.default_backend() != "gpu":
        pytest.skip("jax has no GPU here")
    x, y = jax.numpy.arange(1000, dtype="float32"), torch.ones(1000, device="cuda")
    axpy()[4, 256](x, y, 2.0, 1000)
    assert torch.equal(y.cpu(), 2 * torch.arange(1000.0) + 1)
    with pytest.raises(ArgumentError, match="read-only"):
        axpy()[4, 256](y, x, 2.0, 1000)


@pytest.mark.gpu
def test_tensors_of_the_second_gpu_run_there_and_the_first_stays_current():
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x, y = torch.arange(1000.0, device="cuda:1"), torch.ones(1000, device="cuda:1")
    axpy()[4, 256](x, y, 2.0, 1000)
    assert torch.cuda.current_device() == 0
    assert torch.equal(y.cpu(), 2 * torch.arange(1000.0) + 1)
    with pytest.raises(ArgumentError, match="an array on cuda:1"):
        axpy()[4, 256](x, torch.ones(1000, device="cuda:0"), 2.0, 1000)
