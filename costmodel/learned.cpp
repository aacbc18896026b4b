#include "costmodel/learned.h"

#include "costmodel/kernel_features.h"

namespace stitch::costmodel {

Status check_use(const TrainedCostModel& model, TrainedCostModel::Kind kind, const DeviceSpec& device) {
  if (model.kind != kind)
    return make_error(ErrorKind::invalid_argument, "a {} cost model, not a {} one", to_string(model.kind),
                      to_string(kind));
  if (model.device != device.name)
    return make_error(ErrorKind::invalid_argument, "the cost model is for {}, not for {}", model.device, device.name);
  if (model.unit != "us")
    return make_error(ErrorKind::invalid_argument, "the cost model was trained on {}: it tells no times", model.unit);
  return {};
}

Result<std::unique_ptr<LearnedScorer>> LearnedScorer::create(std::shared_ptr<const TrainedCostModel> model,
                                                             DeviceSpec device) {
  STITCH_TRY(check_use(*model, TrainedCostModel::Kind::learned, device));
  return std::unique_ptr<LearnedScorer>(new LearnedScorer(std::move(model), std::move(device)));
}

double LearnedScorer::predict_us(const graph::Graph& graph, const kernel::KernelProgram& program) const {
  return model_->predict(to_row(kernel_features(graph, program, device_)), 0);
}

search::Score LearnedScorer::explain(const graph::Graph& graph, const kernel::KernelProgram& program) const {
  const std::vector<float> row = to_row(kernel_features(graph, program, device_));
  search::Score score;
  score.us = model_->predict(row, 0);
  score.terms.push_back({"learned", score.us});
  const std::string outside = model_->why_outside(row);
  score.binding = outside.empty() ? "learned" : "learned, outside the training range (" + outside + ")";
  return score;
}

}  // namespace stitch::costmodel
