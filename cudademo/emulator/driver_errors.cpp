// The names and the words of the driver's results.
#include "driver_state.hpp"

namespace cudademo::emulator {

namespace {

struct ResultName {
  Result result;
  const char* name;
  const char* text;
};

constexpr ResultName names[] = {
    {success, "CUDA_SUCCESS", "no error"},
    {invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {invalid_ptx, "CUDA_ERROR_INVALID_PTX", "the PTX cannot be read"},
    {invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {out_of_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {assert_failed, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {misaligned_address, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {invalid_address_space, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
     "operation not supported on this address space"},
    {launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {cooperative_launch_too_large, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
     "too many blocks in cooperative launch"},
    {not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

}  // namespace

}  // namespace cudademo::emulator

using namespace cudademo::emulator;

EXPORTED Result cuGetErrorName(Result result, const char** text) {
  if (text == nullptr) return invalid_value;
  for (const ResultName& known : names) {
    if (known.result != result) continue;
    *text = known.name;
    return success;
  }
  *text = nullptr;
  return invalid_value;
}

EXPORTED Result cuGetErrorString(Result result, const char** text) {
  if (text == nullptr) return invalid_value;
  for (const ResultName& known : names) {
    if (known.result != result) continue;
    *text = known.text;
    return success;
  }
  *text = nullptr;
  return invalid_value;
}
