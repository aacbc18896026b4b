// fragment 0, kernel 0: 128 blocks of 256 threads in clusters of 8, 65696 bytes of dynamic shared memory

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

}  // namespace

// max-exp-sum of %1; 1 add, 1 log
extern "C" __global__ void __launch_bounds__(256, 1)
stitch_4209b6166186(const f32* __restrict__ in0, f32* __restrict__ out0) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x / 8);
  // axes  i: 16 = grid 16; j: 262144 = vector 4, lane 32, warp 8, register 4, loop 8, cluster 8
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int j_warp = static_cast<int>(threadIdx.x) / 32;
  const int j_cluster = static_cast<int>(blockIdx.x % 8);  // rank in the cluster
  const int i_grid = tile;
  const int i = i_grid;
  const int j0 = (j_lane + 32 * j_warp) * 4 + j_cluster * 32768;
  await_predecessor(in0, out0);

  // sweep 0: max-exp-sum 1
  MaxExpSum<f32> max_sum0{__int_as_float(0xff800000), 0.0f};
  {
    // the next turns' loads, on their way to shared memory while this one's are used
    const auto ask = [&](const int j_loop, const int stage) {
      f32* const in0_0_stage = reinterpret_cast<f32*>(shared + stage * 16384);
      #pragma unroll
      for (int j_r = 0; j_r < 4; ++j_r) {
        const int j = j0 + j_r * 1024 + j_loop * 4096;
        copy_async<4>(in0_0_stage + (j_r * 256 + static_cast<int>(threadIdx.x)) * 4, in0 + ((i * 262144 + j)));
      }
    };
    ask(0, 0);
    commit_copies();
    ask(1, 1);
    commit_copies();
    ask(2, 2);
    commit_copies();
    for (int j_loop = 0; j_loop < 8; ++j_loop) {
      wait_for_groups<2>();
      if ((j_loop + 3) < 8) ask((j_loop + 3), ((j_loop + 3) % 4));
      commit_copies();
      const int stage = (j_loop % 4);
      f32* const in0_0_stage = reinterpret_cast<f32*>(shared + stage * 16384);
      f32 in0_0[4][4];
      #pragma unroll
      for (int j_r = 0; j_r < 4; ++j_r) {
        const int j = j0 + j_r * 1024 + j_loop * 4096;
        load<4, Cached::shared>(in0_0[j_r], in0_0_stage + (j_r * 256 + static_cast<int>(threadIdx.x)) * 4);
      }
      #pragma unroll
      for (int j_r = 0; j_r < 4; ++j_r) {
        const int j = j0 + j_r * 1024 + j_loop * 4096;
        f32 run_0[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
          run_0[v] = in0_0[j_r][v];
        }
        add_exponentials(max_sum0, run_0);
      }
    }
  }
  max_sum0 = reduce_lanes<MaxAndExpSum, 16, 8, 4, 2, 1>(max_sum0);
  MaxExpSum<f32>* const partial0 = reinterpret_cast<MaxExpSum<f32>*>(shared + 65536);
  if (j_lane == 0) {
    partial0[0 * 8 + j_warp] = max_sum0;
  }
  __syncthreads();
  max_sum0 = reduce_shared_by_lanes<MaxAndExpSum, 8>(partial0);
  if (j_lane == 0 && j_warp == 0) {
    (partial0 + 8)[0] = max_sum0;
  }
  cluster_barrier();
  max_sum0 = reduce_cluster_by_lanes<MaxAndExpSum, 8>((partial0 + 8) + 0);
  cluster_arrive();  // the others may leave: their shared memory has been read

  // sweep 1: store 3
  const f32 log_3 = logf(complete_sum(max_sum0));
  const f32 add_4 = max_sum0.maximum + log_3;
  {
    if (j_lane == 0 && j_warp == 0 && j_cluster == 0) {
      out0[i] = add_4;
    }
  }
  cluster_wait();
}
