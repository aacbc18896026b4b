#include "search/trials/failure_model.h"

#include <algorithm>
#include <cmath>

namespace stitch::search {
namespace {

// Beyond so many trials, one that ran as expected teaches nothing that is worth its share of every later update.
constexpr std::size_t taken_in_anyway = 64;
constexpr float expected_to_run = 0.95F;
/// How far the weights may be from those that fit the neighbour's failures (guess).
constexpr double failure_weight_sd = 0.7;

/// Parameters of the covariance that fit the neighbour's failures, where it has any.
CovariancePrior failure_prior(const CandidateFeatures& features, const TransferPrior* prior,
                              const AdaptiveOptions& options) {
  CovariancePrior covariance = default_prior(features);
  if (prior == nullptr) return covariance;
  const double failed = std::ranges::count(prior->failed, char{1});
  const double share = failed / features.size;
  if (failed == 0) return covariance;
  const double spread = std::sqrt(share * (1 - share));
  std::vector<std::size_t> all;
  std::vector<double> values;  // low for what failed: a fit prefers low values, and failures are the rarer outcome
  for (std::size_t i = 0; i < features.size; ++i) {
    all.push_back(i);
    values.push_back((share - (prior->failed[i] != 0 ? 1 : 0)) / spread);
  }
  covariance.mean.log_weight = fit_covariance(features, all, values, covariance, options).log_weight;
  covariance.weight_sd = failure_weight_sd;
  return covariance;
}

}  // namespace

FailureModel::FailureModel(const CandidateFeatures& features, const TransferPrior* prior, AdaptiveOptions options)
    : features_(&features),
      prior_(prior),
      process_(features, failure_prior(features, prior, options), options),
      valid_(features.size, 1.0F) {}

std::size_t FailureModel::group(std::size_t candidate) const {
  return prior_ != nullptr && prior_->failed[candidate] != 0 ? 1 : 0;
}

void FailureModel::observe(std::size_t candidate, bool failed) {
  ++tried_[group(candidate)];
  if (failed) ++failures_[group(candidate)];
  if (!failed && observed_.size() >= taken_in_anyway && valid_[candidate] > expected_to_run) return;
  process_.observe(candidate);
  observed_.push_back(candidate);
  failed_.push_back(failed ? 1 : 0);
}

std::array<double, 2> FailureModel::shares() const {
  // Half a trial's belief that a candidate runs; what failed on the neighbour is as likely to run as not.
  return {failures_[0] / (tried_[0] + 0.5), (failures_[1] + 0.5) / (tried_[1] + 1)};
}

std::span<const float> FailureModel::update() {
  const std::array<double, 2> share = shares();
  std::vector<float> deviation;
  double spread = 0;
  if (failures_[0] + failures_[1] > 0) {
    std::vector<double> values;
    for (std::size_t t = 0; t < observed_.size(); ++t) {
      values.push_back(share[group(observed_[t])] - failed_[t]);
      spread += values.back() * values.back();
    }
    spread = std::sqrt(spread / values.size()) + 1e-9;
    for (double& value : values) value /= spread;
    deviation = process_.update(values, true);
  }
  for (std::size_t i = 0; i < valid_.size(); ++i) {
    const double runs = 1 - share[group(i)] + (deviation.empty() ? 0 : spread * deviation[i]);
    valid_[i] = std::clamp(static_cast<float>(runs), least, 1.0F);
  }
  return valid_;
}

}  // namespace stitch::search
