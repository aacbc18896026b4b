#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "costmodel/training.h"
#include "costmodel/uncertainty.h"
#include "profiler/measure/recording.h"
#include "tuning/kernels/kernel_workshop.h"

// What every scorer there is says of candidates that a GPU has timed: the evidence by which the default one is chosen
// (bench/ranking).
namespace stitch::tuning {

/// A candidate's measured time and its predictions, all in µs. What is predicted after compilation is there only where
/// kernels were built.
struct ScoredCandidate {
  Hash128 schedule;
  double measured_us = 0;  ///< median; of a failed one without meaning
  double noise = 0;        ///< of it, as a share
  bool failed = false;
  double analytical_us = 0;
  /// By models that were trained on other kernels; none where there are too few to hold any out.
  std::optional<double> learned_us, combined_us;
  /// The two estimates after compilation: of the analytical prediction, and of the combined one.
  std::optional<double> compiled_us, combined_compiled_us;
};

struct ScoredKernel {
  Hash128 key;
  std::string name;
  costmodel::KernelKind kind = costmodel::KernelKind::streaming;  ///< of its fastest candidate
  std::vector<ScoredCandidate> candidates;
};

/// Every candidate of a recording of device times that today's explorer still finds. `workshop`: builds each one anew,
/// so that the estimates after compilation see today's machine code of the schedule; null: they are left out. One whose
/// building fails keeps its prediction as its estimate. `training` says how models are trained and what is held out
/// (its kind is not looked at). Errors: invalid_argument (a recording of counts; nothing to train on), those of
/// enumeration and training.
Result<std::vector<ScoredKernel>> score_recording(const profiler::Recording& recording, KernelWorkshop* workshop,
                                                  const costmodel::TrainingOptions& training);

/// {"key", "name", "kind", "candidates": [{"schedule", "measured_us", "noise", "failed", "analytical", "learned", …}]}
nlohmann::json to_document(const ScoredKernel& kernel);

}  // namespace stitch::tuning
