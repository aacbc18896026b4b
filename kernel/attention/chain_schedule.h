#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/device_spec.h"
#include "base/hash.h"
#include "base/result.h"
#include "kernel/attention/product_chain.h"
#include "kernel/attention/visible_keys.h"
#include "kernel/contraction/contraction_schedule.h"

// How a chain of products runs: a plain value that is compared, hashed, printed and stored. Of the gradients of 512
// bf16 keys and values of depth 64 on sm_90a:
//
//     mma_m16n8k16 rows 64 columns 64 warp 16 stages 2 blocks 2
//
// A block has `block_rows` rows of the left operands in shared memory and walks the columns `block_columns` at a time;
// a warp has `warp_rows` whole rows, so that what its scores make are its own left operands of the second products: in
// registers, where an instruction's results lie as its operands do (mma, wgmma), or through shared memory of the warp.
// Tiles of what is walked have `stages` in shared memory (kernel/pipeline). By wgmma four warps have 64 rows, and read
// what is walked from shared memory by themselves, one tile from both sides: lines along the depth of a score are
// panels along the width of a product.

namespace stitch::kernel {

struct ChainSchedule {
  ContractionInstruction instruction = ContractionInstruction::cuda_core;
  int block_rows = 64, block_columns = 64;  ///< powers of two; rows of wgmma: any multiple of 64
  int warp_rows = 16;                       ///< divides block_rows
  int stages = 2;                           ///< tiles in shared memory of what is walked; 1: load, wait, multiply
  int blocks_per_sm = 1;                    ///< what registers are kept within

  bool operator==(const ChainSchedule&) const = default;
};

std::string to_string(const ChainSchedule& schedule);
Hash128 schedule_hash(const ChainSchedule& schedule);

/// What follows from chain and schedule.
struct ChainShape {
  std::vector<ContractionSchedule> scores, products;  ///< a turn's products, each as a contraction that runs so
  int warps = 1, threads = 32;
  std::int64_t row_tiles = 0;     ///< of a batch
  std::int64_t column_tiles = 0;  ///< that a block walks, if none is hidden
  std::int64_t tiles = 0, blocks = 1;
  std::vector<std::int64_t> row_bytes;     ///< of each score's left tile, which stays
  std::vector<std::int64_t> walked_bytes;  ///< of each score's right tile, one stage
  std::vector<std::int64_t> other_bytes;   ///< of each product's right tile, one stage; 0: a score's serves
  std::int64_t weight_bytes = 0;           ///< of all warps; 0: they stay in registers
  std::int64_t stage_bytes = 0;            ///< of all that is walked
  std::int64_t shared_bytes = 0;
  int registers = 0;  ///< of a thread, about
};
ChainShape shape_of(const ProductChain& chain, const ChainSchedule& schedule);

/// Which tiles of columns the blocks walk: those that the chain's mask leaves of some row.
KeyWalk chain_walk(const ProductChain& chain, const ChainSchedule& schedule);
KeyTiles tiles_of(const KeyWalk& walk, std::int64_t row_tile, const ChainSchedule& schedule, std::int64_t tiles);

/// Whether the schedule can run: the products' rules (kernel/contraction/contraction_rules.h), and what they need
/// together. Error: constraint, with what is violated.
Status check_legality(const ProductChain& chain, const ChainSchedule& schedule, const DeviceSpec& device);

/// What multiplies in all products. Error: unsupported (no instruction takes all types).
Result<ContractionInstruction> instruction_for(const ProductChain& chain, const DeviceSpec& device);

/// That of four warps together, where the device has one for all products.
std::optional<ContractionInstruction> warpgroup_instruction_for(const ProductChain& chain, const DeviceSpec& device);

/// A legal schedule that asks for little. Errors: those of instruction_for; constraint (none is legal).
Result<ChainSchedule> default_schedule(const ProductChain& chain, const DeviceSpec& device);

}  // namespace stitch::kernel
