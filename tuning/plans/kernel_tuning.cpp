#include "tuning/plans/kernel_tuning.h"

#include <algorithm>
#include <limits>

#include "graph/traffic.h"
#include "kernel/program/traffic.h"
#include "tuning/plans/tuning_records.h"

namespace stitch::tuning {

Result<double> measure_headroom(const TuningContext& context, const search::SharedKernel& kernel,
                                const std::stop_token& stop) {
  double us = kernel->predicted_us();
  std::int64_t bytes = kernel::scheduled_bytes(kernel->graph, kernel->candidates.front().program);
  if (context.timer != nullptr) {
    const Attempts attempts = context.workshop->measure(kernel, stop);
    if (!attempts.best) return attempts.why_none();
    const auto& measurement = attempts.best->built->measurement;
    if (measurement && measurement->kind == profiler::Measurement::Kind::device_time) us = measurement->median;
  }
  // Of what is gathered a schedule knows better than the interface how much is read, of what is read twice worse.
  bytes = std::min(bytes, graph::interface_bytes(kernel->graph));
  const double least = context.device.launch_us + bytes / context.device.reachable_bandwidth() * 1e6;
  return std::max(0.0, us - least);
}

Result<SearchedKernel> search_candidates(const TuningContext& context, const SearchRequest& request) {
  STITCH_ASSIGN(const auto space, KernelSearch::create(request.kernel, *context.scorer, context.options.search,
                                                       request.history, context.timer.get()));
  const int most = std::min<std::int64_t>(request.trials, std::numeric_limits<int>::max());
  const auto progress = [&](int tried) {
    const double share = tried;
    if (request.progress)
      request.progress({"search", share / request.trials, fmt::format("trial {} of {}", tried, request.trials)});
  };
  SearchedKernel searched;
  STITCH_ASSIGN(searched.found, search_kernel(*context.workshop, request.kernel, *space, most, request.stop, progress));
  record_trials(context, request.fragment, *request.kernel, searched.found.trials, true, searched.records);
  return searched;
}

}  // namespace stitch::tuning
