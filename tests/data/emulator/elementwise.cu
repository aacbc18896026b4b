// Element-wise kernels as the code generator writes them: 16-byte accesses, tails, a parameter table.
#include <cuda_bf16.h>
extern "C" __global__ void __launch_bounds__(256) gelu_bias(float4* __restrict__ y, const float4* __restrict__ x,
                                                            const float4* __restrict__ b, int n, int columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 v = __ldg(x + i), w = __ldg(b + i % columns), r;
  auto gelu = [](float t) {
    float u = 0.7978845608f * (t + 0.044715f * t * t * t);
    float e = __expf(-2.0f * u);
    return __fdividef(t, 1.0f + e);
  };
  r.x = gelu(v.x + w.x);
  r.y = gelu(v.y + w.y);
  r.z = gelu(v.z + w.z);
  r.w = gelu(v.w + w.w);
  y[i] = r;
}
// Eight bf16 values a thread, with eviction hints.
extern "C" __global__ void scale_bf16(uint4* __restrict__ y, const uint4* __restrict__ x, float scale, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::evict_first.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(x + i));
  unsigned* words = &v.x;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    __nv_bfloat162 pair = *reinterpret_cast<__nv_bfloat162*>(words + k);
    float2 f = __bfloat1622float2(pair);
    f.x *= scale;
    f.y *= scale;
    pair = __float22bfloat162_rn(f);
    words[k] = *reinterpret_cast<unsigned*>(&pair);
  }
  asm volatile("st.global.L1::evict_first.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(y + i), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}
// One launch over many tensors: the table is a 32 KB parameter.
struct Entry {
  float* data;
  const float* gradient;
  int length;
  int first_block;
};
struct Table {
  int count;
  int pad;
  Entry entries[1300];
};
extern "C" __global__ void packed_update(const __grid_constant__ Table table, float rate) {
  int low = 0, high = table.count - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (table.entries[middle].first_block <= static_cast<int>(blockIdx.x)) low = middle; else high = middle - 1;
  }
  const Entry& e = table.entries[low];
  int i = (blockIdx.x - e.first_block) * blockDim.x + threadIdx.x;
  if (i < e.length) e.data[i] -= rate * e.gradient[i];
}
// A 32 × 32 transpose through padded shared memory.
extern "C" __global__ void transpose(float* __restrict__ y, const float* __restrict__ x, int rows, int columns) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (c < columns && r + k < rows) tile[threadIdx.y + k][threadIdx.x] = x[(r + k) * columns + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x;
  r = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (c < rows && r + k < columns) y[(r + k) * rows + c] = tile[threadIdx.x][threadIdx.y + k];
}
// Two bytes an element: shared memory is accessed in halves.
extern "C" __global__ void transpose_bf16(__nv_bfloat16* y, const __nv_bfloat16* x, int rows, int columns) {
  __shared__ __nv_bfloat16 tile[32][34];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (c < columns && r + k < rows) tile[threadIdx.y + k][threadIdx.x] = x[(r + k) * columns + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x;
  r = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (c < rows && r + k < columns) y[(r + k) * rows + c] = tile[threadIdx.x][threadIdx.y + k];
}
