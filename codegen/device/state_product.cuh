#pragma once
// Products of a recurrent kernel's turn by tensor cores: of a state in shared memory with weights that are the same in
// every turn (kernel/program/state_products.h).

#include "stitch/contraction.cuh"

namespace stitch {

// A column of weights, `step` elements from one to the next; all zero if it is not `inside`.
template <class T>
struct WeightColumn {
  const T* from;
  int step;
  bool inside;
};

// sums[row][column] = Σ_k state[row][k] · weights[k][column] as weightsᵀ · stateᵀ: 16 columns and 8 rows an
// instruction. `column_warps` × `depth_warps` of the block's warps have `tiles` × 16 columns and `chunks` × 32 of depth
// each; those that share columns leave a set of sums each. The depth is in the order in which a lane finds 8 neighbours
// of it in a 16-byte access: of a chunk, lane l has elements (l % 4) * 8 onwards, two for each of the registers of two
// instructions. Which element is which does not matter to a sum, as long as both operands agree.
//
// A quarter of a warp reads 64 bytes of each of two rows at once. Where rows that are `paired_rows` apart lie in other
// banks it reads those. Where all rows begin in one bank (0) its lanes of the second row take two chunks in the other
// order, and exchange them in registers.
template <class Mma, class T, int rows, int columns, int depth, int pitch, int column_warps, int depth_warps, int tiles,
          int chunks, int tiles_at_once, int run, int paired_rows, int sum_pitch>
struct StateProduct {
  static constexpr int steps = chunks * 2, row_tiles = (rows + 7) / 8, all_rows = row_tiles * 8;
  static constexpr int set = all_rows * sum_pitch;  // sums of one part of the depth
  static constexpr int together = paired_rows == 0 ? 2 : 1;
  static_assert(chunks % together == 0 && sum_pitch >= column_warps * tiles * 16 && sizeof(T) == 2);

  using Fragments = u32[tiles][steps][4];

  __device__ static __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static __forceinline__ int first_column() { return warp() % column_warps * (tiles * 16); }
  // Of warps that have nothing to multiply that of one which has: they load what is there.
  __device__ static __forceinline__ int first_depth() { return warp() / column_warps % depth_warps * (chunks * 32); }

  // Where in a tile of the state column number n of an instruction is.
  __device__ static __forceinline__ constexpr int row_of(int n) {
    constexpr int apart = paired_rows == 0 ? 1 : paired_rows;
    return n / 2 / apart * (2 * apart) + n / 2 % apart + n % 2 * apart;
  }

  // Two weights of a column from k on as a word; zero beyond either end. What is not there is loaded from elsewhere:
  // loads that no branch stands between are in flight together.
  __device__ static __forceinline__ u32 pair(const WeightColumn<T>& column, int k) {
    constexpr bool whole = depth_warps * chunks * 32 <= depth;
    const u32 low = load_one<Cached::streamed>(column.from + (whole ? k : minimum(k, depth - 1)) * column.step).bits;
    const u32 high =
        load_one<Cached::streamed>(column.from + (whole ? k + 1 : minimum(k + 1, depth - 1)) * column.step).bits;
    const u32 both = low | (whole || k + 1 < depth ? high << 16 : 0);
    return column.inside && (whole || k < depth) ? both : 0;
  }
  template <class Weights>
  __device__ static __forceinline__ WeightColumn<T> column_of(const Weights& weights, int column) {
    WeightColumn<T> found = weights(minimum(column, columns - 1));
    found.inside = found.inside && column < columns;
    return found;
  }
  // The words of an instruction: `low` and `high` are columns of the tile that are eight apart.
  __device__ static __forceinline__ uint4 words_of(const WeightColumn<T>& low, const WeightColumn<T>& high, int step) {
    const int k = first_depth() + step / 2 * 32 + lane() % 4 * 8 + step % 2 * 4;
    return {pair(low, k), pair(high, k), pair(low, k + 2), pair(high, k + 2)};
  }

  // Brings the weights to registers, or to shared memory: a warp's words in the order in which it takes them.
  // `weights(column)` is a column of them.
  template <class Weights>
  __device__ static __forceinline__ void load(Fragments& fragments, const Weights& weights) {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const int column = first_column() + tile * 16 + lane() / 4;
      const WeightColumn<T> low = column_of(weights, column), high = column_of(weights, column + 8);
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        const uint4 four = words_of(low, high, step);
        fragments[tile][step][0] = four.x;
        fragments[tile][step][1] = four.y;
        fragments[tile][step][2] = four.z;
        fragments[tile][step][3] = four.w;
      }
    }
  }
  template <class Weights>
  __device__ static __forceinline__ void load(uint4* fragments, const Weights& weights) {
    if (warp() >= column_warps * depth_warps) return;
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      const int column = first_column() + tile * 16 + lane() / 4;
      const WeightColumn<T> low = column_of(weights, column), high = column_of(weights, column + 8);
#pragma unroll 4
      for (int step = 0; step < steps; ++step)
        fragments[(warp() * tiles * steps + tile * steps + step) * 32 + lane()] = words_of(low, high, step);
    }
  }

  __device__ static __forceinline__ void take(u32 (&words)[4], const Fragments& fragments, int tile, int step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = fragments[tile][step][i];
  }
  __device__ static __forceinline__ void take(u32 (&words)[4], const uint4* fragments, int tile, int step) {
    const uint4 four = fragments[(warp() * tiles * steps + tile * steps + step) * 32 + lane()];
    words[0] = four.x;
    words[1] = four.y;
    words[2] = four.z;
    words[3] = four.w;
  }

  // A lane's eight elements of a chunk of a row; zero beyond either end.
  __device__ static __forceinline__ void read(u32 (&words)[4], const T* state, int row, int k) {
    union {
      T elements[8];
      u32 words[4];
    } eight = {};
    const bool inside = rows % 8 == 0 || row < rows;
#pragma unroll
    for (int i = 0; i < 8; i += run) {
      if (!inside || (depth_warps * chunks * 32 > depth && k + i >= depth)) continue;
      using W = typename Word<run* static_cast<int>(sizeof(T))>::type;
      *reinterpret_cast<W*>(eight.elements + i) = *reinterpret_cast<const W*>(state + row * pitch + k + i);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = eight.words[i];
  }
  __device__ static __forceinline__ void read(u32 (&words)[together][4], const T* state, int row, int k) {
    if constexpr (together == 1) {
      read(words[0], state, row, k);
    } else {
      const bool second = lane() / 4 % 2 != 0;
      u32 found[2][4];
      read(found[0], state, row, k + (second ? 32 : 0));
      read(found[1], state, row, k + (second ? 0 : 32));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[0][i] = second ? found[1][i] : found[0][i];
        words[1][i] = second ? found[0][i] : found[1][i];
      }
    }
  }

  // Of all threads of the block; a block barrier must follow before the sums are read.
  template <class Weights>
  __device__ static __forceinline__ void multiply(const Weights& weights, const T* state, f32* sums) {
    if (warp() >= column_warps * depth_warps) return;
    f32* const own = sums + warp() / column_warps * set + first_column() + lane() / 4;
#pragma unroll 1
    for (int first = 0; first < row_tiles; first += tiles_at_once) {
      f32 found[tiles][tiles_at_once][4] = {};
#pragma unroll
      for (int chunk = 0; chunk < chunks; chunk += together) {
        u32 words[tiles_at_once][together][4];
#pragma unroll
        for (int r = 0; r < tiles_at_once; ++r) {
          if (row_tiles % tiles_at_once != 0 && first + r >= row_tiles) continue;
          read(words[r], state, (first + r) * 8 + row_of(lane() / 4), first_depth() + chunk * 32 + lane() % 4 * 8);
        }
#pragma unroll
        for (int step = 0; step < 2 * together; ++step) {
#pragma unroll
          for (int tile = 0; tile < tiles; ++tile) {
            u32 left[4];
            take(left, weights, tile, chunk * 2 + step);
#pragma unroll
            for (int r = 0; r < tiles_at_once; ++r) {
              if (row_tiles % tiles_at_once != 0 && first + r >= row_tiles) continue;
              Mma::multiply(found[tile][r], left, words[r][step / 2][step % 2 * 2],
                            words[r][step / 2][step % 2 * 2 + 1]);
            }
          }
        }
      }
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
        for (int r = 0; r < tiles_at_once; ++r) {
          if (row_tiles % tiles_at_once != 0 && first + r >= row_tiles) continue;
#pragma unroll
          for (int i = 0; i < 4; ++i)
            own[((first + r) * 8 + row_of(lane() % 4 * 2 + i % 2)) * sum_pitch + tile * 16 + i / 2 * 8] =
                found[tile][r][i];
        }
      }
    }
  }

  // The sums of `count` neighbouring columns of a row, from the first one's place; `width` at a time.
  template <int width, int count>
  __device__ static __forceinline__ void sum(f32 (&to)[count], const f32* from) {
#pragma unroll
    for (int part = 0; part < depth_warps; ++part) {
      f32 found[count];
#pragma unroll
      for (int i = 0; i < count; i += width) stitch::load<width, Cached::plain>(found + i, from + part * set + i);
#pragma unroll
      for (int i = 0; i < count; ++i) to[i] = part == 0 ? found[i] : to[i] + found[i];
    }
  }
  __device__ static __forceinline__ f32 sum(const f32* from) {
    f32 total = from[0];
#pragma unroll
    for (int part = 1; part < depth_warps; ++part) total += from[part * set];
    return total;
  }
};

}  // namespace stitch
