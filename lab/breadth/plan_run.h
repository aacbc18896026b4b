#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/reference/tensor.h"
#include "lab/breadth/random_plan.h"
#include "profiler/device/device.h"

namespace stitch::lab {

/// What comparing a plan's results with the reference found.
struct PlanVerdict {
  std::string failure;        ///< empty: right; else which result, element and values, or the device's finding
  std::int64_t elements = 0;  ///< of all results
  std::int64_t compared = 0;  ///< of them, those that the reference bounds
};

/// Runs a plan's kernels in their order on a device, results poisoned before, and compares all results with the float64
/// reference of RandomPlan::expected within its bounds. Kernels that count on memory which their last launch left
/// behind are launched twice.
///
/// Errors: those of the device (unsupported, timeout, …) and of the reference.
Result<PlanVerdict> run_plan(profiler::Device& device, const RandomPlan& plan,
                             const std::vector<profiler::KernelImage>& images,
                             const std::vector<graph::Tensor>& arguments);

}  // namespace stitch::lab
