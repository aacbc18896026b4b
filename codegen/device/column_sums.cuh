#pragma once
// Sums over the rows of a product's tile, column by column, as its results leave by strips (store_results of
// contraction.cuh): a lane adds what it stores of its columns, lanes that have the same columns add their sums up, and
// warps leave them in shared memory, where those of a group of rows become one. All in a fixed order.

#include "stitch/row_totals.cuh"

namespace stitch {

// What lanes have of `run` columns each, `across` lanes beside one another and all others with the same columns: the
// sums of all lanes. As long as a lane has several columns it keeps half of them, and hands over the others.
template <int across, int run>
__device__ __forceinline__ void leave_column_parts(f32 (&own)[run], f32* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int first = lane % across * run;
#pragma unroll
  for (int lanes = across; lanes < 32; lanes *= 2) {
    const int half = run * across / lanes / 2;
    if (half == 0) {
      own[0] += from_lane(own[0], lanes);
      continue;
    }
    const bool upper = (lane & lanes) != 0;
#pragma unroll
    for (int v = 0; v < half; ++v) {
      const f32 kept = upper ? own[v + half] : own[v], given = upper ? own[v] : own[v + half];
      own[v] = kept + from_lane(given, lanes);
    }
    if (upper) first += half;
  }
  constexpr int left = across >= 32 ? run : run * across / 32 > 0 ? run * across / 32 : 1;
  if (lane >= run * across) return;  // another one has the same
#pragma unroll
  for (int v = 0; v < left; ++v) to[first + v] = own[v];
}

// store_results, which gives `write` besides the sums of the lane's columns to add to, of each of `count` sums. Behind
// `part_rows` rows that follow one another these are left in `parts`: of each sum [rows ÷ part_rows][block_columns] of
// the block, number `warp_place` of which is the warp's first one.
template <int warp_columns, int columns, int pitch, int run, int count, int part_rows, int block_rows,
          int block_columns, class Cores, class Sum, class Write>
__device__ __forceinline__ void store_and_add_results(Cores& cores, Sum* strip, f32* parts, int warp_place,
                                                      int warp_row, int warp_column, const Write& write) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int across = columns / run, sets = across > 32 ? across / 32 : 1;
  constexpr int runs = Cores::strip_rows * across, chunks = warp_columns / columns;
  constexpr int results = Cores::strip_results / chunks;
#pragma unroll
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int first = chunk * columns;
    f32 own[sets][count][run] = {};
#pragma unroll
    for (int down = 0; down < Cores::strips; ++down) {
#pragma unroll
      for (int j = 0; j < results; ++j) {
        const int i = chunk * results + j;
        strip[Cores::row_of(i) * pitch + Cores::column_of(i) - first] = cores.result(down, i);
      }
      __syncwarp();
#pragma unroll
      for (int turn = 0; turn < (runs + 31) / 32; ++turn) {
        const int i = turn * 32 + lane;
        if (runs % 32 == 0 || i < runs) {
          const int row = i / across, column = i % across * run;
          write(warp_row + down * Cores::strip_step + row, warp_column + first + column, strip + row * pitch + column,
                own[turn % sets]);
        }
      }
      __syncwarp();
      const int part = down * Cores::strip_step / part_rows;
      if (down + 1 < Cores::strips && (down + 1) * Cores::strip_step / part_rows == part) continue;
#pragma unroll
      for (int set = 0; set < sets; ++set) {
#pragma unroll
        for (int sum = 0; sum < count; ++sum) {
          leave_column_parts<(across > 32 ? 32 : across)>(
              own[set][sum],
              parts + (sum * (block_rows / part_rows) + part) * block_columns + warp_place + first + set * 32 * run);
#pragma unroll
          for (int v = 0; v < run; ++v) own[set][sum][v] = 0;
        }
      }
    }
  }
}

// Of each group of `each` rows and column of the block the parts as one, by rising rows: `store(group, column, sum)`,
// where these are numbered from `first_group` and `first_column` on, as far as there are so many.
template <int each, int part_rows, int block_rows, int block_columns, int threads, class Store>
__device__ __forceinline__ void add_column_parts(const f32* parts, int first_group, int groups, int first_column,
                                                 int columns, const Store& store) {
  constexpr int count = each / part_rows;
  for (int own = static_cast<int>(threadIdx.x); own < block_rows / each * block_columns; own += threads) {
    const int group = own / block_columns, column = own % block_columns;
    if (first_group + group >= groups || first_column + column >= columns) continue;
    const f32* const from = parts + group * count * block_columns + column;
    f32 sum = from[0];
#pragma unroll
    for (int i = 1; i < count; ++i) sum += from[i * block_columns];
    store(first_group + group, first_column + column, sum);
  }
}

}  // namespace stitch
