#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/device_spec.h"
#include "base/hash.h"
#include "base/result.h"
#include "kernel/contraction/contraction_problem.h"

// How a contraction runs: a plain value that is compared, hashed, printed and stored with measurements. Everything else
// (threads, grid, shared memory, copies a thread makes) follows from it and the problem. Of a bf16 matmul on sm_80:
//
//     mma_m16n8k16 block 128×128×32 warp 64×64 stages 4×2 split 1 group 8 copy 16/16 store 8
//
// (copy 16r/16: the left operand's rows are not aligned to that, and realigned), of a large one on an H100
//
//     wgmma_m64k16 block 128×256×64 warp 16×256 stages 4×1 split 1 group 8 copy 16/16 store 8 tensor cluster 2 of 132
//
// and on a B200
//
//     tcgen05_m128k16 block 128×256×64 warp 32×128 stages 4×1 split 1 group 8 copy 16/16 store 8 tensor cluster 2 of
//     148
//
// A block computes block_rows × block_columns of the result, a part `block_depth` of the contracted dimension at a
// time; warps share it, each a warp_rows × warp_columns tile. Both levels are pipelined (kernel/pipeline; ALCOP,
// arXiv 2210.16691 §3): `stages` tiles of operands are in shared memory, `fragment_stages` steps of them in registers.

namespace stitch::kernel {

/// What multiplies. In the table's order.
enum class ContractionInstruction : std::uint8_t {
  cuda_core,  ///< one multiply-add a lane and result, any dtype
  mma_m16n8k16,
  mma_m16n8k32,
  mma_m16n8k32_f8,
  wgmma_m64k16,  ///< four warps, which share the rows; operands in shared memory, as many columns as a warp has
  wgmma_m64k32,
  mma_m16n8k8_tf32,
  mma_m16n8k8_tf32x3,   ///< three of the former: of operands rounded to TF32, and of either with what the other lost
  mma_m16n8k16_bf16x3,  ///< three of mma_m16n8k16: of operands of f32 rounded to bf16, and likewise
  wgmma_m64k8_tf32,
  mma_m16n8k4_f64,  ///< before sm_90 two of m8n8k4, one below the other
  tcgen05_m128k16,  ///< one thread for a block's rows; operands in shared memory, sums in tensor memory
  tcgen05_m128k32,
  tcgen05_m128k32_f8,
  tcgen05_m128k8_tf32,
  wgmma_m64k32_f8,  ///< sums of each tile are added to others in f32 (`promotes`)
};

/// What an instruction is chosen by.
struct ProductTypes {
  graph::DType left, right, accumulator;
  graph::F32Arithmetic f32 = graph::F32Arithmetic::f32;  ///< how products of f32 may be made
};
ProductTypes types_of(const ContractionProblem& problem);

/// Of one instruction and warp the rows, columns and depth, which operands it takes, on which compute capabilities
/// (× 10).
struct InstructionInfo {
  ContractionInstruction instruction;
  std::string_view name;
  int rows, columns, depth;
  int since, until;  ///< 80: sm_80
  int warps;         ///< that multiply together: 1, or 4 (wgmma), or that share the lanes of tensor memory (tcgen05)
  bool (*takes)(const ProductTypes& types);
  bool in_tensor_memory = false;  ///< whether sums are there (tcgen05)
  bool promotes = false;          ///< whether its sums keep fewer bits than f32 has
};
std::span<const InstructionInfo> instruction_table();
const InstructionInfo& info(ContractionInstruction instruction);
inline std::string_view to_string(ContractionInstruction instruction) { return info(instruction).name; }
/// Whether it reads tiles from shared memory by itself, in layouts of its own (wgmma, tcgen05).
inline bool reads_tiles(ContractionInstruction instruction) { return info(instruction).warps > 1; }
/// Whether its sums are in tensor memory (tcgen05).
inline bool in_tensor_memory(ContractionInstruction instruction) { return info(instruction).in_tensor_memory; }
/// Whether four warps multiply together, asynchronously (wgmma).
inline bool is_warpgroup(ContractionInstruction instruction) {
  return reads_tiles(instruction) && !in_tensor_memory(instruction);
}
/// Whether its sums have fewer bits than f32, so that those of each tile of `promoted_depth` are added to others in
/// f32, a second set of them, before the next tile's begin (wgmma of f8). How far off that is:
/// graph/reference/narrow_sums.h.
inline bool promotes(ContractionInstruction instruction) { return info(instruction).promotes; }
/// What DeepSeek-V3 (arXiv 2412.19437 §3.3.2) found to be few enough products, and to cost nothing that another
/// warpgroup's products do not hide; CUTLASS's default (four instructions), and the line of a swizzled tile.
inline constexpr int promoted_depth = 128;
/// Rows of a block that such four warps share: 64 for every 16 of a warp, of tensor memory 128 for every 32.
inline constexpr int warpgroup_warps = 4;

struct ContractionSchedule {
  ContractionInstruction instruction = ContractionInstruction::cuda_core;
  int block_rows = 64, block_columns = 64, block_depth = 16;  ///< powers of two
  int warp_rows = 32, warp_columns = 32;                      ///< divide the block's
  int thread_rows = 8, thread_columns = 4;  ///< cuda_core: results of a lane, its warp tile ÷ 32; else 0
  int stages = 3;                           ///< operand tiles in shared memory; 1: load, wait, multiply
  int fragment_stages = 1;                  ///< 2: the next step's fragments are loaded while this one's are multiplied
  int split = 1;     ///< blocks that share the contracted dimension of a tile; the last to arrive adds, in order
  int streamed = 0;  ///< blocks that share the turns of all tiles beyond whole rounds (streamed_depth.h); 0: none do
  int group = 1;     ///< rows of tiles that consecutive blocks walk together, column by column (L2 reuse)
  int left_copy = 4, right_copy = 4;  ///< bytes of one copy to shared memory; below 4 through registers
  /// Wherever rows begin copies have 16 bytes: out of two words, through registers (realigned_copy.h).
  bool left_realigned = false, right_realigned = false;
  int store = 1;          ///< elements of one store
  int blocks_per_sm = 1;  ///< what registers are kept within
  bool swizzle = true;    ///< exclusive-or of 16-byte places with their row, against bank conflicts
  int row_blocks =
      1;  ///< blocks beside one another, a cluster, which have all columns of their rows (row_reductions.h)

  /// wgmma, and always tcgen05: tiles come by the tensor copy engine (cp.async.bulk.tensor, "TMA"), which a warp of its
  /// own asks while the others multiply, and blocks stay for one tile after another.
  bool tensor_copies = false;
  int cluster = 1;   ///< of those, blocks below one another: what they share of the right operand is read once for all
  int resident = 0;  ///< blocks of the grid, which walk all tiles; 0: one for each
  /// tcgen05: a cluster's blocks multiply their rows two by two together (.cta_group::2). Each has its own rows of the
  /// left operand, half of the columns of the right one, and its own rows' sums.
  bool paired = false;

  bool operator==(const ContractionSchedule&) const = default;
};

/// Of a tile's columns of the right operand, those that a block has in its shared memory: of a pair each has half.
inline int right_columns(const ContractionSchedule& schedule) {
  return schedule.block_columns / (schedule.paired ? 2 : 1);
}

/// "mma_m16n8k16 block 128×128×32 warp 64×64 stages 4×2 split 1 group 8 copy 16/16 store 8".
std::string to_string(const ContractionSchedule& schedule);
/// Names a schedule by all that it holds, in every process and version.
Hash128 schedule_hash(const ContractionSchedule& schedule);

}  // namespace stitch::kernel
