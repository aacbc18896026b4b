#pragma once

#include <tbb/task_arena.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/version.h"
#include "tuning/kernels/kernel_history.h"
#include "tuning/kernels/kernel_workshop.h"
#include "tuning/plans/tuner.h"

// What a tuner is made of: tuning/plans/tuner.cpp ties the stages together, tuning/plans/tuner_search.cpp has what
// chooses candidates by measurements, tuning/plans/tuner_records.cpp what is told of them to the store. For those three
// only.
namespace stitch::tuning {

/// Candidates of a plan's kernels in the order that measured neighbours give them.
struct NearChoices {
  std::map<Hash128, std::vector<KernelCandidate>> candidates;  ///< by kernel
  std::optional<Hash128> neighbour;  ///< the measured plan that says most; nothing unless all kernels have neighbours

  [[nodiscard]] const std::vector<KernelCandidate>* of(const Hash128& kernel) const {
    const auto found = candidates.find(kernel);
    return neighbour && found != candidates.end() ? &found->second : nullptr;
  }
};

struct Tuner::State {
  TunerOptions options;
  DeviceSpec device;
  db::Target target;
  std::unique_ptr<codegen::NvrtcCompiler> nvrtc;  ///< null: explores only
  std::string toolkit;                            ///< of NVRTC: "13.0.88"
  std::unique_ptr<codegen::ArtifactCache> artifacts;
  std::unique_ptr<codegen::CachingCompiler> caching;
  std::unique_ptr<search::Scorer> scorer;
  std::string scorer_name;
  std::unique_ptr<search::KernelCache> kernels;
  std::unique_ptr<KernelWorkshop> workshop;  ///< null: explores only
  KernelTimer* timer = nullptr;
  std::vector<profiler::DeviceIdentity> judges;  ///< the first verifies, the last measures
  const Clock* clock = nullptr;
  mutable tbb::task_arena arena;

  [[nodiscard]] const std::string& verifier() const { return judges.front().key; }
  [[nodiscard]] db::Provenance provenance(std::string judged, std::string on) const {
    return {std::string(tool_version), toolkit, std::move(on), clock->wall_us(), std::move(judged)};
  }

  Result<TunedFragment> work(const graph::Graph& canonical, std::string_view name, const search::FusionPlan* plan,
                             bool verify, const ProgressSink& progress, std::stop_token stop,
                             const RunnablePlan* incumbent, const FragmentHistory* history) const;
  Status make_kernels(const search::FusionPlan& fusion, bool verify, const NearChoices& near,
                      const ProgressSink& progress, const std::stop_token& stop,
                      std::vector<std::shared_ptr<const BuiltKernel>>& built, TunedFragment& tuned) const;
  [[nodiscard]] NearChoices choose_near(const search::FusionPlan& fusion, const FragmentHistory& history) const;
  void record_trials(const Hash128& fragment, const search::ExploredKernel& kernel, std::span<const Trial> trials,
                     bool verified, std::vector<db::Candidate>& candidates,
                     std::vector<db::Measurement>& measurements) const;
  Status measure_plan(const graph::Graph& canonical, const std::vector<std::shared_ptr<const BuiltKernel>>& built,
                      const RunnablePlan* incumbent, TunedFragment& tuned) const;
  void record(const search::FusionPlan& fusion, const std::vector<std::shared_ptr<const BuiltKernel>>& built,
              bool verified, const std::optional<Hash128>& neighbour, TunedFragment& tuned) const;
  Result<db::Fragment> describe(const graph::Graph& canonical, std::string_view name) const;
  [[nodiscard]] double headroom_us(const search::SharedKernel& kernel) const;
  Result<KernelTuning> search(const search::SharedKernel& kernel, const Hash128& fragment, std::int64_t trials,
                              const KernelHistory& history, const ProgressSink& progress,
                              const std::stop_token& stop) const;
};

}  // namespace stitch::tuning
