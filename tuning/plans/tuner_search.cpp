#include <algorithm>
#include <limits>
#include <set>

#include "graph/canonical.h"
#include "graph/traffic.h"
#include "kernel/program/traffic.h"
#include "tuning/plans/tuner_state.h"

// Which candidates are tried beyond the first few, and which are taken where nothing can be measured.
namespace stitch::tuning {

/// A plan is as near as the least of its kernels: one that nobody measured anything like makes it a predicted one.
NearChoices Tuner::State::choose_near(const search::FusionPlan& fusion, const FragmentHistory& history) const {
  NearChoices near;
  std::map<Hash128, int> says;  // by plan: kernels that it has something to say of
  for (const search::PlannedKernel& planned : fusion.kernels) {
    const search::SharedKernel& kernel = planned.kernel;
    if (near.candidates.contains(kernel->key)) continue;
    const auto form = graph::canonicalise(kernel->graph);
    if (!form) return {};
    const KernelHistory known = history.of(kernel->key, form->family_key);
    auto candidates = near_candidates(kernel, *scorer, known.near);
    if (!candidates || candidates->empty()) return {};
    near.candidates.emplace(kernel->key, *std::move(candidates));
    std::set<Hash128> plans;
    for (const KnownTrial& trial : known.near) plans.insert(trial.plan);
    for (const Hash128& plan : plans) ++says[plan];
  }
  const auto most = std::ranges::max_element(says, {}, [](const auto& entry) { return entry.second; });
  if (most != says.end()) near.neighbour = most->first;
  return near;
}

double Tuner::State::headroom_us(const search::SharedKernel& kernel) const {
  double us = kernel->predicted_us();
  std::int64_t bytes = kernel::scheduled_bytes(kernel->graph, kernel->candidates.front().program);
  if (timer != nullptr) {
    const std::vector<Trial> trials = workshop->measure(kernel);
    if (trials.empty() || trials.back().failure) return 0;
    const auto& measurement = trials.back().built->measurement;
    if (measurement && measurement->kind == profiler::Measurement::Kind::device_time) us = measurement->median;
  }
  // Of what is gathered a schedule knows better than the interface how much is read, of what is read twice worse.
  bytes = std::min(bytes, graph::interface_bytes(kernel->graph));
  const double least = device.launch_us + static_cast<double>(bytes) / device.reachable_bandwidth() * 1e6;
  return std::max(0.0, us - least);
}

Result<KernelTuning> Tuner::State::search(const search::SharedKernel& kernel, const Hash128& fragment,
                                          std::int64_t trials, const KernelHistory& history,
                                          const ProgressSink& progress, const std::stop_token& stop) const {
  STITCH_ASSIGN(const auto space, KernelSearch::create(kernel, *scorer, options.search, history, timer));
  const int most = std::min<std::int64_t>(trials, std::numeric_limits<int>::max());
  STITCH_ASSIGN(const SearchedKernel found, search_kernel(*workshop, kernel, *space, most, stop, [&](int tried) {
                  if (progress)
                    progress({"search", static_cast<double>(tried) / static_cast<double>(trials),
                              fmt::format("trial {} of {}", tried, trials)});
                }));
  KernelTuning tuning;
  tuning.kernel = kernel->key;
  tuning.tried = std::ssize(found.trials), tuning.failed = found.failed;
  tuning.settled = found.settled, tuning.changed = found.changed;
  tuning.before = found.before, tuning.after = found.after;
  tuning.in_us = found.in_us;
  record_trials(fragment, *kernel, found.trials, true, tuning.candidates, tuning.measurements);
  return tuning;
}

}  // namespace stitch::tuning
