// Textbook kernels whose memory traffic their authors state; published_counters_test.cpp says where. Written here after the
// sources' descriptions, with their names and tile sizes.

// M. Harris, How to Access Global Memory Efficiently in CUDA C/C++ Kernels.
extern "C" __global__ void offset_copy(float* a, int s) {
  const int i = blockDim.x * blockIdx.x + threadIdx.x + s;
  a[i] = a[i] + 1;
}
extern "C" __global__ void stride_copy(float* a, int s) {
  const int i = (blockDim.x * blockIdx.x + threadIdx.x) * s;
  a[i] = a[i] + 1;
}

// M. Harris, An Efficient Matrix Transpose in CUDA C/C++: tiles of 32 × 32, blocks of 32 × 8.
constexpr int TILE = 32;
constexpr int ROWS = 8;
#define EACH_ROW for (int j = 0; j < TILE; j += ROWS)

extern "C" __global__ void transpose_copy(float* out, const float* in) {
  const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y, width = gridDim.x * TILE;
  EACH_ROW out[(y + j) * width + x] = in[(y + j) * width + x];
}
extern "C" __global__ void transpose_naive(float* out, const float* in) {
  const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y, width = gridDim.x * TILE;
  EACH_ROW out[x * width + (y + j)] = in[(y + j) * width + x];
}
template <int PADDING>
__device__ void transpose_tiled(float* out, const float* in) {
  __shared__ float tile[TILE][TILE + PADDING];
  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
  const int width = gridDim.x * TILE;
  EACH_ROW tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  EACH_ROW out[(y + j) * width + x] = tile[threadIdx.x][threadIdx.y + j];
}
extern "C" __global__ void transpose_coalesced(float* out, const float* in) { transpose_tiled<0>(out, in); }
extern "C" __global__ void transpose_padded(float* out, const float* in) { transpose_tiled<1>(out, in); }

// M. Harris, Optimizing Parallel Reduction in CUDA: versions 1 to 4, 128 threads a block.
extern "C" __global__ void reduce_interleaved_divergent(int* out, const int* in) {
  __shared__ int sdata[128];
  const unsigned tid = threadIdx.x;
  sdata[tid] = in[blockIdx.x * blockDim.x + tid];
  __syncthreads();
#pragma unroll 1
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    if (tid % (2 * s) == 0) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = sdata[0];
}
extern "C" __global__ void reduce_interleaved(int* out, const int* in) {
  __shared__ int sdata[128];
  const unsigned tid = threadIdx.x;
  sdata[tid] = in[blockIdx.x * blockDim.x + tid];
  __syncthreads();
#pragma unroll 1
  for (unsigned s = 1; s < blockDim.x; s *= 2) {
    const unsigned index = 2 * s * tid;
    if (index < blockDim.x) sdata[index] += sdata[index + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = sdata[0];
}
extern "C" __global__ void reduce_sequential(int* out, const int* in) {
  __shared__ int sdata[128];
  const unsigned tid = threadIdx.x;
  sdata[tid] = in[blockIdx.x * blockDim.x + tid];
  __syncthreads();
#pragma unroll 1
  for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = sdata[0];
}
extern "C" __global__ void reduce_first_add(int* out, const int* in) {
  __shared__ int sdata[128];
  const unsigned tid = threadIdx.x;
  const unsigned i = blockIdx.x * blockDim.x * 2 + tid;
  sdata[tid] = in[i] + in[i + blockDim.x];
  __syncthreads();
#pragma unroll 1
  for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = sdata[0];
}

// CUDA C++ Programming Guide, Shared Memory: products of matrices without and with tiles of 16 × 16.
extern "C" __global__ void multiply_naive(float* c, const float* a, const float* b, int n) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  float value = 0;
#pragma unroll 1
  for (int e = 0; e < n; ++e) value += a[row * n + e] * b[e * n + column];
  c[row * n + column] = value;
}
extern "C" __global__ void multiply_shared(float* c, const float* a, const float* b, int n) {
  __shared__ float as[16][16], bs[16][16];
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float value = 0;
#pragma unroll 1
  for (int m = 0; m < n / 16; ++m) {
    as[threadIdx.y][threadIdx.x] = a[row * n + m * 16 + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(m * 16 + threadIdx.y) * n + column];
    __syncthreads();
    for (int e = 0; e < 16; ++e) value += as[threadIdx.y][e] * bs[e][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = value;
}

// NVIDIA's forum, Profiling coalesced memory accesses confusion: the three patterns of loads.
extern "C" __global__ void multiply_pattern_1(int* c, const int* a, const int* b, int n) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  int value = 0;
#pragma unroll 1
  for (int k = 0; k < n; ++k) value += a[row * n + k] * b[row * n + k];
  c[row * n + column] = value;
}
extern "C" __global__ void multiply_pattern_2(int* c, const int* a, const int* b, int n) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  int value = 0;
#pragma unroll 1
  for (int k = 0; k < n; ++k) value += a[k * n + column] * b[k * n + column];
  c[row * n + column] = value;
}

// CUDA C++ Best Practices Guide, Shared Memory in Matrix Multiplication (C = AAᵀ): tiles of 32 × 32.
template <int PADDING>
__device__ void multiply_transposed(float* c, const float* a, int m) {
  __shared__ float tile[TILE][TILE], transposed[TILE][TILE + PADDING];
  const int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  tile[threadIdx.y][threadIdx.x] = a[row * TILE + threadIdx.x];
  transposed[threadIdx.x][threadIdx.y] = a[(blockIdx.x * blockDim.x + threadIdx.y) * TILE + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < TILE; i++) sum += tile[threadIdx.y][i] * transposed[i][threadIdx.x];
  c[row * m + column] = sum;
}
extern "C" __global__ void multiply_aat(float* c, const float* a, int m) { multiply_transposed<0>(c, a, m); }
extern "C" __global__ void multiply_aat_padded(float* c, const float* a, int m) { multiply_transposed<1>(c, a, m); }

// CUDA C++ Programming Guide, Strided Shared Memory Accesses, and one warp's loads of 16 bytes a lane.
extern "C" __global__ void shared_stride(float* out, int words) {
  extern __shared__ float memory[];
  for (int i = threadIdx.x; i < 32 * words; i += 32) memory[i] = i;
  __syncwarp();
  out[threadIdx.x] = memory[threadIdx.x * words];
}
extern "C" __global__ void shared_vector(float4* out, int words) {
  extern __shared__ float memory[];
  for (int i = threadIdx.x; i < 32 * words; i += 32) memory[i] = i;
  __syncwarp();
  out[threadIdx.x] = *reinterpret_cast<float4*>(&memory[threadIdx.x * words]);
}

// J. Luitjens, CUDA Pro Tip: Increase Performance with Vectorized Memory Access.
template <class T>
__device__ void copy_vectors(T* out, const T* in, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) out[i] = in[i];
}
extern "C" __global__ void copy_scalar(int* out, const int* in, int n) { copy_vectors(out, in, n); }
extern "C" __global__ void copy_vector2(int2* out, const int2* in, int n) { copy_vectors(out, in, n); }
extern "C" __global__ void copy_vector4(int4* out, const int4* in, int n) { copy_vectors(out, in, n); }

// A. Adinets, CUDA Pro Tip: Optimized Filtering with Warp-Aggregated Atomics.
extern "C" __global__ void filter_atomics(int* out, int* count, const int* in, int n) {
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n && in[i] > 0) {
    int at;
    // The compiler aggregates atomicAdd by itself; this is the one that is written.
    asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(at) : "l"(count) : "memory");
    out[at] = in[i];
  }
}
extern "C" __global__ void filter_aggregated(int* out, int* count, const int* in, int n) {
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n && in[i] > 0) {
    const unsigned active = __activemask();
    const int lane = threadIdx.x % 32, leader = __ffs(active) - 1;
    int at = 0;
    if (lane == leader) asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(at) : "l"(count), "r"(__popc(active)) : "memory");
    at = __shfl_sync(active, at, leader) + __popc(active & ((1U << lane) - 1));
    out[at] = in[i];
  }
}

// J. Luitjens, Faster Parallel Reductions on Kepler.
extern "C" __global__ void reduce_shuffle(int* out, const int* in) {
  int value = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
  if (threadIdx.x % 32 == 0) out[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = value;
}
