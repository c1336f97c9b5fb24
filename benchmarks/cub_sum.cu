// CUB's DeviceReduce::Sum as a shared library: raw pointers and a stream, so that it is captured
// and timed as the others are. bfloat16 is accumulated in float, as torch and cudademo do it.
#include <cub/device/device_reduce.cuh>
#include <cuda/std/functional>
#include <cuda_bf16.h>

namespace {

struct ToFloat {
  __host__ __device__ float operator()(__nv_bfloat16 x) const { return __bfloat162float(x); }
};

}  // namespace

// With `scratch` null only `scratch_bytes` is written. Each returns a cudaError_t.
extern "C" int cub_sum_f32(void* scratch, size_t* scratch_bytes, const float* x, float* sum, int n,
                           cudaStream_t stream) {
  return cub::DeviceReduce::Sum(scratch, *scratch_bytes, x, sum, n, stream);
}

extern "C" int cub_sum_bf16(void* scratch, size_t* scratch_bytes, const __nv_bfloat16* x,
                            __nv_bfloat16* sum, int n, cudaStream_t stream) {
  return cub::DeviceReduce::TransformReduce(scratch, *scratch_bytes, x, sum, n,
                                            cuda::std::plus<float>{}, ToFloat{}, 0.0f, stream);
}
