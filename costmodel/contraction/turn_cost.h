#pragma once

#include "base/device_spec.h"
#include "costmodel/contraction/pipeline_turn.h"
#include "kernel/contraction/contraction_schedule.h"

// What one product costs in a turn of a kernel that has several (attention_time.h, chain_time.h), by warps that each
// have whole rows. `part`: the product as a contraction of whole tiles.
namespace stitch::costmodel {

/// Cycles of shared memory for what `warps` read of its operands. `with_left`: weights in registers are no load.
double turn_shared_cycles(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& part, int warps,
                          bool with_left, const DeviceSpec& device);
/// Instructions of a warp: products, and loads of fragments.
double turn_instructions(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& part);

/// How turns follow one another, each of which brings tiles and uses those of an earlier one. Cycles of an SM, of `x`
/// blocks that share it; `use`: what these do in a turn.
struct TurnPace {
  int stages = 1;           ///< of each block
  double stage_bytes = 0;   ///< that a block's turn brings
  double l2_rate = 0;       ///< bytes a cycle
  double load_latency = 0;  ///< until what is asked for begins to come
  double barrier = 0;       ///< of a block

  [[nodiscard]] double transfer(double x) const { return x * stage_bytes / l2_rate; }
  /// Until a tile of each is there.
  [[nodiscard]] double load(double x) const { return load_latency + transfer(x); }
  [[nodiscard]] double turn(double x, double use) const;
  /// The same as the pipeline model has it, of blocks with so many turns.
  [[nodiscard]] PipelineTurn pipeline(std::int64_t turns, int x, double use, double us_per_cycle) const;
};

/// Cycles for a block's tile of a product's results: through strips of shared memory, their epilogue, their stores.
double results_cycles(const kernel::ContractionProblem& problem, double results, double l2_rate,
                      const DeviceSpec& device);

}  // namespace stitch::costmodel
