#pragma once
// Attention by wgmma (sm_90a), as FlashAttention-3 has it (Shah et al. 2024, §3.2): four warps have 64 rows, or 128.
// Scores are made of queries and keys in shared memory; the weights are the other product's left operand in registers,
// where the scores lie as it takes them.

#include "stitch/attention.cuh"
#include "stitch/warpgroup.cuh"

namespace stitch {

// A tile of 16-bit elements whose lines along the depth are longer than the 128 bytes that a swizzle covers: parts of
// 64 elements of depth, one behind the other, each with a line of 128 bytes for every row.
template <class T, int rows, int depth, int copied_bytes>
struct LongLineTile {
  using type = T;
  static constexpr bool along_depth = true;
  static constexpr int copy_bytes = copied_bytes;
  static constexpr int lines = rows;
  static constexpr int line_elements = depth;
  static constexpr int part_bytes = rows * 128;
  static constexpr int bytes = depth / 64 * part_bytes;

  __device__ static __forceinline__ int place(int line, int element) {
    return place_in_panels(part_bytes, line, element);
  }
};

// As descriptor_of and descriptor_step have them, of such tiles too.
template <class Tile>
struct TileMatrices {
  __device__ static __forceinline__ u64 first(const unsigned char* tile) { return descriptor_of<Tile>(tile); }
  __device__ static __forceinline__ u64 step(int row, int step) { return descriptor_step<Tile>(row, step); }
};
template <class T, int rows, int depth, int copied_bytes>
struct TileMatrices<LongLineTile<T, rows, depth, copied_bytes>> {
  using Tile = LongLineTile<T, rows, depth, copied_bytes>;
  using Part = OperandTile<T, rows, 64, true, copied_bytes, true>;
  __device__ static __forceinline__ u64 first(const unsigned char* tile) { return descriptor_of<Part>(tile); }
  __device__ static __forceinline__ u64 step(int row, int step) {
    return static_cast<u64>(step / 4 * Tile::part_bytes >> 4) + descriptor_step<Part>(row, step % 4);
  }
};

// The first product. `Product` is the instruction of 64 × `columns` results; a warp has `rows` of the warpgroup's.
template <class Product, class Left, class Right, int depth, int rows, int columns>
struct WarpgroupScores : FragmentSums<f32, rows, columns, 64> {
  static constexpr int across = rows / 16;

  // Begins to multiply the tiles of queries and keys; `row`: the warpgroup's first one.
  __device__ __forceinline__ void begin(const unsigned char* queries, const unsigned char* keys, int row) {
    const u64 left = TileMatrices<Left>::first(queries), right = TileMatrices<Right>::first(keys);
    begin_products();
#pragma unroll
    for (int step = 0; step < depth / 16; ++step) {
#pragma unroll
      for (int i = 0; i < across; ++i) {
        const u64 from = left + TileMatrices<Left>::step(row + i * 64, step);
        const u64 keys_of_step = right + TileMatrices<Right>::step(0, step);
        if (step == 0) {
          Product::begin(this->sums[i], from, keys_of_step);
        } else {
          Product::multiply(this->sums[i], from, keys_of_step);
        }
      }
    }
    commit_products();
  }
};

// The weights of a warp as operands: of every 16 keys the words that the instruction takes of a lane.
template <class T, int rows, int keys>
struct WarpgroupWeights {
  static constexpr int across = rows / 16, steps = keys / 16;
  u32 words[across][steps][4];

  template <class Scores>
  __device__ __forceinline__ void take(const Scores& scores) {
#pragma unroll
    for (int i = 0; i < across; ++i) {
#pragma unroll
      for (int at = 0; at < steps; ++at) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const f32(&sums)[4] = scores.sums[i][2 * at + half];
          words[i][at][2 * half] = pair_of<T>(sums[0], sums[1]);
          words[i][at][2 * half + 1] = pair_of<T>(sums[2], sums[3]);
        }
      }
    }
  }
};

// Ends the weights before what follows. ptxas moves a wait for products in front of the exponentials that they should
// run beside, within a block of code: this ends one, by a branch that depends on all of them and is never taken.
template <class Scores, bool with_statistics>
__device__ __forceinline__ void finish_weights(const AttentionRows<Scores, with_statistics>& rows) {
  bool negative = false;
#pragma unroll
  for (int r = 0; r < Scores::own_rows; ++r) negative |= rows.sum[r] < 0.f;
  if (__any_sync(0xffffffffu, negative)) __nanosleep(0);
}

// The second product: weights in registers, values in shared memory.
template <class Product, class Weights, class Right, int rows, int columns>
struct WarpgroupResults : FragmentSums<f32, rows, columns, 64> {
  static constexpr int across = rows / 16;

  __device__ __forceinline__ void begin(const Weights& weights, const unsigned char* values) {
    const u64 right = TileMatrices<Right>::first(values);
    begin_products();
#pragma unroll
    for (int at = 0; at < Weights::steps; ++at) {
#pragma unroll
      for (int i = 0; i < across; ++i)
        Product::multiply(this->sums[i], weights.words[i][at], right + TileMatrices<Right>::step(0, at));
    }
    commit_products();
  }
};

}  // namespace stitch
