#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "search/trials/candidate_space.h"
#include "search/trials/surrogate.h"
#include "search/trials/transfer_prior.h"

namespace stitch::search {

/// Why a candidate is tried.
enum class ProposalReason : unsigned char {
  initial,               ///< to cover the space before there is a model
  near,                  ///< fast on a measured neighbour, or predicted to be
  expected_improvement,  ///< promises most over the best so far, uncertainty counted; without a neighbour, risk too
  local_move,            ///< differs in one parameter from one of the fastest
  exploration,           ///< optimistic bound: after trials that brought nothing, where least is known
  switched,              ///< the fastest with its switches set otherwise
  random
};
std::string_view to_string(ProposalReason reason);

struct Proposal {
  std::size_t candidate = 0;
  ProposalReason reason = ProposalReason::initial;

  bool operator==(const Proposal&) const = default;
};

/// How a trial ended: a time, or one of the candidate outcomes of ErrorKind (constraint, compile, timeout, runtime,
/// correctness).
struct TrialOutcome {
  double time_us = 0;
  std::optional<ErrorKind> failure;
};

struct TrialSearchOptions {
  std::uint64_t seed = 0;
  std::size_t batch = 1;         ///< proposals at once
  bool random = false;           ///< every candidate equally likely: the baseline
  std::size_t initial = 15;      ///< trials that cover the space
  std::size_t near = 5;          ///< of the neighbour's fastest, tried first, when there is a neighbour
  std::size_t initial_near = 5;  ///< trials that cover the space after those
  int patience = 4;              ///< trials without a faster candidate before exploration begins
  double explore = 0.5;          ///< share of explorations after that
  double local = 0;              ///< share of local moves after that
  int patience_switched = 12;    ///< trials without a faster candidate before the fastest's switches are tried
  double least_valid = 0.5;      ///< candidates less likely to run than this, times the share that ran, are passed over
  double least_valid_near = 0.25;  ///< the same when there is a neighbour
  double optimism = 2;             ///< standard deviations of an exploration's bound
  double improvement = 0.05;       ///< what a trial is after, as a share of the best time; less counts for little
  double certainty = 5;            ///< standard deviations of the bound that ends a search
  double least_gain = 0.01;        ///< an improvement that is worth a trial, as a share of the time
  SurrogateOptions surrogate;
};

/// Chooses which candidates of a space to try, one batch after the other, from what came of those before. Everything
/// follows from the seed and the outcomes, in the order in which they are observed. Knows nothing of how a trial is
/// done; the space, and the prior if there is one, outlive the search.
class TrialSearch {
 public:
  TrialSearch(const CandidateSpace& space, TrialSearchOptions options, const TransferPrior* prior = nullptr);

  /// The next candidates, at most a batch and `most`, none proposed before; empty when the space has no other.
  std::vector<Proposal> propose(std::size_t most = std::numeric_limits<std::size_t>::max());
  /// What came of a candidate. One that was never proposed may be observed too (an incumbent, an earlier run). Errors
  /// (invalid_argument): no such candidate, observed before, a time that is not positive and finite.
  Status observe(std::size_t candidate, const TrialOutcome& outcome);

  /// The fastest candidate so far, with its time in µs.
  struct Best {
    std::size_t candidate = 0;
    double time_us = 0;
  };
  [[nodiscard]] std::optional<Best> best() const { return best_; }
  /// Whether no candidate's optimistic bound is worth a trial any more, as of the last proposal: a reason to stop.
  [[nodiscard]] bool settled() const { return settled_; }
  /// Observed so far, failures included.
  [[nodiscard]] std::size_t trials() const { return trials_; }

 private:
  [[nodiscard]] Proposal cover();
  [[nodiscard]] std::optional<Proposal> recall();
  /// Open candidates that are likely enough to run; all open ones when none is.
  [[nodiscard]] std::vector<char> worth_a_trial(const Prediction& prediction) const;
  /// The fastest with its switches set otherwise: the one of the most optimistic bound, if any is worth a trial. Only
  /// without a prior, which says what they do; and after many trials that brought nothing.
  [[nodiscard]] std::optional<Proposal> switched(const Prediction& prediction, const std::vector<char>& worthwhile);
  [[nodiscard]] double optimistic_bound(const Prediction& prediction, std::size_t candidate) const;
  /// Logarithm of the chance to run, as far as it weighs.
  [[nodiscard]] double log_valid(const Prediction& prediction, std::size_t candidate) const;
  Proposal choose(const Prediction& prediction);
  Proposal draw();
  [[nodiscard]] std::vector<std::size_t> around_fastest() const;
  void judge(const Prediction& prediction);
  [[nodiscard]] bool trusts_prior() const { return prior_ != nullptr && !prior_->doubtful; }
  void take(const Proposal& proposal, std::vector<Proposal>& batch);
  /// Trials before the surrogate chooses: the neighbour's fastest, and those that cover the space.
  [[nodiscard]] std::size_t first_trials() const;

  enum class State : unsigned char { open, pending, done };

  const CandidateSpace* space_;
  TrialSearchOptions options_;
  const TransferPrior* prior_;
  Random random_;
  Surrogate surrogate_;
  std::vector<State> states_;
  std::size_t open_ = 0, trials_ = 0, failures_ = 0, proposed_ = 0;
  std::vector<float> distance_;                          ///< to the nearest proposed or observed candidate, squared
  std::vector<std::size_t> near_;                        ///< the neighbour's fastest, fastest first
  std::vector<std::pair<double, std::size_t>> fastest_;  ///< the few fastest: time, candidate
  std::optional<Best> best_;
  int idle_ = 0;  ///< trials since the best
  bool settled_ = false;
};

}  // namespace stitch::search
