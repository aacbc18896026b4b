#pragma once

#include "kernel/contraction/contraction_shape.h"

namespace stitch::costmodel {

/// Bytes of device memory that tiles whose turns are shared (kernel/contraction/streamed_depth.h) read of the operands
/// beyond what tiles do that go through the depth side by side: their blocks are each at another place of it, so that
/// what tiles have in common is read once only as far as `kept` bytes of L2 hold all of it, the smaller operand first.
/// At most every tile reads its own.
double streamed_reads(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                      const kernel::ContractionShape& shape, double kept);

}  // namespace stitch::costmodel
