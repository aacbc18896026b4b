#pragma once
// Matmul-class kernels by tcgen05 (PTX ISA, "TensorCore 5th Generation Family Instructions"; sm_100a): one thread has
// tiles in shared memory multiplied, sums are in tensor memory, which the warps that have the epilogue load. Tiles come
// by the copy engine, so that nothing is handed from proxy to proxy.

#include "stitch/tensor_copy.cuh"

namespace stitch {

// ---- tensor memory

// Columns of tensor memory, a power of two of them from 32 on, which a whole warp asks for and gives back; where they
// are it leaves at `place` of shared memory. Nobody waits for this block to ask for more.
template <int columns>
__device__ __forceinline__ void take_columns(u32 place) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(place), "n"(columns)
               : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
template <int columns>
__device__ __forceinline__ void give_back_columns(u32 at) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(at), "n"(columns) : "memory");
}

// What this thread did in tensor memory comes before what others do behind the barrier at which it arrives next; and
// what others did before the barrier that it waited for, before what it does.
__device__ __forceinline__ void hand_over_sums() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ __forceinline__ void take_over_sums() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// Until the warp's loads from tensor memory are there, and nobody is in the way of who writes next.
__device__ __forceinline__ void await_sums() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void from_word(f32& sum, u32 word) { sum = __uint_as_float(word); }
__device__ __forceinline__ void from_word(s32& sum, u32 word) { sum = static_cast<s32>(word); }

// 16 columns of the lane's own row, from `at` on; whole warps, which have a fourth of the lanes each.
__device__ __forceinline__ void load_columns(u32 (&words)[16], u32 at) {
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x16.b32 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
      : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]), "=r"(words[4]), "=r"(words[5]), "=r"(words[6]),
        "=r"(words[7]), "=r"(words[8]), "=r"(words[9]), "=r"(words[10]), "=r"(words[11]), "=r"(words[12]),
        "=r"(words[13]), "=r"(words[14]), "=r"(words[15])
      : "r"(at)
      : "memory");
}

// A warp's results as they come from tensor memory: a lane has a row of 32, with all of the warp's columns. Strips of
// 32 rows are 128 apart, which have columns of tensor memory of their own.
template <class Sum, int rows, int columns>
struct TensorMemorySums {
  static constexpr int strips = rows / 32, strip_rows = 32, strip_step = 128;
  static constexpr int own_rows = strips, row_lanes = 1, row_run = columns, strip_results = columns;
  static constexpr int own_columns = columns;
  Sum sums[strips][columns];

  // `at`: the tile's sums in tensor memory; of this warp those from row and column on, of `tile_columns`.
  template <int tile_columns>
  __device__ __forceinline__ void load(u32 at, int row, int column) {
    at += (static_cast<u32>(row % 128) << 16) + static_cast<u32>(row / 128 * tile_columns + column);
    u32 words[strips][columns / 16][16];
#pragma unroll
    for (int s = 0; s < strips; ++s) {
#pragma unroll
      for (int c = 0; c < columns / 16; ++c)
        load_columns(words[s][c], at + static_cast<u32>(s * tile_columns + c * 16));
    }
    await_sums();
#pragma unroll
    for (int s = 0; s < strips; ++s) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        from_word(sums[s][c], words[s][c / 16][c % 16]);
        keep_behind(sums[s][c]);
      }
    }
  }

  __device__ static __forceinline__ int row_of(int) { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static __forceinline__ constexpr int column_of(int i) { return i; }
  __device__ static __forceinline__ constexpr int columns_behind(int i) { return i; }
  __device__ static __forceinline__ constexpr int own_row(int strip, int) { return strip; }
  __device__ static __forceinline__ constexpr int own_column(int i) { return i; }
  __device__ static __forceinline__ constexpr int place_of_own_column(int c) { return c; }
  __device__ static __forceinline__ int place_of_own_row(int r) { return r * strip_step + row_of(0); }
  __device__ __forceinline__ Sum& result(int strip, int i) { return sums[strip][i]; }
};

// ---- products

// What operands are: of tcgen05's kinds.
enum class TensorKind { f16, tf32, i8, f8f6f4 };

// PTX ISA, "Instruction descriptor": types by their numbers there, 1 for an operand whose free dimension is contiguous.
constexpr u32 product_shape(u32 sum, u32 left, u32 right, u32 left_turned, u32 right_turned, u32 columns) {
  return sum << 4 | left << 7 | right << 10 | left_turned << 15 | right_turned << 16 | columns / 8 << 17 |
         128 / 16 << 24;
}

// Has 128 rows multiplied by a step of depth; of a tile's first one the sums begin with it.
template <TensorKind kind>
__device__ __forceinline__ void multiply_step(u32 sums, u64 left, u64 right, u32 shape, bool adds) {
#define STITCH_TENSOR_PRODUCT(KIND)                                                                        \
  asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %4, 0;\n\ttcgen05.mma.cta_group::1.kind::" KIND \
               " [%0], %1, %2, %3, adds;\n\t}" ::"r"(sums),                                                \
               "l"(left), "l"(right), "r"(shape), "r"(static_cast<int>(adds))                              \
               : "memory")
  if constexpr (kind == TensorKind::f16) STITCH_TENSOR_PRODUCT("f16");
  if constexpr (kind == TensorKind::tf32) STITCH_TENSOR_PRODUCT("tf32");
  if constexpr (kind == TensorKind::i8) STITCH_TENSOR_PRODUCT("i8");
  if constexpr (kind == TensorKind::f8f6f4) STITCH_TENSOR_PRODUCT("f8f6f4");
#undef STITCH_TENSOR_PRODUCT
}

// What multiplies two tiles, `rows`, a multiple of 128, by `columns`. `Product` has the kind and the shape.
template <class Product, class Left, class Right, int rows, int columns>
struct TensorProducts {
  static constexpr int steps =
      Left::along_depth ? Left::line_elements * static_cast<int>(sizeof(typename Left::type)) / 32 : Left::lines / 16;

  // One thread has them multiplied; `adds`: to what sums there are.
  __device__ static __forceinline__ void multiply(const unsigned char* left, const unsigned char* right, u32 sums,
                                                  bool adds) {
    constexpr u64 version = u64{1} << 46;  // of descriptors, which else are wgmma's
    const u64 left_tile = descriptor_of<Left>(left) | version, right_tile = descriptor_of<Right>(right) | version;
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int i = 0; i < rows / 128; ++i) {
        multiply_step<Product::kind>(sums + static_cast<u32>(i * columns),
                                     left_tile + descriptor_step<Left>(i * 128, step),
                                     right_tile + descriptor_step<Right>(0, step), Product::shape, adds || step > 0);
      }
    }
  }
};

// The barrier, of this block or at the same place of each of the first `blocks` of the cluster, is told once all that
// this thread had multiplied so far is done: sums are there, tiles not read any more.
template <int blocks>
__device__ __forceinline__ void tell_when_multiplied(u32 barrier) {
  if constexpr (blocks == 1) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier)
                 : "memory");
  } else {
    asm volatile(
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
            barrier),
        "h"(static_cast<u16>((1 << blocks) - 1))
        : "memory");
  }
}

// One lane of the warp, which the compiler knows to be one.
__device__ __forceinline__ bool is_chosen() {
  u32 chosen;
  asm volatile("{\n\t.reg .pred one;\n\telect.sync _|one, 0xffffffff;\n\tselp.u32 %0, 1, 0, one;\n\t}" : "=r"(chosen));
  return chosen != 0;
}

}  // namespace stitch
