#include "search/trials/gaussian_process.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "search/trials/covariance_fit.h"

namespace stitch::search {
namespace {

CandidateFeatures random_features(std::size_t size, std::uint64_t seed) {
  Random random(seed);
  CandidateFeatures features;
  features.size = size;
  for (int f = 0; f < 3; ++f) {
    Feature feature;
    for (std::size_t i = 0; i < size; ++i) feature.values.push_back(static_cast<float>(random.uniform()));
    features.list.push_back(std::move(feature));
  }
  Feature label;
  label.label = true;
  for (std::size_t i = 0; i < size; ++i) label.values.push_back(static_cast<float>(random.below(3)));
  features.list.push_back(std::move(label));
  return features;
}

const CovarianceParameters parameters{{0.3, -0.4, 1.0, -0.5}, 0.2, std::log(0.01)};

double covariance(const CandidateFeatures& features, std::size_t a, std::size_t b) {
  double squared = 0;
  for (std::size_t f = 0; f < features.list.size(); ++f) {
    const double difference = static_cast<double>(features.list[f].values[a]) - features.list[f].values[b];
    const double apart = features.list[f].label ? (difference == 0 ? 0.0 : 1.0) : difference * difference;
    squared += std::exp(2 * parameters.log_weight[f]) * apart;
  }
  const double r = std::sqrt(5 * squared);
  return std::exp(parameters.log_variance) * (1 + r + r * r / 3) * std::exp(-r);
}

/// Solves A x = b by Gaussian elimination: the slow, plain way.
std::vector<double> solve(std::vector<std::vector<double>> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

struct Posterior {
  std::vector<double> mean, variance;
};

Posterior by_elimination(const CandidateFeatures& features, const std::vector<std::size_t>& observed,
                         const std::vector<double>& targets) {
  const double noise = std::exp(parameters.log_noise) + noise_floor;
  std::vector<std::vector<double>> gram;
  for (std::size_t i = 0; i < observed.size(); ++i) {
    gram.emplace_back();
    for (std::size_t j = 0; j < observed.size(); ++j) {
      gram[i].push_back(covariance(features, observed[i], observed[j]) + (i == j ? noise : 0));
    }
  }
  const std::vector<double> alpha = solve(gram, targets);
  Posterior posterior;
  for (std::size_t c = 0; c < features.size; ++c) {
    std::vector<double> across;
    for (const std::size_t o : observed) across.push_back(covariance(features, o, c));
    const std::vector<double> weights = solve(gram, across);
    double mean = 0, explained = 0;
    for (std::size_t i = 0; i < observed.size(); ++i) {
      mean += across[i] * alpha[i];
      explained += across[i] * weights[i];
    }
    posterior.mean.push_back(mean);
    posterior.variance.push_back(covariance(features, c, c) - explained);
  }
  return posterior;
}

TEST(GaussianProcess, AgreesWithElimination) {
  const CandidateFeatures features = random_features(60, 7);
  GaussianProcess process(features, parameters);
  std::vector<std::size_t> observed;
  std::vector<double> targets;
  for (std::size_t i = 0; i < 23; ++i) {  // four rows at a time, and a rest
    observed.push_back(i * 2);
    targets.push_back(std::sin(static_cast<double>(i)));
    process.add(observed.back());
  }
  const Posterior expected = by_elimination(features, observed, targets);
  const std::vector<float> mean = process.mean(targets);
  for (std::size_t c = 0; c < features.size; ++c) {
    EXPECT_NEAR(mean[c], expected.mean[c], 2e-4) << c;
    EXPECT_NEAR(process.variance()[c], expected.variance[c], 2e-4) << c;
  }
}

TEST(GaussianProcess, TakesAnObservationBack) {
  const CandidateFeatures features = random_features(40, 8);
  GaussianProcess process(features, parameters);
  const std::vector<double> targets = {1, -1, 0.5};
  for (const std::size_t c : {3U, 9U, 20U}) process.add(c);
  const std::vector<float> mean = process.mean(targets);
  const std::vector<float> variance(process.variance().begin(), process.variance().end());
  process.add(30);
  EXPECT_LT(process.variance()[30], 0.1F * variance[30]);
  process.remove_last();
  EXPECT_EQ(process.mean(targets), mean);
  for (std::size_t c = 0; c < features.size; ++c) EXPECT_NEAR(process.variance()[c], variance[c], 1e-5) << c;
}

/// Targets that depend on feature 0 strongly, on the label, and on nothing else.
std::vector<double> targets_of(const CandidateFeatures& features, const std::vector<std::size_t>& candidates) {
  std::vector<double> targets;
  for (const std::size_t c : candidates) {
    targets.push_back(std::sin(6.0 * static_cast<double>(features.list[0].values[c])) +
                      (features.list[3].values[c] == 1.0F ? 0.8 : -0.4));
  }
  return targets;
}

TEST(CovarianceFit, FindsTheFeaturesThatMatter) {
  const CandidateFeatures features = random_features(80, 9);
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < 60; ++i) candidates.push_back(i);
  const CovariancePrior prior = default_prior(features);
  CovarianceFit fit(features, candidates, targets_of(features, candidates), prior.mean, prior);
  const double before = fit.loss();
  double last = before;
  while (fit.evaluations() < 60 && fit.advance()) {
    EXPECT_LE(fit.loss(), last);
    last = fit.loss();
  }
  EXPECT_LT(fit.loss(), before - 20);
  const CovarianceParameters found = fit.best();
  EXPECT_GT(found.log_weight[0], found.log_weight[1] + 1);
  EXPECT_GT(found.log_weight[0], found.log_weight[2] + 1);
  EXPECT_GT(found.log_weight[3], found.log_weight[1] + 0.5);
}

TEST(CovarianceFit, GivesTheSameEveryTime) {
  const CandidateFeatures features = random_features(50, 10);
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < 30; ++i) candidates.push_back(i);
  const CovariancePrior prior = default_prior(features);
  CovarianceFit one(features, candidates, targets_of(features, candidates), prior.mean, prior);
  CovarianceFit other(features, candidates, targets_of(features, candidates), prior.mean, prior);
  for (int step = 0; step < 6; ++step) one.advance();
  for (int step = 0; step < 6; ++step) other.advance();
  EXPECT_EQ(one.best().log_weight, other.best().log_weight);
  EXPECT_EQ(one.loss(), other.loss());
}

TEST(CovarianceFit, ExpectsLittleOfWhatOnlyTellsValuesApart) {
  CandidateFeatures features = random_features(10, 11);
  features.list[3].minor = true;
  const CovariancePrior prior = default_prior(features);
  EXPECT_EQ(prior.mean.log_weight[0], 0);
  EXPECT_LT(prior.mean.log_weight[3], -1);
}

}  // namespace
}  // namespace stitch::search
