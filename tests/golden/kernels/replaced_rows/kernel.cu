// fragment 0, kernel 0: 512 blocks of 256 threads, 8720 bytes of dynamic shared memory, cooperative

#include "stitch/kernel.cuh"

namespace {

using namespace stitch;

// sort of %14; 1 and, 2 compare, 1 select
__device__ __forceinline__ void group_0_0(const s32* __restrict__ in0, s32* __restrict__ scratch0, s32* __restrict__ scratch1, const int tile, unsigned char* const shared) {
  // axes  i: 1024 = lane 32, warp 8, register 4
  const int i_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i0 = (i_lane + 32 * i_warp);

  // lines of 1024 in ascending order: 256 threads a line, 4 elements each
  u64 words[4];
  const int thread = threadIdx.x % 256;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int at = r * 256 + thread;
    const int i = at;
    const s32 in0_0 = load_one<Cached::streamed>(&in0[i]);
    const bool compare_2 = in0_0 >= 0;
    const bool compare_4 = in0_0 < 4096;
    const bool and_5 = compare_2 && compare_4;
    const s32 select_6 = and_5 ? in0_0 : 4096;
    words[r] = sort_word<u64, false>(narrow<s32>(static_cast<s32>(select_6)), at);
  }
  u64* const line = reinterpret_cast<u64*>(shared) + threadIdx.x / 256 * 1089;
  sort_line<256, 4>(words, line, thread);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int at = r * 256 + thread;
    s32* to0;
    s32* to1;
    {
      const int i = at;
      to0 = scratch0 + i;
      to1 = scratch1 + i;
    }
    *to0 = value_of<s32, false>(words[r]);
    {
      const int place = place_of(words[r]);
      const int i = place;
      *to1 = narrow<s32>(static_cast<s32>(static_cast<s32>(i)));
    }
  }
  line_is_read<256>();
}

// scatter of %18
__device__ __forceinline__ void group_1_0(const f32* __restrict__ in0, s32* __restrict__ scratch0, s32* __restrict__ scratch1, const f32* __restrict__ in1, f32* __restrict__ out0, const int tile, unsigned char* const shared) {
  // axes  i: 4096 = warp 8, grid 512; j: 64 = lane 32, register 2; k: 1024 = loop 1024
  const int j_lane = static_cast<int>(threadIdx.x) % 32;
  const int i_warp = static_cast<int>(threadIdx.x) / 32;
  const int i_grid = tile;
  const int i = i_warp + i_grid * 8;
  const int j0 = j_lane;
  const int k0 = 0;

  // the last of 1024 updates per element, found in sorted lines of 1024, by the lanes of a warp
  f32 total[2];
#pragma unroll
  for (int j_r = 0; j_r < 2; ++j_r) {
    const int j = j0 + j_r * 32;
    const f32 in0_0 = load_one<Cached::streamed>(&in0[(i * 64 + j)]);
    total[j_r] = static_cast<f32>(in0_0);
  }
  int lowest = 0x7fffffff, highest = -1;
  lowest = min(lowest, i);
  highest = max(highest, min(i, 4095));
  for (int first = 0; first < 1; first += 32) {
    int from = (first + static_cast<int>(threadIdx.x % 32)) * 1024, to = from;
    if (from < 1024) {
      int last = from + 1024;
      for (int behind = last; from < behind;) {
        const int k = from + (behind - from) / 2;
        const s32 scratch0_1 = scratch0[k];
        const bool before = scratch0_1 < lowest;
        from = before ? k + 1 : from;
        behind = before ? behind : k;
      }
      to = from;
      for (int step = 1; to + step <= last; step *= 2) {
        const int k = to + step - 1;
        const s32 scratch0_1 = scratch0[k];
        if (scratch0_1 > highest) {
          last = k;
          break;
        }
        to = k + 1;
      }
      for (int behind = last; to < behind;) {
        const int k = to + (behind - to) / 2;
        const s32 scratch0_1 = scratch0[k];
        const bool before = scratch0_1 < highest + 1;
        to = before ? k + 1 : to;
        behind = before ? behind : k;
      }
    }
    if (!__any_sync(0xffffffffu, from < to)) continue;
    int begin = from, end = to;
    for (unsigned found = __ballot_sync(0xffffffffu, begin < end); found != 0; found &= found - 1) {
      const int lane = __ffs(static_cast<int>(found)) - 1;
      const int last = __shfl_sync(0xffffffffu, end, lane);
      #pragma unroll 2
      for (int k = __shfl_sync(0xffffffffu, begin, lane); k < last; ++k) {
        #pragma unroll
        for (int j_r = 0; j_r < 2; ++j_r) {
          const int j = j0 + j_r * 32;
          const s32 scratch1_7 = scratch1[k];
          const f32 in1_8 = load_one<Cached::streamed>(&in1[(j + static_cast<int>(minimum<s64>(maximum<s64>(scratch1_7, 0), 1023)) * 64)]);
          total[j_r] = static_cast<f32>(in1_8);
        }
      }
    }
  }
#pragma unroll
  for (int j_r = 0; j_r < 2; ++j_r) {
    const int j = j0 + j_r * 32;
    out0[(i * 64 + j)] = narrow<f32>(static_cast<f32>(total[j_r]));
  }
}

}  // namespace

struct Table {
  u64 words[9];
};

extern "C" __global__ void __launch_bounds__(256, 4)
stitch_c3d7734f1f0f(const __grid_constant__ Table table) {
  extern __shared__ __align__(16) unsigned char shared[];
  const auto none = await_predecessor();
  u32* const counters = reinterpret_cast<u32*>(table.words[0]);
  {
    const int tile = static_cast<int>(blockIdx.x);
    if (tile < 1) {
      const u64* const row = table.words + 1;
      group_0_0(reinterpret_cast<const s32*>(row[0] + none), reinterpret_cast<s32*>(row[1] + none), reinterpret_cast<s32*>(row[2] + none), tile, shared);
    }
  }

  grid_barrier(counters + 0, gridDim.x);
  {
    const int tile = static_cast<int>(blockIdx.x);
    const u64* const row = table.words + 4;
    group_1_0(reinterpret_cast<const f32*>(row[0] + none), reinterpret_cast<s32*>(row[1] + none), reinterpret_cast<s32*>(row[2] + none), reinterpret_cast<const f32*>(row[3] + none), reinterpret_cast<f32*>(row[4] + none), tile, shared);
  }
}
