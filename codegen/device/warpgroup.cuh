#pragma once
// Matmul-class kernels by wgmma (PTX ISA, "Asynchronous warpgroup level matrix instructions"; sm_90a): four warps
// multiply tiles in shared memory while they do something else. Tiles come by the copies of contraction.cuh, which are
// of the generic proxy: what they wrote is handed over by a fence.

#include "stitch/contraction.cuh"

namespace stitch {

// Makes this thread's finished copies visible to wgmma; a barrier behind it, those of the others.
__device__ __forceinline__ void share_with_wgmma() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// All but the latest `pending` groups of the warpgroup's products are done.
template <int pending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Byte of a 16-bit element in panels of 64 elements, one behind the other: a line of 128 bytes in each, swizzled like
// OperandTile's.
__device__ __forceinline__ int place_in_panels(int panel_bytes, int line, int element) {
  const int byte = element % 64 * 2;
  return element / 64 * panel_bytes + line * 128 + (((byte / 16) ^ (line & 7)) * 16 + byte % 16);
}

// A tile of 16-bit elements whose free dimension is contiguous, as wgmma reads it: panels of 64 elements, in each a
// line of 128 bytes for every step of depth.
template <class T, int rows, int depth, int copied_bytes>
struct PanelTile {
  using type = T;
  static constexpr bool along_depth = false;
  static constexpr int copy_bytes = copied_bytes;
  static constexpr int lines = depth;
  static constexpr int line_elements = rows;
  static constexpr int panel_bytes = depth * 128;
  static constexpr int bytes = rows / 64 * panel_bytes;

  __device__ static __forceinline__ int place(int line, int element) {
    return place_in_panels(panel_bytes, line, element);
  }
};

// The matrix descriptor of a tile, and how far from it the matrix at (row, step of 32 bytes or 16 elements) is.
template <class Tile>
__device__ __forceinline__ u64 descriptor_of(const unsigned char* tile) {
  constexpr u64 line_bytes =
      Tile::along_depth ? Tile::line_elements * static_cast<int>(sizeof(typename Tile::type)) : 128;
  constexpr u64 swizzle = line_bytes == 128 ? 1 : line_bytes == 64 ? 2 : 3;
  constexpr u64 leading = Tile::along_depth ? 16 : Tile::lines * 128;
  // In a cluster an address also says whose it is, which the descriptor has no room for.
  const u64 start = shared_address(tile) & 0x3ffff;
  return start >> 4 | leading >> 4 << 16 | line_bytes * 8 >> 4 << 32 | swizzle << 62;
}
template <class Tile>
__device__ __forceinline__ u64 descriptor_step(int row, int step) {
  if constexpr (Tile::along_depth) {
    constexpr int line_bytes = Tile::line_elements * static_cast<int>(sizeof(typename Tile::type));
    return static_cast<u64>((row * line_bytes + step * 32) >> 4);
  } else {
    return static_cast<u64>((row / 64 * Tile::panel_bytes + step * 16 * 128) >> 4);
  }
}

// Behind the wait for all products: nothing may be read of their sums before it, not even moved.
__device__ __forceinline__ void keep_behind(f32& sum) { asm volatile("" : "+f"(sum)::"memory"); }
__device__ __forceinline__ void keep_behind(s32& sum) { asm volatile("" : "+r"(sum)::"memory"); }
template <class Sum, int rows, int columns>
__device__ __forceinline__ void settle_results(FragmentSums<Sum, rows, columns, 64>& results) {
#pragma unroll
  for (int i = 0; i < rows / 16; ++i) {
#pragma unroll
    for (int j = 0; j < columns / 2; ++j) keep_behind(results.sums[i][j / 4][j % 4]);
  }
}

// A warpgroup has `rows` × `columns` results of a warp each times four: of every 64 rows a warp has 16. `Product` is
// the instruction of 64 × `columns` results. `anew`: sums of two tiles begin with its first product.
template <class Product, class Left, class Right, class Sum, int rows, int columns, bool anew = false>
struct WarpgroupCores : FragmentSums<Sum, rows, columns, 64> {
  static constexpr int steps =
      Left::along_depth ? Left::line_elements * static_cast<int>(sizeof(typename Left::type)) / 32 : Left::lines / 16;

  // Begins to multiply two tiles, from `row` and `column` on, which are the warpgroup's first.
  __device__ __forceinline__ void begin(const unsigned char* left, const unsigned char* right, int row, int column) {
    const u64 left_tile = descriptor_of<Left>(left), right_tile = descriptor_of<Right>(right);
    begin_products();
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int i = 0; i < rows / 16; ++i) {
        const u64 of_left = left_tile + descriptor_step<Left>(row + i * 64, step);
        const u64 of_right = right_tile + descriptor_step<Right>(column, step);
        if constexpr (anew) {
          if (step == 0) {
            Product::begin(this->sums[i], of_left, of_right);
            continue;
          }
        }
        Product::multiply(this->sums[i], of_left, of_right);
      }
    }
    commit_products();
  }
};

}  // namespace stitch
