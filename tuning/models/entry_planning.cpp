#include "tuning/models/entry_planning.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace stitch::tuning {
namespace {

using Entry = ModelFragments::Entry;

PlannedEntry plan_entry(const Entry& entry, const Tuner& tuner, const EntryPlanning& how) {
  PlannedEntry plan;
  if (!how.explores || how.explores(entry)) {
    // One token has to do for both reasons to stop.
    std::stop_source either;
    const auto stop = [&] { either.request_stop(); };
    const std::stop_callback all(how.stop, stop), exploring(how.explores_until, stop);
    Result<search::FusionPlan> fused = tuner.explore(entry.graph, either.get_token());
    if (fused) {
      plan.fused = std::move(*fused);
    } else if (fused.error().kind != ErrorKind::cancelled) {
      plan.failure = fmt::format("{}: plan: {}", entry.name, fused.error().message);
    }
  }
  Result<search::UnfusedFragment> unfused = tuner.unfused(entry.graph, how.stop);
  if (unfused) plan.unfused = std::move(*unfused);
  return plan;
}

}  // namespace

std::vector<PlannedEntry> plan_entries(std::span<const Entry> entries, const Tuner& tuner, const EntryPlanning& how) {
  std::vector<PlannedEntry> planned(entries.size());
  std::atomic<std::size_t> done = 0;
  std::mutex reporting;
  std::vector<std::size_t> order(entries.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return entries[a].graph.size() > entries[b].graph.size(); });
  tbb::parallel_for(std::size_t{0}, order.size(), [&](std::size_t i) {
    if (how.stop.stop_requested()) return;
    planned[order[i]] = plan_entry(entries[order[i]], tuner, how);
    const std::size_t ready = ++done;
    const std::lock_guard lock(reporting);
    if (how.progress) {
      how.progress({"plan", how.until * ready / order.size(), fmt::format("fragment {} of {}", ready, order.size())});
    }
  });
  return planned;
}

}  // namespace stitch::tuning
