#include "tuning/contractions/chain_choice.h"

#include <algorithm>

#include "codegen/contraction/contraction_epilogue.h"
#include "codegen/contraction/weight_text.h"
#include "costmodel/uncertainty.h"
#include "tuning/contractions/product_prediction.h"

namespace stitch::tuning {

Result<kernel::ProductChain> chain_of(const graph::Graph& fragment) {
  STITCH_ASSIGN(kernel::ProductChain chain, kernel::derive_chain(fragment));
  if (const auto weights = codegen::print_weights(chain); !weights) return weights.error();
  for (const kernel::ContractionProblem& product : chain.products) {
    if (const auto epilogues = codegen::print_epilogues(product, "Epilogue"); !epilogues) return epilogues.error();
  }
  return chain;
}

Result<ChainChoice> choose_chain(const kernel::ProductChain& chain, const DeviceSpec& device,
                                 const search::ContractionSpaceOptions& options,
                                 const costmodel::AnalyticalConstants& constants,
                                 const costmodel::TrainedCostModel* model) {
  ChainChoice choice;
  const auto time_of = [&](const kernel::ChainSchedule& schedule, const kernel::KeyWalk& walk) {
    return costmodel::chain_time(chain, schedule, walk, device, constants);
  };
  const auto predict = [&](const kernel::ChainSchedule& schedule, const kernel::KeyWalk& walk) {
    return predicted_us(chain, schedule, time_of(schedule, walk), device, model);
  };
  STITCH_ASSIGN(choice.ranked, search::best_chains(chain, device, predict, options));
  const kernel::ChainSchedule& first = choice.ranked.best.front().schedule;
  choice.time = time_of(first, kernel::chain_walk(chain, first));
  choice.unfused_us = costmodel::unfused_chain_us(chain, device, constants);
  choice.uncertainty_us =
      costmodel::uncertainty_us(costmodel::KernelKind::contraction, std::max(choice.time.total, choice.unfused_us));
  return choice;
}

}  // namespace stitch::tuning
