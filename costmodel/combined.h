#pragma once

#include <memory>

#include "costmodel/trained_model.h"
#include "search/schedule/scorer.h"

namespace stitch::costmodel {

/// The analytical model, corrected by what trees learned of its errors. A kernel that is unlike those that were
/// measured gets the analytical prediction at the level of measured times: explain() then says "outside the training
/// range: analytical", and which feature is.
class CombinedScorer final : public search::Scorer {
 public:
  /// Errors: invalid_argument (a model of another kind, another device, or of counts, which are no times).
  static Result<std::unique_ptr<CombinedScorer>> create(std::shared_ptr<const TrainedCostModel> model,
                                                        DeviceSpec device);

  [[nodiscard]] double predict_us(const graph::Graph& graph, const kernel::KernelProgram& program) const override;
  /// The terms are the analytical ones, then "level of measurements" and, within the range, "learned correction"; both
  /// may be negative.
  [[nodiscard]] search::Score explain(const graph::Graph& graph, const kernel::KernelProgram& program) const override;
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }
  [[nodiscard]] const TrainedCostModel& model() const { return *model_; }

 private:
  CombinedScorer(std::shared_ptr<const TrainedCostModel> model, DeviceSpec device)
      : model_(std::move(model)), device_(std::move(device)) {}

  std::shared_ptr<const TrainedCostModel> model_;
  DeviceSpec device_;
};

}  // namespace stitch::costmodel
