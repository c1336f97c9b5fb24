// Arrays borrowed from their owners (torch, CuPy, JAX, numba) for the time of a launch.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "driver.hpp"
#include "dtype.hpp"
#include "python/dlpack.hpp"

namespace cudademo {

// What a launch needs to know of one argument. Without initialisers, so that an array of them costs
// nothing.
struct Array {
  enum class Place : std::uint8_t {
    none,    // not an array
    device,  // in the memory of a GPU
    host,    // anywhere else
  };

  Place place;
  Dtype dtype;
  bool read_only;
  int device;  // the GPU's ordinal; driver::emulator_ordinal for what the emulator can reach
  std::int64_t elements;
  void* data;  // of the first element; null where there are none
};

// True for an array that a kernel on this device can take.
inline bool is_reachable(const Array& array, int device) noexcept {
  return array.device == device && array.place != Array::Place::none;
}

// The dtype of a tensor's elements; unknown for vectors of several lanes.
Dtype dtype_of(const dlpack::Tensor& tensor);

// The tensor behind an object, by its owner's exchange table; nothing where it has no such table or
// refuses. It stays valid while nobody changes the object.
std::optional<dlpack::Tensor> exchange_view(PyObject* object);

// An object that is an array, but one that no kernel can take; `got` says what it is and why.
struct Refused {
  std::string got;
};

// Borrows arrays for one launch, and orders its stream after those who wrote them.
class Borrower {
 public:
  // `stream` is where the launch will go; null handle and `has_stream` false: torch's current
  // stream.
  Borrower() = default;
  explicit Borrower(driver::Stream stream) : stream_(stream), has_stream_(true) {}
  ~Borrower();
  Borrower(const Borrower&) = delete;
  Borrower& operator=(const Borrower&) = delete;

  // Looks at one argument. Throws Refused, or PythonError where the array's own method raised.
  Array borrow(PyObject* object);

  // The bytes from the first to the last element of an array that was borrowed from the CPU's
  // memory, and words for it: "argument 1, float32 of shape (10,)".
  struct HostView {
    const std::byte* begin;
    const std::byte* end;
    std::string label;
    bool writable;
  };
  const std::vector<HostView>& host_views() const noexcept { return host_views_; }

  // The stream of the launch: the one given, else torch's current one on this device.
  driver::Stream stream(int device);

  // Around a launch that took arrays of others than torch: their streams and ours wait for one
  // another.
  bool has_producers() const noexcept { return !producers_.empty(); }
  void wait_for_producers(int device);
  void let_producers_wait(int device);

 private:
  Array from_exchange(PyObject* object, const dlpack::ExchangeApi& api, bool is_torch);
  Array from_torch(PyObject* object);
  Array from_dlpack(PyObject* object);
  Array from_interface(PyObject* object);

  void see(const dlpack::Tensor& tensor, const Array& array);

  driver::Stream stream_ = nullptr;
  bool has_stream_ = false;
  std::vector<driver::Stream> producers_;
  std::vector<HostView> host_views_;
  std::vector<PyObject*> capsules_;  // owned; they keep what was exported by __dlpack__
};

// True for a tensor of torch's, or of a subclass with memory of its own.
bool is_torch_tensor(PyObject* object);

// A stream's handle, from an object of torch, CuPy, numba, of anyone with __cuda_stream__, or from
// an address. `device` is set to the stream's device where the object knows it. Throws Refused.
driver::Stream stream_handle(PyObject* object, int& device);

// "a float32 tensor on cuda:0", "int 5": what an error says that it got.
std::string describe(PyObject* object, const Array& array);

}  // namespace cudademo
