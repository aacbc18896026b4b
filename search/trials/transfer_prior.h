#pragma once

#include <optional>
#include <span>
#include <vector>

#include "search/trials/candidate_space.h"

namespace stitch::search {

/// What is known of one candidate of a measured neighbour.
struct NeighbourTrial {
  std::size_t candidate = 0;      ///< in the neighbour's space
  std::optional<double> time_us;  ///< nothing: it failed there
};

/// What the trials of a neighbour (the same kernel at another shape, or on another GPU), or a cost model, let one
/// expect here.
struct TransferPrior {
  std::vector<float> log_time;  ///< per candidate of our space, up to a constant: the neighbour's where it has one,
                                ///< otherwise interpolated from the nearest that have
  std::vector<char> failed;     ///< per candidate: it failed on the neighbour
  std::size_t matched = 0;      ///< candidates that were measured there themselves
  /// Times of a model that nothing was compared with: the search covers the space and weighs failures as without a
  /// neighbour, and its length scales do not begin with those of the model.
  bool doubtful = false;
};

/// Brings a neighbour's trials to our space. Errors (invalid_argument): the spaces do not have the same parameters, no
/// trial of the neighbour succeeded at a candidate that we have.
Result<TransferPrior> make_transfer_prior(const CandidateSpace& own, const CandidateSpace& neighbour,
                                          std::span<const NeighbourTrial> trials);

/// The same for candidates that have no parameters in common: what a neighbour's trials took is told as errors of
/// predictions (ln(measured / predicted), up to a constant), and carried over to the candidates that are like them.
/// `joint` describes both, ours first. `log_predicted`: of ours. With no errors, the prior is the predictions alone.
TransferPrior carry_over(const CandidateSpace& joint, std::span<const float> log_predicted,
                         std::span<const float> errors);

}  // namespace stitch::search
