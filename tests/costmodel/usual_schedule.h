#pragma once

#include "kernel/contraction/contraction_rules.h"

namespace stitch::costmodel::test {

/// 128 × 128 × 32, warps of 64 × 64: what CUTLASS's users begin with.
inline kernel::ContractionSchedule usual(const kernel::ContractionProblem& problem) {
  kernel::ContractionSchedule s;
  s.instruction = kernel::ContractionInstruction::mma_m16n8k16;
  s.block_rows = s.block_columns = 128;
  s.block_depth = 32;
  s.warp_rows = s.warp_columns = 64;
  s.stages = 4;
  s.fragment_stages = 2;
  s.group = 8;
  kernel::fit_accesses(problem, s);
  return s;
}

}  // namespace stitch::costmodel::test
