#include "search/schedule/leaderboard.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "kernel/program/schedule_hash.h"
#include "kernel/program/traffic.h"

namespace stitch::search {

void Leaderboard::enter(const Hash128& hash, const kernel::KernelProgram& program, double us) {
  ++legal_;
  const bool kept = !full() || us < last_us();  // behind its equals
  const bool equal = equals_.admits(us);
  if (!kept && !equal && sample_ == 0) return;
  StitchCandidate candidate{program.schedule, program, us};
  if (equal) equals_.enter(us, kernel::scheduled_bytes(graph_, program), candidate);
  if (sample_ > 0) {
    // Among the least hashes of all there may be the best ones, which are returned anyway.
    least_hashes_.try_emplace(hash, candidate);
    if (std::ssize(least_hashes_) > sample_ + keep_) least_hashes_.erase(std::prev(least_hashes_.end()));
  }
  if (!kept) return;
  best_.emplace(us, std::move(candidate));
  if (std::ssize(best_) > keep_) best_.erase(std::prev(best_.end()));
}

std::vector<const StitchCandidate*> Leaderboard::best(int most) const {
  std::vector<const StitchCandidate*> best;
  for (const auto& [us, candidate] : best_) {
    if (std::ssize(best) == most) break;
    best.push_back(&candidate);
  }
  return best;
}

ScheduleSpace Leaderboard::collect() {
  ScheduleSpace space;
  space.legal = legal_;
  const auto add = [&](const Hash128& hash, StitchCandidate candidate) {
    least_hashes_.erase(hash);
    space.candidates.push_back(std::move(candidate));
  };
  std::optional<Hash128> first;
  if (!equals_.empty()) {
    first = kernel::schedule_hash(equals_.taken().schedule);
    add(*first, equals_.taken());
  }
  for (auto& [us, candidate] : best_) {
    if (std::ssize(space.candidates) == keep_) break;
    if (const Hash128 hash = kernel::schedule_hash(candidate.schedule); hash != first) add(hash, std::move(candidate));
  }
  for (auto& [hash, candidate] : least_hashes_) {
    if (std::ssize(space.others) == sample_) break;
    space.others.push_back(std::move(candidate));
  }
  std::ranges::stable_sort(space.others, {}, &StitchCandidate::predicted_us);
  best_.clear();
  equals_ = {};
  least_hashes_.clear();
  return space;
}

}  // namespace stitch::search
