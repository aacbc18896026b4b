#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/device_spec.h"
#include "base/hash.h"
#include "base/result.h"
#include "codegen/generated_kernel.h"
#include "costmodel/kernel_features.h"
#include "costmodel/trained_model.h"
#include "profiler/verify/verify.h"
#include "search/contraction/contraction_space.h"

namespace stitch::tuning {

/// What a fragment of the matmul class can be made by: a product of matrices with its epilogue, or an attention, and of
/// either the schedules that are thought to be fastest, in that order. Whoever makes, proves and stores plans needs to
/// know no more of them; another kind is another function that makes this.
struct ProductKernels {
  struct Ranked {
    Hash128 schedule;
    double predicted_us = 0;   ///< by the model that ranked
    double analytical_us = 0;  ///< by the formula
    std::int64_t dram_bytes = 0;
    std::string description;  ///< problem and instruction
    std::string runs;         ///< the schedule in words
    /// Bytes of a thread that may be spilled without being missed: around what stands behind the loop, once a tile.
    int idle_spills = 0;
    std::function<Result<codegen::GeneratedKernel>(const codegen::GenerateOptions&)> generate;
    std::function<profiler::Execution()> execution;
    /// What cost models see of it (costmodel/contraction/product_features.h); null: before compilation.
    std::function<std::vector<float>(const costmodel::CompiledFacts*)> features;
  };
  std::shared_ptr<const graph::Graph> graph;  ///< what a kernel computes, with the fragment's parameters
  std::vector<Ranked> best;
  double rival_us = 0;        ///< predicted for the library's call, or calls with what is between them
  double rest_us = 0;         ///< for what these leave of the epilogues, where that is a kernel of its own
  double uncertainty_us = 0;  ///< of the difference to the first

  /// Whether our kernel is predicted to be faster than its rival by more than both may be off, or is faster and does
  /// what the rival would need a kernel of its own for (`rest_apart`) that takes more than that. Errors of two
  /// predictions of the same work go the same way for the most part, so that it is the larger one's.
  [[nodiscard]] bool ours_is_faster(bool rest_apart) const {
    const double ours_us = best.front().predicted_us, saved_us = rest_apart ? rest_us : 0;
    return ours_us + (saved_us > uncertainty_us ? 0 : uncertainty_us) < rival_us + saved_us;
  }
  /// Whether it may be: it is not predicted to be slower by more than both may be off.
  [[nodiscard]] bool ours_may_be_faster(bool rest_apart) const {
    return best.front().predicted_us < rival_us + (rest_apart ? rest_us : 0) + uncertainty_us;
  }
};

/// Whether a fragment is of the matmul class.
bool is_product(const graph::Graph& fragment);

/// The `count` best kernels for it, under the fragment's constraints, in the order of a combined model's predictions;
/// null: of the analytical one's. The library's price is the analytical model's in any case. `ablation`: of the
/// schedules that do without a part of pipelining. Errors: unsupported (it is none); constraint (no schedule is legal).
Result<ProductKernels> product_kernels(const graph::Graph& fragment, const DeviceSpec& device, std::size_t count,
                                       const costmodel::TrainedCostModel* model = nullptr,
                                       search::PipelineAblation ablation = search::PipelineAblation::none);

}  // namespace stitch::tuning
