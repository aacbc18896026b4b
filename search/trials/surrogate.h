#pragma once

#include <optional>
#include <span>
#include <vector>

#include "search/trials/adaptive_process.h"
#include "search/trials/failure_model.h"
#include "search/trials/transfer_prior.h"

namespace stitch::search {

struct SurrogateOptions {
  double tail = 0.5;  ///< log times this far above the best are compressed: how slow a slow candidate is matters little
  AdaptiveOptions process;
};

/// What a model expects of every candidate of a space, in units in which smaller is faster and one is the spread of
/// what was measured.
struct Prediction {
  std::span<const float> mean;
  std::span<const float> variance;
  std::span<const float> valid;  ///< probability that the candidate runs
};

/// Learns times and failures of a space's candidates from trials: a Gaussian process over compressed log times, and a
/// model of what fails (search/trials/failure_model.h). A neighbour's trials enter twice: its times are one more
/// feature, and parameters of the covariance fitted to them are the prior's means here (which parameters matter carries
/// over even where what is fast does not).
class Surrogate {
 public:
  Surrogate(const CandidateSpace& space, const TransferPrior* prior, SurrogateOptions options);
  Surrogate(const Surrogate&) = delete;  // its processes refer to its features
  Surrogate& operator=(const Surrogate&) = delete;

  void observe(std::size_t candidate, double log_time);
  void observe_failure(std::size_t candidate);
  /// Whether there is enough to learn from: three trials that succeeded.
  [[nodiscard]] bool ready() const { return log_times_.size() >= 3; }
  /// Takes in what was observed; whatever was assumed is forgotten. Only when ready.
  Prediction update();
  /// Counts a trial that is not back yet as if it had turned out as expected: the variance around it falls, so that a
  /// batch spreads. Until the next update.
  void assume(std::size_t candidate) { times_->assume(candidate); }
  /// A predicted value of this scale as a log time, and back.
  [[nodiscard]] double to_log_time(double value) const;
  [[nodiscard]] double to_value(double log_time) const;

 private:
  struct Scale {
    double fastest = 0;  ///< log time
    double mean = 0, spread = 1;
  };
  [[nodiscard]] CovariancePrior learn_from_neighbour(const TransferPrior& prior);
  /// The trials' values on a fresh scale.
  std::vector<double> rescale();

  SurrogateOptions options_;
  CandidateFeatures features_;  ///< the space's, and the neighbour's times
  std::vector<double> log_times_;
  Scale scale_;
  std::optional<AdaptiveProcess> times_;
  FailureModel failures_;
  std::vector<float> mean_;
};

}  // namespace stitch::search
