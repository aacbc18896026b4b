#pragma once

#include <optional>
#include <span>
#include <vector>

#include "search/kernel_fit.h"
#include "search/transfer_prior.h"

namespace stitch::search {

struct SurrogateOptions {
  double tail = 0.5;  ///< log times this far above the best are compressed: how slow a slow candidate is matters little
  std::size_t fit_points = 128;  ///< kernel parameters are fitted to at most so many trials
  int fit_evaluations = 40;      ///< of the likelihood, per fit
};

/// What a model expects of every candidate of a space, in units in which smaller is faster and one is the spread of
/// what was measured.
struct Prediction {
  std::span<const float> mean;
  std::span<const float> variance;
  std::span<const float> log_valid;  ///< log of the probability that the candidate runs
  double best = 0;                   ///< what the fastest trial has on this scale
};

/// Learns times and failures of a space's candidates from trials: a Gaussian process over compressed log times, and a
/// kernel estimate of the probability to fail. A neighbour's trials enter twice: its times are one more feature, and
/// kernel parameters fitted to them are the prior's means here (which parameters matter carries over even where what is
/// fast does not).
/// Kernel parameters are fitted anew when the trials have grown by a seventh; fit and refactoring are spread over the
/// updates, a bounded amount of work each, so that no proposal waits for them.
class Surrogate {
 public:
  Surrogate(const CandidateSpace& space, const TransferPrior* prior, SurrogateOptions options);

  void observe(std::size_t candidate, double log_time);
  void observe_failure(std::size_t candidate);
  /// Whether there is enough to learn from: three trials that succeeded.
  [[nodiscard]] bool ready() const { return observed_.size() >= 3; }
  /// Takes in what was observed; whatever was assumed is forgotten. Only when ready.
  Prediction update();
  /// Counts a trial that is not back yet as if it had turned out as expected: the variance around it falls, so that a
  /// batch spreads. Until the next update.
  void assume(std::size_t candidate);
  /// A predicted value of this scale as a log time.
  [[nodiscard]] double to_log_time(double value) const;

 private:
  struct Scale {
    double fastest = 0;  ///< log time
    double mean = 0, spread = 1;
  };
  /// What the trials say by one set of kernel parameters.
  struct Model {
    Model(const CandidateFeatures& features, const KernelParameters& parameters);
    GaussianProcess process;
    std::vector<float> near_valid, near_failed;  ///< per candidate: summed correlations with trials of either end
    std::size_t valid = 0, failed = 0;           ///< trials taken in
  };
  void learn_from_neighbour();
  /// The trials' values on a fresh scale.
  std::vector<double> rescale();
  [[nodiscard]] KernelFit fit_to(std::span<const std::size_t> candidates, std::span<const double> values,
                                 const CandidateFeatures& features) const;
  void work(const std::vector<double>& values);
  /// Takes in trials until so many multiply-adds are spent; whether all are in.
  bool catch_up(Model& model, double most_work) const;
  void estimate_failures();

  const CandidateSpace* space_;
  const TransferPrior* prior_;
  SurrogateOptions options_;
  CandidateFeatures features_;  ///< the space's, and the neighbour's times
  std::vector<std::size_t> observed_, failed_;
  std::vector<double> log_times_;  ///< of `observed_`
  Scale scale_;
  KernelPrior kernel_prior_;
  KernelParameters parameters_;
  std::optional<KernelFit> fit_;
  std::optional<Model> next_;  ///< with newer kernel parameters, not caught up yet
  std::optional<Model> current_;
  std::size_t assumed_ = 0;   ///< the last observations of `current_`
  std::size_t next_fit_ = 0;  ///< when so many trials succeeded
  std::vector<float> log_valid_, mean_;
};

}  // namespace stitch::search
