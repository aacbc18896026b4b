#include "search/trials/transfer_prior.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stitch::search {
namespace {

constexpr std::size_t most_references = 1024;  ///< points that missing ones are interpolated from

/// Mean of what is known around a candidate, weighted by nearness.
float interpolate(const CandidateFeatures& features, std::size_t candidate, const std::vector<std::size_t>& references,
                  const std::vector<float>& values) {
  double sum = 0, total = 0;
  for (const std::size_t reference : references) {
    const double squared = squared_distance(features, candidate, reference);
    const double weight = std::exp(-8 * std::sqrt(squared)) + 1e-12;
    sum += weight * values[reference];
    total += weight;
  }
  return sum / total;
}

}  // namespace

Result<TransferPrior> make_transfer_prior(const CandidateSpace& own, const CandidateSpace& neighbour,
                                          std::span<const NeighbourTrial> trials) {
  TransferPrior prior;
  prior.log_time.assign(own.size(), 0.0F);
  prior.failed.assign(own.size(), 0);
  std::vector<const NeighbourTrial*> trial_of(neighbour.size(), nullptr);
  for (const NeighbourTrial& trial : trials) trial_of.at(trial.candidate) = &trial;
  const auto matched = own.match(neighbour);
  if (std::ranges::none_of(matched, [](const auto& other) { return other.has_value(); })) {
    return make_error(ErrorKind::invalid_argument, "no candidate of the neighbour has the same parameters and values");
  }
  std::vector<std::size_t> references, missing;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const NeighbourTrial* trial = matched[i] ? trial_of[*matched[i]] : nullptr;
    prior.failed[i] = trial != nullptr && !trial->time_us ? 1 : 0;
    if (trial != nullptr && trial->time_us) {
      prior.log_time[i] = std::log(*trial->time_us);
      references.push_back(i);
    } else {
      missing.push_back(i);
    }
  }
  prior.matched = references.size();
  if (references.empty()) {
    return make_error(ErrorKind::invalid_argument, "no trial of the neighbour succeeded at a candidate of this space");
  }
  if (references.size() > most_references) {  // evenly spread: spaces are listed parameter by parameter
    std::vector<std::size_t> fewer;
    for (std::size_t k = 0; k < most_references; ++k) {
      fewer.push_back(references[k * references.size() / most_references]);
    }
    references = std::move(fewer);
  }
  for (const std::size_t i : missing) {
    prior.log_time[i] = interpolate(own.features(), i, references, prior.log_time);
  }
  return prior;
}

TransferPrior carry_over(const CandidateSpace& joint, std::span<const float> log_predicted,
                         std::span<const float> errors) {
  TransferPrior prior;
  const std::size_t own = log_predicted.size();
  prior.log_time.assign(log_predicted.begin(), log_predicted.end());
  prior.failed.assign(own, 0);
  prior.matched = errors.size();
  if (errors.empty()) return prior;
  std::vector<float> error_of(own + errors.size());
  std::copy(errors.begin(), errors.end(), error_of.begin() + own);
  std::vector<std::size_t> references(errors.size());
  std::iota(references.begin(), references.end(), own);
  for (std::size_t i = 0; i < own; ++i) prior.log_time[i] += interpolate(joint.features(), i, references, error_of);
  return prior;
}

}  // namespace stitch::search
