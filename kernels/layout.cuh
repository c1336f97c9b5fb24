// Where the elements of strided arrays of one shape lie.
#pragma once

// `Arrays` arrays of `Dims` dimensions, the innermost first; strides in elements.
template <int Dims, int Arrays>
struct Layout {
  long long size[Dims];
  long long stride[Arrays][Dims];
};

// The offsets of the element with this row-major number. `Index` is unsigned, 32 bits where that is enough: its
// division is several times cheaper.
template <typename Index, int Dims, int Arrays>
__device__ void locate(const Layout<Dims, Arrays>& layout, Index number, long long (&offset)[Arrays]) {
  for (int array = 0; array < Arrays; ++array) offset[array] = 0;
#pragma unroll
  for (int dim = 0; dim < Dims; ++dim) {
    const Index size = static_cast<Index>(layout.size[dim]);
    const Index rest = number / size;
    const Index coordinate = dim + 1 < Dims ? number - rest * size : number;
    for (int array = 0; array < Arrays; ++array) {
      offset[array] += static_cast<long long>(coordinate) * layout.stride[array][dim];
    }
    number = rest;
  }
}
