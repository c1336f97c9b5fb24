"""malloc, free, new and delete in kernels: right values, and each misuse at its line."""

from __future__ import annotations

import pytest

import cudademo
from cudademo import EmulatorError

torch = pytest.importorskip("torch")


def zeros(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32)


def fault(body: str, block: int = 1) -> EmulatorError:
    """What `k(int* out, int n)` raises, n being 4; its line is that of the comment FAULT."""
    source = 'extern "C" __global__ void k(int* out, int n) {\n' + body + "\n}"
    with pytest.raises(EmulatorError) as caught:
        cudademo.kernel(source, "k")[1, block](zeros(4), 4)
    lines = [i for i, line in enumerate(source.splitlines(), 1) if "FAULT" in line]
    assert caught.value.line == lines[0]
    return caught.value


def test_each_thread_gets_memory_of_its_own():
    source = """
    __global__ void k(int* out, int n) {
      int* mine = static_cast<int*>(malloc(n * sizeof(int)));
      memset(mine, 0, n * sizeof(int));
      for (int i = 0; i < n; ++i) mine[i] += threadIdx.x * 100 + blockIdx.x + i;
      int* copy = new int[n];
      memcpy(copy, mine, n * sizeof(int));
      free(mine);
      int sum = reinterpret_cast<unsigned long long>(copy) % 16 == 0 ? 0 : -1000000;
      for (int i = 0; i < n; ++i) sum += copy[i];
      delete[] copy;
      out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    }"""
    out = zeros(3 * 64)
    cudademo.kernel(source, "k")[3, 64](out, 5)
    assert out.tolist() == [5 * (i % 64 * 100 + i // 64) + 10 for i in range(3 * 64)]


def test_objects_with_virtual_functions_are_made_and_destroyed():
    source = """
    struct Shape {
      int* log;
      __device__ Shape(int* log) : log(log) {}
      __device__ virtual int area() const = 0;
      __device__ virtual ~Shape() { atomicAdd(log, 1); }
    };
    struct Square : Shape {
      int side;
      __device__ Square(int* log, int side) : Shape(log), side(side) {}
      __device__ int area() const override { return side * side; }
    };
    struct Line : Shape {
      using Shape::Shape;
      __device__ int area() const override { return 0; }
      __device__ ~Line() override { atomicAdd(log, 10); }
    };
    __global__ void k(int* out, int* log) {
      const int i = threadIdx.x;
      Shape* shape = i % 2 ? static_cast<Shape*>(new Square(log, i)) : new Line(log);
      out[i] = shape->area();
      delete shape;
    }"""
    out, log = zeros(32), zeros(1)
    cudademo.kernel(source, "k")[1, 32](out, log)
    assert out.tolist() == [i * i if i % 2 else 0 for i in range(32)]
    assert log.item() == 32 + 16 * 10


def test_memory_outlives_the_launch():
    source = """
    __device__ int* kept[8];
    __global__ void make(int n) {
      kept[threadIdx.x] = new int[n];
      for (int i = 0; i < n; ++i) kept[threadIdx.x][i] = i * threadIdx.x;
    }
    __global__ void take(int* out, int n) {
      out[threadIdx.x] = kept[threadIdx.x][n - 1];
      delete[] kept[threadIdx.x];
    }"""
    module = cudademo.module(source, kernels=["make", "take"])
    out = zeros(8)
    with cudademo.use_emulator():
        module.kernel("make")[1, 8](3)
        module.kernel("take")[1, 8](out, 3)
        assert out.tolist() == [2 * i for i in range(8)]
        with pytest.raises(EmulatorError, match="which was freed"):
            module.kernel("take")[1, 8](out, 3)


def test_beyond_eight_megabytes_malloc_gives_null():
    source = """
    __global__ void k(int* out, int pieces, int bytes) {
      void* all[20];
      for (int i = 0; i < pieces; ++i) all[i] = malloc(bytes);
      for (int i = 0; i < pieces; ++i) out[i] = all[i] != nullptr;
      for (int i = 0; i < pieces; ++i) free(all[i]);
    }"""
    kernel = cudademo.kernel(source, "k")
    for _ in range(3):  # what was freed can be had again
        out = zeros(20)
        kernel[1, 1](out, 20, 1 << 20)
        assert out.tolist() == [1] * 8 + [0] * 12


def test_blocks_wait_for_what_another_block_allocates():
    source = """
    __global__ void k(long long* at, int* out) {
      int* volatile* place = reinterpret_cast<int* volatile*>(at);
      if (blockIdx.x == 1) {
        int* made = new int(42);
        __threadfence();
        *place = made;
      } else {
        while (*place == nullptr) {}
        *out = **place;
        delete *place;
      }
    }"""
    place, out = torch.zeros(1, dtype=torch.int64), zeros(1)
    cudademo.kernel(source, "k")[2, 1](place, out)
    assert out.item() == 42


def test_a_step_past_the_end_is_found():
    error = fault("int* p = new int[n];\np[n] = 1;  // FAULT")
    assert error.kind == "out of bounds"
    assert "just past the end of 16 bytes of malloc (line 2)" in str(error)


def test_a_step_before_the_start_is_found():
    error = fault("int* p = new int[n];\nout[0] = p[n - 5];  // FAULT")
    assert "4 bytes before the start of 16 bytes of malloc (line 2)" in str(error)


def test_a_misaligned_access_names_its_allocation():
    error = fault("char* p = new char[8];\nout[0] = *reinterpret_cast<int*>(p + 1);  // FAULT")
    assert error.kind == "misaligned"
    assert error.array == "8 bytes of malloc (line 2)"


def test_a_use_after_free_is_found():
    error = fault(
        "int* p = new int[n];\np[0] = 1;\ndelete[] p;\nout[0] = *(volatile int*)p;  // FAULT"
    )
    assert error.kind == "use after free"
    assert "in 16 bytes of malloc (line 2), which was freed (line 4)" in str(error)


def test_a_second_free_is_found():
    error = fault("void* p = malloc(n);\nfree(p);\nfree(p);  // FAULT")
    assert error.kind == "invalid operation"
    assert "free of 4 bytes of malloc (line 2), which was freed already (line 3)" in str(error)


def test_a_free_of_what_malloc_has_not_given_is_found():
    error = fault("char* p = static_cast<char*>(malloc(n));\nfree(p + 1);  // FAULT")
    assert error.kind == "invalid operation"
    assert "free of an address that malloc has not given" in str(error)
    assert "malloc has not given" in str(fault("free(out);  // FAULT"))


def test_a_free_of_null_does_nothing():
    source = (
        'extern "C" __global__ void k(int* out, int n) { free(n ? nullptr : out); out[0] = 7; }'
    )
    out = zeros(1)
    cudademo.kernel(source, "k")[1, 1](out, 1)
    assert out.item() == 7


def test_a_read_of_what_nobody_wrote_is_found():
    body = "int* p = new int[n];\np[0] = 1;\nout[0] = p[0];\nout[1] = p[1];  // FAULT"
    error = fault(body)
    assert error.kind == "uninitialised read"
    assert "which no thread has written (byte 4 of it)" in str(error)


def test_a_missing_allocation_is_a_null_pointer():
    error = fault("int* p = static_cast<int*>(malloc(1ll << 40));\np[n] = 1;  // FAULT")
    assert "a null pointer" in str(error)


def test_text_in_allocated_memory_is_printed(capfd):
    source = r"""
    #include <cstdio>
    extern "C" __global__ void k() {
      char* text = static_cast<char*>(malloc(3));
      text[0] = 'h', text[1] = 'i', text[2] = 0;
      printf("%s %p\n", text, (void*)0);
      free(text);
    }"""
    with cudademo.use_emulator():
        cudademo.kernel(source, "k")[1, 1]()
    assert capfd.readouterr().out.startswith("hi ")


def test_a_flag_in_allocated_memory_orders_accesses_elsewhere():
    source = """
    __device__ int* flag;
    __global__ void k(int* out) {
      if (threadIdx.x == 0) flag = new int(0);
      __syncthreads();
      if (threadIdx.x == 0) {
        out[0] = 7;
        __threadfence();
        atomicExch(flag, 1);
      } else if (threadIdx.x == 32) {
        while (atomicAdd(flag, 0) == 0) {
        }
        __threadfence();
        out[1] = out[0];
      }
    }"""
    out = zeros(2)
    cudademo.kernel(source, "k")[1, 64](out)
    assert out.tolist() == [7, 7]
