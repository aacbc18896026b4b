#include "tuning/contractions/attention_choice.h"

#include <algorithm>

#include "codegen/contraction/contraction_epilogue.h"
#include "costmodel/uncertainty.h"
#include "tuning/contractions/product_prediction.h"

namespace stitch::tuning {

Result<kernel::AttentionProblem> attention_of(const graph::Graph& fragment) {
  STITCH_ASSIGN(kernel::AttentionProblem problem, kernel::derive_attention(fragment));
  for (const kernel::ContractionProblem* part : {&problem.scores, &problem.product}) {
    if (const auto epilogue = codegen::print_epilogue(*part); !epilogue) return epilogue.error();
  }
  return problem;
}

Result<AttentionChoice> choose_attention(const kernel::AttentionProblem& problem, const DeviceSpec& device,
                                         const search::ContractionSpaceOptions& options,
                                         const costmodel::AnalyticalConstants& constants,
                                         const costmodel::TrainedCostModel* model) {
  AttentionChoice choice;
  const auto time_of = [&](const kernel::AttentionSchedule& schedule, const kernel::KeyWalk& walk) {
    return costmodel::attention_time(problem, schedule, walk, device, constants);
  };
  const auto predict = [&](const kernel::AttentionSchedule& schedule, const kernel::KeyWalk& walk) {
    return predicted_us(problem, schedule, time_of(schedule, walk), device, model);
  };
  STITCH_ASSIGN(choice.ranked, search::best_attentions(problem, device, predict, options));
  const kernel::AttentionSchedule& first = choice.ranked.best.front().schedule;
  choice.time = time_of(first, kernel::key_walk(problem, first));
  choice.unfused_us = costmodel::unfused_attention_us(problem, device, constants);
  choice.uncertainty_us =
      costmodel::uncertainty_us(costmodel::KernelKind::contraction, std::max(choice.time.total, choice.unfused_us));
  return choice;
}

}  // namespace stitch::tuning
