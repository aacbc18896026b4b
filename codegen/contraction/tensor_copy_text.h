#pragma once

#include <functional>
#include <string_view>

#include "codegen/writer.h"
#include "kernel/contraction/contraction_problem.h"
#include "kernel/contraction/contraction_schedule.h"

// What kernels print whose tiles come by the tensor copy engine (codegen/device/tensor_copy.cuh): blocks that stay for
// one tile after another, of which one warp asks for tiles of operands while the others multiply, or by tcgen05 another
// one has them multiplied while the others take sums.
namespace stitch::codegen {

/// Bytes of device memory in which such blocks keep their tensor maps from launch to launch.
std::int64_t tensor_maps_bytes(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule);

/// The structures `LeftMap` and `RightMap`, of several products `RightMap0` and so on. Errors: constraint, operands
/// that such a map cannot say.
Status print_tensor_maps(Writer& out, const kernel::ContractionProblem& problem,
                         const kernel::ContractionSchedule& schedule);

/// All between the kernel's arguments and its end. `wait` is the statement that waits for the launch before, which
/// stands behind the setting up of shared memory; `results` prints what a warp does with its sums, `cores`.
Status print_staying_blocks(Writer& out, const kernel::ContractionProblem& problem,
                            const kernel::ContractionSchedule& schedule, const std::string& wait,
                            const std::function<void()>& results);

}  // namespace stitch::codegen
