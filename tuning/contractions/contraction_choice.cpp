#include "tuning/contractions/contraction_choice.h"

#include <algorithm>

#include "costmodel/uncertainty.h"

namespace stitch::tuning {

Result<ContractionChoice> choose_contraction(const kernel::ContractionProblem& problem, const DeviceSpec& device,
                                             const search::ContractionSpaceOptions& options,
                                             const costmodel::AnalyticalConstants& constants) {
  ContractionChoice choice;
  const auto predict = [&](const kernel::ContractionSchedule& schedule) {
    return costmodel::contraction_time(problem, schedule, device, constants).total;
  };
  STITCH_ASSIGN(choice.ranked, search::best_contractions(problem, device, predict, options));
  choice.time = costmodel::contraction_time(problem, choice.ranked.best.front().schedule, device, constants);
  choice.library_us = costmodel::library_us(problem, device, constants);
  choice.uncertainty_us =
      costmodel::uncertainty_us(costmodel::KernelKind::contraction, std::max(choice.time.total, choice.library_us));
  return choice;
}

}  // namespace stitch::tuning
