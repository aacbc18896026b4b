#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/device_spec.h"
#include "codegen/generated_kernel.h"
#include "lab/products/product_case.h"
#include "profiler/verify/verify.h"

namespace stitch::lab {

/// A kernel for a product: the best by the analytical model, or any that is legal.
struct ProductCandidate {
  std::shared_ptr<const graph::Graph> graph;
  codegen::GeneratedKernel kernel;
  profiler::Execution execution;
  std::string schedule;               ///< in words
  std::vector<std::string> features;  ///< of the schedule
  bool chosen = false;                ///< by the model
  /// The same schedule of a chosen plain product whose loop has some turns more, so that what a turn costs can be
  /// counted.
  std::shared_ptr<const ProductCandidate> deeper;
};

/// Errors: unsupported (no kernel of ours computes it), constraint (no schedule is legal), and those of printing.
Result<ProductCandidate> product_candidate(const ProductCase& drawn, const std::string& name);

}  // namespace stitch::lab
