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
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

/// A plan that a store serves, with the machine code of its launches.
struct ServedPlan {
  api::Plan plan;
  std::vector<profiler::KernelImage> images;  ///< by launch
};

/// What stitchd and offline runs keep of tuned fragments, by the same rules: who is served, who has to wait, what was
/// found out about candidates. Safe to use from several threads.
class TuningStore {
 public:
  /// Records the devices that judge. All arguments must outlive it. Errors: those of the store.
  static Result<std::unique_ptr<TuningStore>> open(db::Store& store, const Tuner& tuner, const Clock& clock);

  /// Tuner::predict, with what was measured of fragments like it.
  Result<TunedFragment> predict(const graph::Graph& canonical, std::string_view name) const;
  /// Tuner::tune, beside the plan that is served for the fragment, or with what was measured of fragments like it.
  Result<TunedFragment> tune(const graph::Graph& canonical, const Hash128& key, std::string_view name,
                             const ProgressSink& progress, std::stop_token stop, const search::FusionPlan* plan) const;

  /// Stores a fragment with its plan, what became of the candidates, and who is served from now on.
  Status keep(const TunedFragment& tuned);
  /// What a search of one kernel of the fragment brought.
  Status keep(const db::Fragment& fragment, const KernelTuning& tuning);
  /// The model with its report; fragments without a plan are left out.
  Status keep(db::Workload workload);

  /// Whether tuning the fragment again would find nothing new: its plan is verified, and measured where there is a
  /// timer.
  [[nodiscard]] bool is_settled(const Hash128& fragment) const;
  [[nodiscard]] bool is_settled(const api::Plan& served) const;  ///< the same of the plan that is served for it
  /// The plan that is served for the fragment now. Errors: those of the store.
  [[nodiscard]] Result<std::optional<ServedPlan>> served(const Hash128& fragment) const;
  /// What was tried of the fragment's kernels before, and of kernels like them. Errors: those of the store.
  [[nodiscard]] Result<FragmentHistory> history(const Hash128& fragment, const Hash128& family) const;
  /// Takes out of service what was predicted for the fragment and then found to be wrong.
  Status withdraw_unverified(const Hash128& fragment, std::string_view reason);

  [[nodiscard]] db::Provenance provenance(std::string_view judged) const;

 private:
  TuningStore(db::Store& store, const Tuner& tuner, const Clock& clock) : store_(store), tuner_(tuner), clock_(clock) {}
  Status record(const profiler::DeviceIdentity& device);
  Status keep_trials(const std::vector<db::Candidate>& candidates, const std::vector<db::Measurement>& measurements);
  [[nodiscard]] bool is_settled(double verified_share, bool measured) const;

  db::Store& store_;
  const Tuner& tuner_;
  const Clock& clock_;
};

}  // namespace stitch::tuning
