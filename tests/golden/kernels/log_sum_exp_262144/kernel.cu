// fragment 0, kernel 0: 128 blocks of 256 threads in clusters of 8, 131168 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// max of %1, sum of %5; 1 add, 1 exp, 1 log, 1 subtract
extern "C" __global__ void __launch_bounds__(256, 1)
stitch_28fae700263f(const f32* __restrict__ in0, f32* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x / 8);
  // axes  i: 16 = grid 16; j: 262144 = vector 4, lane 32, warp 8, register 4, loop 8, cluster 8
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int j_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_cluster = static_cast<int>(blockIdx.x % 8);  // rank in the cluster
  const int i_grid = tile;
  const int i = i_grid;
  const int j0 = (j_lane + 32 * j_warp) * 4 + j_cluster * 32768;
  f32* const in0_0_kept = reinterpret_cast<f32*>(shared);  // 256 threads × 512 elements

  // sweep 0: reduce 1
  f32 max0 = __int_as_float(0xff800000);
  for (int j_loop = 0; j_loop < 8; ++j_loop) {
    #pragma unroll
    for (int j_r = 0; j_r < 4; ++j_r) {
      const int j = j0 + j_r * 1024 + j_loop * 4096;
      copy_async<4>(in0_0_kept + ((j_loop * 4 + j_r) * 256 + static_cast<int>(threadIdx.x)) * 4, in0 + ((i * 262144 + j)));
    }
  }
  wait_for_copies();
  for (int j_loop = 0; j_loop < 8; ++j_loop) {
    f32 in0_0[4][4];
    #pragma unroll
    for (int j_r = 0; j_r < 4; ++j_r) {
      const int j = j0 + j_r * 1024 + j_loop * 4096;
      load<4, Cached::plain>(in0_0[j_r], in0_0_kept + ((j_loop * 4 + j_r) * 256 + static_cast<int>(threadIdx.x)) * 4);
    }
    #pragma unroll
    for (int j_r = 0; j_r < 4; ++j_r) {
      const int j = j0 + j_r * 1024 + j_loop * 4096;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        max0 = Max::combine(max0, in0_0[j_r][v]);
      }
    }
  }
  max0 = reduce_lanes<Max, 16, 8, 4, 2, 1>(max0);
  f32* const partial0 = reinterpret_cast<f32*>(shared + 131072);
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
  for (int j_loop = 0; j_loop < 8; ++j_loop) {
    f32 in0_0[4][4];
    #pragma unroll
    for (int j_r = 0; j_r < 4; ++j_r) {
      const int j = j0 + j_r * 1024 + j_loop * 4096;
      load<4, Cached::plain>(in0_0[j_r], in0_0_kept + ((j_loop * 4 + j_r) * 256 + static_cast<int>(threadIdx.x)) * 4);
    }
    #pragma unroll
    for (int j_r = 0; j_r < 4; ++j_r) {
      const int j = j0 + j_r * 1024 + j_loop * 4096;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 subtract_2 = in0_0[j_r][v] - max0;
        const f32 exp_3 = exponential(subtract_2);
        sum1 += exp_3;
      }
    }
  }
  sum1 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum1);
  f32* const partial1 = reinterpret_cast<f32*>(shared + 131120);
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

  // sweep 2: store 7
  const f32 log_5 = logf(sum1);
  const f32 add_6 = max0 + log_5;
  {
    if (j_lane == 0 && j_warp == 0 && j_cluster == 0) {
      out0[i] = add_6;
    }
  }
  cluster_wait();
}
