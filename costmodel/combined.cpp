#include "costmodel/combined.h"

#include <cmath>

#include "costmodel/analytical.h"
#include "costmodel/kernel_features.h"
#include "costmodel/learned.h"

namespace stitch::costmodel {

Result<std::unique_ptr<CombinedScorer>> CombinedScorer::create(std::shared_ptr<const TrainedCostModel> model,
                                                               DeviceSpec device) {
  STITCH_TRY(check_use(*model, TrainedCostModel::Kind::combined, device));
  return std::unique_ptr<CombinedScorer>(new CombinedScorer(std::move(model), std::move(device)));
}

double CombinedScorer::predict_us(const graph::Graph& graph, const kernel::KernelProgram& program) const {
  const KernelQuantities quantities = kernel_quantities(graph, program, device_);
  const double analytical = analytical_us(quantities, device_, model_->constants);
  const std::vector<float> row = to_row(kernel_features(quantities, graph, program, device_));
  return model_->predict(row, analytical);
}

search::Score CombinedScorer::explain(const graph::Graph& graph, const kernel::KernelProgram& program) const {
  const KernelQuantities quantities = kernel_quantities(graph, program, device_);
  search::Score score = explain_analytical(quantities, device_, model_->constants);
  const std::vector<float> row = to_row(kernel_features(quantities, graph, program, device_));
  const double us = model_->predict(row, score.us), level = score.us * std::exp(model_->offset);
  score.terms.push_back({"level of measurements", level - score.us});
  if (const std::string outside = model_->why_outside(row); !outside.empty()) {
    score.binding += "; outside the training range: analytical (" + outside + ")";
  } else {
    score.terms.push_back({"learned correction", us - level});
  }
  score.us = us;
  return score;
}

}  // namespace stitch::costmodel
