#pragma once
// Matmul-class kernels by tcgen05 (PTX ISA, "TensorCore 5th Generation Family Instructions"; sm_100a): one thread has
// tiles in shared memory multiplied, sums are in tensor memory, which the warps that have the epilogue load. Tiles come
// by the copy engine, so that nothing is handed from proxy to proxy.
//
// Of a pair (`together` = 2: .cta_group::2) the two blocks of a cluster multiply their rows by the same columns, of
// which each has half in its shared memory. The first one's thread has both multiplied, once what either of them asked
// for is there, which the first one's barriers count; the tensor cores tell the barriers of both. Several pairs of a
// cluster have the same columns, of which each brings a share to all.

#include "stitch/tensor_copy.cuh"

namespace stitch {

// ---- tensor memory

// Columns of tensor memory, a power of two of them from 32 on, which a whole warp asks for and gives back; where they
// are it leaves at `place` of shared memory. Nobody waits for this block to ask for more. A pair has the same columns
// of both, a warp of each asks for.
template <int columns, int together>
__device__ __forceinline__ void take_columns(u32 place) {
#define STITCH_TAKE(GROUP)                                                                                             \
  asm volatile("tcgen05.alloc" GROUP ".sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(place), "n"(columns) : "memory"); \
  asm volatile("tcgen05.relinquish_alloc_permit" GROUP ".sync.aligned;" ::: "memory")
  if constexpr (together == 1) {
    STITCH_TAKE(".cta_group::1");
  } else {
    STITCH_TAKE(".cta_group::2");
  }
#undef STITCH_TAKE
}
template <int columns, int together>
__device__ __forceinline__ void give_back_columns(u32 at) {
  if constexpr (together == 1) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(at), "n"(columns) : "memory");
  } else {
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(at), "n"(columns) : "memory");
  }
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

// PTX ISA, "Instruction descriptor": types by their numbers there, 1 for an operand whose free dimension is contiguous;
// rows are those of all blocks that multiply together.
constexpr u32 product_shape(u32 sum, u32 left, u32 right, u32 left_turned, u32 right_turned, u32 columns,
                            u32 together) {
  return sum << 4 | left << 7 | right << 10 | left_turned << 15 | right_turned << 16 | columns / 8 << 17 |
         together * 128 / 16 << 24;
}

// Has 128 rows, of each block, multiplied by a step of depth; of a tile's first one the sums begin with it.
template <TensorKind kind, int together>
__device__ __forceinline__ void multiply_step(u32 sums, u64 left, u64 right, u32 shape, bool adds) {
#define STITCH_TENSOR_PRODUCT_OF(GROUP, KIND)                                                          \
  asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %4, 0;\n\ttcgen05.mma" GROUP ".kind::" KIND \
               " [%0], %1, %2, %3, adds;\n\t}" ::"r"(sums),                                            \
               "l"(left), "l"(right), "r"(shape), "r"(static_cast<int>(adds))                          \
               : "memory")
#define STITCH_TENSOR_PRODUCT(KIND)                  \
  if constexpr (together == 1) {                     \
    STITCH_TENSOR_PRODUCT_OF(".cta_group::1", KIND); \
  } else {                                           \
    STITCH_TENSOR_PRODUCT_OF(".cta_group::2", KIND); \
  }
  if constexpr (kind == TensorKind::f16) {
    STITCH_TENSOR_PRODUCT("f16")
  } else if constexpr (kind == TensorKind::tf32) {
    STITCH_TENSOR_PRODUCT("tf32")
  } else if constexpr (kind == TensorKind::i8) {
    STITCH_TENSOR_PRODUCT("i8")
  } else {
    STITCH_TENSOR_PRODUCT("f8f6f4")
  }
#undef STITCH_TENSOR_PRODUCT
#undef STITCH_TENSOR_PRODUCT_OF
}

// What multiplies two tiles, `rows`, a multiple of 128, by `columns`. `Product` has the kind and the shape. Of a pair
// both blocks' tiles, which lie at the same places: each one's own rows, and half of the columns.
template <class Product, class Left, class Right, int rows, int columns, int together>
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
        multiply_step<Product::kind, together>(
            sums + static_cast<u32>(i * columns), left_tile + descriptor_step<Left>(i * 128, step),
            right_tile + descriptor_step<Right>(0, step), Product::shape, adds || step > 0);
      }
    }
  }
};

// Of a pair: the barriers at the same place of the blocks that `told` has a bit for.
__device__ __forceinline__ void tell_blocks(u32 barrier, u16 told) {
  asm volatile(
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
          barrier),
      "h"(told)
      : "memory");
}

// The barrier, of this block or at the same place of each of the first `blocks` of the cluster, is told once all that
// this thread had multiplied so far is done: sums are there, tiles not read any more.
template <int blocks, bool paired = false>
__device__ __forceinline__ void tell_when_multiplied(u32 barrier) {
  if constexpr (paired) {
    tell_blocks(barrier, static_cast<u16>((1 << blocks) - 1));
  } else if constexpr (blocks == 1) {
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

// ---- pairs

// The barriers at the same place of both blocks of the pair that block `rank` of the cluster is of.
__device__ __forceinline__ void tell_pair(u32 barrier, int rank) {
  tell_blocks(barrier, static_cast<u16>(3 << (rank & ~1)));
}

// The barrier at the same place of its first block.
__device__ __forceinline__ u32 of_first_block(u32 barrier, int rank) {
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(barrier), "r"(rank & ~1));
  return there;
}

// All threads of the cluster: what was written before is there behind it.
__device__ __forceinline__ void meet_in_pair() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Who asks: each block waits for room of its own, and the first one says how many bytes will come to both. Copies of
// the other one may come before that: their phase waits for who says it.
template <class Stages, class Turn>
__device__ __forceinline__ u32 expect_of_both(const Stages& stages, const Turn& at, int bytes, int rank) {
  stages.wait_for_room(at);
  if (rank % 2 == 0) arrive_expecting(stages.full(at.stage), 2 * bytes);
  return of_first_block(stages.full(at.stage), rank);
}

// A warp of either block has taken its sums: the first one is told, whose thread has the next ones made.
template <class Stages>
__device__ __forceinline__ void release_to_first(const Stages& sums, int stage, int rank) {
  if (threadIdx.x % 32 == 0)
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(of_first_block(sums.empty(stage), rank))
                 : "memory");
}

// One lane of the warp, which the compiler knows to be one.
__device__ __forceinline__ bool is_chosen() {
  u32 chosen;
  asm volatile("{\n\t.reg .pred one;\n\telect.sync _|one, 0xffffffff;\n\tselp.u32 %0, 1, 0, one;\n\t}" : "=r"(chosen));
  return chosen != 0;
}

}  // namespace stitch
