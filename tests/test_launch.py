"""Launches on the stub driver: what reaches cuLaunchKernel, and what never does."""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import Any

import pytest
from stub import DeviceArray, Stub

import cudademo
from cudademo import ArgumentError, Error, LaunchError

pytestmark = pytest.mark.usefixtures("stub")


def make(parameters: str, *, name: str = "k", prefix: str = "") -> cudademo.Kernel:
    return cudademo.kernel(f'{prefix}\nextern "C" __global__ void {name}({parameters}) {{}}', name)


def sent(stub: Stub, parameters: str, value: Any, size: int, prefix: str = "") -> bytes:
    """The bytes that the driver gets for one argument."""
    stub.record_parameters(1)
    make(parameters, prefix=prefix)[1, 32](value)
    return stub.parameter(0, size)


def refused(parameters: str, *arguments: Any, prefix: str = "") -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        make(parameters, prefix=prefix)[1, 32](*arguments)
    return caught.value


@pytest.mark.parametrize(
    ("type_", "value", "layout"),
    [
        ("float", 2.0, "<f"),
        ("float", 2, "<f"),
        ("double", 0.1, "<d"),
        ("bool", True, "<?"),
        ("signed char", -128, "<b"),
        ("unsigned char", 255, "<B"),
        ("char", -1, "<b"),
        ("short", -32768, "<h"),
        ("unsigned short", 65535, "<H"),
        ("int", -(2**31), "<i"),
        ("unsigned", 2**32 - 1, "<I"),
        ("long", -(2**63), "<q"),
        ("unsigned long", 2**64 - 1, "<Q"),
        ("long long", 2**63 - 1, "<q"),
        ("unsigned long long", 2**64 - 1, "<Q"),
    ],
)
def test_a_number_arrives_as_the_parameters_own_type(stub, type_, value, layout):
    assert sent(stub, f"{type_} s", value, struct.calcsize(layout)) == struct.pack(layout, value)


def test_a_number_arrives_as_a_half(stub):
    assert sent(stub, "__half s", 0.1, 2, "#include <cuda_fp16.h>") == struct.pack("<e", 0.1)


def test_a_number_arrives_as_a_bfloat16(stub):
    # The upper half of a float32, for a number that has no more bits than that.
    expected = struct.pack("<f", -1.5)[2:]
    assert sent(stub, "__nv_bfloat16 s", -1.5, 2, "#include <cuda_bf16.h>") == expected


def test_numpy_scalars_and_index_objects_are_numbers(stub):
    numpy = pytest.importorskip("numpy")
    assert sent(stub, "int s", numpy.int64(7), 4) == struct.pack("<i", 7)
    assert sent(stub, "float s", numpy.float32(0.5), 4) == struct.pack("<f", 0.5)


def test_none_is_a_null_pointer(stub):
    assert sent(stub, "float* p", None, 8) == bytes(8)


def test_an_array_arrives_as_its_address(stub):
    array = DeviceArray(address=0x123400)
    assert sent(stub, "const float* p", array, 8) == struct.pack("<Q", 0x123400)


def test_a_ctypes_pointer_is_a_pointer_on_purpose(stub):
    assert sent(stub, "float* p", ctypes.c_void_p(0x77), 8) == struct.pack("<Q", 0x77)


def test_a_struct_arrives_as_its_bytes(stub):
    value = struct.pack("<if", 3, 0.25)
    assert sent(stub, "P p", value, 8, "struct P { int a; float b; };") == value


def test_a_ctypes_structure_is_a_struct(stub):
    class P(ctypes.Structure):
        _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_float))

    got = sent(stub, "P p", P(3, 0.25), 8, "struct P { int a; float b; };")
    assert got == struct.pack("<if", 3, 0.25)


def test_a_complex_number_arrives_as_two_floats(stub):
    prefix = "namespace c { template <class T> struct alignas(8) complex { T re, im; }; }"
    got = sent(stub, "c::complex<float> z", 1.5 - 2j, 8, prefix)
    assert got == struct.pack("<ff", 1.5, -2.0)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int", 2**31),
        ("int", -(2**31) - 1),
        ("unsigned", -1),
        ("unsigned", 2**32),
        ("long long", 2**63),
        ("unsigned long long", 2**64),
        ("signed char", 128),
        ("bool", 2),
        ("float", 1e39),
        ("int", 1.0),
        ("int", "7"),
        ("float", "1.0"),
        ("float", 1j),
        ("float", None),
        ("int", None),
    ],
)
def test_a_number_that_does_not_fit_is_refused_by_name(stub, type_, value):
    error = refused(f"{type_} count", value)
    assert error.position == 0
    assert "count" in error.expected
    assert error.kernel == "k"
    assert "argument 0" in str(error)
    assert stub.launches == 0


def test_a_half_that_would_overflow_is_refused(stub):
    error = refused("__half s", 1e5, prefix="#include <cuda_fp16.h>")
    assert "float16" in error.expected


def test_another_dtype_than_the_pointee_is_refused_side_by_side(stub):
    error = refused("const float* x", DeviceArray("<f8"))
    assert "const* x: a float32 array on cuda:0" in error.expected
    assert error.got.startswith("float64")
    assert isinstance(error, TypeError)
    assert isinstance(error, Error)
    assert stub.launches == 0


def test_void_pointers_take_any_dtype(stub):
    make("void* p, const void* q")[1, 1](DeviceArray("<f8"), DeviceArray("|u1"))
    assert stub.launches == 1


def test_vector_pointers_take_aligned_arrays_of_their_elements(stub):
    make("float4* p")[1, 1](DeviceArray(address=0x1000))
    assert "16 bytes" in refused("float4* p", DeviceArray(address=0x1004)).expected
    assert "float32" in refused("float4* p", DeviceArray("<i4")).expected


def test_a_number_in_place_of_an_array_is_refused(stub):
    assert refused("float* p", 0x1000).got == "int 4096"


def test_an_array_in_place_of_a_number_is_refused(stub):
    assert "item()" in refused("float s", DeviceArray()).expected


def test_an_array_in_the_cpus_memory_is_refused_beside_one_on_a_gpu(stub):
    torch = pytest.importorskip("torch")
    error = refused("float* p, float* q", DeviceArray(), torch.ones(3))
    assert "CPU" in error.got
    assert error.position == 1


def test_an_array_without_memory_is_refused(stub):
    torch = pytest.importorskip("torch")
    assert "meta" in refused("float* p", torch.empty(3, device="meta")).got
    assert "freed" in refused("float* p", DeviceArray(address=0)).expected


def test_a_fake_tensor_is_refused_as_a_type_error(stub):
    pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        import torch

        fake = mode.from_tensor(torch.ones(3))
    assert "FakeTensor" in refused("float* p", fake).got


def test_an_empty_array_is_a_null_pointer(stub):
    assert sent(stub, "float* p", DeviceArray(shape=(0,), address=0), 8) == bytes(8)


def test_a_read_only_array_is_refused_where_it_would_be_written(stub):
    assert "read-only" in refused("float* p", DeviceArray(read_only=True)).expected
    make("const float* p")[1, 1](DeviceArray(read_only=True))
    assert stub.launches == 1


def test_a_wrong_count_shows_the_signature(stub):
    error = refused("const float* x, int n", DeviceArray())
    assert error.position == -1
    assert "2 arguments (float const* x, int n)" in error.expected
    assert error.got == "1"


def test_a_struct_of_another_size_is_refused(stub):
    error = refused("P p", bytes(4), prefix="struct P { int a, b; };")
    assert "8 bytes" in error.expected
    assert "these are 4" in error.expected


def test_the_right_call_works_after_a_wrong_one(stub):
    kernel = make("float* p, int n")
    with pytest.raises(ArgumentError):
        kernel[1, 1](DeviceArray("<i4"), 1)
    kernel[1, 1](DeviceArray(), 1)
    assert stub.launches == 1


def test_grid_block_and_shared_memory_reach_the_driver(stub):
    make("int n")[(3, 2, 1), (8, 4), 100](1)
    assert stub.dims == (3, 2, 1, 8, 4, 1)
    assert stub.shared_bytes == 100


def test_an_empty_grid_launches_nothing(stub):
    make("int n")[0, 32](1)
    make("int n")[(1, 0), 32](1)
    assert stub.launches == 0


@pytest.mark.parametrize(
    ("subscript", "text"),
    [
        ((-1, 32), "grid.x is -1"),
        ((2**31, 32), "grid.x is 2147483648"),
        (((1, 65536), 32), "grid.y is 65536"),
        ((1, 0), "block.x is 0"),
        ((1, 1025), "block.x is 1025"),
        ((1, (1, 1, 65)), "block.z is 65"),
        ((1, (32, 33)), "1056 threads"),
        ((1, 1, -1), "-1 bytes"),
    ],
)
def test_a_configuration_out_of_range_names_the_limit(stub, subscript, text):
    with pytest.raises(LaunchError, match="limit") as caught:
        make("int n")[subscript]
    assert text in str(caught.value)
    assert caught.value.name == "CUDA_ERROR_INVALID_VALUE"


@pytest.mark.parametrize(
    "subscript", [1, (1,), (1, 2, 3, 4), (1.5, 2), ("1", 2), (1, (1, 2, 3, 4))]
)
def test_a_malformed_configuration_is_a_type_error(stub, subscript):
    with pytest.raises(ArgumentError, match=r"kernel\[grid, block\]"):
        make("int n")[subscript]


def test_shared_memory_above_48_kb_is_opted_in_once(stub):
    kernel = make("int n", name="opted_in")
    kernel[1, 32, 100_000](1)
    kernel[1, 32, 200_000](1)
    assert stub.opted_in == 232448
    assert stub.count("cuKernelSetAttribute") == 1


def test_too_much_shared_memory_names_request_static_part_and_limit(stub):
    stub.set_static_shared(1000)
    with pytest.raises(LaunchError) as caught:
        make("int n", name="static_part")[1, 32, 232_000](1)
    for number in ("232000", "232448", "1000"):
        assert number in str(caught.value)
    assert stub.launches == 0


def test_the_arrays_device_is_made_current_for_the_launch_alone(stub):
    make("float* p")[1, 1](DeviceArray(device=1))
    assert stub.device == 1
    assert stub.current_device == -1


def test_arrays_on_two_devices_are_refused(stub):
    error = refused("float* p, float* q", DeviceArray(device=1), DeviceArray(device=0))
    assert error.position == 1
    assert "cuda:1" in error.expected
    assert "cuda:0" in error.got


@pytest.mark.parametrize("kind", ["int", "torch", "cupy", "protocol"])
def test_a_stream_of_anyones_is_taken(stub, kind):
    class Stream:
        pass

    given: Any = Stream()
    if kind == "int":
        given = 0xABC0
    elif kind == "torch":
        given.cuda_stream = 0xABC0
    elif kind == "cupy":
        given.ptr = 0xABC0
    else:
        Stream.__cuda_stream__ = lambda self: (0, 0xABC0)  # type: ignore[attr-defined]
    make("int n")[1, 1](1, stream=given)
    assert stub.stream == 0xABC0


def test_a_stream_of_another_device_is_refused(stub):
    class Stream:
        cuda_stream = 0xABC0
        device_index = 1

    with pytest.raises(ArgumentError, match="stream of cuda:0"):
        make("float* p")[1, 1](DeviceArray(), stream=Stream())


def test_what_is_no_stream_is_refused(stub):
    with pytest.raises(ArgumentError, match="stream="):
        make("int n")[1, 1](1, stream="fast")
    with pytest.raises(ArgumentError, match="stream="):
        make("int n")[1, 1](1, flow=3)


def test_the_launch_waits_for_the_arrays_producer_and_the_producer_for_it(stub):
    make("float* p")[1, 1](DeviceArray(stream=0x500), stream=0x600)
    assert stub.count("cuStreamWaitEvent") == 2


def test_an_array_of_the_launchs_own_stream_costs_no_wait(stub):
    make("float* p")[1, 1](DeviceArray(stream=0x600), stream=0x600)
    assert stub.count("cuStreamWaitEvent") == 0


def test_a_capture_is_refused_before_a_warm_up_and_works_after(stub):
    kernel = make("int n", name="captured")
    stub.set_capturing(True)
    with pytest.raises(Error, match="preload") as caught:
        kernel[1, 1](1)
    assert "captured" in str(caught.value)
    stub.set_capturing(False)
    kernel[1, 1](1)
    stub.set_capturing(True)
    kernel[1, 1](2)
    assert stub.launches == 2


def test_preload_is_a_warm_up(stub):
    source = "template <typename T, int B> __global__ void k(T* x) {}"
    kernel = cudademo.kernel(source, "k<T, B>", T=cudademo.dtype_of(0), B=cudademo.block_dim)
    kernel.preload(T="torch.float32", B=64, device=0)
    stub.set_capturing(True)
    kernel[1, 64](DeviceArray())
    assert stub.launches == 1


def test_the_drivers_words_and_the_configuration_are_in_the_error(stub):
    kernel = make("int n")
    kernel[1, 1](1)
    stub.fail_next("cuLaunchKernel", 1)
    with pytest.raises(LaunchError) as caught:
        kernel[7, 32](1)
    error = caught.value
    assert (error.call, error.code, error.name) == ("cuLaunchKernel", 1, "CUDA_ERROR_INVALID_VALUE")
    assert "grid (7, 1, 1), block (32, 1, 1)" in str(error)
    kernel[1, 1](1)
    assert stub.launches == 2


def test_a_cooperative_launch_is_asked_for_by_keyword(stub):
    kernel = make("int n")
    kernel[2, 64, 128](1, stream=5, cooperative=True)
    assert stub.count("cuLaunchCooperativeKernel") == 1
    assert (stub.dims, stub.shared_bytes, stub.stream) == ((2, 1, 1, 64, 1, 1), 128, 5)
    kernel[2, 64](1, cooperative=False)
    assert (stub.count("cuLaunchKernel"), stub.count("cuLaunchCooperativeKernel")) == (1, 1)
    stub.fail_next("cuLaunchCooperativeKernel", 720)
    with pytest.raises(LaunchError, match="this device runs at most 32768 of this kernel"):
        kernel[1 << 20, 64](1, cooperative=True)


def test_an_earlier_kernels_fault_is_not_blamed_on_this_one(stub):
    kernel = make("int n")
    stub.fail_next("cuLaunchKernel", 700)
    with pytest.raises(LaunchError, match="earlier kernel"):
        kernel[1, 1](1)


def test_a_cubin_that_the_driver_refuses_can_be_loaded_later(stub):
    kernel = make("int n", name="refused_once")
    stub.fail_next("cuLibraryLoadData", 209)
    with pytest.raises(LaunchError, match="cuLibraryLoadData"):
        kernel[1, 1](1)
    kernel[1, 1](1)
    assert stub.launches == 1


def test_each_dtype_and_each_block_is_a_variant_of_its_own(stub):
    source = "template <typename T, int B> __global__ void k(T* x) {}"
    kernel = cudademo.kernel(source, "k<T, B>", T=cudademo.dtype_of(0), B=cudademo.block_dim)
    for typestr, block in (("<f4", 32), ("<f8", 32), ("<f4", 64), ("<f4", 32)):
        kernel[1, block](DeviceArray(typestr))
    names = [variant.expression for variant in kernel.variants]
    assert names == ["k<float, 32>", "k<double, 32>", "k<float, 64>"]


def test_looking_at_a_launched_kernel_makes_no_second_variant(stub):
    kernel = make("float* p", name="looked_at")
    kernel[1, 1](DeviceArray())
    assert ".entry looked_at" in kernel.ptx()
    assert len(kernel.variants) == 1


def test_block_dim_counts_threads_and_has_axes(stub):
    source = "template <int B, int Y> __global__ void k(float* x) {}"
    kernel = cudademo.kernel(source, "k<B, Y>", B=cudademo.block_dim, Y=cudademo.block_dim.y)
    kernel[1, (8, 4, 2)](DeviceArray())
    assert kernel.variants[0].expression == "k<64, 4>"


def test_a_bound_argument_must_be_an_array(stub):
    source = "template <typename T> __global__ void k(T* x) {}"
    kernel = cudademo.kernel(source, "k<T>", T=cudademo.dtype_of(0))
    with pytest.raises(ArgumentError, match="selects the kernel"):
        kernel[1, 1](3)
    with pytest.raises(ArgumentError, match="selects the kernel"):
        kernel[1, 1]()


def test_many_arguments_are_packed_beyond_the_stack(stub):
    count = 40
    stub.record_parameters(count)
    make(", ".join(f"int a{i}" for i in range(count)))[1, 1](*range(count))
    assert [struct.unpack("<i", stub.parameter(i, 4))[0] for i in range(count)] == [*range(count)]


def test_threads_launch_the_same_kernel_at_once(stub):
    kernel = make("int n", name="threaded")
    threads = [
        threading.Thread(target=lambda: [kernel[1, 1](i) for i in range(50)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stub.launches == 400


def test_a_launcher_says_what_it_would_launch(stub):
    assert "block (32, 1, 1)" in repr(make("int n")[1, 32])
