#include "profiler/measure/calibration_kernels.h"

#include "profiler/verify/input_source.h"

namespace stitch::profiler {
namespace {

constexpr int copy_threads = 512;
constexpr int line_bytes = 128;

// Loads are volatile: none may be dropped, joined or moved across the clock. They bypass L1 (.cg) where L2 is meant.
constexpr std::string_view source =
    "#include \"stitch/grid.cuh\"\n"
    "#include \"stitch/types.cuh\"\n"
    R"cuda(
using namespace stitch;

__device__ __forceinline__ u64 clock_now() {
  u64 now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}

__device__ __forceinline__ uint4 load_l2(const uint4* from) {
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from) : "memory");
  return v;
}

// One more figure for the ring: its first word counts them.
__device__ __forceinline__ void note(u64* ring, u64 cycles) {
  const u64 ticket = atomicAdd(ring, 1ull);
  ring[1 + ticket % 1023] = cycles;
}

extern "C" __global__ void __launch_bounds__(512) calibrate_copy(const uint4* from, uint4* to) {
  const s64 first = static_cast<s64>(blockIdx.x) * 2048 + threadIdx.x;
  uint4 v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = from[first + i * 512];
#pragma unroll
  for (int i = 0; i < 4; ++i) to[first + i * 512] = v[i];
}

// All words are used: of what is loaded for nothing ptxas loads nothing. `count`, a power of two, is read in turns of
// four loads that are on their way together.
extern "C" __global__ void __launch_bounds__(1024) calibrate_l2(const uint4* from, u32* sums, s64 count, s64 turns) {
  const s64 me = static_cast<s64>(blockIdx.x) * 1024 + threadIdx.x, stride = static_cast<s64>(gridDim.x) * 1024;
  u32 sum = 0;
#pragma unroll 2
  for (s64 turn = 0; turn < turns; ++turn) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = load_l2(from + ((me + (turn * 4 + k) * stride) & (count - 1)));
#pragma unroll
    for (int k = 0; k < 4; ++k) sum += (v[k].x ^ v[k].y) + (v[k].z ^ v[k].w);
  }
  sums[me] = sum;
}

extern "C" __global__ void __launch_bounds__(1024) calibrate_shared(u32* sums, u64* ring, s64 rounds) {
  __shared__ uint4 tile[1024];
  const u32 me = threadIdx.x;
  tile[me] = make_uint4(me, 0, 2 * me, 0);
  const u32 base = static_cast<u32>(__cvta_generic_to_shared(tile));
  u32 sum = 0;
  __syncthreads();
  const u64 start = clock_now();
#pragma unroll 8
  for (s64 r = 0; r < rounds; ++r) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(base + (me ^ (static_cast<u32>(r) & 1023)) * 16) : "memory");
    sum += (v.x ^ v.y) + (v.z ^ v.w);
  }
  __syncthreads();
  const u64 end = clock_now();
  sums[static_cast<s64>(blockIdx.x) * 1024 + me] = sum;
  if (me == 0) note(ring, end - start);
}

extern "C" __global__ void calibrate_chain(u64* chain, s64 lines) {
  const s64 i = static_cast<s64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= lines) return;
  const u64 next = (static_cast<u64>(i) * 1664525u + 1013904223u) & static_cast<u64>(lines - 1);
  chain[i * 16] = reinterpret_cast<u64>(chain) + next * 128;
}

extern "C" __global__ void calibrate_chase(const u64* chain, u64* ended, u64* ring, s64 before, s64 steps) {
  u64 at = reinterpret_cast<u64>(chain);
  for (s64 i = 0; i < before; ++i) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
  const u64 start = clock_now();
#pragma unroll 8
  for (s64 i = 0; i < steps; ++i) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
  *ended = at;  // waits for the last load
  const u64 end = clock_now();
  note(ring, end - start);
}

extern "C" __global__ void calibrate_shared_chase(u32* ended, u64* ring, s64 steps) {
  __shared__ u32 chain[512];
  const u32 base = static_cast<u32>(__cvta_generic_to_shared(chain));
  for (u32 i = 0; i < 512; ++i) chain[i] = base + ((i * 5 + 3) % 512) * 4;
  u32 at = base;
  const u64 start = clock_now();
#pragma unroll 8
  for (s64 i = 0; i < steps; ++i) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at)::"memory");
  *ended = (at - base) / 4;
  const u64 end = clock_now();
  note(ring, end - start);
}

extern "C" __global__ void calibrate_tiny(u32* count) { *count += 1; }

extern "C" __global__ void __launch_bounds__(256) calibrate_block_barrier(u32* done, u64* ring, s64 rounds) {
  __syncthreads();
  const u64 start = clock_now();
#pragma unroll 8
  for (s64 r = 0; r < rounds; ++r) __syncthreads();
  const u64 end = clock_now();
  if (threadIdx.x == 0) {
    done[blockIdx.x] = static_cast<u32>(rounds);
    note(ring, end - start);
  }
}

extern "C" __global__ void __launch_bounds__(256) calibrate_grid_barrier(u32* counter, s64 rounds) {
  for (s64 r = 0; r < rounds; ++r) grid_barrier(counter, gridDim.x);
}

extern "C" __global__ void calibrate_spin(u32* done, s64 cycles) {
  const u64 start = clock_now();
  while (clock_now() - start < static_cast<u64>(cycles)) {
  }
  *done = 1;
}
)cuda";

/// Random bits: what a copy of zeros costs, nobody wants to know.
Fill random_words(std::int64_t bytes) {
  const graph::TensorType type{graph::DType::f32, {bytes / 4}};
  return InputSource(type, Distribution::mixed, 1, std::nullopt).filler();
}

}  // namespace

std::string_view calibration_source() { return source; }

Result<codegen::CompiledKernel> compile_calibration(codegen::Compiler& compiler, const std::string& architecture) {
  codegen::CompileRequest request;
  request.source = source;
  request.architecture = architecture;
  return compiler.compile(request);
}

Result<KernelHandle> CalibrationKernels::load(const char* entry) {
  return session_.load({entry, compiled_.ptx, compiled_.cubin, compiled_.architecture});
}

Result<BufferHandle> CalibrationKernels::zeros(const char* name, std::int64_t bytes) {
  return session_.allocate(name, bytes, Zero{}, Access::read_write);
}

Result<CalibrationRun> CalibrationKernels::copy(std::int64_t bytes) {
  CalibrationRun run;
  STITCH_ASSIGN(run.launch.kernel, load("calibrate_copy"));
  STITCH_ASSIGN(const BufferHandle from, session_.allocate("from", bytes, random_words(bytes), Access::read_write));
  STITCH_ASSIGN(run.results, session_.allocate("to", bytes, Poison{}, Access::read_write));
  run.launch.shape = {bytes / (copy_threads * 64), copy_threads, 1, 0, false};
  run.launch.arguments = {from, run.results};
  return run;
}

Result<CalibrationRun> CalibrationKernels::l2_read(std::int64_t bytes, std::int64_t turns, std::int64_t blocks) {
  CalibrationRun run;
  STITCH_ASSIGN(run.launch.kernel, load("calibrate_l2"));
  STITCH_ASSIGN(const BufferHandle from, session_.allocate("from", bytes, random_words(bytes), Access::read_write));
  STITCH_ASSIGN(run.results, zeros("sums", blocks * 1024 * 4));
  run.launch.shape = {blocks, 1024, 1, 0, false};
  run.launch.arguments = {from, run.results, bytes / 16, turns};
  return run;
}

Result<CalibrationRun> CalibrationKernels::shared_read(std::int64_t rounds, std::int64_t blocks) {
  CalibrationRun run;
  STITCH_ASSIGN(run.launch.kernel, load("calibrate_shared"));
  STITCH_ASSIGN(run.results, zeros("sums", blocks * 1024 * 4));
  STITCH_ASSIGN(run.cycles, zeros("cycles", cycle_ring_words * 8));
  run.launch.shape = {blocks, 1024, 1, 0, false};
  run.launch.arguments = {run.results, run.cycles, rounds};
  return run;
}

Result<CalibrationRun> CalibrationKernels::chase(std::int64_t lines, std::int64_t before, std::int64_t steps) {
  CalibrationRun run;
  STITCH_ASSIGN(const KernelHandle chain, load("calibrate_chain"));
  STITCH_ASSIGN(run.launch.kernel, load("calibrate_chase"));
  STITCH_ASSIGN(const BufferHandle memory, zeros("chain", lines * line_bytes));
  STITCH_ASSIGN(run.results, zeros("ended", 8));
  STITCH_ASSIGN(run.cycles, zeros("cycles", cycle_ring_words * 8));
  const std::vector<LaunchValue> laying = {memory, lines};
  STITCH_ASSIGN(const LaunchResult laid, session_.launch(chain, {(lines + 255) / 256, 256, 1, 0, false}, laying, {}));
  if (!laid.findings.empty()) return make_error(ErrorKind::runtime, "calibrate_chain: {}", laid.findings.front());
  run.launch.shape = {1, 1, 1, 0, false};
  run.launch.arguments = {memory, run.results, run.cycles, before, steps};
  return run;
}

Result<CalibrationRun> CalibrationKernels::shared_chase(std::int64_t steps) {
  CalibrationRun run;
  STITCH_ASSIGN(run.launch.kernel, load("calibrate_shared_chase"));
  STITCH_ASSIGN(run.results, zeros("ended", 4));
  STITCH_ASSIGN(run.cycles, zeros("cycles", cycle_ring_words * 8));
  run.launch.shape = {1, 1, 1, 0, false};
  run.launch.arguments = {run.results, run.cycles, steps};
  return run;
}

Result<CalibrationRun> CalibrationKernels::tiny() {
  CalibrationRun run;
  STITCH_ASSIGN(run.launch.kernel, load("calibrate_tiny"));
  STITCH_ASSIGN(run.results, zeros("count", 4));
  run.launch.shape = {1, 1, 1, 0, false};
  run.launch.arguments = {run.results};
  return run;
}

Result<CalibrationRun> CalibrationKernels::block_barrier(std::int64_t rounds, std::int64_t blocks) {
  CalibrationRun run;
  STITCH_ASSIGN(run.launch.kernel, load("calibrate_block_barrier"));
  STITCH_ASSIGN(run.results, zeros("done", blocks * 4));
  STITCH_ASSIGN(run.cycles, zeros("cycles", cycle_ring_words * 8));
  run.launch.shape = {blocks, 256, 1, 0, false};
  run.launch.arguments = {run.results, run.cycles, rounds};
  return run;
}

Result<CalibrationRun> CalibrationKernels::grid_barrier(std::int64_t rounds, std::int64_t blocks) {
  CalibrationRun run;
  STITCH_ASSIGN(run.launch.kernel, load("calibrate_grid_barrier"));
  STITCH_ASSIGN(run.results, zeros("counter", 4));
  run.launch.shape = {blocks, 256, 1, 0, true};
  run.launch.arguments = {run.results, rounds};
  return run;
}

Result<CalibrationRun> CalibrationKernels::spin(std::int64_t cycles) {
  CalibrationRun run;
  STITCH_ASSIGN(run.launch.kernel, load("calibrate_spin"));
  STITCH_ASSIGN(run.results, zeros("done", 4));
  run.launch.shape = {1, 1, 1, 0, false};
  run.launch.arguments = {run.results, cycles};
  return run;
}

std::int64_t chase_end(std::int64_t lines, std::int64_t steps) {
  std::uint64_t at = 0;
  for (std::int64_t i = 0; i < steps; ++i) at = (at * 1664525U + 1013904223U) & (lines - 1);
  return at;
}

}  // namespace stitch::profiler
