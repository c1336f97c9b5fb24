// The part of DLPack's ABI that a borrower needs (version 1.3, https://dmlc.github.io/dlpack).
#pragma once

#include <cstdint>

namespace cudademo::dlpack {

inline constexpr std::int32_t device_cpu = 1;
inline constexpr std::int32_t device_cuda = 2;
inline constexpr std::int32_t device_cuda_host = 3;
inline constexpr std::int32_t device_cuda_managed = 13;
inline constexpr std::uint64_t flag_read_only = 1;

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null where the tensor is dense and row-major
  std::uint64_t byte_offset;
};

inline std::int64_t elements(const Tensor& tensor) {
  std::int64_t count = 1;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) count *= tensor.shape[i];
  return count;
}

// The address of the first element; null where there is no memory.
inline void* data_of(const Tensor& tensor) {
  return tensor.data ? static_cast<char*>(tensor.data) + tensor.byte_offset : nullptr;
}

// In memory that the CPU reads: its own, or pinned by CUDA.
inline bool is_on_cpu(const Tensor& tensor) {
  return tensor.device.type == device_cpu || tensor.device.type == device_cuda_host;
}

inline bool is_on_cuda(const Tensor& tensor) {
  return tensor.device.type == device_cuda || tensor.device.type == device_cuda_managed;
}

// In a capsule named "dltensor".
struct ManagedTensor {
  Tensor tensor;
  void* manager;
  void (*deleter)(ManagedTensor* self);
};

// In a capsule named "dltensor_versioned".
struct ManagedTensorVersioned {
  Version version;
  void* manager;
  void (*deleter)(ManagedTensorVersioned* self);
  std::uint64_t flags;
  Tensor tensor;
};

struct ExchangeHeader {
  Version version;
  ExchangeHeader* previous;
};

// In a capsule named "dlpack_exchange_api", the type's attribute __dlpack_c_exchange_api__.
// Functions return 0, or -1 with a Python error set.
struct ExchangeApi {
  ExchangeHeader header;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*tensor_from_object)(void* object, Tensor* out);  // null where the owner has none
  int (*current_work_stream)(std::int32_t device_type, std::int32_t device_id, void** out);
};

}  // namespace cudademo::dlpack
