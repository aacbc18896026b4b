// tcgen05 for tests/emulator/tensor_core_test.cpp: compiled for sm_100a by `regenerate`. Operands come as images of
// shared memory that the test laid out, with the descriptors that say how.
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

namespace {

__device__ u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
/// A place in shared memory as descriptors have it: in 16-byte units, without the block's rank in its cluster.
__device__ u32 descriptor_place(u32 address) { return (address & 0x3FFFF) >> 4; }

__device__ void init_barrier(u64* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

__device__ void wait_barrier(u64* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra over;\n"
      "bra again;\nover:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

/// Of relaxed semantics: orders tensor memory (with the fences of tcgen05), and nothing else.
__device__ void wait_barrier_relaxed(u64* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\nbra again;\nover:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

__device__ void arrive_relaxed(u64* barrier) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ void arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ void commit(u64* barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

__device__ void commit_pair(u64* barrier, u16 blocks) {
  asm volatile(
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
          shared_address(barrier)),
      "h"(blocks)
      : "memory");
}

__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
__device__ void fence_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void wait_loads() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
__device__ void wait_stores() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

template <int Blocks = 1>
__device__ void allocate(u32* to, u32 columns) {
  if constexpr (Blocks == 1) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(to)), "r"(columns)
                 : "memory");
  } else {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(to)), "r"(columns)
                 : "memory");
  }
}

template <int Blocks = 1>
__device__ void deallocate(u32 at, u32 columns) {
  if constexpr (Blocks == 1) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(at), "r"(columns));
  } else {
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(at), "r"(columns));
  }
}

template <int Blocks = 1>
__device__ void relinquish() {
  if constexpr (Blocks == 1) {
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  } else {
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
  }
}

__device__ u32 load_word(u32 at) {
  u32 word;
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
}

__device__ void store_word(u32 at, u32 word) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(at), "r"(word) : "memory");
}

/// The first address of the warp's lanes.
__device__ u32 own_lanes(u32 at) { return at + (threadIdx.x / 32 % 4 * 32 << 16); }

/// Copies an image to shared memory; all threads.
__device__ void fill(u8* to, const uint4* from, int bytes) {
#pragma unroll 1
  for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x) reinterpret_cast<uint4*>(to)[i] = from[i];
}

/// Writes `columns` words of every lane to d, lane by lane; four warps.
__device__ void dump(u32* d, u32 at, int columns) {
#pragma unroll 1
  for (int c = 0; c < columns; ++c) {
    const u32 word = load_word(own_lanes(at) + c);
    wait_loads();
    d[threadIdx.x * columns + c] = word;
  }
}

extern __shared__ u8 dynamic[];

/// Dynamic shared memory from a multiple of 1024 bytes on.
__device__ u8* aligned_memory() {
  const u32 at = shared_address(dynamic);
  return dynamic + ((at + 1023) / 1024 * 1024 - at);
}

}  // namespace

/// What a product is made of: images, descriptors without their addresses, and how K goes on.
struct Product {
  const uint4* a;
  const uint4* b;
  const u32* initial;   ///< D before, of all lanes, or null
  const u32* metadata;  ///< of a sparse A: of all lanes the columns of all steps, or null
  u64 a_descriptor;
  u64 b_descriptor;
  u32 shape;
  int a_bytes;
  int b_bytes;
  int steps;
  int a_step;  ///< bytes from one product's operand to the next's
  int b_step;
  int columns;         ///< of D
  int scale_bytes;     ///< image of scales, behind that of B: 512 bytes for 128 rows, A's first
  int a_scale_bytes;   ///< of these A's
  u32 disabled;
  int metadata_columns;  ///< of a step: 1 or 2
};

namespace {

/// What a form of the instruction is given: D, A, B, instruction descriptor, whether to add, the rest.
template <class Multiply>
__device__ void multiply_images(const Product& p, u32* d, Multiply multiply) {
  __shared__ u64 done;
  __shared__ u32 place;
  u8* const memory = aligned_memory();
  u8* const b = memory + (p.a_bytes + 1023) / 1024 * 1024;
  fill(memory, p.a, p.a_bytes);
  fill(b, p.b, p.b_bytes + p.scale_bytes);
  if (threadIdx.x == 0) init_barrier(&done, 1);
  if (threadIdx.x < 32) {
    allocate(&place, 512);
    relinquish();
  }
  fence_proxy();
  __syncthreads();
  const u32 at = place;
  if (p.initial != nullptr) {
#pragma unroll 1
    for (int c = 0; c < p.columns; ++c) store_word(own_lanes(at) + c, p.initial[threadIdx.x * p.columns + c]);
    wait_stores();
  }
  if (p.metadata != nullptr) {
    const int columns = p.metadata_columns * p.steps;
#pragma unroll 1
    for (int c = 0; c < columns; ++c) store_word(own_lanes(at) + 448 + c, p.metadata[threadIdx.x * columns + c]);
    wait_stores();
  }
  fence_before();
  __syncthreads();
  if (threadIdx.x == 0) {
    fence_after();
    const u32 scales = at + 480;
#pragma unroll 1
    for (int i = 0; i < p.scale_bytes / 512; ++i) {
      // 32 rows of 16 bytes each, 8 rows one behind the other.
      const u64 from = descriptor_place(shared_address(b) + p.b_bytes + i * 512) | 1ull << 46 | 8ull << 32 | 8ull << 16;
      asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(scales + 4 * i), "l"(from) : "memory");
    }
#pragma unroll 1
    for (int i = 0; i < p.steps; ++i) {
      const u64 a_from = p.a_descriptor | descriptor_place(shared_address(memory) + i * p.a_step);
      const u64 b_from = p.b_descriptor | descriptor_place(shared_address(b) + i * p.b_step);
      const bool add = i > 0 || p.initial != nullptr;
      if (p.metadata != nullptr) {
        // One of two columns is told by the selector.
        const int column = p.metadata_columns * i;
        multiply(at, a_from, b_from, p.shape | column & 1, add, at + 448 + (column & ~1), 0);
      } else {
        multiply(at, a_from, b_from, p.shape, add, scales, scales + p.a_scale_bytes / 128);
      }
    }
    commit(&done);
  }
  wait_barrier(&done, 0);
  fence_after();
  dump(d, at, p.columns);
  __syncthreads();
  if (threadIdx.x < 32) deallocate(at, 512);
}

}  // namespace

#define PRODUCT(NAME, INSTRUCTION)                                                                                  \
  extern "C" __global__ void NAME(Product p, u32* d) {                                                    \
    multiply_images(p, d, [](u32 at, u64 a, u64 b, u32 shape, bool add,     \
                             u32, u32) {                                                        \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n" INSTRUCTION " [%0], %1, %2, %3, p;\n}" ::"r"(at),    \
                   "l"(a), "l"(b), "r"(shape), "r"(static_cast<int>(add))                                           \
                   : "memory");                                                                                     \
    });                                                                                                             \
  }

PRODUCT(product_f16, "tcgen05.mma.cta_group::1.kind::f16")
PRODUCT(product_tf32, "tcgen05.mma.cta_group::1.kind::tf32")
PRODUCT(product_f8f6f4, "tcgen05.mma.cta_group::1.kind::f8f6f4.collector::a::fill")
PRODUCT(product_i8, "tcgen05.mma.cta_group::1.kind::i8")
PRODUCT(product_ws_f16, "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b0::discard")
PRODUCT(product_ws_i8, "tcgen05.mma.ws.cta_group::1.kind::i8")

#define SCALED_PRODUCT(NAME, INSTRUCTION)                                                                           \
  extern "C" __global__ void NAME(Product p, u32* d) {                                                    \
    multiply_images(p, d, [](u32 at, u64 a, u64 b, u32 shape, bool add,     \
                             u32 a_scales, u32 b_scales) {                                      \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n" INSTRUCTION                                          \
                   " [%0], %1, %2, %3, [%5], [%6], p;\n}" ::"r"(at),                                                \
                   "l"(a), "l"(b), "r"(shape), "r"(static_cast<int>(add)), "r"(a_scales), "r"(b_scales)             \
                   : "memory");                                                                                     \
    });                                                                                                             \
  }

SCALED_PRODUCT(product_mxf8f6f4, "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X")
SCALED_PRODUCT(product_mxf4, "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X")
SCALED_PRODUCT(product_mxf4nvf4, "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X")

#define SPARSE_PRODUCT(NAME, INSTRUCTION)                                                                           \
  extern "C" __global__ void NAME(Product p, u32* d) {                                                              \
    multiply_images(p, d, [](u32 at, u64 a, u64 b, u32 shape, bool add, u32 metadata, u32) {                        \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n" INSTRUCTION " [%0], %1, %2, [%5], %3, p;\n}" ::"r"( \
                       at),                                                                                         \
                   "l"(a), "l"(b), "r"(shape), "r"(static_cast<int>(add)), "r"(metadata)                            \
                   : "memory");                                                                                     \
    });                                                                                                             \
  }

SPARSE_PRODUCT(product_sp_f16, "tcgen05.mma.sp.cta_group::1.kind::f16")
SPARSE_PRODUCT(product_sp_tf32, "tcgen05.mma.sp.cta_group::1.kind::tf32")
SPARSE_PRODUCT(product_sp_i8, "tcgen05.mma.sp.cta_group::1.kind::i8")
SPARSE_PRODUCT(product_ws_sp_f16, "tcgen05.mma.ws.sp.cta_group::1.kind::f16")

/// D is scaled by 1/8 before the product is added; the lanes of p.disabled in each 32 keep theirs.
extern "C" __global__ void product_scaled_input(Product p, u32* d) {
  multiply_images(p, d, [&](u32 at, u64 a, u64 b, u32 shape, bool add,
                            u32, u32) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
        "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, {%5, %5, %5, %5}, p, 3;\n}" ::"r"(at),
        "l"(a), "l"(b), "r"(shape), "r"(static_cast<int>(add)), "r"(p.disabled)
        : "memory");
  });
}

/// A of M = 128 lies in tensor memory, packed; p.a: words by lane, p.a_bytes / 512 columns; p.a_step: columns.
extern "C" __global__ void product_from_tensor_memory(Product p, u32* d) {
  __shared__ u64 done;
  __shared__ u32 place;
  u8* const b = aligned_memory();
  fill(b, p.b, p.b_bytes);
  if (threadIdx.x == 0) init_barrier(&done, 1);
  if (threadIdx.x < 32) allocate(&place, 512);
  fence_proxy();
  __syncthreads();
  const u32 at = place;
  const int words = p.a_bytes / 512;
#pragma unroll 1
  for (int c = 0; c < words; ++c) {
    store_word(own_lanes(at) + 256 + c, reinterpret_cast<const u32*>(p.a)[threadIdx.x * words + c]);
  }
  wait_stores();
  fence_before();
  __syncthreads();
  if (threadIdx.x == 0) {
    fence_after();
#pragma unroll 1
    for (int i = 0; i < p.steps; ++i) {
      const u64 b_from = p.b_descriptor | descriptor_place(shared_address(b) + i * p.b_step);
      asm volatile(
          "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
          "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}" ::"r"(at),
          "r"(at + 256 + i * p.a_step), "l"(b_from), "r"(p.shape), "r"(i)
          : "memory");
    }
    commit(&done);
  }
  wait_barrier(&done, 0);
  fence_after();
  dump(d, at, p.columns);
  __syncthreads();
  if (threadIdx.x < 32) deallocate(at, 512);
}

namespace {

/// A pair of blocks: each has its half of the rows of A and of the columns of B; the first issues.
template <bool Scaled>
__device__ void multiply_in_pair(const Product& p, u32* d) {
  __shared__ u64 done;
  __shared__ u32 place;
  const int rank = blockIdx.x % 2;
  u8* const memory = aligned_memory();
  u8* const b = memory + (p.a_bytes + 1023) / 1024 * 1024;
  fill(memory, p.a + rank * p.a_bytes / 16, p.a_bytes);
  fill(b, p.b + rank * (p.b_bytes + p.scale_bytes) / 16, p.b_bytes + p.scale_bytes);
  if (threadIdx.x == 0) init_barrier(&done, 1);
  if (threadIdx.x < 32) {
    allocate<2>(&place, 256);
    relinquish<2>();
  }
  fence_proxy();
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  const u32 at = place;
  if (rank == 0 && threadIdx.x == 0) {
    fence_after();
    const u32 scales = at + 192;
    if constexpr (Scaled) {
      const u64 from = descriptor_place(shared_address(b) + p.b_bytes) | 1ull << 46 | 8ull << 32 | 8ull << 16;
      asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" ::"r"(scales), "l"(from) : "memory");
      // Where N is parted, each part's scales lie in its 64 lanes.
      if (p.scale_bytes == 512 + 1024) {
        asm volatile("tcgen05.cp.cta_group::2.64x128b.warpx2::01_23 [%0], %1;" ::"r"(scales + 4), "l"(from + 32) : "memory");
      } else {
        asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" ::"r"(scales + 4), "l"(from + 32) : "memory");
      }
    }
#pragma unroll 1
    for (int i = 0; i < p.steps; ++i) {
      const u64 a_from = p.a_descriptor | descriptor_place(shared_address(memory) + i * p.a_step);
      const u64 b_from = p.b_descriptor | descriptor_place(shared_address(b) + i * p.b_step);
      if constexpr (Scaled) {
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
            "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.scale_vec::1X [%0], %1, %2, %3, [%5], [%6], p;\n}" ::"r"(at),
            "l"(a_from), "l"(b_from), "r"(p.shape), "r"(i), "r"(scales), "r"(scales + 4)
            : "memory");
      } else {
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
            "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(at),
            "l"(a_from), "l"(b_from), "r"(p.shape), "r"(i)
            : "memory");
      }
    }
    commit_pair(&done, 3);
  }
  wait_barrier(&done, 0);
  fence_after();
  dump(d + rank * 128 * p.columns, at, p.columns);
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x < 32) deallocate<2>(at, 256);
}

}  // namespace

extern "C" __global__ void __cluster_dims__(2) product_pair(Product p, u32* d) { multiply_in_pair<false>(p, d); }
extern "C" __global__ void __cluster_dims__(2) product_pair_mxf8f6f4(Product p, u32* d) { multiply_in_pair<true>(p, d); }

namespace {

/// Four warps write every lane's 64 columns by store, which gets the address and the thread's number; then all are read
/// lane by lane.
template <class Store>
__device__ void show_stores(u32* d, Store store) {
  __shared__ u32 place;
  if (threadIdx.x < 32) allocate(&place, 64);
  __syncthreads();
  const u32 at = place;
#pragma unroll 1
  for (int c = 0; c < 64; ++c) store_word(own_lanes(at) + c, 0);
  wait_stores();
  store(own_lanes(at), threadIdx.x * 256);
  wait_stores();
  dump(d, at, 64);
  __syncthreads();
  if (threadIdx.x < 32) deallocate(at, 64);
}

/// Every lane's columns hold 64 · lane + column; load gets the address and writes four words of the thread.
template <class Load>
__device__ void show_loads(u32* d, Load load) {
  __shared__ u32 place;
  if (threadIdx.x < 32) allocate(&place, 64);
  __syncthreads();
  const u32 at = place;
#pragma unroll 1
  for (int c = 0; c < 64; ++c) store_word(own_lanes(at) + c, threadIdx.x * 64 + c);
  wait_stores();
  u32 r[4];
  load(own_lanes(at), r);
  wait_loads();
#pragma unroll 1
  for (int i = 0; i < 4; ++i) d[threadIdx.x * 4 + i] = r[i];
  __syncthreads();
  if (threadIdx.x < 32) deallocate(at, 64);
}

}  // namespace

#define MOVE(NAME, SHAPE, PACK, UNPACK, SPLIT)                                                                       \
  extern "C" __global__ void load_##NAME(u32* d) {                                                        \
    show_loads(d, [](u32 at, u32* r) {                                                          \
      asm volatile("tcgen05.ld.sync.aligned." SHAPE PACK ".b32 {%0, %1, %2, %3}, [%4]" SPLIT ";"                    \
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                                 \
                   : "r"(at)                                                                                        \
                   : "memory");                                                                                     \
    });                                                                                                             \
  }                                                                                                                 \
  extern "C" __global__ void store_##NAME(u32* d) {                                                       \
    show_stores(d, [](u32 at, u32 first) {                                                      \
      asm volatile("tcgen05.st.sync.aligned." SHAPE UNPACK ".b32 [%4]" SPLIT ", {%0, %1, %2, %3};" ::"r"(first + 1), \
                   "r"(first + 2), "r"(first + 3), "r"((first + 4) | 5 << 16), "r"(at)                              \
                   : "memory");                                                                                     \
    });                                                                                                             \
  }

MOVE(32x32b, "32x32b.x4", "", "", "")
MOVE(16x64b, "16x64b.x4", "", "", "")
MOVE(16x128b, "16x128b.x2", "", "", "")
MOVE(16x256b, "16x256b.x1", "", "", "")
MOVE(16x32bx2, "16x32bx2.x4", "", "", ", 24")
MOVE(packed, "32x32b.x4", ".pack::16b", ".unpack::16b", "")

/// Copies an image to tensor memory and shows 16 columns of all lanes, which were zero; p.shape: the lane it begins at.
#define COPY(NAME, INSTRUCTION)                                                                                     \
  extern "C" __global__ void copy_##NAME(Product p, u32* d) {                                             \
    __shared__ u64 done;                                                                                  \
    __shared__ u32 place;                                                                                 \
    u8* const memory = aligned_memory();                                                                     \
    fill(memory, p.a, p.a_bytes);                                                                                   \
    if (threadIdx.x == 0) init_barrier(&done, 1);                                                                   \
    if (threadIdx.x < 32) allocate(&place, 32);                                                                     \
    fence_proxy();                                                                                                  \
    __syncthreads();                                                                                                \
    const u32 at = place;                                                                                 \
    _Pragma("unroll 1")                                                                                             \
    for (int c = 0; c < 16; ++c) store_word(own_lanes(at) + c, threadIdx.x << 16 | c);                              \
    wait_stores();                                                                                                  \
    fence_before();                                                                                                 \
    __syncthreads();                                                                                                \
    if (threadIdx.x == 0) {                                                                                         \
      fence_after();                                                                                                \
      const u64 from = p.a_descriptor | descriptor_place(shared_address(memory));                                      \
      const u32 to = at + (p.shape << 16);                                                                \
      asm volatile(INSTRUCTION ::"r"(to), "l"(from) : "memory");                                                    \
      commit(&done);                                                                                                \
    }                                                                                                               \
    wait_barrier(&done, 0);                                                                                         \
    fence_after();                                                                                                  \
    dump(d, at, 16);                                                                                                \
    __syncthreads();                                                                                                \
    if (threadIdx.x < 32) deallocate(at, 32);                                                                       \
  }

COPY(128x256b, "tcgen05.cp.cta_group::1.128x256b [%0], %1;")
COPY(4x256b, "tcgen05.cp.cta_group::1.4x256b [%0], %1;")
COPY(128x128b, "tcgen05.cp.cta_group::1.128x128b [%0], %1;")
COPY(64x128b_02_13, "tcgen05.cp.cta_group::1.64x128b.warpx2::02_13 [%0], %1;")
COPY(64x128b_01_23, "tcgen05.cp.cta_group::1.64x128b.warpx2::01_23 [%0], %1;")
COPY(32x128b, "tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;")
COPY(shift, "tcgen05.shift.cta_group::1.down [%0]; // %1")

/// The deliberate faults of a product whose A lies in tensor memory; 0 is right, as is `relaxed`.
enum Fault {
  none,
  relaxed,
  no_commit_wait,
  no_fence_after,
  no_store_wait,
  no_fence_before,
  no_barrier,
  no_proxy_fence,
  overwrites_b,
  no_dealloc,
  dealloc_twice,
  before_alloc,
  odd_columns,
  alloc_after_relinquish,
  foreign_lanes,
  unwritten,
  no_load_wait,
  unwritten_accumulator,
  bad_shape,
  bad_descriptor,
  exhausted,
  one_lane,
  sparse_flag,
};

template <int F>
__device__ void faulty_product(const uint4* b_image, u32* d) {
  __shared__ u64 done;
  __shared__ u64 ready;
  __shared__ u32 place;
  // B: 16 columns of 16 f16 as core matrices, 2 × 128 bytes along K, then the next 8 columns.
  __shared__ alignas(128) u8 b[512];
  fill(b, b_image, 512);
  if (threadIdx.x == 0) {
    init_barrier(&done, 1);
    init_barrier(&ready, 128);
  }
  constexpr int columns = F == exhausted ? 512 : 64;
  if (threadIdx.x < 32) {
    if (F == before_alloc) place = 0;
    if (F == odd_columns) allocate(&place, 48);
    if (F == alloc_after_relinquish) relinquish();
    if (F != before_alloc) allocate(&place, columns);
    if (F == exhausted) allocate(&place, 32);
  }
  if (F != no_proxy_fence) fence_proxy();
  __syncthreads();
  const u32 at = F == alloc_after_relinquish ? 0 : place;
  if (F != unwritten) {
#pragma unroll 1
    for (int c = 0; c < 8; ++c) store_word(own_lanes(at) + 32 + c, 0x3c003c00);
  }
  if (F != no_store_wait) wait_stores();
  if (F != no_fence_before) fence_before();
  if (F == relaxed) {
    arrive_relaxed(&ready);
    wait_barrier_relaxed(&ready, 0);
  } else if (F != no_barrier) {
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    if (F != no_fence_after) fence_after();
    u64 from = 1ull << 46 | 16ull << 32 | 8ull << 16 | descriptor_place(shared_address(b));
    if (F == bad_descriptor) from = 3ull << 61 | descriptor_place(shared_address(b));
    // f16 by f16 to f32; N = 16, M = 128.
    u32 shape = 1u << 4 | 2u << 17 | 8u << 24;
    if (F == bad_shape) shape = 1u << 4 | 1u << 17 | 8u << 24;
    if (F == sparse_flag) shape |= 1u << 2;
    const int add = F == unwritten_accumulator;
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}" ::"r"(at),
        "r"(at + 32), "l"(from), "r"(shape), "r"(add)
        : "memory");
    commit(&done);
  }
  if (F == overwrites_b && threadIdx.x == 0) b[0] = 0;
  if (F == relaxed) {
    wait_barrier_relaxed(&done, 0);
  } else if (F != no_commit_wait) {
    wait_barrier(&done, 0);
  }
  if (F != no_fence_after) fence_after();
  if (F == foreign_lanes) {
    d[threadIdx.x] = load_word(at);
    wait_loads();
  } else if (F == one_lane) {
    if (threadIdx.x % 32 == 0) d[threadIdx.x] = load_word(own_lanes(at));
    wait_loads();
  } else if (F == no_load_wait) {
    d[threadIdx.x] = load_word(own_lanes(at));
  } else {
#pragma unroll 1
    for (int c = 0; c < 16; ++c) {
      d[threadIdx.x * 16 + c] = load_word(own_lanes(at) + c);
      wait_loads();
    }
  }
  fence_before();
  __syncthreads();
  if (threadIdx.x < 32 && F != no_dealloc) deallocate(at, columns);
  if (threadIdx.x < 32 && F == dealloc_twice) deallocate(at, columns);
}

#define FAULT(NAME) \
  extern "C" __global__ void fault_##NAME(const uint4* b, u32* d) { faulty_product<NAME>(b, d); }

FAULT(none)
FAULT(relaxed)
FAULT(no_commit_wait)
FAULT(no_fence_after)
FAULT(no_store_wait)
FAULT(no_fence_before)
FAULT(no_barrier)
FAULT(no_proxy_fence)
FAULT(overwrites_b)
FAULT(no_dealloc)
FAULT(dealloc_twice)
FAULT(before_alloc)
FAULT(odd_columns)
FAULT(alloc_after_relinquish)
FAULT(foreign_lanes)
FAULT(unwritten)
FAULT(no_load_wait)
FAULT(unwritten_accumulator)
FAULT(bad_shape)
FAULT(bad_descriptor)
FAULT(exhausted)
FAULT(one_lane)
FAULT(sparse_flag)

/// A pipeline: warp 0 has tiles copied to shared memory, warp 1 multiplies them into one of two accumulators, warps 2 to
/// 5 read these. Tile t is the sum of three products of 128 × 16 by 16 × 64.
enum PipelineFault { right, no_empty_wait, no_accumulator_wait, early_arrival, no_reader_fence, no_writer_fence };

namespace {

constexpr int tiles = 4;
constexpr int products = 3;
constexpr int a_part = 4096;
constexpr int b_part = 2048;

struct Pipeline {
  u64 full[2];
  u64 empty[2];
  u64 accumulated[2];
  u64 read[2];
  u32 place;
};

__device__ void copy_bulk(u8* to, const u8* from, int bytes, u64* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

template <int F>
__device__ void produce(Pipeline& p, u8* memory, const u8* a, const u8* b) {
#pragma unroll 1
  for (int i = 0; i < tiles * products; ++i) {
    const int stage = i % 2;
    if (i >= 2 && F != no_empty_wait) wait_barrier(&p.empty[stage], (i / 2 - 1) % 2);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&p.full[stage])),
                 "r"(a_part + b_part)
                 : "memory");
    u8* const to = memory + stage * (a_part + b_part);
    copy_bulk(to, a + i * a_part, a_part, &p.full[stage]);
    copy_bulk(to + a_part, b + i * b_part, b_part, &p.full[stage]);
  }
}

template <int F>
__device__ void multiply_tiles(Pipeline& p, const u8* memory, u32 at) {
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    const int half = tile % 2;
    if (tile >= 2 && F != no_accumulator_wait) wait_barrier(&p.read[half], (tile / 2 - 1) % 2);
    if (F != no_writer_fence) fence_after();
#pragma unroll 1
    for (int k = 0; k < products; ++k) {
      const int i = tile * products + k;
      const int stage = i % 2;
      wait_barrier(&p.full[stage], i / 2 % 2);
      // Core matrices of 8 rows; K-neighbours behind all rows.
      const u32 from = shared_address(memory) + stage * (a_part + b_part);
      const u64 a_from = 1ull << 46 | 8ull << 32 | 128ull << 16 | from >> 4;
      const u64 b_from = 1ull << 46 | 8ull << 32 | 64ull << 16 | (from + a_part) >> 4;
      constexpr u32 shape = 1u << 4 | 8u << 17 | 8u << 24;
      asm volatile(
          "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(
              at + half * 64),
          "l"(a_from), "l"(b_from), "r"(shape), "r"(k)
          : "memory");
      commit(&p.empty[stage]);
    }
    commit(&p.accumulated[half]);
  }
}

template <int F>
__device__ void read_tiles(Pipeline& p, u32 at, float* d) {
  const int lane = threadIdx.x % 128;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    const int half = tile % 2;
    wait_barrier(&p.accumulated[half], tile / 2 % 2);
    if (F != no_reader_fence) fence_after();
#pragma unroll 1
    for (int c = 0; c < 64; ++c) {
      const u32 word = load_word(own_lanes(at) + half * 64 + c);
      if (F != early_arrival) wait_loads();
      d[(tile * 128 + lane) * 64 + c] = __uint_as_float(word);
    }
    fence_before();
    arrive(&p.read[half]);
    if (F == early_arrival) wait_loads();
  }
}

template <int F>
__device__ void run_pipeline(const u8* a, const u8* b, float* d) {
  __shared__ Pipeline p;
  __shared__ alignas(128) u8 memory[2 * (a_part + b_part)];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      init_barrier(&p.full[i], 1);
      init_barrier(&p.empty[i], 1);
      init_barrier(&p.accumulated[i], 1);
      init_barrier(&p.read[i], 128);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (threadIdx.x / 32 == 1) allocate(&p.place, 128);
  fence_before();
  __syncthreads();
  fence_after();
  const u32 at = p.place;
  if (threadIdx.x == 0) produce<F>(p, memory, a, b);
  if (threadIdx.x == 32) multiply_tiles<F>(p, memory, at);
  if (threadIdx.x >= 64) read_tiles<F>(p, at, d);
  fence_before();
  __syncthreads();
  if (threadIdx.x / 32 == 1) deallocate(at, 128);
}

}  // namespace

#define PIPELINE(NAME) \
  extern "C" __global__ void pipeline_##NAME(const u8* a, const u8* b, float* d) { run_pipeline<NAME>(a, b, d); }

PIPELINE(right)
PIPELINE(no_empty_wait)
PIPELINE(no_accumulator_wait)
PIPELINE(early_arrival)
PIPELINE(no_reader_fence)
PIPELINE(no_writer_fence)
