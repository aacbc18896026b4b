#pragma once
// Products whose depth is scaled part by part (kernel/contraction/scaled_contraction.h): what multiplies sums up a
// part, whose sums are scaled and added to those of the parts before. And those whose sums have fewer bits than f32, so
// that parts are summed up apart although nothing scales them (wgmma of f8).

#include "stitch/contraction.cuh"

namespace stitch {

// `Base`, with a second sum of each result: it is what leaves the kernel. `Scales` knows the factors of rows and of
// columns; of either all may be the same in a warp's tile.
template <class Base, class Scales, bool one_row, bool one_column>
struct ScaledCores : Base {
  f32 totals[Base::strips][Base::strip_results] = {};

  __device__ __forceinline__ f32& result(int strip, int i) { return totals[strip][i]; }

  // Asks for the factors of the part that begins at k; the warp's tile begins at `row` and `column`. What is beyond the
  // edge has those of the last one.
  __device__ __forceinline__ void ask(const Scales& scales, int row, int column, int k) {
    k = minimum(k, Scales::depth - 1);
#pragma unroll
    for (int r = 0; r < rows; ++r)
      of_row[r] = scales.of_row(minimum(row + (one_row ? 0 : Base::place_of_own_row(r)), Scales::rows - 1), k);
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      const int place = column + (one_column ? 0 : Base::place_of_own_column(c));
      of_column[c] = scales.of_column(minimum(place, Scales::columns - 1), k);
    }
  }

  // Ends a part. Two factors one after the other: their product may be beyond what f32 has where neither result is.
  __device__ __forceinline__ void add_scaled() {
#pragma unroll
    for (int s = 0; s < Base::strips; ++s) {
#pragma unroll
      for (int i = 0; i < Base::strip_results; ++i) {
        auto& sum = Base::result(s, i);
        const f32 scaled = static_cast<f32>(sum) * of_row[one_row ? 0 : Base::own_row(s, i)];
        totals[s][i] = __fmaf_rn(scaled, of_column[one_column ? 0 : Base::own_column(i)], totals[s][i]);
        sum = {};
      }
    }
  }

 private:
  static constexpr int rows = one_row ? 1 : Base::own_rows, columns = one_column ? 1 : Base::own_columns;
  f32 of_row[rows], of_column[columns];
};

// `Base`, whose sums are of one part at a time, with those of all parts before it.
template <class Base>
struct PromotedCores : Base {
  f32 totals[Base::strips][Base::strip_results] = {};

  __device__ __forceinline__ f32& result(int strip, int i) { return totals[strip][i]; }

  __device__ __forceinline__ void add_sums() {
#pragma unroll
    for (int s = 0; s < Base::strips; ++s) {
#pragma unroll
      for (int i = 0; i < Base::strip_results; ++i) totals[s][i] += Base::result(s, i);
    }
  }
};

}  // namespace stitch
