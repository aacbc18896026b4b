#pragma once

#include <string>
#include <string_view>

#include "codegen/contraction/contraction_epilogue.h"
#include "codegen/writer.h"
#include "kernel/contraction/contraction_schedule.h"

// Sums over groups of a product's rows (kernel/contraction/column_sums.h) as its results leave: what is stored of a
// column is added by whoever stores it, and the parts that warps have of a group meet in shared memory.

namespace stitch::codegen {

/// What `write` has besides, where there are such sums: ", f32 (&columns)[2][8]", one for each of the elements of a
/// store. Else empty.
std::string column_parameter(const kernel::ContractionProblem& problem, int store);
/// In `write`, behind what is stored: adds to these.
void print_added_columns(Writer& out, const kernel::ContractionProblem& problem, const ContractionEpilogues& epilogues,
                         int store);
/// Before results leave: where the parts are. Whoever reads those of the tile before has done with it.
void print_column_begin(Writer& out, const kernel::ContractionProblem& problem,
                        const kernel::ContractionSchedule& schedule);
/// Results leave by `write`, and the sums behind them. `cores`, `column`: as of print_results.
void print_summed_results(Writer& out, const kernel::ContractionProblem& problem,
                          const kernel::ContractionSchedule& schedule, std::string_view cores, std::string_view column,
                          int store);

}  // namespace stitch::codegen
