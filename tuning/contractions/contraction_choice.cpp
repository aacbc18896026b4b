#include "tuning/contractions/contraction_choice.h"

#include <algorithm>

#include "codegen/contraction/contraction_epilogue.h"
#include "costmodel/contraction/pruning_bound.h"
#include "costmodel/uncertainty.h"
#include "kernel/contraction/computed_operand.h"
#include "kernel/contraction/gated_contraction.h"
#include "kernel/contraction/merged_contraction.h"
#include "kernel/contraction/scaled_contraction.h"
#include "kernel/contraction/summed_contraction.h"
#include "tuning/contractions/product_prediction.h"

namespace stitch::tuning {
namespace {

/// Of operands in memory.
Result<kernel::ContractionProblem> loaded_product(const graph::Graph& fragment) {
  const auto products = std::ranges::count_if(fragment.nodes(), graph::is_contraction, &graph::Node::op);
  Result<kernel::ContractionProblem> found =
      products > 1 ? kernel::derive_merged(fragment) : kernel::derive_contraction(fragment);
  // What neither is may have gates, or be a sum; if not, the first reason is the one to be told.
  if (!found) {
    if (auto gated = kernel::derive_gated(fragment)) found = std::move(gated);
  }
  if (!found && products > 1) {
    if (auto summed = kernel::derive_summed(fragment)) found = std::move(summed);
  }
  STITCH_ASSIGN(kernel::ContractionProblem problem, std::move(found));
  for (const kernel::ContractionProblem& part : kernel::parts_of(problem)) {
    if (const auto epilogue = codegen::print_epilogues(part, "Epilogue"); !epilogue) return epilogue.error();
  }
  return problem;
}

/// Of narrow operands in memory, whose depth is scaled part by part.
Result<kernel::ContractionProblem> scaled_product(const graph::Graph& fragment) {
  STITCH_ASSIGN(kernel::ContractionProblem problem, kernel::derive_scaled(fragment));
  if (const auto epilogue = codegen::print_epilogues(problem, "Epilogue"); !epilogue) return epilogue.error();
  return problem;
}

}  // namespace

Result<kernel::ContractionProblem> product_of(const graph::Graph& fragment) {
  auto found = loaded_product(fragment);
  if (found) return found;
  if (auto scaled = scaled_product(fragment)) return scaled;
  return dequantised_product(fragment);
}

Result<kernel::ContractionProblem> dequantised_product(const graph::Graph& fragment) {
  auto found = loaded_product(fragment);
  if (found || kernel::computed_operands(fragment).empty()) return found;
  return kernel::derive_computed(fragment, loaded_product);
}

search::ContractionSpaceOptions space_under(const graph::Constraints& constraints, std::size_t count) {
  search::ContractionSpaceOptions space{.count = count};
  if (constraints.batch_invariant) {
    space.most_split = 1;
    space.warpgroups = false;
  }
  return space;
}

Result<ContractionChoice> choose_contraction(const kernel::ContractionProblem& problem, const DeviceSpec& device,
                                             const search::ContractionSpaceOptions& options,
                                             const costmodel::AnalyticalConstants& constants,
                                             const costmodel::TrainedCostModel* model) {
  ContractionChoice choice;
  const auto predict = [&](const kernel::ContractionSchedule& schedule) {
    return predicted_us(problem, schedule, costmodel::contraction_time(problem, schedule, device, constants), device,
                        model);
  };
  const auto bound = [&](const kernel::ContractionSchedule& schedule) {
    return costmodel::pruning_bound(problem, schedule, device).product();
  };
  STITCH_ASSIGN(choice.ranked, search::best_contractions(problem, device, predict, options, bound));
  choice.time = costmodel::contraction_time(problem, choice.ranked.best.front().schedule, device, constants);
  STITCH_ASSIGN(choice.library, library_price(problem, device, constants));
  choice.uncertainty_us = costmodel::difference_uncertainty_us(problem, choice.ranked.best.front().schedule,
                                                               std::max(choice.time.total, choice.library.calls_us));
  return choice;
}

}  // namespace stitch::tuning
