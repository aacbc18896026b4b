#include "search/trials/surrogate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace stitch::search {
namespace {

constexpr double neighbour_weight_sd = 0.7;  ///< of log weights around those that fit the neighbour

/// Log times above the fastest, compressed where they are far above.
std::vector<double> compress(std::span<const double> log_times, double tail) {
  const double fastest = *std::ranges::min_element(log_times);
  std::vector<double> compressed;
  for (const double time : log_times) compressed.push_back(tail * std::log1p((time - fastest) / tail));
  return compressed;
}

/// Brings values to mean zero and unit spread; returns both as they were.
std::pair<double, double> standardise(std::vector<double>& values) {
  const double n = values.size();
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double square = 0;
  for (const double value : values) square += (value - mean) * (value - mean) / n;
  const double spread = std::sqrt(square) + 1e-9;
  for (double& value : values) value = (value - mean) / spread;
  return {mean, spread};
}

/// The neighbour's times of all candidates, its measured and its interpolated ones, as a feature.
Feature expected_times(const TransferPrior& prior, double tail) {
  const std::vector<double> log_times(prior.log_time.begin(), prior.log_time.end());
  const std::vector<double> values = compress(log_times, tail);
  const double slowest = std::max(*std::ranges::max_element(values), 1e-9);
  Feature expected;
  for (const double value : values) expected.values.push_back(value / slowest);
  return expected;
}

}  // namespace

Surrogate::Surrogate(const CandidateSpace& space, const TransferPrior* prior, SurrogateOptions options)
    : options_(options), features_(space.features()), failures_(space.features(), prior, options.process) {
  CovariancePrior covariance = prior == nullptr ? default_prior(features_) : learn_from_neighbour(*prior);
  times_.emplace(features_, std::move(covariance), options_.process);
}

CovariancePrior Surrogate::learn_from_neighbour(const TransferPrior& prior) {
  if (prior.doubtful) {
    features_.list.push_back(expected_times(prior, options_.tail));
    return default_prior(features_);
  }
  std::vector<std::size_t> ran;
  std::vector<double> log_times;
  for (std::size_t i = 0; i < features_.size; ++i) {
    if (prior.failed[i] != 0) continue;
    ran.push_back(i);
    log_times.push_back(prior.log_time[i]);
  }
  std::vector<double> values = compress(log_times, options_.tail);
  standardise(values);
  CovariancePrior covariance = default_prior(features_);
  covariance.mean.log_weight = fit_covariance(features_, ran, values, covariance, options_.process).log_weight;
  covariance.mean.log_weight.push_back(0.0);
  covariance.weight_sd = neighbour_weight_sd;
  features_.list.push_back(expected_times(prior, options_.tail));
  return covariance;
}

void Surrogate::observe(std::size_t candidate, double log_time) {
  times_->observe(candidate);
  log_times_.push_back(log_time);
  failures_.observe(candidate, false);
}

void Surrogate::observe_failure(std::size_t candidate) { failures_.observe(candidate, true); }

std::vector<double> Surrogate::rescale() {
  scale_.fastest = *std::ranges::min_element(log_times_);
  std::vector<double> values = compress(log_times_, options_.tail);
  std::tie(scale_.mean, scale_.spread) = standardise(values);
  return values;
}

double Surrogate::to_log_time(double value) const {
  const double compressed = value * scale_.spread + scale_.mean;
  return scale_.fastest + options_.tail * std::expm1(compressed / options_.tail);
}

double Surrogate::to_value(double log_time) const {
  const double compressed = options_.tail * std::log1p((log_time - scale_.fastest) / options_.tail);
  return (compressed - scale_.mean) / scale_.spread;
}

Prediction Surrogate::update() {
  mean_ = times_->update(rescale());
  return {mean_, times_->variance(), failures_.update()};
}

}  // namespace stitch::search
