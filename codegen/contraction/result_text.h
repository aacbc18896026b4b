#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "codegen/contraction/contraction_epilogue.h"
#include "codegen/writer.h"
#include "kernel/contraction/contraction_schedule.h"

// How results leave the kernels of products: strip by strip through shared memory and the epilogues.
namespace stitch::codegen {

/// The end of a kernel: `cores` leave their results by strips of shared memory through the epilogues, of several
/// products (which have one each) through that of the tile's member. `column`: of the warp's first result; `first`:
/// which of the graph's results the problem's first one is.
void print_results(Writer& out, const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                   std::span<const ContractionEpilogues> epilogues, std::string_view cores, std::string_view column,
                   std::size_t first = 0);

}  // namespace stitch::codegen
