#pragma once

#include <string>
#include <vector>

#include "base/hash.h"

namespace stitch::costmodel {

/// One candidate of one kernel on one device, as the caller knows it. Measured, failed, or neither: then only the
/// analytical model has an opinion on it, and it serves a learned model's pre-training.
struct TrainingSample {
  std::vector<float> features;  ///< a row (costmodel/kernel_features.h)
  double analytical_us = 0;     ///< by AnalyticalConstants of the set
  double measured = 0;          ///< median, in the set's unit; 0: not measured
  bool failed = false;          ///< it did not compile, or was wrong, or faulted, or hung
  Hash128 kernel;               ///< key of the kernel's canonical graph
  Hash128 family;               ///< the same without shapes
  std::string device;           ///< where it was measured: candidates of different devices are not compared

  [[nodiscard]] bool is_measured() const { return !failed && measured > 0; }
};

}  // namespace stitch::costmodel
