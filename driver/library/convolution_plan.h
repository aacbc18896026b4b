#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cuda/cudnn.h"
#include "driver/library/convolution.h"
#include "driver/library/outcome.h"

namespace stitch::driver {

/// A way to compute a graph.
struct ConvolutionEngine {
  std::vector<cuda::dnn::NumericalNote> notes;
  std::int64_t workspace_bytes = 0;
  bool tf32 = false;  ///< rounds operands of f32
};
/// A graph and one way to compute it: an engine, its configuration, or an execution plan.
struct ConvolutionPlan {
  std::shared_ptr<const ConvolutionGraph> graph;
  ConvolutionEngine engine;
};
/// Where everything lies.
struct VariantPack {
  std::map<std::int64_t, CUdeviceptr> addresses;  ///< by the tensors' numbers
  CUdeviceptr workspace = 0;
};

/// What is suggested, so that whoever takes the first is seen: one that rounds f32 to TF32, one that wants more
/// workspace than anybody should have, one whose sums are in no order, and what is left. Like the real library, it has
/// fused operations for forward convolutions with a bias, all others on tensor cores alone, and no fallback for any;
/// gradients of filters have but the second in mode A.
std::vector<ConvolutionPlan> suggestions_for(const std::shared_ptr<const ConvolutionGraph>& graph,
                                             cuda::dnn::HeuristicMode mode);

/// Checks that a pack has an address, aligned as promised, for every tensor of a plan, and lies apart where it writes;
/// what the device has to do then.
Outcome launchable(const ConvolutionPlan& plan, const VariantPack& pack, LibraryWork& work);

}  // namespace stitch::driver
