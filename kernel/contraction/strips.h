#pragma once

#include <cstdint>

#include "kernel/contraction/contraction_schedule.h"

namespace stitch::kernel {

/// How a warp's results leave its registers: strip by strip through shared memory of its own, so that stores (and loads
/// of what the epilogue adds) run along the result's contiguous dimension, whatever the instruction's layout. A strip
/// is `rows` rows of the warp's tile and `columns` of its columns, each row `pitch` accumulators from the one before.
struct ContractionStrips {
  int count = 1;  ///< below one another
  int rows = 16;
  int columns = 32;
  int pitch = 32;
  std::int64_t bytes = 0;  ///< of one warp's strip
};
ContractionStrips strips_of(const ContractionProblem& problem, const ContractionSchedule& schedule);

/// Columns of its tile that a warp has in registers at once: all, of tensor memory at most 128, a part after the other.
int taken_columns(const ContractionSchedule& schedule);

/// Elements of one store of a part's results: as many as its layout and the strips allow; and no more than the schedule
/// says.
int widest_store(const ContractionProblem& part, const ContractionSchedule& schedule);
int store_of(const ContractionProblem& part, const ContractionSchedule& schedule);

/// Rows (or columns) that a lane of cuda_core has side by side: where an operand is contiguous along them, 16 bytes of
/// it; else lanes alternate.
int core_run(const ContractionOperand& operand, int thread_extent);

}  // namespace stitch::kernel
