#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/writer.h"
#include "kernel/contraction/contraction_problem.h"
#include "kernel/contraction/contraction_schedule.h"

// Products whose depth is scaled part by part (kernel/contraction/scaled_contraction.h, device/scaled_sums.cuh), as
// their kernels have them.
namespace stitch::codegen {

/// The structure `Scales`, which finds a part's factors:
///
///     struct Scales {
///       static constexpr int rows = 100, columns = 256, depth = 1024;
///       const f32* __restrict__ in2;
///       int batch;
///       __device__ __forceinline__ f32 of_row(int row, int k) const { … }
///       __device__ __forceinline__ f32 of_column(int column, int k) const { … }
///     };
///
/// Errors: those of kernel::scale_elements.
Status print_scales(Writer& out, const kernel::ContractionProblem& problem);

/// What multiplies by `cores` and scales: "ScaledCores<TensorCores<…>, Scales, false, true>".
std::string scaled_cores(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                         std::string_view cores);

/// Before the loop: `scales`, of which the block's first part's are asked for.
void print_first_scales(Writer& out, const kernel::ContractionProblem& problem);

/// Behind what multiplies number `step` of the block's `steps`, each `depth` deep: where a part ends there, its sums
/// are scaled and added, and the next one's factors asked for. `waits`: products are on their way (wgmma), of which
/// else but one is waited for.
void print_scaled_part(Writer& out, const kernel::ContractionProblem& problem,
                       const kernel::ContractionSchedule& schedule, std::string_view step, int depth,
                       std::int64_t steps, bool waits);

/// Behind what begins to multiply tile number `step` by an instruction that promotes: once its sums are there they are
/// added to the others, scaled where parts have scales, of which the next one's are asked for behind a part's end.
/// `once_read` prints what may be done as soon as the tile has been multiplied.
void print_promoted_part(Writer& out, const kernel::ContractionProblem& problem,
                         const kernel::ContractionSchedule& schedule, std::string_view step,
                         const std::function<void()>& once_read = {});

}  // namespace stitch::codegen
