// fragment 0, kernel 0: 8 blocks of 512 threads in clusters of 8, 160 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// sum of %1
extern "C" __global__ void __launch_bounds__(512)
stitch_7738bfa20864(const f32* __restrict__ in0, f32* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x / 8);
  // axes  i: 1000003 = vector 4, lane 32, warp 16, register 2, loop 31, cluster 8
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_cluster = static_cast<int>(blockIdx.x % 8);  // rank in the cluster
  const int i0 = (i_lane + 32 * i_warp) * 4 + i_cluster * 126976;

  // sweep 0: reduce 1
  f32 sum0 = 0.0f;
  for (int i_loop = 0; i_loop < 31; ++i_loop) {
    f32 in0_0[2][4];
    #pragma unroll
    for (int i_r = 0; i_r < 2; ++i_r) {
      const int i = i0 + i_r * 2048 + i_loop * 4096;
      if (i < 1000003) {
        load_tail<4, Cached::streamed>(in0_0[i_r], in0 + i, 1000003 - i);
      }
    }
    #pragma unroll
    for (int i_r = 0; i_r < 2; ++i_r) {
      const int i = i0 + i_r * 2048 + i_loop * 4096;
      if (i < 1000003) {
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          if ((i + v) < 1000003) sum0 += in0_0[i_r][v];
        }
      }
    }
  }
  sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);
  f32* const partial0 = reinterpret_cast<f32*>(shared + 0);
  if (i_lane == 0) {
    partial0[(0) * 16 + i_warp] = sum0;
  }
  __syncthreads();
  sum0 = reduce_shared<Sum, 16, 1>(partial0 + (0) * 16);
  if (i_lane == 0 && i_warp == 0) {
    (partial0 + 16)[0] = sum0;
  }
  cluster_barrier();
  sum0 = reduce_cluster<Sum, 8>((partial0 + 16) + 0);

  // sweep 1: store 1
  {
    if (i_lane == 0 && i_warp == 0 && i_cluster == 0) {
      out0[0] = narrow<f32>(sum0);
    }
  }
  cluster_barrier();
}
