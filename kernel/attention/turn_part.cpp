#include "kernel/attention/turn_part.h"

#include <algorithm>
#include <bit>

#include "kernel/contraction/contraction_rules.h"

namespace stitch::kernel {

int covering(std::int64_t extent) {
  return std::max<int>(least_tile, static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(extent))));
}

bool is_tile_extent(int value) { return value >= least_tile && std::has_single_bit(static_cast<unsigned>(value)); }

ContractionSchedule turn_part(const TurnTiles& tiles, int columns, int depth) {
  constexpr int lanes_down = 4, lanes_across = 8;  // of a warp of CUDA cores
  ContractionSchedule part;
  part.instruction = tiles.instruction;
  part.block_rows = tiles.block_rows;
  part.block_columns = part.warp_columns = columns;
  part.block_depth = depth;
  part.warp_rows = tiles.warp_rows;
  part.thread_rows = part.thread_columns = 0;
  if (tiles.instruction == ContractionInstruction::cuda_core) {
    part.thread_rows = tiles.warp_rows / lanes_down;
    part.thread_columns = columns / lanes_across;
  }
  part.stages = 1;
  part.blocks_per_sm = tiles.blocks_per_sm;
  return part;
}

Status check_turn_part(const ContractionProblem& problem, ContractionSchedule part, const DeviceSpec& device) {
  const bool together = is_warpgroup(part.instruction);
  if (together) part.block_rows = warpgroup_warps * part.warp_rows;
  for (const ContractionRule& rule : contraction_rules()) {
    if (together && (rule.name == "stages" || rule.name == "warpgroups")) continue;
    if (const std::string wrong = rule.violation(problem, part, device); !wrong.empty())
      return make_error(ErrorKind::constraint, "{}: {}", rule.name, wrong);
  }
  return {};
}

}  // namespace stitch::kernel
