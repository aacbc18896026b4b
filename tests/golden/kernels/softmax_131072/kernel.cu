// fragment 0, kernel 0: 512 blocks of 256 threads in clusters of 8, 96 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// max of %1, sum of %5; 1 divide, 1 exp, 1 multiply, 1 subtract
extern "C" __global__ void __launch_bounds__(256, 2)
stitch_40507ffef1ce(const f32* __restrict__ in0, f32* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x / 8);
  // axes  i: 64 = grid 64; j: 131072 = vector 4, lane 32, warp 8, register 16, cluster 8
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int j_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_cluster = static_cast<int>(blockIdx.x % 8);  // rank in the cluster
  const int i_grid = tile;
  const int i = i_grid;
  const int j0 = (j_lane + 32 * j_warp) * 4 + j_cluster * 16384;
  await_predecessor(in0, out0);
  f32 in0_0[16][4];
  f32 exp_3[16][4];

  // sweep 0: reduce 1
  f32 max0 = __int_as_float(0xff800000);
  {
    #pragma unroll
    for (int j_r = 0; j_r < 16; ++j_r) {
      const int j = j0 + j_r * 1024;
      load<4, Cached::streamed>(in0_0[j_r], in0 + (i * 131072 + j));
    }
    #pragma unroll
    for (int j_r = 0; j_r < 16; ++j_r) {
      const int j = j0 + j_r * 1024;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        max0 = Max::combine(max0, in0_0[j_r][v]);
      }
    }
  }
  max0 = reduce_lanes<Max, 16, 8, 4, 2, 1>(max0);
  f32* const partial0 = reinterpret_cast<f32*>(shared);
  if (j_lane == 0) {
    partial0[0 * 8 + j_warp] = max0;
  }
  __syncthreads();
  max0 = reduce_shared<Max, 8, 1>(partial0 + (0) * 8);
  if (j_lane == 0 && j_warp == 0) {
    (partial0 + 8)[0] = max0;
  }
  cluster_barrier();
  max0 = reduce_cluster<Max, 8>((partial0 + 8) + 0);

  // sweep 1: reduce 5
  f32 sum1 = 0.0f;
  {
    #pragma unroll
    for (int j_r = 0; j_r < 16; ++j_r) {
      const int j = j0 + j_r * 1024;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 subtract_2 = in0_0[j_r][v] - max0;
        exp_3[j_r][v] = exponential(subtract_2);
        sum1 += exp_3[j_r][v];
      }
    }
  }
  sum1 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum1);
  f32* const partial1 = reinterpret_cast<f32*>(shared + 48);
  if (j_lane == 0) {
    partial1[0 * 8 + j_warp] = sum1;
  }
  __syncthreads();
  sum1 = reduce_shared<Sum, 8, 1>(partial1 + (0) * 8);
  if (j_lane == 0 && j_warp == 0) {
    (partial1 + 8)[0] = sum1;
  }
  cluster_barrier();
  sum1 = reduce_cluster<Sum, 8>((partial1 + 8) + 0);
  cluster_arrive();  // the others may leave: their shared memory has been read

  // sweep 2: store 10
  const f32 divide_6 = 1.0f / sum1;
  {
    #pragma unroll
    for (int j_r = 0; j_r < 16; ++j_r) {
      const int j = j0 + j_r * 1024;
      f32 result_2[4];
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 multiply_7 = exp_3[j_r][v] * divide_6;
        result_2[v] = multiply_7;
      }
      store<4>(out0 + (i * 131072 + j), result_2);
    }
  }
  cluster_wait();
}
