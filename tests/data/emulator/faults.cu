// For every detector a kernel with the fault (…_bad) and the same kernel without it (…_good).
using u32 = unsigned;
using u64 = unsigned long long;
#define KERNEL extern "C" __global__ void
__device__ __forceinline__ u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// Out of bounds: the last block's tail has no guard.
KERNEL bounds_bad(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}
KERNEL bounds_good(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
KERNEL bounds_before_bad(float* y, const float* x, int n) { y[threadIdx.x] = x[static_cast<int>(threadIdx.x) - 1]; }
KERNEL shared_bounds_bad(float* y) {
  extern __shared__ float s[];
  s[threadIdx.x + 1] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x + 1];
}
KERNEL wild_bad(float* y) { *reinterpret_cast<float*>(0x1234) = 1.0f; }

// Misaligned: 16 bytes at a 4-byte offset.
KERNEL aligned_bad(float4* y, const float* x) { y[threadIdx.x] = *reinterpret_cast<const float4*>(x + 4 * threadIdx.x + 1); }
KERNEL aligned_good(float4* y, const float* x) { y[threadIdx.x] = *reinterpret_cast<const float4*>(x + 4 * threadIdx.x); }

// Uninitialised memory of each kind.
KERNEL initialised_bad(float* y, float* scratch) { y[threadIdx.x] = scratch[threadIdx.x]; }
KERNEL initialised_good(float* y, float* scratch) {
  scratch[threadIdx.x] = 2.0f;
  y[threadIdx.x] = scratch[threadIdx.x];
}
KERNEL initialised_shared_bad(float* y) {
  __shared__ float s[64];
  if (threadIdx.x < 32) s[threadIdx.x] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}
KERNEL initialised_local_bad(float* y, int k) {
  volatile float a[8];
  a[0] = 1.0f;
  y[threadIdx.x] = a[k];
}

// Shared memory: a barrier is missing between warps, between lanes of a warp, and before reuse.
KERNEL exchange_bad(float* y, const float* x) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[127 - threadIdx.x];
}
KERNEL exchange_good(float* y, const float* x) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[127 - threadIdx.x];
}
KERNEL exchange_lanes_bad(float* y, const float* x) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[threadIdx.x ^ 1];
}
KERNEL exchange_lanes_good(float* y, const float* x) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  y[threadIdx.x] = s[threadIdx.x ^ 1];
}
// Half a warp meets; that half is in order.
KERNEL exchange_half_good(float* y, const float* x) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x % 32 < 16) {
    __syncwarp(0x0000ffff);
    y[threadIdx.x] = s[threadIdx.x ^ 1];
  } else {
    y[threadIdx.x] = s[threadIdx.x];
  }
}
KERNEL reuse_bad(float* y, const float* x, int rounds) {
  __shared__ float s[128];
  float sum = 0;
  for (int r = 0; r < rounds; ++r) {
    s[threadIdx.x] = x[r * 128 + threadIdx.x];
    __syncthreads();
    sum += s[127 - threadIdx.x];
  }
  y[threadIdx.x] = sum;
}
KERNEL reuse_good(float* y, const float* x, int rounds) {
  __shared__ float s[128];
  float sum = 0;
  for (int r = 0; r < rounds; ++r) {
    s[threadIdx.x] = x[r * 128 + threadIdx.x];
    __syncthreads();
    sum += s[127 - threadIdx.x];
    __syncthreads();
  }
  y[threadIdx.x] = sum;
}
// Neighbouring 16-bit elements share a word: no race.
KERNEL halfwords_good(unsigned short* y) {
  __shared__ unsigned short s[128];
  s[threadIdx.x] = threadIdx.x;
  y[threadIdx.x] = s[threadIdx.x];
}
// Two warps add to one counter: plainly, and by an atomic.
KERNEL count_bad(int* y) {
  __shared__ int s;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0) s = s + 1;
  __syncthreads();
  if (threadIdx.x == 0) *y = s;
}
KERNEL count_good(int* y) {
  __shared__ int s;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0) atomicAdd(&s, 1);
  __syncthreads();
  if (threadIdx.x == 0) *y = s;
}
// A named barrier of two warps orders these two, not the third.
KERNEL named_barrier_good(float* y) {
  __shared__ float s[96];
  s[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 64) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    y[threadIdx.x] = s[63 - threadIdx.x];
  } else {
    y[threadIdx.x] = 0;
  }
}
KERNEL named_barrier_bad(float* y) {
  __shared__ float s[96];
  s[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 64) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    y[threadIdx.x] = s[95 - threadIdx.x];
  } else {
    y[threadIdx.x] = 0;
  }
}
// A producer warp hands over by bar.arrive.
KERNEL arrive_good(float* y) {
  __shared__ float s[32];
  if (threadIdx.x < 32) {
    s[threadIdx.x] = threadIdx.x;
    asm volatile("bar.arrive 2, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync 2, 64;" ::: "memory");
    y[threadIdx.x - 32] = s[63 - threadIdx.x];
  }
}

// Global memory: a block reads what its neighbour writes.
KERNEL shift_bad(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float next = i + 1 < n ? x[i + 1] : 0.0f;
  __syncthreads();
  x[i] = next;
}
KERNEL shift_good(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = i + 1 < n ? x[i + 1] : 0.0f;
}
KERNEL same_place_bad(float* y) {
  if (threadIdx.x == 0) *y = 1.0f;
}
// Blocks write neighbouring bytes of one sector: no race.
KERNEL bytes_good(unsigned char* y) {
  if (threadIdx.x < 3) y[blockIdx.x * 3 + threadIdx.x] = blockIdx.x;
}

// Barriers that not everybody reaches.
KERNEL divergent_lanes_bad(float* y) {
  if (threadIdx.x % 2 == 0) {
    y[threadIdx.x] = 1.0f;
    __syncthreads();
  } else {
    __syncthreads();
    y[threadIdx.x] = 2.0f;
  }
}
KERNEL divergent_warps_bad(float* y) {
  if (threadIdx.x < 32) asm volatile("bar.sync 3;" ::: "memory");
  y[threadIdx.x] = 1.0f;
  asm volatile("bar.sync 0;" ::: "memory");
}
KERNEL exited_good(float* y) {
  if (threadIdx.x >= 32) return;
  __syncthreads();
  y[threadIdx.x] = 1.0f;
}
KERNEL counts_bad(float* y) {
  if (threadIdx.x < 32)
    asm volatile("bar.sync 1, 64;" ::: "memory");
  else
    asm volatile("bar.sync 1, 96;" ::: "memory");
  y[threadIdx.x] = 1.0f;
}

// Nobody can go on.
KERNEL spin_bad(int* flag) {
  while (*static_cast<volatile int*>(flag) == 0) {
  }
}
KERNEL spin_good(int* flag) {
  if (blockIdx.x == gridDim.x - 1) {
    if (threadIdx.x == 0) *static_cast<volatile int*>(flag) = 1;
  } else {
    while (*static_cast<volatile int*>(flag) == 0) {
    }
  }
}
// Lanes of one warp take a lock in turn: needs progress of lanes that have branched apart.
KERNEL lane_lock_good(int* lock, int* count) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      __threadfence();
      *static_cast<volatile int*>(count) = *static_cast<volatile int*>(count) + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}
KERNEL endless_bad(int* y) {
  for (int i = 0; *y != 7; ++i) *y = i & 1;
}

// Asynchronous copies.
__device__ __forceinline__ void copy16(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(N) asm volatile("cp.async.wait_group " #N ";" ::: "memory")
KERNEL copy_good(float4* y, const float4* x) {
  __shared__ float4 s[64];
  copy16(shared_address(s + threadIdx.x), x + threadIdx.x);
  COMMIT;
  WAIT(0);
  __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];
}
KERNEL copy_no_wait_bad(float4* y, const float4* x) {
  __shared__ float4 s[64];
  copy16(shared_address(s + threadIdx.x), x + threadIdx.x);
  COMMIT;
  __syncthreads();
  y[threadIdx.x] = s[63 - threadIdx.x];
}
KERNEL copy_late_wait_bad(float4* y, const float4* x) {
  __shared__ float4 s[128];
  copy16(shared_address(s + threadIdx.x), x + threadIdx.x);
  COMMIT;
  copy16(shared_address(s + 64 + threadIdx.x), x + 64 + threadIdx.x);
  COMMIT;
  WAIT(1);
  __syncthreads();
  y[threadIdx.x] = s[64 + threadIdx.x];
  WAIT(0);
}
KERNEL copy_no_barrier_bad(float4* y, const float4* x) {
  __shared__ float4 s[64];
  copy16(shared_address(s + threadIdx.x), x + threadIdx.x);
  COMMIT;
  WAIT(0);
  y[threadIdx.x] = s[63 - threadIdx.x];
}

__device__ __forceinline__ void barrier_init(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred p;\nWAIT:\nmbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@p bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
               "r"(bytes), "r"(barrier)
               : "memory");
}
template <bool Wait, bool Init>
__device__ __forceinline__ void bulk(float* y, const float* x) {
  __shared__ alignas(16) float s[128];
  __shared__ alignas(8) u64 barrier;
  u32 b = shared_address(&barrier);
  if (threadIdx.x == 0) {
    if (Init) barrier_init(b, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    barrier_expect(b, 512);
    bulk_load(shared_address(s), x, 512, b);
  }
  if (Wait) barrier_wait(b, 0);
  y[threadIdx.x] = s[127 - threadIdx.x];
}
KERNEL bulk_good(float* y, const float* x) { bulk<true, true>(y, x); }
KERNEL bulk_no_wait_bad(float* y, const float* x) { bulk<false, true>(y, x); }
KERNEL bulk_no_init_bad(float* y, const float* x) { bulk<false, false>(y, x); }
// Only one warp waits; the other reads without knowing.
KERNEL bulk_half_wait_bad(float* y, const float* x) {
  __shared__ alignas(16) float s[64];
  __shared__ alignas(8) u64 barrier;
  u32 b = shared_address(&barrier);
  if (threadIdx.x == 0) barrier_init(b, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    barrier_expect(b, 256);
    bulk_load(shared_address(s), x, 256, b);
  }
  if (threadIdx.x < 32) barrier_wait(b, 0);
  y[threadIdx.x] = s[threadIdx.x];
}
template <bool Fence, bool Wait, bool Early>
__device__ __forceinline__ void bulk_store(float* y, const float* x) {
  __shared__ alignas(16) float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  if (Fence) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(y), "r"(shared_address(s)), "r"(512) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if (Early) s[0] = 0;
    if (Wait) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
KERNEL bulk_store_good(float* y, const float* x) { bulk_store<true, true, false>(y, x); }
KERNEL bulk_store_no_wait_bad(float* y, const float* x) { bulk_store<true, false, false>(y, x); }
KERNEL bulk_store_reuse_bad(float* y, const float* x) { bulk_store<true, true, true>(y, x); }
KERNEL bulk_store_no_fence_bad(float* y, const float* x) { bulk_store<false, true, false>(y, x); }

// The read-only path must not see what the launch writes.
KERNEL read_only_bad(float* y) {
  y[threadIdx.x] = 1.0f;
  __syncthreads();
  float v;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(y + threadIdx.x));
  y[threadIdx.x + 64] = v;
}

// Distributed shared memory needs its block to be there.
template <bool First, bool Last>
__device__ __forceinline__ void neighbour(float* y) {
  __shared__ float s;
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) s = rank + 1.0f;
  if (First) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  u32 remote;
  float value;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared_address(&s)), "r"(rank ^ 1));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(remote));
  if (threadIdx.x == 0) y[blockIdx.x] = value;
  if (Last) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
KERNEL __cluster_dims__(2, 1, 1) cluster_good(float* y) { neighbour<true, true>(y); }
KERNEL __cluster_dims__(2, 1, 1) cluster_early_bad(float* y) { neighbour<false, true>(y); }
KERNEL __cluster_dims__(2, 1, 1) cluster_exit_bad(float* y) { neighbour<true, false>(y); }

// A mask that names the wrong lanes.
KERNEL mask_bad(int* y) { y[threadIdx.x] = __shfl_xor_sync(0x0000ffff, static_cast<int>(threadIdx.x), 1); }
KERNEL trap_bad(int* y) {
  if (y[threadIdx.x] != 0) __trap();
}

// A relaxed cluster barrier tells that the other block runs, and nothing of what it wrote.
template <bool Writes>
__device__ void after_relaxed_barrier(float* y) {
  __shared__ float s;
  unsigned rank, remote;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (!Writes && threadIdx.x == 0) s = static_cast<float>(rank);
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared_address(&s)), "r"(rank ^ 1));
  float value = static_cast<float>(rank);
  if (threadIdx.x == 0) {
    if (Writes) {
      asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote), "f"(value) : "memory");
    } else {
      asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(remote) : "memory");
    }
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0) y[blockIdx.x] = Writes ? s : value;
}
KERNEL __cluster_dims__(2, 1, 1) cluster_relaxed_good(float* y) { after_relaxed_barrier<true>(y); }
KERNEL __cluster_dims__(2, 1, 1) cluster_relaxed_bad(float* y) { after_relaxed_barrier<false>(y); }

// One lane waits for another warp; the rest of its warp waits for it at the next instruction of the whole warp.
KERNEL elected_wait_good(u32* y) {
  __shared__ __align__(16) u32 tile[32];
  __shared__ __align__(8) unsigned long long gate;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&gate)) : "memory");
  if (threadIdx.x < 32) tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("{.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], 0;\n@!p bra AGAIN;}" ::"r"(
                     shared_address(&gate))
                 : "memory");
  }
  // Late enough that the other lanes of warp 0 are long there.
  if (threadIdx.x == 32) {
    for (int i = 0; i < 5000; ++i) asm volatile("nanosleep.u32 20;");
  }
  if (threadIdx.x == 32) asm volatile("{.reg .b64 s;\nmbarrier.arrive.shared.b64 s, [%0];}" ::"r"(shared_address(&gate)) : "memory");
  u32 value;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(value)
               : "r"(shared_address(&tile[threadIdx.x % 8 * 4]))
               : "memory");
  y[threadIdx.x] = value;
}
