#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "search/schedule/scorer.h"
#include "search/trials/transfer_prior.h"
#include "search/trials/trial_search.h"
#include "tuning/kernels/kernel_space.h"
#include "tuning/kernels/kernel_workshop.h"

namespace stitch::tuning {

/// What became of a schedule before, as cost models see it.
struct KnownTrial {
  Hash128 schedule;
  search::TrialOutcome outcome;
  double analytical_us = 0;          ///< of the schedule where it was tried; 0: not known
  std::vector<float> features = {};  ///< of the schedule where it was tried; empty: not known
  Hash128 plan = {};                 ///< of a near one: the measured plan whose kernels were tried
};

/// What is known of a kernel before it is searched.
struct KernelHistory {
  std::vector<KnownTrial> own;   ///< of the kernel itself on the device that measures now
  std::vector<KnownTrial> near;  ///< of the kernel elsewhere, or of kernels of its family
};

struct KernelSearchOptions {
  KernelSpaceOptions space = {.candidates = 1000, .combinations = 512};
  std::uint64_t seed = 1;
  std::size_t batch = 8;  ///< candidates that are built side by side; does not depend on the threads there are
};

/// Chooses which candidate of a kernel is tried next: the engine of search/trials/trial_search.h over the kernel's wide
/// space (tuning/kernels/kernel_space.h), described by the features that are known before compilation. The predicted
/// times stand where a neighbour's would; measured neighbours correct them. What was measured in an earlier run counts
/// as observed, but for the fastest, which are tried first: times of another run are no base for a choice.
class KernelSearch {
 public:
  /// `timer`: only what it can measure is proposed; null: everything. Errors: constraint (nothing is legal, or can be
  /// measured), those of enumeration.
  static Result<std::unique_ptr<KernelSearch>> create(const search::SharedKernel& kernel, const search::Scorer& scorer,
                                                      const KernelSearchOptions& options, const KernelHistory& history,
                                                      const KernelTimer* timer = nullptr);

  /// The next candidates, at most `most` and a batch; empty when the space has no other.
  std::vector<KernelCandidate> propose(std::size_t most);
  /// What came of a candidate, of this search or of another; one that is not in the space, or could not be timed, says
  /// nothing.
  void observe(const Trial& trial);

  /// Whether no candidate's optimistic bound is worth a trial any more.
  [[nodiscard]] bool settled() const { return search_->settled(); }
  [[nodiscard]] std::size_t size() const { return space_.size(); }
  [[nodiscard]] const search::TransferPrior& prior() const { return prior_; }

 private:
  KernelSearch() = default;
  void recall(const KernelHistory& history);
  [[nodiscard]] KernelCandidate candidate(std::size_t place) const;

  search::SharedKernel kernel_;
  std::vector<search::StitchCandidate> wide_;
  search::CandidateSpace space_;
  search::TransferPrior prior_;
  std::unique_ptr<search::TrialSearch> search_;
  std::unordered_map<Hash128, std::size_t> by_schedule_;
  std::vector<char> tried_;
  std::vector<std::size_t> recalled_;  ///< the fastest of an earlier run, fastest last
};

/// The best schedules of the usual choices for a kernel, best first by what its measured neighbours say of them; empty
/// when those say nothing that can be carried over. Cheap enough for a plan that somebody waits for. Errors: those of
/// enumeration.
Result<std::vector<KernelCandidate>> near_candidates(const search::SharedKernel& kernel, const search::Scorer& scorer,
                                                     const std::vector<KnownTrial>& near);

/// What a search brought.
struct SearchOutcome {
  std::vector<Trial> trials;     ///< in the order in which they were tried; what is known of them, no code
  std::int64_t failed = 0;       ///< trials that failed
  bool settled = false;          ///< nothing that is worth a trial is left
  bool changed = false;          ///< another candidate is the kernel's fastest now
  double before = 0, after = 0;  ///< medians of the fastest, in the timer's unit; 0: it could not be timed
  bool in_us = false;            ///< that unit is time
};

/// Builds, verifies and measures up to `trials` candidates that the search proposes; the fastest is the workshop's from
/// then on. The first few (KernelWorkshop::measure) come before, and are not counted. `progress` is told how many were
/// tried. Ends early, without error, at a stop and when a whole batch could not be timed. Errors: why none of the first
/// few is right; unavailable (no timer).
Result<SearchOutcome> search_kernel(KernelWorkshop& workshop, const search::SharedKernel& kernel, KernelSearch& search,
                                    int trials, const std::stop_token& stop, const std::function<void(int)>& progress);

}  // namespace stitch::tuning
