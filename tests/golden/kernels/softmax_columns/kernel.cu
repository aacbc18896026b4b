// fragment 0, kernel 0: 512 blocks of 256 threads in clusters of 8, 33920 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// max of %3, sum of %7; 1 divide, 1 exp, 1 multiply, 1 subtract
extern "C" __global__ void __launch_bounds__(256, 4)
stitch_98d78bd7972b(const f32* __restrict__ in0, f32* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x / 8);
  // axes  i: 4096 = lane 8, warp 8, register 4, loop 2, cluster 8; j: 1024 = vector 4, lane 4, grid 64
  const int j_lane = static_cast<int>(threadIdx.x) % 4;
  const int i_lane = static_cast<int>(threadIdx.x) / 4 % 8;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_cluster = static_cast<int>(blockIdx.x % 8);  // rank in the cluster
  const int j_grid = tile;
  const int i0 = (i_lane + 8 * i_warp) + i_cluster * 512;
  const int j = j_lane * 4 + j_grid * 16;
  await_predecessor(in0, out0);
  f32* const in0_0_kept = reinterpret_cast<f32*>(shared);  // 256 threads × 32 elements
  f32* const exp_3_kept = reinterpret_cast<f32*>(shared);  // 256 threads × 32 elements

  // sweep 0: reduce 3
  f32 max0[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    max0[v] = __int_as_float(0xff800000);
  }
  for (int i_loop = 0; i_loop < 2; ++i_loop) {
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 64 + i_loop * 256;
      copy_async<4>(in0_0_kept + ((i_loop * 4 + i_r) * 256 + static_cast<int>(threadIdx.x)) * 4, in0 + ((i * 1024 + j)));
    }
  }
  wait_for_copies();
  for (int i_loop = 0; i_loop < 2; ++i_loop) {
    f32 in0_0[4][4];
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 64 + i_loop * 256;
      load<4, Cached::shared>(in0_0[i_r], in0_0_kept + ((i_loop * 4 + i_r) * 256 + static_cast<int>(threadIdx.x)) * 4);
    }
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 64 + i_loop * 256;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        max0[v] = Max::combine(max0[v], in0_0[i_r][v]);
      }
    }
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    max0[v] = reduce_lanes<Max, 16, 8, 4>(max0[v]);
  }
  f32* const partial0 = reinterpret_cast<f32*>(shared + 32768);
  if (i_lane == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial0[i_warp * 16 + j_lane * 4 + v] = max0[v];
    }
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    max0[v] = reduce_shared<Max, 8, 16>(partial0 + j_lane * 4 + v);
  }
  if (i_lane == 0 && i_warp == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      (partial0 + 128)[j_lane * 4 + v] = max0[v];
    }
  }
  cluster_barrier();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    max0[v] = reduce_cluster<Max, 8>((partial0 + 128) + j_lane * 4 + v);
  }

  // sweep 1: reduce 7
  f32 sum1[4];
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = 0.0f;
  }
  for (int i_loop = 0; i_loop < 2; ++i_loop) {
    f32 in0_0[4][4];
    f32 exp_3[4][4];
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 64 + i_loop * 256;
      load<4, Cached::shared>(in0_0[i_r], in0_0_kept + ((i_loop * 4 + i_r) * 256 + static_cast<int>(threadIdx.x)) * 4);
    }
    #pragma unroll
    for (int i_r = 0; i_r < 4; ++i_r) {
      const int i = i0 + i_r * 64 + i_loop * 256;
      #pragma unroll
      for (int v = 0; v < 4; ++v) {
        const f32 subtract_2 = in0_0[i_r][v] - max0[v];
        exp_3[i_r][v] = exponential(subtract_2);
        sum1[v] += exp_3[i_r][v];
      }
      store<4>(exp_3_kept + ((i_loop * 4 + i_r) * 256 + static_cast<int>(threadIdx.x)) * 4, exp_3[i_r]);
    }
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = reduce_lanes<Sum, 16, 8, 4>(sum1[v]);
  }
  f32* const partial1 = reinterpret_cast<f32*>(shared + 33344);
  if (i_lane == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      partial1[i_warp * 16 + j_lane * 4 + v] = sum1[v];
    }
  }
  __syncthreads();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = reduce_shared<Sum, 8, 16>(partial1 + j_lane * 4 + v);
  }
  if (i_lane == 0 && i_warp == 0) {
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      (partial1 + 128)[j_lane * 4 + v] = sum1[v];
    }
  }
  cluster_barrier();
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    sum1[v] = reduce_cluster<Sum, 8>((partial1 + 128) + j_lane * 4 + v);
  }
  cluster_arrive();  // the others may leave: their shared memory has been read

  // sweep 2: store 10
  {
    f32 divide_6[4];
    #pragma unroll
    for (int v = 0; v < 4; ++v) {
      divide_6[v] = 1.0f / sum1[v];
    }
    for (int i_loop = 0; i_loop < 2; ++i_loop) {
      f32 exp_3[4][4];
      #pragma unroll
      for (int i_r = 0; i_r < 4; ++i_r) {
        const int i = i0 + i_r * 64 + i_loop * 256;
        load<4, Cached::shared>(exp_3[i_r], exp_3_kept + ((i_loop * 4 + i_r) * 256 + static_cast<int>(threadIdx.x)) * 4);
      }
      #pragma unroll
      for (int i_r = 0; i_r < 4; ++i_r) {
        const int i = i0 + i_r * 64 + i_loop * 256;
        f32 result_2[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          const f32 multiply_7 = exp_3[i_r][v] * divide_6[v];
          result_2[v] = multiply_7;
        }
        store<4>(out0 + (i * 1024 + j), result_2);
      }
    }
  }
  cluster_wait();
}
