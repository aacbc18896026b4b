#pragma once

#include "codegen/writer.h"
#include "kernel/contraction/contraction_schedule.h"

// What kernels by wgmma print otherwise than the others (codegen/device/warpgroup.cuh).
namespace stitch::codegen {

/// The structure `name`: the instruction of 64 rows and as many columns as a warp has.
void print_wgmma(Writer& out, std::string_view name, const kernel::ContractionProblem& problem,
                 const kernel::ContractionSchedule& schedule);

/// Where the warp's results begin: `warp_row`, `warp_column`, and `group_row`, where its warpgroup's do.
void print_warpgroup_place(Writer& out, const kernel::ContractionSchedule& schedule);

/// The loop over tiles of depth. Of its `stages` one is multiplied while the one before it may still be read and those
/// behind it are on their way: a copy goes where nobody reads any more, which the barrier before it says, so that the
/// tensor cores never wait for who asks for copies.
void print_warpgroup_loop(Writer& out, const kernel::ContractionProblem& problem,
                          const kernel::ContractionSchedule& schedule);

}  // namespace stitch::codegen
