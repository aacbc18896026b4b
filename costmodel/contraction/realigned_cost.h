#pragma once

#include "kernel/contraction/contraction_schedule.h"

// What realigned copies (kernel/contraction/realigned_copy.h) take that aligned ones do not.
namespace stitch::costmodel {

/// A warp's instructions for 16 bytes of a lane: two loads, shifts, a store; of two lines, which a warp has always,
/// twice that, with their edges.
double realigned_instructions(const kernel::ContractionOperand& operand);
/// Sectors of L2 over those that the left or right operand's tile would have, were its lines aligned: a line of 64
/// bytes that begins anywhere touches 2.9 of them. 1: it is not realigned.
double realigned_sectors(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                         bool left);

}  // namespace stitch::costmodel
