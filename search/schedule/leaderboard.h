#pragma once

#include <cstdint>
#include <map>
#include <unordered_set>
#include <vector>

#include "base/hash.h"
#include "search/schedule/equals_of_best.h"
#include "search/schedule/schedule_space.h"

namespace stitch::search {

/// The schedules that an exploration has found: the best ones, and a sample of the others that does not depend on how
/// good they are. Which ones these are depends on what was entered, and of equal predictions on the order.
class Leaderboard {
 public:
  /// `graph`: the kernel's, outlives this; `keep`: best ones, at least one; `sample`: of the others.
  Leaderboard(const graph::Graph& graph, int keep, int sample) : graph_(graph), keep_(keep), sample_(sample) {}

  /// Whether a schedule, by its hash, was not met before; from now on it was.
  bool is_new(const Hash128& schedule) { return met_.insert(schedule).second; }
  /// Enters a legal schedule that is_new has let through.
  void enter(const Hash128& hash, const kernel::KernelProgram& program, double us);

  [[nodiscard]] bool empty() const { return best_.empty(); }
  /// Whether as many are kept as there should be, and how long the last of these takes.
  [[nodiscard]] bool full() const { return std::ssize(best_) >= keep_; }
  [[nodiscard]] double last_us() const { return best_.rbegin()->first; }

  /// The best ones, no more than `most`; until the next one is entered.
  [[nodiscard]] std::vector<const StitchCandidate*> best(int most) const;

  /// Everything that was kept: first what is taken of the equals of the best, then by prediction. The board is empty
  /// then. ScheduleSpace::whole is left to the caller.
  ScheduleSpace collect();

 private:
  const graph::Graph& graph_;
  const int keep_, sample_;
  std::int64_t legal_ = 0;
  std::multimap<double, StitchCandidate> best_;
  EqualsOfBest<StitchCandidate> equals_;
  std::map<Hash128, StitchCandidate> least_hashes_;  ///< of all candidates, best ones included
  std::unordered_set<Hash128> met_;
};

}  // namespace stitch::search
