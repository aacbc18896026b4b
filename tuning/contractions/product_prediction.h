#pragma once

#include "costmodel/contraction/product_features.h"
#include "costmodel/trained_model.h"

namespace stitch::tuning {

/// What a schedule is ranked by, µs: `time`, which the analytical model says of it, or what a combined model makes of
/// that.
template <class Problem, class Schedule, class Time>
double predicted_us(const Problem& problem, const Schedule& schedule, const Time& time, const DeviceSpec& device,
                    const costmodel::TrainedCostModel* model) {
  if (model == nullptr) return time.total;
  return model->predict(costmodel::to_row(costmodel::product_features(problem, schedule, time, device)), time.total);
}

}  // namespace stitch::tuning
