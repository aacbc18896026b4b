#pragma once

#include "codegen/contraction/contraction_epilogue.h"
#include "codegen/writer.h"
#include "kernel/contraction/contraction_schedule.h"

// Rows that a product's kernel combines before its results leave (kernel/contraction/row_reductions.h): in every phase
// a pass over the sums, which stay in registers, and an exchange through shared memory, in a cluster of its blocks.

namespace stitch::codegen {

/// At the kernel's beginning: says to the other blocks of a row that this one is there to be written to. Of blocks that
/// stay (print_staying_blocks), before the stages' barriers and behind.
void print_row_begin(Writer& out, const kernel::ContractionSchedule& schedule);
void print_row_barriers(Writer& out, const kernel::ContractionProblem& problem,
                        const kernel::ContractionSchedule& schedule);
/// Behind the loop: replaces the sums by what is carried, and combines rows into `totals`, whatever level they are of.
/// Blocks that stay count their tiles by `turn`.
void print_rows(Writer& out, const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                const ContractionEpilogues& epilogues);

}  // namespace stitch::codegen
