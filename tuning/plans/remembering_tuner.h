#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "db/store.h"
#include "tuning/kernels/kernel_history.h"
#include "tuning/kernels/kernel_timer.h"
#include "tuning/plans/call_record.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

/// A plan of a store, with the machine code of its launches.
struct ServedPlan {
  api::Plan plan;
  std::vector<profiler::KernelImage> images;  ///< by launch
};

/// A tuner with a memory, which is the store: it gives the tuner what was found out before (the plan that is served
/// now, what was tried, what was measured of fragments like it), and keeps what the tuner finds by the rules of who is
/// served (tuning/plans/admission.h). stitchd's jobs and `stitch tune --db` use the same one, so that a database does
/// not tell which of them filled it:
///
///   STITCH_ASSIGN(const auto remembering, RememberingTuner::open(store, tuner, clock));
///   if (!remembering->is_settled(key)) {
///     STITCH_ASSIGN(const TunedFragment tuned, remembering->tune({.fragment = canonical, .name = "softmax"}));
///     STITCH_TRY(remembering->keep(tuned));
///   }
///
/// Safe to use from several threads.
class RememberingTuner {
 public:
  /// Records the devices that judge. All arguments must outlive it. Errors: those of the store.
  static Result<std::unique_ptr<RememberingTuner>> open(db::Store& store, const Tuner& tuner, const Clock& clock);

  /// Tuner::predict, with what was measured of fragments like it.
  Result<TunedFragment> predict(PlanRequest request) const;
  /// Tuner::tune, beside the plan that is served for the fragment, or with what was measured of fragments like it. Of a
  /// fragment that gets no plan because its kernels are wrong it stores what became of them.
  Result<TunedFragment> tune(PlanRequest request);

  /// Stores a fragment with its plan, what became of the candidates, and who is served from now on.
  Status keep(const TunedFragment& tuned);
  /// Stores what a search of one kernel of the fragment brought.
  Status keep(const db::FragmentRecord& fragment, const TrialRecords& trials);
  /// Stores what was measured of a library's call, given the canonical graph of what it computes, or that it hung or
  /// ended the runner.
  Status keep_call(const graph::Graph& call, const Result<profiler::MeasuredCall>& measured);
  /// What is stored of it for the device that measures now, or, where none does, for any of the target; nothing: it was
  /// not measured there. Errors: those of the store.
  [[nodiscard]] Result<std::optional<CallTime>> call_time(const graph::Graph& call) const;
  /// Stores the model with its report; fragments without a plan are left out.
  Status keep(db::Workload workload);

  /// Whether tuning the fragment again would find nothing new: its plan is verified, though nothing of its results may
  /// have been compared, and measured where there is a timer.
  [[nodiscard]] bool is_settled(const Hash128& fragment) const;
  /// Whether tuning the fragment that this plan is served for would find nothing new.
  [[nodiscard]] bool is_settled(const api::Plan& served) const;
  /// Whether the fragment that is stored under the key is this one, or none is: keys are no cryptographic hashes.
  /// Errors: those of the store.
  [[nodiscard]] Result<bool> is_stored_as(const Hash128& fragment, const graph::Graph& graph) const;
  /// Whether any plan is served for the fragment, and what it says; without reading code. Errors: those of the store.
  [[nodiscard]] bool has_plan(const Hash128& fragment) const;
  [[nodiscard]] Result<std::optional<api::Plan>> plan_of(const Hash128& fragment) const;
  /// The plan of another environment (an earlier toolkit or generator, or a later one after a downgrade) that is served
  /// in the place of `own`, the plan of this one, until that is as well founded; nothing when there is none or `own`
  /// is. Errors: those of the store.
  [[nodiscard]] Result<std::optional<api::Plan>> stale(const Hash128& fragment, const api::Plan* own) const;
  /// The plan that is served for the fragment now. Errors: those of the store.
  [[nodiscard]] Result<std::optional<ServedPlan>> served(const Hash128& fragment) const;
  /// A plan that is stored under this id, served or not; nothing when it, or code of it, is not there or is damaged.
  /// Errors: those of the store; constraint (it was withdrawn).
  [[nodiscard]] Result<std::optional<ServedPlan>> stored(const Hash128& plan) const;
  /// What was tried of the fragment's kernels before, and of kernels like them. Errors: those of the store.
  [[nodiscard]] Result<FragmentHistory> history(const Hash128& fragment, const Hash128& family) const;
  /// Takes out of service what was predicted for the fragment and then found to be wrong.
  Status withdraw_unverified(const Hash128& fragment, std::string_view reason);

  [[nodiscard]] db::Provenance provenance(std::string_view judged) const;

 private:
  RememberingTuner(db::Store& store, const Tuner& tuner, const Clock& clock)
      : store_(store), tuner_(tuner), clock_(clock) {}
  Status record(const profiler::DeviceIdentity& device);
  Result<TunedFragment> tune_beside_known(PlanRequest request) const;
  Status keep(const TrialRecords& trials);
  Status announce_if_overtaking(const db::PlanRecord& before);
  [[nodiscard]] bool is_settled(bool verified, bool measured) const;

  db::Store& store_;
  const Tuner& tuner_;
  const Clock& clock_;
};

}  // namespace stitch::tuning
