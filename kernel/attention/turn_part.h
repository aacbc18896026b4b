#pragma once

#include <cstdint>

#include "base/device_spec.h"
#include "base/result.h"
#include "kernel/contraction/contraction_schedule.h"

// What kernels have alike that walk tiles with several products a turn (attention_schedule.h, chain_schedule.h): each
// of these as a contraction of whole tiles, for which the rules of contractions hold.
namespace stitch::kernel {

inline constexpr int least_tile = 16;
/// Rows that a lane of CUDA cores has side by side: all products' lanes have the same rows.
inline constexpr int turn_left_run = 1;

/// The extent of a tile that covers a whole dimension.
int covering(std::int64_t extent);
/// Whether a tile may have this extent where it is no warpgroup's.
bool is_tile_extent(int value);

struct TurnTiles {
  ContractionInstruction instruction;
  int block_rows, warp_rows, blocks_per_sm;
};
/// Warps have whole rows, so that maxima and weights of a row are one warp's.
ContractionSchedule turn_part(const TurnTiles& tiles, int columns, int depth);

/// Of a turn's products there are no stages; how wgmma's tiles lie and how many rows there are, the kernel's own rules
/// say. Error: constraint, with the rule.
Status check_turn_part(const ContractionProblem& problem, ContractionSchedule part, const DeviceSpec& device);

}  // namespace stitch::kernel
