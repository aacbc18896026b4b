#pragma once
// Chains of products (kernel/attention/product_chain.h): what a warp's scores make are its own left operands of the
// second products, so that neither is ever in memory. A warp has whole rows.

#include "stitch/attention.cuh"

namespace stitch {

// A tile that lies as another product's right operand does, read from the other side: its lines are along the depth
// there, and along the free dimension here.
template <class Tile>
struct TurnedTile : Tile {
  static constexpr bool along_depth = !Tile::along_depth;
  __device__ static __forceinline__ int place_of(int row, int k) {
    return along_depth ? Tile::place(row, k) : Tile::place(k, row);
  }
};

// What is kept of a lane's rows; `row`: of the warp's first one.
template <class Rows, class Scores, class Weigh>
__device__ __forceinline__ void keep_rows(typename Weigh::Row (&rows)[Scores::own_rows], const Weigh& weigh, int batch,
                                          int row) {
#pragma unroll
  for (int r = 0; r < Scores::own_rows; ++r) {
    const int m = row + Scores::place_of_own_row(r);
    rows[r] = Rows::before(m) ? weigh.row(batch, m) : typename Weigh::Row{};
  }
}

// Scores become weights, each in the place of one of them; outside of rows and columns they are 0. `row` and `column`:
// of the warp's first one.
template <class Rows, class Columns, int count, class Weigh, class First, class... Others>
__device__ __forceinline__ void weigh_scores(const Weigh& weigh, const typename Weigh::Row (&rows)[First::own_rows],
                                             int batch, int row, int column, First& first, Others&... others) {
  const int own = column + First::column_of(0);
#pragma unroll
  for (int i = 0; i < First::strip_results; ++i) {
    const int behind = First::columns_behind(i), j = own + behind;
    const typename Weigh::Column of_column =
        Columns::before(j) ? weigh.column(batch, own, behind) : typename Weigh::Column{};
#pragma unroll
    for (int s = 0; s < First::strips; ++s) {
      const int m = row + s * First::strip_step + First::row_of(i);
      f32* const places[] = {&first.result(s, i), &others.result(s, i)...};
      const f32 scores[] = {first.result(s, i), others.result(s, i)...};
      f32 weights[count] = {};
      if (Rows::before(m) && Columns::before(j))
        weigh(scores, rows[First::own_row(s, i)], of_column, batch, m, j, weights);
#pragma unroll
      for (int w = 0; w < count; ++w) *places[w] = weights[w];
    }
  }
}

}  // namespace stitch
