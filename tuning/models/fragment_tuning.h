#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tuning/models/entry_planning.h"
#include "tuning/models/model_fragments.h"
#include "tuning/models/model_report.h"
#include "tuning/models/model_search.h"
#include "tuning/plans/remembering_tuner.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

struct FragmentTuningOptions {
  std::string_view model = {};  ///< in front of the fragments' names; empty: they say it themselves
  bool verifies = true;         ///< false: plans are predicted and compiled, and any that is served settles a fragment
  bool keeps_fragments = true;  ///< for take_fragments; false where a store has them and there are many
  /// Told of each fragment when its plan is made, and stored where there is a store.
  std::function<void(const ModelFragments::Entry&, const TunedFragment&)> tuned = {};
  ProgressSink progress = {};
  std::stop_token stop = {};
};

/// What comes after planning, for the distinct fragments of one model or of many: each that is not settled gets a plan,
/// most predicted gain × occurrences first, and is stored as soon as it has it.
class FragmentTuning {
 public:
  /// `plans[i]` is of `entries[i]`; what has no plan there is left alone. `memory` (may be null) knows what is settled.
  /// All of them must outlive it.
  FragmentTuning(std::span<const ModelFragments::Entry> entries, std::span<const PlannedEntry> plans,
                 const Tuner& tuner, RememberingTuner* memory, FragmentTuningOptions options)
      : entries_(entries), plans_(plans), tuner_(tuner), memory_(memory), options_(std::move(options)) {}

  /// Plans, and with `trials` a search among the kernels, in the order of take_steps. Progress goes on from the share
  /// of the whole that planning has done. A fragment that gets no plan is noted. Errors: cancelled; those of the store.
  Status tune_and_search(double planned_until, std::int64_t trials);

  /// Whether tuning the fragment again would find nothing new.
  [[nodiscard]] bool is_settled(const Hash128& fragment) const;
  /// Fragments of which tuning made no plan, and why.
  [[nodiscard]] const std::map<Hash128, std::string>& failed() const { return failed_; }
  /// As of ModelTuning::faults.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& faults() const { return faults_; }
  [[nodiscard]] std::vector<TunedFragment> take_fragments() { return std::move(fragments_); }
  /// Adds what became of the fragments to a report.
  void finish(ModelReport& report) const;

 private:
  /// Every fragment that is not settled, and those that have one of the `changed` kernels.
  Status tune(double from, double until, const std::set<Hash128>& changed);
  /// Gives the kernels that changed (search_kernels, over all the fragments' kernels).
  Result<std::set<Hash128>> search(double from, double until, std::int64_t trials);
  [[nodiscard]] std::vector<std::size_t> by_gain() const;
  [[nodiscard]] std::vector<ModelKernel> distinct_kernels() const;
  Status tune_one(const ModelFragments::Entry& entry, const search::FusionPlan& plan, const ProgressSink& progress);
  Result<TunedFragment> make_plan(const PlanRequest& request);
  void note_fault(const db::FragmentRecord& fragment, const TrialRecords& trials, bool served);
  void note_failures(const db::FragmentRecord& fragment, const TrialRecords& trials, bool served,
                     const std::string& place);

  const std::span<const ModelFragments::Entry> entries_;
  const std::span<const PlannedEntry> plans_;
  const Tuner& tuner_;
  RememberingTuner* const memory_;
  const FragmentTuningOptions options_;
  ModelReport noted_;  ///< what finish adds
  std::vector<TunedFragment> fragments_;
  std::vector<std::pair<std::string, std::string>> faults_;
  std::set<Hash128> tuned_;                ///< fragments
  std::set<Hash128> verified_;             ///< kernels
  std::map<Hash128, std::string> failed_;  ///< fragments
  std::set<Hash128> failed_candidates_;    ///< schedules
};

}  // namespace stitch::tuning
