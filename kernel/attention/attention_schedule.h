#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/device_spec.h"
#include "base/hash.h"
#include "base/result.h"
#include "kernel/attention/attention_problem.h"
#include "kernel/contraction/contraction_schedule.h"

// How an attention runs: a plain value that is compared, hashed, printed and stored. Of 1,024 bf16 queries and keys of
// depth 64 on sm_80:
//
//     mma_m16n8k16 rows 128 keys 64 warp 16 stages 2 split 1 copy 16/16/16 store 8
//
// A block has `block_rows` queries, which stay in shared memory, and walks the keys `block_keys` at a time; a warp has
// `warp_rows` whole rows, so that maxima and sums of a row are exchanged by the lanes of one warp. Tiles of keys and
// values have `stages` in shared memory (kernel/pipeline). The weights go from the sums of the first product to the
// second one in registers, where an instruction's results lie as its operands do (mma, wgmma), or through shared memory
// of the warp. By wgmma four warps have 64 rows, or 128, and read keys and values from shared memory by themselves;
// the scores of the next keys may be multiplied while this turn's weights are (`overlaps`).

namespace stitch::kernel {

struct AttentionSchedule {
  ContractionInstruction instruction = ContractionInstruction::cuda_core;
  int block_rows = 64, block_keys = 64;  ///< powers of two; rows of wgmma: any multiple of its warpgroup's
  int warp_rows = 16;                    ///< divides block_rows
  int stages = 2;                        ///< tiles of keys and values in shared memory; 1: load, wait, multiply
  int split = 1;  ///< blocks that share the keys of a tile of rows; the last to arrive joins their results, in order
  int query_copy = 4, key_copy = 4, value_copy = 4;  ///< bytes of one copy to shared memory
  int store = 1;                                     ///< elements of one store
  int blocks_per_sm = 1;                             ///< what registers are kept within
  bool overlaps = false;  ///< wgmma: the next scores are multiplied beside this turn's weights and values
  bool skips = true;      ///< tiles of keys that a mask of positions hides are not walked (visible_keys.h)

  bool operator==(const AttentionSchedule&) const = default;
};

/// "mma_m16n8k16 rows 128 keys 64 warp 16 stages 2 split 1 copy 16/16/16 store 8".
std::string to_string(const AttentionSchedule& schedule);
Hash128 schedule_hash(const AttentionSchedule& schedule);

/// What follows from problem and schedule.
struct AttentionShape {
  ContractionSchedule scores, product;  ///< a turn's two products, each as a contraction that runs so
  int warps = 1, threads = 32;
  std::int64_t row_tiles = 0;  ///< of a batch
  std::int64_t key_tiles = 0;  ///< that a block walks
  std::int64_t tiles = 0, blocks = 1;
  std::int64_t query_bytes = 0, key_bytes = 0, value_bytes = 0;  ///< of a tile each
  std::int64_t weight_bytes = 0;                                 ///< of all warps; 0: they stay in registers
  std::int64_t shared_bytes = 0;
  std::int64_t part_bytes = 0;  ///< of scratch: unfinished results of a split
  int registers = 0;            ///< of a thread, about
};
AttentionShape shape_of(const AttentionProblem& problem, const AttentionSchedule& schedule);

/// Widens copies and stores to what problem and tiles allow.
void fit_accesses(const AttentionProblem& problem, AttentionSchedule& schedule);

/// Whether the schedule can run: both products' rules (kernel/contraction/contraction_rules.h), and what they need
/// together. Error: constraint, with what is violated.
Status check_legality(const AttentionProblem& problem, const AttentionSchedule& schedule, const DeviceSpec& device);

/// What multiplies in both products. Error: unsupported (no instruction takes both products' types).
Result<ContractionInstruction> instruction_for(const AttentionProblem& problem, const DeviceSpec& device);

/// That of four warps together, where the device has one for both products, and nothing is updated.
std::optional<ContractionInstruction> warpgroup_instruction_for(const AttentionProblem& problem,
                                                                const DeviceSpec& device);

/// A legal schedule that asks for little. Errors: those of instruction_for; constraint (none is legal).
Result<AttentionSchedule> default_schedule(const AttentionProblem& problem, const DeviceSpec& device);

}  // namespace stitch::kernel
