// Row, column and grid-wide reductions in the ways that stitch kernels do them.
#define FULL 0xffffffffu
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(FULL, v, offset);
  return v;
}
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) v = fmaxf(v, __shfl_xor_sync(FULL, v, offset));
  return v;
}
template <class F>
__device__ __forceinline__ float block_reduce(float v, float identity, F combine, float* shared) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) v = combine(v, __shfl_xor_sync(FULL, v, offset));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? shared[threadIdx.x % 32] : identity;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) v = combine(v, __shfl_xor_sync(FULL, v, offset));
  __syncthreads();
  return v;
}
// A warp a row, several rows a block.
extern "C" __global__ void softmax_warp(float* __restrict__ y, const float* __restrict__ x, int rows, int columns) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  float m = __int_as_float(0xff800000);
  for (int c = threadIdx.x % 32; c < columns; c += 32) m = fmaxf(m, x[row * columns + c]);
  m = warp_max(m);
  float s = 0;
  for (int c = threadIdx.x % 32; c < columns; c += 32) s += __expf(x[row * columns + c] - m);
  s = warp_sum(s);
  for (int c = threadIdx.x % 32; c < columns; c += 32) y[row * columns + c] = __expf(x[row * columns + c] - m) / s;
}
// A block a row, the row in dynamic shared memory.
extern "C" __global__ void layer_norm(float* __restrict__ y, const float* __restrict__ x, const float* __restrict__ gamma,
                                      const float* __restrict__ beta, int columns, float epsilon) {
  extern __shared__ float row[];
  __shared__ float partial[32];
  const float* in = x + static_cast<long long>(blockIdx.x) * columns;
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += row[c] = in[c];
  auto add = [](float a, float b) { return a + b; };
  float mean = block_reduce(sum, 0.0f, add, partial) / columns;
  float square = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) square += (row[c] - mean) * (row[c] - mean);
  float scale = rsqrtf(block_reduce(square, 0.0f, add, partial) / columns + epsilon);
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    y[static_cast<long long>(blockIdx.x) * columns + c] = (row[c] - mean) * scale * gamma[c] + beta[c];
}
// Column sums: partial sums to scratch, the block that arrives last adds them up in a fixed order. The counter is
// an acquire-release atomic, a fenced relaxed one, or (wrong) a bare relaxed one.
template <class Arrive>
__device__ void column_sum(float* y, const float* x, float* scratch, unsigned* counter, int rows, int columns, Arrive arrive) {
  __shared__ bool last;
  float sum = 0;
  int c = threadIdx.x;
  for (int r = blockIdx.x; r < rows; r += gridDim.x) sum += x[r * columns + c];
  scratch[blockIdx.x * columns + c] = sum;
  __syncthreads();
  if (threadIdx.x == 0) last = arrive(counter) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  sum = 0;
  for (int b = 0; b < gridDim.x; ++b) sum += scratch[b * columns + c];
  y[c] = sum;
  if (threadIdx.x == 0) *counter = 0;
}
extern "C" __global__ void column_sum_acq_rel(float* y, const float* x, float* scratch, unsigned* counter, int rows, int columns) {
  column_sum(y, x, scratch, counter, rows, columns, [](unsigned* p) {
    unsigned old;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(old) : "l"(p) : "memory");
    return old;
  });
}
extern "C" __global__ void column_sum_fence(float* y, const float* x, float* scratch, unsigned* counter, int rows, int columns) {
  column_sum(y, x, scratch, counter, rows, columns, [](unsigned* p) {
    __threadfence();
    unsigned old = atomicAdd(p, 1u);
    __threadfence();
    return old;
  });
}
extern "C" __global__ void column_sum_unfenced(float* y, const float* x, float* scratch, unsigned* counter, int rows, int columns) {
  column_sum(y, x, scratch, counter, rows, columns, [](unsigned* p) { return atomicAdd(p, 1u); });
}
// Every thread fences its own store before the block's barrier, as many kernels have it.
extern "C" __global__ void column_sum_fence_before(float* y, const float* x, float* scratch, unsigned* counter, int rows, int columns) {
  __shared__ bool last;
  float sum = 0;
  int c = threadIdx.x;
  for (int r = blockIdx.x; r < rows; r += gridDim.x) sum += x[r * columns + c];
  scratch[blockIdx.x * columns + c] = sum;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  sum = 0;
  for (int b = 0; b < gridDim.x; ++b) sum += scratch[b * columns + c];
  y[c] = sum;
}
// No barrier between the other threads' stores and the release: thread 0 publishes what it cannot know.
extern "C" __global__ void column_sum_no_barrier(float* y, const float* x, float* scratch, unsigned* counter, int rows, int columns) {
  __shared__ bool last;
  float sum = 0;
  int c = threadIdx.x;
  for (int r = blockIdx.x; r < rows; r += gridDim.x) sum += x[r * columns + c];
  scratch[blockIdx.x * columns + c] = sum;
  if (threadIdx.x == 0) {
    unsigned old;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(old) : "l"(counter) : "memory");
    last = old == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  sum = 0;
  for (int b = 0; b < gridDim.x; ++b) sum += scratch[b * columns + c];
  y[c] = sum;
}
// A barrier of the whole grid by an atomic counter; all blocks are resident.
__device__ __forceinline__ void grid_barrier(unsigned* counter, unsigned target) {
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
    unsigned seen;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
    } while (seen < target);
  }
  __syncthreads();
}
extern "C" __global__ void grid_normalise(float* x, float* partial, unsigned* counter, int n, int rounds) {
  __shared__ float shared[32];
  for (int round = 0; round < rounds; ++round) {
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    sum = block_reduce(sum, 0.0f, [](float a, float b) { return a + b; }, shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
    grid_barrier(counter, (2 * round + 1) * gridDim.x);
    float total = 0;
    for (int b = 0; b < gridDim.x; ++b) total += partial[b];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] -= total / n;
    grid_barrier(counter, (2 * round + 2) * gridDim.x);
  }
}
// The same without the barrier between reading the partial sums and the next round's writing them.
extern "C" __global__ void grid_normalise_racy(float* x, float* partial, unsigned* counter, int n, int rounds) {
  __shared__ float shared[32];
  for (int round = 0; round < rounds; ++round) {
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    sum = block_reduce(sum, 0.0f, [](float a, float b) { return a + b; }, shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
    grid_barrier(counter, (round + 1) * gridDim.x);
    float total = 0;
    for (int b = 0; b < gridDim.x; ++b) total += partial[b];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] -= total / n;
  }
}
// A row split over a cluster: partial sums by distributed shared memory.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_mean(float* y, const float* x, int columns) {
  __shared__ float partial;
  __shared__ float scratch[32];
  unsigned rank, row = blockIdx.x / 4;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  int chunk = columns / 4;
  const float* in = x + row * columns + rank * chunk;
  float sum = 0;
  for (int c = threadIdx.x; c < chunk; c += blockDim.x) sum += in[c];
  sum = block_reduce(sum, 0.0f, [](float a, float b) { return a + b; }, scratch);
  if (threadIdx.x == 0) partial = sum;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  float total = 0;
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(&partial));
  for (int r = 0; r < 4; ++r) {
    unsigned remote;
    float value;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(r));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(remote));
    total += value;
  }
  for (int c = threadIdx.x; c < chunk; c += blockDim.x) y[row * columns + rank * chunk + c] = in[c] - total / columns;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// Blocks pass a running sum on, each waiting for the one before it.
extern "C" __global__ void chained_scan(float* y, const float* x, float* carry, unsigned* flags) {
  __shared__ float before;
  float v = x[blockIdx.x];
  if (threadIdx.x == 0) {
    float sum = 0;
    if (blockIdx.x > 0) {
      unsigned ready;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(ready) : "l"(flags + blockIdx.x - 1) : "memory");
      } while (ready == 0);
      sum = carry[blockIdx.x - 1];
    }
    before = sum;
    carry[blockIdx.x] = sum + v;
    asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flags + blockIdx.x) : "memory");
  }
  __syncthreads();
  if (threadIdx.x == 32) y[blockIdx.x] = before + v;
}
