#pragma once

#include <memory>

#include "costmodel/trained_model.h"
#include "search/schedule/scorer.h"

namespace stitch::costmodel {

/// The learned model by itself: trees rank a kernel's candidates, and a line makes times of their scores. It answers
/// everywhere, also where it knows nothing; explain() then says so.
class LearnedScorer final : public search::Scorer {
 public:
  /// Errors: invalid_argument (a model of another kind, another device, or of counts, which are no times).
  static Result<std::unique_ptr<LearnedScorer>> create(std::shared_ptr<const TrainedCostModel> model,
                                                       DeviceSpec device);

  [[nodiscard]] double predict_us(const graph::Graph& graph, const kernel::KernelProgram& program) const override;
  [[nodiscard]] search::Score explain(const graph::Graph& graph, const kernel::KernelProgram& program) const override;
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }

 private:
  LearnedScorer(std::shared_ptr<const TrainedCostModel> model, DeviceSpec device)
      : model_(std::move(model)), device_(std::move(device)) {}

  std::shared_ptr<const TrainedCostModel> model_;
  DeviceSpec device_;
};

/// Whether a model may predict times on a device. Errors: invalid_argument.
Status check_use(const TrainedCostModel& model, TrainedCostModel::Kind kind, const DeviceSpec& device);

}  // namespace stitch::costmodel
