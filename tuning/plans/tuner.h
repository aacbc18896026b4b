#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "api/protocol.h"
#include "base/clock.h"
#include "base/device_spec.h"
#include "base/file.h"
#include "base/result.h"
#include "codegen/artifact_cache.h"
#include "codegen/compiler.h"
#include "costmodel/trained_model.h"
#include "db/trial_records.h"
#include "graph/graph.h"
#include "profiler/device/device.h"
#include "profiler/measure/sample_comparison.h"
#include "profiler/verify/verify.h"
#include "search/partition/fusion_explorer.h"
#include "search/partition/loop_choice.h"
#include "tuning/kernels/kernel_search.h"
#include "tuning/kernels/kernel_timer.h"
#include "tuning/models/model_report.h"

namespace stitch::tuning {

/// How far a long task is. `share` never falls within one task.
struct Progress {
  std::string stage;   ///< "plan", "codegen", "verify", …
  double share = 0;    ///< 0 … 1 of the whole task
  std::string detail;  ///< "kernel 3 of 12"
};
using ProgressSink = std::function<void(const Progress&)>;

struct TunerOptions {
  std::string target = "h100";            ///< entry of the device table that is planned for
  std::optional<DeviceSpec> device;       ///< instead of the entry: what daemon::planning_device found out
  std::string architecture;               ///< compiled for; empty: the target's
  std::filesystem::path artifact_folder;  ///< compiled kernels are kept here; empty: not kept
  search::FusionOptions fusion;
  search::StitchOptions stitch;
  profiler::VerifyOptions verify;
  bool compiles = true;         ///< false: explores only, and needs no NVRTC
  int measured_candidates = 6;  ///< of each kernel, where there is a timer
  int compiled_candidates = 0;  ///< of each kernel before any is verified; 0: as WorkshopOptions says
  KernelSearchOptions search;   ///< of kernels, beyond those; its seed is that of verification
  int threads = 0;              ///< 0: one per hardware thread
  /// Predicts times with the combined cost model that this is; null: with the analytical one.
  std::shared_ptr<const costmodel::TrainedCostModel> cost_model;
};

/// One kernel of a plan with everything that was found out about it.
struct KernelReport {
  Hash128 key;  ///< of its canonical graph
  std::string name;
  std::string source;
  codegen::ResourceUsage resources;
  double predicted_us = 0;
  double estimated_us = 0;  ///< the same after compilation (BuiltKernel)
  int candidate = 0;        ///< which of the kernel's candidates, by prediction
  int candidates = 0;       ///< that there were
  int overtaken = 0;        ///< candidates with better predictions that it was put ahead of after compilation
  std::optional<profiler::Verification> verification;
  std::optional<profiler::Measurement> measurement;
};

/// A fragment that was worked on, ready for the store and for a client.
struct TunedFragment {
  db::Fragment fragment;
  api::Plan plan;
  db::PlanBundle bundle;  ///< what put_plan takes: plan, kernels, artifacts
  std::vector<db::Candidate> candidates;
  std::vector<db::Measurement> measurements;  ///< of candidates, by schedule, and of the plan that was compared with
  std::optional<profiler::SampleComparison> comparison;  ///< with that plan, measured side by side
  std::vector<KernelReport> kernels;                     ///< by launch
  StageSeconds seconds;
};

class FragmentHistory;

/// What a search among the candidates of one kernel brought, ready for the store.
struct KernelTuning {
  Hash128 kernel;
  std::int64_t tried = 0, failed = 0;  ///< candidates beyond the first few
  bool settled = false;                ///< nothing that is worth a trial is left
  bool changed = false;                ///< another candidate is the kernel's fastest now
  double before = 0, after = 0;        ///< medians of the fastest, in the timer's unit
  bool in_us = false;                  ///< that unit is time
  std::vector<db::Candidate> candidates;
  std::vector<db::Measurement> measurements;
};

/// The stages from a canonical fragment to a plan, tied together: search → codegen → compile → verify → measure. Shares
/// its caches between calls; safe to use from several threads.
class Tuner {
 public:
  /// `device` is where plans are verified, `timer` where they are measured (null: nowhere); they, `files` and `clock`
  /// must outlive the tuner. Errors: not_found (target), unavailable (NVRTC), unsupported (architecture),
  /// invalid_argument (a model that is not for the target).
  static Result<std::unique_ptr<Tuner>> create(TunerOptions options, profiler::Device& device, KernelTimer* timer,
                                               FileSystem& files, const Clock& clock);
  ~Tuner();

  /// What plans are made for: the fields by which the store finds them.
  [[nodiscard]] const db::Target& target() const;
  [[nodiscard]] const search::Scorer& scorer() const;
  /// What predicts, for records: "analytical v1", "combined, trained on 1a2b3c4d".
  [[nodiscard]] const std::string& scorer_name() const;
  /// The devices that plans are verified and measured on; the first one verifies.
  [[nodiscard]] const std::vector<profiler::DeviceIdentity>& judges() const;
  /// Whether tune measures what it verified.
  [[nodiscard]] bool measures() const;

  /// The record of a fragment. `canonical` must be a canonical form's graph.
  Result<db::Fragment> describe(const graph::Graph& canonical, std::string_view name) const;

  /// Partition and schedules only; nothing is compiled.
  Result<search::FusionPlan> explore(const graph::Graph& canonical) const;
  /// Whether a loop, with nothing beside it, is expected to take less time as one kernel than turn by turn.
  [[nodiscard]] bool runs_in_one_kernel(const graph::Graph& loop) const;
  /// Every operator in a kernel of its own: what a plan is compared with.
  Result<search::UnfusedFragment> unfused(const graph::Graph& canonical) const;

  /// Whether whole plans are measured, too.
  [[nodiscard]] bool measures_plans() const;

  /// How much faster the kernel could be at most, µs: what it takes (measured if it can be, and then measured here if
  /// it was not yet; else predicted) beyond a launch and its bytes at the device's bandwidth. 0: no candidate is right.
  [[nodiscard]] double headroom_us(const search::SharedKernel& kernel) const;

  /// Candidates that a search builds side by side: what less is not worth to begin with.
  [[nodiscard]] std::int64_t trials_at_once() const;
  /// Searches the kernel's wide space with so many trials; tune takes the fastest from then on. `fragment`: key of one
  /// that the kernel is part of. Errors: unavailable (no timer), cancelled, those of enumeration; why no candidate is
  /// right.
  Result<KernelTuning> search(const search::SharedKernel& kernel, const Hash128& fragment, std::int64_t trials,
                              const KernelHistory& history, const ProgressSink& progress,
                              const std::stop_token& stop) const;

  /// The kernel that tune chose (or the first that builds, if it was not tuned); null when none builds.
  [[nodiscard]] std::shared_ptr<const BuiltKernel> built(const search::SharedKernel& kernel) const;

  /// A plan that can be served now: explored, generated and compiled, not verified. Labelled `predicted`, or `near`
  /// when `history` (may be null) has measured neighbours of all its kernels and they chose the schedules.
  Result<TunedFragment> predict(const graph::Graph& canonical, std::string_view name,
                                const FragmentHistory* history = nullptr) const;

  /// The best plan whose every kernel was verified on the device. A candidate that fails is recorded with its outcome
  /// and seed, and the next one is taken. With a timer, several candidates of each kernel are measured and the fastest
  /// are taken; then the whole plan is, beside `incumbent` (the plan that is served for the fragment now; may be null).
  /// `plan`: what explore gave for the fragment; explored anew when null. `history`: as for predict, without a timer.
  /// Errors: cancelled; correctness when no candidate is right; compile.
  Result<TunedFragment> tune(const graph::Graph& canonical, std::string_view name, const ProgressSink& progress,
                             std::stop_token stop, const search::FusionPlan* plan = nullptr,
                             const RunnablePlan* incumbent = nullptr, const FragmentHistory* history = nullptr) const;

 private:
  struct State;
  explicit Tuner(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace stitch::tuning
