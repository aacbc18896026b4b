#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "search/trials/adaptive_process.h"
#include "search/trials/transfer_prior.h"

namespace stitch::search {

/// Learns which candidates of a space run: a Gaussian process over the outcomes (least squares on labels; Rasmussen and
/// Williams, section 6.5) around the share that failed so far. What makes candidates fail, such as a product of block
/// sizes, is seldom what makes them slow, so that this process has length scales of its own. Candidates that failed on
/// a neighbour have a share of their own, and parameters of the covariance fitted to the neighbour's failures are the
/// prior's means. Costs nothing until a trial fails, and little after: of many trials, only failures and those that
/// were not expected to run are taken in.
class FailureModel {
 public:
  /// The features and the prior, if there is one, outlive the model.
  FailureModel(const CandidateFeatures& features, const TransferPrior* prior, AdaptiveOptions options);

  void observe(std::size_t candidate, bool failed);
  /// Takes in what was observed; per candidate the probability that it runs, never below `least`. Valid until the next
  /// update.
  std::span<const float> update();

  static constexpr float least = 1e-3F;

 private:
  [[nodiscard]] std::size_t group(std::size_t candidate) const;
  /// Share of a group's candidates that is expected to fail, before what is near them is looked at.
  [[nodiscard]] std::array<double, 2> shares() const;

  const CandidateFeatures* features_;
  const TransferPrior* prior_;
  AdaptiveProcess process_;
  std::vector<std::size_t> observed_;                ///< taken in by `process_`
  std::vector<char> failed_;                         ///< of `observed_`
  std::array<std::size_t, 2> tried_{}, failures_{};  ///< by group: ran or unknown on the neighbour, failed there
  std::vector<float> valid_;
};

}  // namespace stitch::search
