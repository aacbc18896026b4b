#pragma once
// Tiles that the tensor copy engine brings (cp.async.bulk.tensor, "TMA"; PTX ISA; sm_90a): one thread asks for whole
// tiles, and barriers in shared memory count their bytes. One warp asks, the others multiply; neither waits for the
// other but where there is no room, or nothing there yet. Blocks of a cluster get what they share in one copy.

#include "stitch/mbarrier.cuh"
#include "stitch/warpgroup.cuh"

namespace stitch {

// ---- tensor maps

#ifdef __CUDACC_VER_MAJOR__
constexpr int cuda_version = __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__;
#else
constexpr int cuda_version = 0;
#endif
static_assert(cuda_version >= 1203, "tensormap.replace needs a compiler of CUDA 12.3 or later");

// What the engine must know of an operand: `Map` has rank, box, sizes (elements), strides (bytes; that of dimension d
// at d), steps (elements of the box), type, swizzle. It is made by the kernel itself, whose arguments are mere
// addresses.
template <class Map, int d>
__device__ __forceinline__ void describe_dimension(u32 map) {
  constexpr u32 box = Map::box[d], size = Map::sizes[d], step = Map::steps[d];
  asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(map), "n"(d), "r"(box)
               : "memory");
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(map), "n"(d), "r"(size)
               : "memory");
  asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], %1, %2;" ::"r"(map), "n"(d), "r"(step)
               : "memory");
  if constexpr (d > 0) {
    // Before CUDA 12.5 the instruction took sixteenths.
    constexpr u64 stride = Map::strides[d] / (cuda_version < 1205 ? 16 : 1);
    asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], %1, %2;" ::"r"(map), "n"(d - 1),
                 "l"(stride)
                 : "memory");
  }
  if constexpr (d + 1 < Map::rank) describe_dimension<Map, d + 1>(map);
}

// The warp makes the map in shared memory, and leaves it in device memory, where the engine reads it.
template <class Map>
__device__ __forceinline__ void make_tensor_map(unsigned char* place, unsigned char* map, const void* data) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  reinterpret_cast<u32*>(place)[lane] = 0;
  __syncwarp();
  const u32 at = shared_address(place);
  if (lane == 0) {
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(at), "l"(data)
                 : "memory");
    asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], %1;" ::"r"(at), "r"(Map::rank - 1)
                 : "memory");
    describe_dimension<Map, 0>(at);
    asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], %1;" ::"r"(at), "n"(Map::type)
                 : "memory");
    asm volatile("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;" ::"r"(at) : "memory");
    asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], %1;" ::"r"(at), "n"(Map::swizzle)
                 : "memory");
    asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;" ::"r"(at) : "memory");
  }
  __syncwarp();
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
          map),
      "r"(at)
      : "memory");
}

template <class, class T>
using SameAs = T;

// What a block keeps in device memory from launch to launch: its maps, and whose they are.
template <int rights>
struct KeptMaps {
  unsigned char left[128], right[rights * 128];
  u64 about[16];  // addresses of the operands, and what names the kernel's maps
};

// The warp sees to it that the maps of these operands are there. To make them takes as long as a small product: they
// are kept while a kernel is launched with the same addresses. Memory that nobody has used yet is zero.
// One map of a right operand for each member of several products.
template <class LeftMap, class... RightMaps, int rights = sizeof...(RightMaps)>
__device__ __forceinline__ void keep_tensor_maps(unsigned char* place, KeptMaps<rights>& maps, u64 name,
                                                 const void* left, const SameAs<RightMaps, const void*>... right) {
  static_assert(rights + 2 <= 16, "what there is room for in KeptMaps");
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // The engine's reads of the maps come behind the one of whose they are: they are on their way to L2 meanwhile.
  if (lane < 1 + rights) asm volatile("prefetch.global.L2 [%0];" ::"l"(maps.left + lane * 128));
  u64 mine = lane == 0 ? reinterpret_cast<u64>(left) : name;
  int number = 0;
  ((++number, mine = lane == number ? reinterpret_cast<u64>(right) : mine), ...);
  const bool known = lane >= 2 + rights || maps.about[lane] == mine;
  if (!__all_sync(0xffffffffu, known)) {
    make_tensor_map<LeftMap>(place, maps.left, left);
    number = 0;
    ((make_tensor_map<RightMaps>(place + 128 + number * 128, maps.right + number * 128, right), ++number), ...);
    if (lane < 2 + rights) maps.about[lane] = mine;
  }
#pragma unroll
  for (int map = 0; map < 1 + rights; ++map)
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(maps.left + map * 128) : "memory");
}

// Brings a box, whose first element is at these coordinates (the contiguous one first), to `to`: of this block, or at
// the same place of every block of the cluster that `blocks` has a bit for. Bytes are counted by their barriers; of a
// pair (tensor_memory.cuh) by that of either block, or of those of each pair's that `barrier` is of.
template <int rank, bool multicast, bool paired = false>
__device__ __forceinline__ void copy_box(unsigned char* to, const unsigned char* map, const int (&at)[rank],
                                         u32 barrier, u16 blocks) {
#define STITCH_COPY_BY(HOW, DIMENSIONS, COORDINATES, BARRIER, ...)                                                \
  asm volatile("cp.async.bulk.tensor." DIMENSIONS ".shared::cluster.global.tile.mbarrier::complete_tx::bytes" HOW \
               " [%0], [%1, {" COORDINATES "}], [" BARRIER "];" ::"r"(shared_address(to)),                        \
               "l"(map), __VA_ARGS__, "r"(barrier)                                                                \
               : "memory");
#define STITCH_COPY_TO_MANY(HOW, DIMENSIONS, COORDINATES, BARRIER, BLOCKS, ...)                                   \
  asm volatile("cp.async.bulk.tensor." DIMENSIONS ".shared::cluster.global.tile.mbarrier::complete_tx::bytes" HOW \
               ".multicast::cluster [%0], [%1, {" COORDINATES "}], [" BARRIER "], " BLOCKS                        \
               ";" ::"r"(shared_address(to)),                                                                     \
               "l"(map), __VA_ARGS__, "r"(barrier), "h"(blocks)                                                   \
               : "memory");
#define STITCH_COPY(DIMENSIONS, COORDINATES, BARRIER, BLOCKS, ...)                              \
  if constexpr (multicast && paired) {                                                          \
    STITCH_COPY_TO_MANY(".cta_group::2", DIMENSIONS, COORDINATES, BARRIER, BLOCKS, __VA_ARGS__) \
  } else if constexpr (multicast) {                                                             \
    STITCH_COPY_TO_MANY("", DIMENSIONS, COORDINATES, BARRIER, BLOCKS, __VA_ARGS__)              \
  } else if constexpr (paired) {                                                                \
    STITCH_COPY_BY(".cta_group::2", DIMENSIONS, COORDINATES, BARRIER, __VA_ARGS__)              \
  } else {                                                                                      \
    STITCH_COPY_BY("", DIMENSIONS, COORDINATES, BARRIER, __VA_ARGS__)                           \
  }
  if constexpr (rank == 2) {
    STITCH_COPY("2d", "%2, %3", "%4", "%5", "r"(at[0]), "r"(at[1]))
  } else if constexpr (rank == 3) {
    STITCH_COPY("3d", "%2, %3, %4", "%5", "%6", "r"(at[0]), "r"(at[1]), "r"(at[2]))
  } else if constexpr (rank == 4) {
    STITCH_COPY("4d", "%2, %3, %4, %5", "%6", "%7", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]))
  } else {
    STITCH_COPY("5d", "%2, %3, %4, %5, %6", "%7", "%8", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]))
  }
#undef STITCH_COPY
#undef STITCH_COPY_BY
#undef STITCH_COPY_TO_MANY
}

// ---- stages

// Which stage, and of which turn through all of them.
template <int stages>
struct StageOfTurn {
  int stage = 0;
  u32 phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// Two barriers a stage, one behind the other from `barriers` on: its bytes are there; all warps that multiply, of all
// blocks of the cluster (of a pair of tensor_memory.cuh one block's, `telling`), have done with it.
template <int stages, int warps, int blocks, int telling = blocks>
struct TensorStages {
  u32 barriers;

  // One thread, before all threads of the cluster meet.
  __device__ __forceinline__ void prepare() const {
#pragma unroll
    for (int s = 0; s < stages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full(s)) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty(s)), "n"(warps * telling) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  // All threads of the cluster.
  __device__ __forceinline__ void begin() const {
    if (threadIdx.x == 0) prepare();
    if constexpr (blocks > 1) {
      asm volatile("barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
    } else {
      __syncthreads();
    }
  }
  // No block of a cluster ends while another one may write to it, or arrive at its barriers. All threads.
  __device__ __forceinline__ void end() const {
    if constexpr (blocks > 1)
      asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
  __device__ __forceinline__ u32 full(int stage) const { return barriers + static_cast<u32>(stage) * 8; }
  __device__ __forceinline__ u32 empty(int stage) const { return full(stage + stages); }

  __device__ static __forceinline__ void wait(u32 barrier, u32 phase) { await_phase(barrier, phase); }
  // Until all have done with what was there before.
  __device__ __forceinline__ void wait_for_room(const StageOfTurn<stages>& at) const {
    wait(empty(at.stage), at.phase ^ 1);
  }
  // Who asks: waits for room, and says how many bytes will come.
  __device__ __forceinline__ u32 expect(const StageOfTurn<stages>& at, int bytes) const {
    wait_for_room(at);
    arrive_expecting(full(at.stage), bytes);
    return full(at.stage);
  }
  // Who multiplies.
  __device__ __forceinline__ void wait_for(const StageOfTurn<stages>& at) const { wait(full(at.stage), at.phase); }
  // A warp has done with a stage: each block that fills it is told.
  __device__ __forceinline__ void release(int stage) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (blocks == 1) {
      if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty(stage)) : "memory");
    } else {
      if (lane < blocks)
        asm volatile(
            "{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
            "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}" ::"r"(empty(stage)),
            "r"(lane)
            : "memory");
    }
  }
};

// Of tiles of which copies bring the first `brought` bytes alone, the others are zero from the begin on: what is made
// of them goes nowhere, but nobody multiplies what nobody wrote. All threads, before they meet.
template <int stages, int tile_bytes, int brought, int threads>
__device__ __forceinline__ void clear_idle_lines(unsigned char* tiles) {
  constexpr int pieces = (tile_bytes - brought) / 16;
  for (int i = static_cast<int>(threadIdx.x); i < stages * pieces; i += threads) {
    const u32 at = shared_address(tiles + i / pieces * tile_bytes + brought + i % pieces * 16);
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(0) : "memory");
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ int block_of_cluster() {
  u32 block;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(block));
  return static_cast<int>(block);
}

}  // namespace stitch
