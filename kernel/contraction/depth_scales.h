#pragma once

#include <vector>

#include "kernel/contraction/contraction_problem.h"
#include "kernel/structure/scalar_program.h"

// Scales of parts of the contracted dimension, as the kernel of a scaled product reads them (scaled_contraction.h):
// each is a product of what depends on row and part, and of what depends on column and part. With activations scaled
// 1×128 and weights 128×128 (DeepSeek-V3, arXiv 2412.19437 §3.3)
//
//     row factor      sx[row, k / 128]
//     column factor   sw[column / 128, k / 128]     the same for 128 columns: a warp loads one

namespace stitch::kernel {

/// What one scale is made of, by index propagation over the axes batch, row, column and depth (0 to 3).
struct ScaleElements {
  ScalarProgram program;
  std::vector<ItemId> of_row;     ///< factors, none of which depends on the column
  std::vector<ItemId> of_column;  ///< and on the row
};
/// Errors: unsupported (what is no product of the two; what is more than element-wise).
Result<ScaleElements> scale_elements(const ContractionProblem& problem);

/// Fills in what `problem.scales` has of the scales beside their graph. Errors: those above, and unsupported (scales
/// that are the same along the whole depth, which are an epilogue's, or of no multiple of `least_scaled_depth`).
Status describe_scales(ContractionProblem& problem);

/// What is summed up by itself is so much of the contracted dimension or a multiple: a step of tensor cores of bytes.
inline constexpr std::int64_t least_scaled_depth = 32;

}  // namespace stitch::kernel
