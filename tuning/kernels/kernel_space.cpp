#include "tuning/kernels/kernel_space.h"

#include <algorithm>
#include <unordered_set>

#include "kernel/program/schedule_hash.h"
#include "search/schedule/stitch_explorer.h"

namespace stitch::tuning {
namespace {

/// Collects distinct candidates up to a number.
class Collector {
 public:
  Collector(std::vector<search::StitchCandidate>& into, std::size_t most) : into_(into), most_(most) {}

  void add(std::vector<search::StitchCandidate>& candidates, std::size_t until) {
    for (search::StitchCandidate& candidate : candidates) {
      if (into_.size() >= std::min(until, most_)) return;
      if (known_.insert(kernel::schedule_hash(candidate.schedule)).second) into_.push_back(std::move(candidate));
    }
  }
  void add(std::vector<search::StitchCandidate>& candidates) { add(candidates, most_); }
  [[nodiscard]] std::size_t room() const { return most_ - into_.size(); }

 private:
  std::vector<search::StitchCandidate>& into_;
  const std::size_t most_;
  std::unordered_set<Hash128> known_;
};

}  // namespace

Result<KernelSpace> kernel_space(const graph::Graph& canonical, const Hash128& key, const search::Scorer& scorer,
                                 const KernelSpaceOptions& options) {
  auto kernel = std::make_shared<search::ExploredKernel>();
  kernel->key = key;
  kernel->graph = canonical;  // programs refer to it
  const std::size_t most = std::max(1, options.candidates);
  Collector collector(kernel->candidates, most);
  for (const bool wide : {false, true}) {
    STITCH_ASSIGN(auto explored, search::explore_stitches(kernel->graph, scorer, {options.candidates, wide}));
    collector.add(explored);
  }
  search::StitchOptions all;
  all.keep = all.sample = options.candidates;
  all.wide = true;
  all.combinations = options.combinations;
  STITCH_ASSIGN(auto space, search::explore_space(kernel->graph, scorer, all));
  // What is left of the best is in the sample's place when there are not enough others.
  collector.add(space.candidates, kernel->candidates.size() + collector.room() / 2);
  collector.add(space.others);
  std::erase_if(space.candidates, [](const search::StitchCandidate& moved) { return moved.program.phases.empty(); });
  collector.add(space.candidates);
  KernelSpace result;
  result.legal = std::max(space.legal, static_cast<std::int64_t>(kernel->candidates.size()));
  result.whole = space.whole;
  result.kernel = std::move(kernel);
  return result;
}

}  // namespace stitch::tuning
