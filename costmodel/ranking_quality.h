#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

namespace stitch::costmodel {

/// One candidate of a kernel on a device: what was predicted, and what was found.
struct Ranked {
  double predicted = 0;
  double measured = 0;  ///< in any unit, > 0; of a failed one: without meaning
  bool failed = false;  ///< takes a trial, and gives nothing
};

/// The candidates that a model chooses between.
using RankedGroup = std::vector<Ranked>;

/// How well predictions order candidates; means over the groups, each of which counts once however large it is. Groups
/// with fewer than two measured candidates say nothing and are left out. Equal predictions are broken by their place.
struct RankingQuality {
  static constexpr std::array<int, 3> depths = {1, 5, 10};

  std::int64_t groups = 0, candidates = 0, failed = 0;
  double spearman = 0;  ///< correlation of ranks, −1 … 1; failed candidates left out of both
  double kendall = 0;   ///< τ-b
  /// Of the k candidates that are truly fastest, how many are among the first k predicted; k: depths, 0 … 1. Of a group
  /// with fewer than k right candidates: of all of those.
  std::array<double, 3> recall{};
  /// Best measured of the first k predicted over the best of all, less 1: what tuning with k trials loses. A group
  /// whose first k all failed counts its worst measured candidate.
  std::array<double, 3> regret{};
  double worst_regret = 0;        ///< of one group, with one trial
  double trials_to_99 = 0;        ///< trials, in the order predicted, until one is within 1 % of the best
  double trials_to_99_share = 0;  ///< of the group's candidates

  bool operator==(const RankingQuality&) const = default;
};

RankingQuality ranking_quality(std::span<const RankedGroup> groups);

/// Rank correlations of two series of one length, of at least two; ties share their rank. 0 where one of them is
/// constant.
double spearman(std::span<const double> a, std::span<const double> b);
double kendall(std::span<const double> a, std::span<const double> b);

/// {"groups", "candidates", "failed", "spearman", "kendall", "recall": {"1", "5", "10"}, "regret": {…}, "worst_regret",
/// "trials_to_99", "trials_to_99_share"}
nlohmann::json to_document(const RankingQuality& quality);

}  // namespace stitch::costmodel
