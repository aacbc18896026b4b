#pragma once
// Matmul-class kernels: tiles of operands brought to shared memory asynchronously, fragments of them in registers, and
// what multiplies them. A generated kernel names the tiles and writes the loop that moves them (kernel/pipeline);
// everything here is the same for all of them.

#include "stitch/launch.cuh"
#include "stitch/memory.cuh"
#include "stitch/reduce.cuh"
#include "stitch/types.cuh"

namespace stitch {

// ---- copies to shared memory

// Brings n bytes, or zeros where there are none; `from` must be a valid address in any case. Fewer than four go through
// a register.
template <int n>
__device__ __forceinline__ void copy_or_zero(unsigned char* to, const void* from, bool inside) {
  if constexpr (n >= 4) {
    const u32 place = shared_address(to);
    const int bytes = inside ? n : 0;
    if constexpr (n == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(from), "n"(n), "r"(bytes)
                   : "memory");
    }
  } else if constexpr (n == 2) {
    *reinterpret_cast<u16*>(to) = inside ? *static_cast<const u16*>(from) : u16{};
  } else {
    *to = inside ? *static_cast<const u8*>(from) : u8{};
  }
}

// ---- tiles

constexpr int log2_of(int power) { return power <= 1 ? 0 : 1 + log2_of(power / 2); }

// A tile of an operand in shared memory, `rows` of its free dimension × `depth` of the contracted one. What lies side
// by side in device memory does so here and is a line. A line's 16-byte places are exchanged by exclusive-or with the
// line's number, so that eight lines' places in one column are in different banks.
template <class T, int rows, int depth, bool lines_along_depth, int copied_bytes, bool swizzled>
struct OperandTile {
  using type = T;
  static constexpr bool along_depth = lines_along_depth;
  static constexpr int copy_bytes = copied_bytes;
  static constexpr int lines = along_depth ? rows : depth;
  static constexpr int line_elements = along_depth ? depth : rows;
  static constexpr int line_bytes = line_elements * static_cast<int>(sizeof(T));
  static constexpr int bytes = lines * line_bytes;
  // Neighbouring places that a warp reads of a line at once: of 4-byte elements 8 of each of 4 lines, of 8-byte ones 4.
  static constexpr int places_together = sizeof(T) == 8 || (!along_depth && sizeof(T) == 4) ? 2 : 1;

  // Of bytes along their rows a warp reads 8 of each of 4 lines, which are 4 lines apart (word_of).
  static constexpr bool gathered = !along_depth && sizeof(T) == 1;
  // Of 8-byte elements along the depth tensor cores read two neighbouring places of each of 4 lines, CUDA cores one of
  // each of 8: the lines behind the fourth exchange within pairs of places.
  static constexpr bool of_eight_lines = along_depth && sizeof(T) == 8;
  static constexpr int shift = gathered ? 2 : line_bytes < 128 ? log2_of(128 / line_bytes) : 0;
  static constexpr int mask = (line_bytes < 128 ? line_bytes / 16 : 8) - 1;
  // So many lines further on places are exchanged likewise.
  static constexpr int period = !swizzled                     ? 1
                                : gathered && line_bytes < 64 ? 16
                                : line_bytes >= 32            ? (mask + 1) << shift
                                                              : 1;

  // Byte at which an element is.
  __device__ static __forceinline__ int place(int line, int element) {
    const int byte = element * static_cast<int>(sizeof(T));
    // Lines that are 8 apart would meet in a bank where they are short.
    if constexpr (swizzled && gathered && line_bytes < 64) line ^= (line >> 3 & 1) << 1;
    if constexpr (!swizzled || line_bytes < 32) {
      return line * line_bytes + byte;
    } else {
      const int number = line >> shift;
      int exchanged = number * places_together & mask;
      if constexpr (of_eight_lines) exchanged |= number >> (log2_of(mask + 1) - 1) & 1;
      return line * line_bytes + (((byte / 16) ^ exchanged) * 16 + byte % 16);
    }
  }
  __device__ static __forceinline__ int place_of(int row, int k) { return along_depth ? place(row, k) : place(k, row); }
};

constexpr int loads_through_registers = 8;

// Whether an operand's elements lie equally far apart along rows, and along depth.
template <class Operand>
constexpr bool lies_evenly() {
  if constexpr (requires { Operand::even; }) return Operand::even;
  return false;
}
// Whether what is `step` lines further on in a tile lies so many lines behind in shared memory, its places exchanged
// likewise.
template <class Tile, int step>
constexpr bool repeats_after() {
  if constexpr (requires { Tile::period; }) return step % Tile::period == 0;
  return false;
}

// Asks for a tile. `operand` knows where an element lies (at(row, k)) and whether there is one under a convolution's
// window (covers(row, k)); what is outside of its rows and depth is zero, where tiles are not whole.
template <class Tile, int threads, class Operand>
__device__ __forceinline__ void copy_tile(unsigned char* to, const Operand& operand, int first_row, int first_k) {
  using T = typename Tile::type;
  constexpr int run = Tile::copy_bytes / static_cast<int>(sizeof(T));
  constexpr int runs = Tile::line_elements / run, total = Tile::lines * runs;
  // What goes through registers is loaded a few at a time: all of a tile would not fit them.
  constexpr int together = Tile::copy_bytes < 4 ? loads_through_registers : total;
  if constexpr (Tile::copy_bytes >= 4 && threads % runs == 0 && lies_evenly<Operand>() &&
                repeats_after<Tile, threads / runs>()) {
    // Runs of a thread are equally far apart on both sides, so that it has one address of either.
    constexpr int step = threads / runs;
    const int line = static_cast<int>(threadIdx.x) / runs, element = static_cast<int>(threadIdx.x) % runs * run;
    const int row = first_row + (Tile::along_depth ? line : element);
    const int k = first_k + (Tile::along_depth ? element : line);
    const T* const from = operand.data + operand.at(row, k);
    unsigned char* const place = to + Tile::place(line, element);
#pragma unroll
    for (int behind = 0; behind < Tile::lines; behind += step) {
      if (Tile::lines % step != 0 && line + behind >= Tile::lines) break;
      const int rows_behind = Tile::along_depth ? behind : 0, depth_behind = Tile::along_depth ? 0 : behind;
      const bool inside = (Operand::whole_rows || row + rows_behind < operand.rows) &&
                          (Operand::whole_depth || k + depth_behind < operand.depth);
      const T* const next = from + operand.at(rows_behind, depth_behind);
      copy_or_zero<Tile::copy_bytes>(place + behind * Tile::line_bytes, inside ? next : operand.data, inside);
    }
    return;
  }
#pragma unroll together
  for (int first = 0; first < total; first += threads) {
    const int i = first + static_cast<int>(threadIdx.x);
    if (total % threads != 0 && i >= total) break;
    const int line = i / runs, element = i % runs * run;
    const int row = first_row + (Tile::along_depth ? line : element);
    const int k = first_k + (Tile::along_depth ? element : line);
    const bool inside = (Operand::whole_rows || row < operand.rows) && (Operand::whole_depth || k < operand.depth) &&
                        Operand::covers(row, k);
    copy_or_zero<Tile::copy_bytes>(to + Tile::place(line, element), operand.data + (inside ? operand.at(row, k) : 0),
                                   inside);
  }
}

// One of the runs of elements that copy_tile brings: where it lies in the tile, and its first element in the operand.
// copy_tile itself has this written out: by way of it ptxas 13.0 makes up to a twentieth more instructions in the main
// loops of convolutions.
template <class Tile>
struct TileRun {
  static constexpr int length = Tile::copy_bytes / static_cast<int>(sizeof(typename Tile::type));
  static constexpr int per_line = Tile::line_elements / length, total = Tile::lines * per_line;

  __device__ __forceinline__ TileRun(int number, int first_row, int first_k)
      : line(number / per_line),
        element(number % per_line * length),
        row(first_row + (Tile::along_depth ? line : element)),
        k(first_k + (Tile::along_depth ? element : line)) {}
  template <class Operand>
  __device__ __forceinline__ bool is_within(const Operand& operand) const {
    return (Operand::whole_rows || row < operand.rows) && (Operand::whole_depth || k < operand.depth) &&
           Operand::covers(row, k);
  }
  __device__ __forceinline__ int place() const { return Tile::place(line, element); }

  int line, element, row, k;
};

// n elements that follow one another, in accesses of at most `most`.
template <int most, Cached cached, int n, class T>
__device__ __forceinline__ void load_held(T (&to)[n], const T* from) {
  constexpr int each = n < most ? n : most;
#pragma unroll
  for (int i = 0; i < n; i += each) load<each, cached>(to + i, from + i);
}

// A tile of an operand that is computed while it is loaded, in the registers of a block's threads: what its elements
// are made of is asked for, and the elements are stored to shared memory when it has come. `operand` loads what a run
// of them is made of, and makes them of that; else it is as copy_tile's.
template <class Tile, int threads, class Operand>
struct HeldTile {
  using T = typename Tile::type;
  using Run = TileRun<Tile>;
  static constexpr int each = (Run::total + threads - 1) / threads;
  typename Operand::Run held[each];

  __device__ __forceinline__ void load(const Operand& operand, int first_row, int first_k) {
    for_each_run(first_row, first_k, [&](int number, const Run& run) {
      if (run.is_within(operand)) operand.load(held[number], run.row, run.k);
    });
  }
  __device__ __forceinline__ void store(unsigned char* to, const Operand& operand, int first_row, int first_k) const {
    for_each_run(first_row, first_k, [&](int number, const Run& run) {
      T elements[Run::length] = {};
      if (run.is_within(operand)) operand.make(held[number], run.row, run.k, elements);
      using W = typename Word<Tile::copy_bytes>::type;
      *reinterpret_cast<W*>(to + run.place()) = word_of<Run::length>(elements);
    });
  }

 private:
  template <class Visit>
  __device__ static __forceinline__ void for_each_run(int first_row, int first_k, const Visit& visit) {
#pragma unroll
    for (int number = 0; number < each; ++number) {
      const int i = number * threads + static_cast<int>(threadIdx.x);
      if (Run::total % threads != 0 && i >= Run::total) break;
      visit(number, Run(i, first_row, first_k));
    }
  }
};

// ---- what a block walks of its depth

struct DepthTiles {
  int first, count;
};

// Tiles of depth from the first to the last one in which an operand `shows` anything but zero in a block's rows. That
// is the same for `same_rows` rows and `same_depth` of depth. `shared`: 8 bytes, which nobody uses meanwhile.
template <int threads, int block_rows, int block_depth, int same_rows, int same_depth, class Operand>
__device__ __forceinline__ DepthTiles shown_tiles(const Operand& operand, int first_row, unsigned char* shared) {
  int* const bounds = reinterpret_cast<int*>(shared);
  if (threadIdx.x == 0) {
    bounds[0] = operand.depth;
    bounds[1] = 0;
  }
  __syncthreads();
  const int last_row = minimum(first_row + block_rows, operand.rows) - 1;
  const int first = first_row / same_rows, rows = last_row / same_rows - first + 1;
  constexpr int depths = (Operand::depth + same_depth - 1) / same_depth;
  int low = operand.depth, high = 0;
  for (int i = static_cast<int>(threadIdx.x); i < rows * depths; i += threads) {
    const int row = maximum(first_row, (first + i % rows) * same_rows), k = i / rows * same_depth;
    if (!operand.shows(row, k)) continue;
    low = minimum(low, k);
    high = maximum(high, minimum(k + same_depth, operand.depth));
  }
  low = reduce_lanes<Min, 1, 2, 4, 8, 16>(low);
  high = reduce_lanes<Max, 1, 2, 4, 8, 16>(high);
  if (threadIdx.x % 32 == 0) {
    atomicMin(bounds, low);
    atomicMax(bounds + 1, high);
  }
  __syncthreads();
  low = bounds[0];
  high = bounds[1];
  __syncthreads();  // tiles come to where the bounds are
  const int tile = low / block_depth;
  return {high > low ? tile : 0, high > low ? (high + block_depth - 1) / block_depth - tile : 0};
}

// ---- fragments of tensor cores

// Four 8 × 16-byte matrices: lane l names a line of matrix l / 8, and gets word l % 4 of line l / 4 of each.
template <bool turned>
__device__ __forceinline__ void load_matrices(u32 (&words)[4], const unsigned char* from) {
  const u32 place = shared_address(from);
  if constexpr (turned) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(place)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(place)
                 : "memory");
  }
}

// Rows, or columns, of a fragment below another one: where they are lines in which places are exchanged likewise, a
// lane's address is that of the other one's and a constant.
template <class Tile>
struct RowsBelow {
  static constexpr int apart = 16;

  __device__ __forceinline__ constexpr explicit RowsBelow(int below)
      : rows(are_lines ? 0 : below), bytes(are_lines ? below * Tile::line_bytes : 0) {}

  static constexpr bool are_lines = Tile::along_depth && repeats_after<Tile, apart>();
  int rows, bytes;
};

// The elements of one register: `row`, and as many of depth from k on as fit a word.
template <class Tile>
__device__ __forceinline__ u32 word_of(const unsigned char* tile, int row, int k) {
  using T = typename Tile::type;
  constexpr int count = 4 / static_cast<int>(sizeof(T));
  if constexpr (Tile::along_depth) return *reinterpret_cast<const u32*>(tile + Tile::place(row, k));
  union {
    u32 word;
    T elements[count];
  } packed;
#pragma unroll
  for (int i = 0; i < count; ++i) packed.elements[i] = *reinterpret_cast<const T*>(tile + Tile::place(k + i, row));
  return packed.word;
}

// 16 rows × 32 bytes of depth of the left operand, as mma takes it: rows 0–7 and 8–15 of the first 16 bytes, then of
// the second.
template <class Tile>
__device__ __forceinline__ void left_words(u32 (&words)[4], const unsigned char* tile, int row, int k) {
  constexpr int half = 16 / static_cast<int>(sizeof(typename Tile::type));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (Tile::along_depth) {
    load_matrices<false>(words, tile + Tile::place(row + lane % 16, k + lane / 16 * half));
  } else if constexpr (sizeof(typename Tile::type) == 2) {
    load_matrices<true>(words, tile + Tile::place(k + lane / 16 * 8 + lane % 8, row + lane / 8 % 2 * 8));
  } else {
    constexpr int word = half / 4;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = word_of<Tile>(tile, row + lane / 4 + i % 2 * 8, k + lane % 4 * word + i / 2 * half);
  }
}

// 16 columns × 32 bytes of depth of the right operand: two words of the first eight columns, two of the others.
template <class Tile>
__device__ __forceinline__ void right_words(u32 (&words)[4], const unsigned char* tile, int column, int k) {
  constexpr int half = 16 / static_cast<int>(sizeof(typename Tile::type));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (Tile::along_depth) {
    load_matrices<false>(words, tile + Tile::place(column + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * half));
  } else if constexpr (sizeof(typename Tile::type) == 2) {
    load_matrices<true>(words, tile + Tile::place(k + lane / 8 % 2 * 8 + lane % 8, column + lane / 16 * 8));
  } else {
    constexpr int word = half / 4;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = word_of<Tile>(tile, column + lane / 4 + i / 2 * 8, k + lane % 4 * word + i % 2 * half);
  }
}

#define STITCH_MMA(NAME, SHAPE, TYPES, A, C)                                                                      \
  struct NAME {                                                                                                   \
    __device__ static __forceinline__ void multiply(A (&sums)[4], const u32 (&left)[4], u32 right0, u32 right1) { \
      asm volatile("mma.sync.aligned." SHAPE ".row.col." TYPES                                                    \
                   " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                             \
                   : "+" C(sums[0]), "+" C(sums[1]), "+" C(sums[2]), "+" C(sums[3])                               \
                   : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));           \
    }                                                                                                             \
  };
STITCH_MMA(MmaF16, "m16n8k16", "f32.f16.f16.f32", f32, "f")
STITCH_MMA(MmaBf16, "m16n8k16", "f32.bf16.bf16.f32", f32, "f")
STITCH_MMA(MmaS8S8, "m16n8k32", "s32.s8.s8.s32", s32, "r")
STITCH_MMA(MmaS8U8, "m16n8k32", "s32.s8.u8.s32", s32, "r")
STITCH_MMA(MmaU8S8, "m16n8k32", "s32.u8.s8.s32", s32, "r")
STITCH_MMA(MmaU8U8, "m16n8k32", "s32.u8.u8.s32", s32, "r")
STITCH_MMA(MmaTf32, "m16n8k8", "f32.tf32.tf32.f32", f32, "f")
#if __CUDA_ARCH__ >= 890
STITCH_MMA(MmaE4m3E4m3, "m16n8k32", "f32.e4m3.e4m3.f32", f32, "f")
STITCH_MMA(MmaE4m3E5m2, "m16n8k32", "f32.e4m3.e5m2.f32", f32, "f")
STITCH_MMA(MmaE5m2E4m3, "m16n8k32", "f32.e5m2.e4m3.f32", f32, "f")
STITCH_MMA(MmaE5m2E5m2, "m16n8k32", "f32.e5m2.e5m2.f32", f32, "f")
#endif
#undef STITCH_MMA

// A warp's results as tensor cores leave them: fragments of 16 × 8, a lane has two neighbours in row l / 4 and two
// eight rows below. Strips of 16 rows are `strip_apart` rows from one another.
template <class Sum, int rows, int columns, int strip_apart>
struct FragmentSums {
  static constexpr int across = rows / 16, strips = across, strip_rows = 16, strip_step = strip_apart;
  // Rows that a lane has results of, the neighbouring lanes that have the others of such a row, and results that follow
  // one another in it.
  static constexpr int own_rows = across * 2, row_lanes = 4, row_run = 2;
  static constexpr int strip_results = columns / 8 * 4;
  Sum sums[across][columns / 8][4] = {};

  static constexpr int own_columns = columns / 4;  // and columns

  // Where, in the warp's tile, the lane's own row number r is.
  __device__ static __forceinline__ int place_of_own_row(int r) {
    return r / 2 * strip_step + static_cast<int>(threadIdx.x) % 32 / 4 + r % 2 * 8;
  }

  // Row and column, in the strip, of the lane's result number i.
  __device__ static __forceinline__ int row_of(int i) { return static_cast<int>(threadIdx.x) % 32 / 4 + i / 2 % 2 * 8; }
  __device__ static __forceinline__ int column_of(int i) {
    return static_cast<int>(threadIdx.x) % 4 * 2 + columns_behind(i);
  }
  // The same, behind the lane's first one.
  __device__ static __forceinline__ constexpr int columns_behind(int i) { return i / 4 * 8 + i % 2; }
  __device__ static __forceinline__ constexpr int own_row(int strip, int i) { return strip * 2 + i / 2 % 2; }
  __device__ static __forceinline__ constexpr int own_column(int i) { return i / 4 * 2 + i % 2; }
  __device__ static __forceinline__ int place_of_own_column(int c) { return column_of(c / 2 * 4 + c % 2); }
  __device__ __forceinline__ Sum& result(int strip, int i) { return sums[strip][i / 4][i % 4]; }
};

// Tensor cores of 16 × 8 results an instruction. A warp has `rows` × `columns` of them.
template <class Mma, class Left, class Right, class Sum, int rows, int columns>
struct TensorCores : FragmentSums<Sum, rows, columns, 16> {
  static constexpr int across = rows / 16, pairs = columns / 16;
  static constexpr int step = 32 / static_cast<int>(sizeof(typename Left::type));  // depth of an instruction
  // Steps of a tile's depth that are unrolled where a loop over all of them is long.
  static constexpr int unrolled = 16;
  using left_type = typename Left::type;
  struct LeftPart {
    u32 words[across][4];
  };
  struct RightPart {
    u32 words[pairs][4];
  };

  __device__ static __forceinline__ void load_left(LeftPart& part, const unsigned char* tile, int warp_row, int at) {
#pragma unroll
    for (int i = 0; i < across; ++i) {
      const RowsBelow<Left> below(i * 16);
      left_words<Left>(part.words[i], tile + below.bytes, warp_row + below.rows, at * step);
    }
  }
  __device__ static __forceinline__ void load_right(RightPart& part, const unsigned char* tile, int warp_column,
                                                    int at) {
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
      const RowsBelow<Right> below(i * 16);
      right_words<Right>(part.words[i], tile + below.bytes, warp_column + below.rows, at * step);
    }
  }
  __device__ __forceinline__ void multiply(const LeftPart& left, const RightPart& right) {
    add_products(left.words, right.words);
  }

 protected:
  __device__ __forceinline__ void add_products(const u32 (&left)[across][4], const u32 (&right)[pairs][4]) {
#pragma unroll
    for (int i = 0; i < across; ++i) {
#pragma unroll
      for (int j = 0; j < pairs * 2; ++j)
        Mma::multiply(this->sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
    }
  }
};

// f32 as TF32, which has 10 bits of its fraction, rounded to nearest; tensor cores would cut them off.
__device__ __forceinline__ u32 to_tf32(u32 word) {
  u32 rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(word)));
  return rounded;
}

// Words of f32 as TF32, and what rounding them lost: infinities less themselves are NaN.
template <int count>
struct SplitWords {
  u32 big[count][4], rest[count][4];

  __device__ __forceinline__ explicit SplitWords(const u32 (&words)[count][4]) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        big[i][w] = to_tf32(words[i][w]);
        rest[i][w] = to_tf32(__float_as_uint(__uint_as_float(words[i][w]) - __uint_as_float(big[i][w])));
      }
    }
  }
};

// Products of f32 as one of TF32, or as three: of what was rounded, and of either with the rest of the other. What is
// small is added first.
template <int products, class Left, class Right, class Sum, int rows, int columns>
struct Tf32Cores : TensorCores<MmaTf32, Left, Right, Sum, rows, columns> {
  using Base = TensorCores<MmaTf32, Left, Right, Sum, rows, columns>;

  __device__ __forceinline__ void multiply(const typename Base::LeftPart& left, const typename Base::RightPart& right) {
    const SplitWords<Base::across> left_words(left.words);
    const SplitWords<Base::pairs> right_words(right.words);
    if constexpr (products == 3) {
      this->add_products(left_words.rest, right_words.big);
      this->add_products(left_words.big, right_words.rest);
    }
    this->add_products(left_words.big, right_words.big);
  }
};

// Two f32 as bf16, which has 7 bits of their fraction, rounded to nearest; the first in the lower half.
__device__ __forceinline__ u32 to_bf16(u32 low, u32 high) {
  u32 rounded;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(rounded) : "f"(__uint_as_float(high)), "f"(__uint_as_float(low)));
  return rounded;
}

// Products of f32 as three of bf16: of rounded operands, and of either with what rounding the other lost, which is
// rounded to bf16 as well. What is small is added first; infinities less themselves are NaN. Words are split as they
// are loaded, so that the two parts lie where f32 would. A register of bf16 has two elements of depth, and which ones
// is the same for both operands, no matter what order that is: the words that a lane has of eight elements of depth, 4
// apart, are two that follow one another in mma's order.
template <class Left, class Right, class Sum, int rows, int columns>
struct Bf16x3Cores : TensorCores<MmaBf16, Left, Right, Sum, rows, columns> {
  using Base = TensorCores<MmaBf16, Left, Right, Sum, rows, columns>;
  static_assert(sizeof(typename Left::type) == 4 && sizeof(typename Right::type) == 4);
  static constexpr int step = 2 * Base::step;
  template <int count>
  struct Part {
    u32 big[count][4], rest[count][4];

    __device__ __forceinline__ void split(int i, int word, u32 low, u32 high) {
      const u32 both = to_bf16(low, high);
      big[i][word] = both;
      rest[i][word] = to_bf16(difference(low, both << 16), difference(high, both & 0xffff0000u));
    }

   private:
    __device__ static __forceinline__ u32 difference(u32 a, u32 b) {
      return __float_as_uint(__uint_as_float(a) - __uint_as_float(b));
    }
  };
  using LeftPart = Part<Base::across>;
  using RightPart = Part<Base::pairs>;

  __device__ static __forceinline__ void load_left(LeftPart& part, const unsigned char* tile, int warp_row, int at) {
#pragma unroll
    for (int i = 0; i < Base::across; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 words[4];
        left_words<Left>(words, tile, warp_row + i * 16, at * step + half * Base::step);
        part.split(i, half * 2, words[0], words[2]);
        part.split(i, half * 2 + 1, words[1], words[3]);
      }
    }
  }
  __device__ static __forceinline__ void load_right(RightPart& part, const unsigned char* tile, int warp_column,
                                                    int at) {
#pragma unroll
    for (int i = 0; i < Base::pairs; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 words[4];
        right_words<Right>(words, tile, warp_column + i * 16, at * step + half * Base::step);
        part.split(i, half, words[0], words[1]);
        part.split(i, 2 + half, words[2], words[3]);
      }
    }
  }
  __device__ __forceinline__ void multiply(const LeftPart& left, const RightPart& right) {
    this->add_products(left.rest, right.big);
    this->add_products(left.big, right.rest);
    this->add_products(left.big, right.big);
  }
};

// Tensor cores of f64: 16 × 8 results of 4 of depth. A lane has two elements of the left operand, in rows l / 4 and
// eight below, and one of the right.
template <class Left, class Right, int rows, int columns>
struct DoubleCores : FragmentSums<f64, rows, columns, 16> {
  static constexpr int across = rows / 16, step = 4, unrolled = 16;
  using left_type = f64;
  struct LeftPart {
    f64 values[across][2];
  };
  struct RightPart {
    f64 values[columns / 8];
  };

  __device__ static __forceinline__ void load_left(LeftPart& part, const unsigned char* tile, int warp_row, int at) {
#pragma unroll
    for (int i = 0; i < across * 2; ++i) part.values[i / 2][i % 2] = element<Left>(tile, warp_row + i * 8, at);
  }
  __device__ static __forceinline__ void load_right(RightPart& part, const unsigned char* tile, int warp_column,
                                                    int at) {
#pragma unroll
    for (int j = 0; j < columns / 8; ++j) part.values[j] = element<Right>(tile, warp_column + j * 8, at);
  }
  __device__ __forceinline__ void multiply(const LeftPart& left, const RightPart& right) {
#pragma unroll
    for (int i = 0; i < across; ++i) {
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) multiply(this->sums[i][j], left.values[i], right.values[j]);
    }
  }

 private:
  template <class Tile>
  __device__ static __forceinline__ f64 element(const unsigned char* tile, int row, int at) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return *reinterpret_cast<const f64*>(tile + Tile::place_of(row + lane / 4, at * step + lane % 4));
  }
  __device__ static __forceinline__ void multiply(f64 (&sums)[4], const f64 (&left)[2], f64 right) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+d"(sums[0]), "+d"(sums[1]), "+d"(sums[2]), "+d"(sums[3])
                 : "d"(left[0]), "d"(left[1]), "d"(right));
#else
#pragma unroll
    for (int half = 0; half < 2; ++half)
      asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                   : "+d"(sums[half * 2]), "+d"(sums[half * 2 + 1])
                   : "d"(left[half]), "d"(right));
#endif
  }
};

// ---- CUDA cores

// A lane has thread_rows × thread_columns results: runs of left_run rows and right_run columns, alternating with those
// of the other lanes. `step` elements of depth are loaded at a time.
template <class Left, class Right, class Sum, int rows, int columns, int thread_rows, int thread_columns, int left_run,
          int right_run, int depth_step>
struct CudaCores {
  static constexpr int step = depth_step;
  static constexpr int lane_rows = rows / thread_rows, lane_columns = columns / thread_columns;
  static constexpr int strips = thread_rows / left_run, strip_rows = lane_rows * left_run, strip_step = strip_rows;
  static constexpr int unrolled = 2;
  static constexpr int own_columns = thread_columns;
  static constexpr int own_rows = thread_rows, row_lanes = lane_columns, row_run = right_run;
  using left_type = typename Left::type;
  template <class Tile, int extent, int run>
  struct Part {
    Sum values[extent][step];

    // `first`: of the lane's first run; runs are `apart` elements from one another.
    __device__ __forceinline__ void load(const unsigned char* tile, int first, int apart, int k) {
      using T = typename Tile::type;
#pragma unroll
      for (int i = 0; i < extent; i += run) {
        const int row = first + i / run * apart;
        if constexpr (Tile::along_depth) {
#pragma unroll
          for (int r = 0; r < run; ++r) {
            T elements[step];
            stitch::load<step, Cached::shared>(elements, reinterpret_cast<const T*>(tile + Tile::place(row + r, k)));
#pragma unroll
            for (int d = 0; d < step; ++d) values[i + r][d] = static_cast<Sum>(widen(elements[d]));
          }
        } else {
#pragma unroll
          for (int d = 0; d < step; ++d) {
            T elements[run];
            stitch::load<run, Cached::shared>(elements, reinterpret_cast<const T*>(tile + Tile::place(k + d, row)));
#pragma unroll
            for (int r = 0; r < run; ++r) values[i + r][d] = static_cast<Sum>(widen(elements[r]));
          }
        }
      }
    }
  };
  using LeftPart = Part<Left, thread_rows, left_run>;
  using RightPart = Part<Right, thread_columns, right_run>;
  Sum sums[thread_rows][thread_columns] = {};

  __device__ static __forceinline__ int lane_row() { return static_cast<int>(threadIdx.x) % 32 / lane_columns; }
  __device__ static __forceinline__ int lane_column() { return static_cast<int>(threadIdx.x) % 32 % lane_columns; }
  __device__ static __forceinline__ void load_left(LeftPart& part, const unsigned char* tile, int warp_row, int at) {
    part.load(tile, warp_row + lane_row() * left_run, lane_rows * left_run, at * step);
  }
  __device__ static __forceinline__ void load_right(RightPart& part, const unsigned char* tile, int warp_column,
                                                    int at) {
    part.load(tile, warp_column + lane_column() * right_run, lane_columns * right_run, at * step);
  }
  __device__ __forceinline__ void multiply(const LeftPart& left, const RightPart& right) {
#pragma unroll
    for (int d = 0; d < step; ++d) {
#pragma unroll
      for (int i = 0; i < thread_rows; ++i) {
#pragma unroll
        for (int j = 0; j < thread_columns; ++j)
          sums[i][j] =
              stitch::Sum::combine(sums[i][j], stitch::Product::combine(left.values[i][d], right.values[j][d]));
      }
    }
  }
  __device__ static __forceinline__ int row_of(int i) { return lane_row() * left_run + i / thread_columns; }
  __device__ static __forceinline__ int column_of(int i) { return lane_column() * right_run + columns_behind(i); }
  __device__ static __forceinline__ constexpr int columns_behind(int i) {
    const int j = i % thread_columns;
    return j / right_run * (lane_columns * right_run) + j % right_run;
  }
  __device__ static __forceinline__ constexpr int own_row(int strip, int i) {
    return strip * left_run + i / thread_columns;
  }
  __device__ static __forceinline__ constexpr int own_column(int i) { return i % thread_columns; }
  __device__ static __forceinline__ int place_of_own_column(int c) { return column_of(c); }
  __device__ static __forceinline__ int place_of_own_row(int r) {
    return r / left_run * strip_step + lane_row() * left_run + r % left_run;
  }
  static constexpr int strip_results = left_run * thread_columns;
  __device__ __forceinline__ Sum& result(int strip, int i) {
    return sums[strip * left_run + i / thread_columns][i % thread_columns];
  }
};

// ---- results

// Blocks that share the contracted dimension of a tile leave their sums in scratch; the last to arrive adds them in the
// order of the blocks, so that results do not depend on who that is. `part`: this block's number of `parts`.
template <int threads, class Cores, class Sum>
__device__ __forceinline__ void leave_part(Cores& cores, Sum* scratch, s64 tile, int parts, int part) {
  constexpr int count = Cores::strips * Cores::strip_results;
  Sum* const own = scratch + ((tile * parts + part) * count) * threads + threadIdx.x;
#pragma unroll
  for (int i = 0; i < count; ++i)
    own[static_cast<s64>(i) * threads] = cores.result(i / Cores::strip_results, i % Cores::strip_results);
}
template <int threads, class Cores, class Sum>
__device__ __forceinline__ void add_parts(Cores& cores, const Sum* scratch, s64 tile, int parts) {
  constexpr int count = Cores::strips * Cores::strip_results;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    Sum total = {};
    for (int part = 0; part < parts; ++part)
      total = stitch::Sum::combine(total, load_one<Cached::shared_between_blocks>(
                                              scratch + ((tile * parts + part) * count + i) * threads + threadIdx.x));
    cores.result(i / Cores::strip_results, i % Cores::strip_results) = total;
  }
}
// The same of parts from number `first` on, which are not equally many of each tile: those of one part are asked for
// together, since the compiler does not know how many there are.
template <int threads, class Cores, class Sum>
__device__ __forceinline__ void add_parts_from(Cores& cores, const Sum* scratch, s64 first, int parts) {
  constexpr int count = Cores::strips * Cores::strip_results;
#pragma unroll
  for (int i = 0; i < count; ++i) cores.result(i / Cores::strip_results, i % Cores::strip_results) = {};
#pragma unroll 1
  for (int part = 0; part < parts; ++part) {
    const Sum* const from = scratch + (first + part) * count * threads + threadIdx.x;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      Sum& sum = cores.result(i / Cores::strip_results, i % Cores::strip_results);
      sum = stitch::Sum::combine(sum, load_one<Cached::shared_between_blocks>(from + static_cast<s64>(i) * threads));
    }
  }
}

// Which turns of the first `tiles` each of the first `blocks` has, evenly divided, and of the tiles behind them each of
// the others (kernel/contraction/streamed_depth.h). Turns are counted over all tiles, a tile has `each` of them.
template <int blocks, int tiles, int each>
struct StreamedTurns {
  static constexpr int all = tiles * each, fewest = all / blocks, longer = all % blocks;
  __device__ static __forceinline__ int begin(int block) {
    return block < blocks ? block * fewest + minimum(block, longer) : (block - blocks + tiles) * each;
  }
  __device__ static __forceinline__ int end(int block) {
    return block < blocks ? begin(block) + fewest + (block < longer ? 1 : 0) : begin(block) + each;
  }
  // Whose a turn is, among the first `blocks`.
  __device__ static __forceinline__ int block_of(int turn) {
    constexpr int of_longer = longer * (fewest + 1);
    return turn < of_longer ? turn / (fewest + 1) : longer + (turn - of_longer) / fewest;
  }
  __device__ static __forceinline__ int first_block(int tile) { return block_of(tile * each); }
  __device__ static __forceinline__ int parts(int tile) {
    return block_of(tile * each + each - 1) - first_block(tile) + 1;
  }
};

// What an epilogue reads beside n results of a row that follow one another, in accesses of at most `most` elements: n
// and `most` are powers of two, and the place is a multiple of the smaller.
template <int most, Cached cached = Cached::streamed, int n, class T>
__device__ __forceinline__ void load_run(T (&to)[n], const T* from) {
  constexpr int each = n < most ? n : most;
#pragma unroll
  for (int i = 0; i < n; i += each) load<each, cached>(to + i, from + i);
}

// A warp's results leave strip by strip through shared memory of its own, so that stores run along what is contiguous
// whatever the instruction's layout is. A strip has `columns` of the warp's. `write(row, column, sums)` stores `run`
// results that begin there and lie `pitch` (along rows) or 1 apart in the strip. Of `gates` the columns are those of
// results, each of as many sums: `span` of every gate one after the other, and `sums` points to the first one's.
template <int warp_columns, int columns, int pitch, int run, bool along_rows, int gates = 1, int span = 1, class Cores,
          class Sum, class Write>
__device__ __forceinline__ void store_results(Cores& cores, Sum* strip, int warp_row, int warp_column,
                                              const Write& write) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int s = 0; s < Cores::strips * (warp_columns / columns); ++s) {
    const int down = s / (warp_columns / columns), first = s % (warp_columns / columns) * columns;
    constexpr int results = Cores::strip_results / (warp_columns / columns);
#pragma unroll
    for (int j = 0; j < results; ++j) {
      const int i = first / columns * results + j;
      strip[Cores::row_of(i) * pitch + Cores::column_of(i) - first] = cores.result(down, i);
    }
    __syncwarp();
    constexpr int units = columns / gates, runs = Cores::strip_rows * units / run;
    for (int i = lane; i < runs; i += 32) {
      const int row = along_rows ? i % (Cores::strip_rows / run) * run : i / (units / run);
      const int column = along_rows ? i / (Cores::strip_rows / run) : i % (units / run) * run;
      const int place = gates == 1 ? column : column / span * (span * gates) + column % span;
      write(warp_row + down * Cores::strip_step + row, (warp_column + first) / gates + column,
            strip + row * pitch + place);
    }
    __syncwarp();
  }
}

}  // namespace stitch
