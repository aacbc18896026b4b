#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "graph/canonical.h"
#include "search/schedule/stitch_explorer.h"

namespace stitch::search {

/// A kernel in canonical form with the schedules found for it.
struct ExploredKernel {
  Hash128 key;                              ///< of the canonical graph
  graph::Graph graph;                       ///< canonical
  std::vector<StitchCandidate> candidates;  ///< best first; empty when nothing is legal
  Error why;                                ///< of an infeasible kernel: why nothing is legal

  [[nodiscard]] bool feasible() const { return !candidates.empty(); }
  [[nodiscard]] double predicted_us() const { return candidates.front().predicted_us; }
};

using SharedKernel = std::shared_ptr<const ExploredKernel>;

/// Remembers what the stitch explorer found, by canonical key: the layers of a model share their kernels. A kernel that
/// takes a variance in two passes over memory is also explored with the variance tile by tile
/// (kernel/rewrite/tiled_variance.h), one with a softmax of long rows with its maximum and sum as one reduction
/// (kernel/rewrite/online_softmax.h), one with a scatter with its updates sorted (kernel/rewrite/sorted_updates.h),
/// what is best by then with its long scans tile by tile (kernel/rewrite/tiled_scan.h), and the fastest is the one.
/// Safe to use from several threads; two threads that miss the same key at once both explore it and get equal results.
class KernelCache {
 public:
  KernelCache(const Scorer& scorer, StitchOptions options) : scorer_(scorer), options_(options) {}

  /// The kernel for a graph, and where the graph's parameters and results are in the canonical one.
  struct Entry {
    SharedKernel kernel;
    std::vector<int> parameter_order;  ///< canonical parameter i is the graph's parameter parameter_order[i]
    std::vector<int> result_order;
  };
  /// Errors: already_exists when the key is known of another graph, as only a forged one can be (base/hash.h);
  /// cancelled once `stop` fires while it is explored, and nothing is remembered then.
  Result<Entry> explore(const graph::Graph& kernel, const std::stop_token& stop = {});

  [[nodiscard]] const Scorer& scorer() const { return scorer_; }
  [[nodiscard]] std::size_t size() const;

 private:
  static std::optional<Entry> too_large(const graph::Graph& kernel);
  Result<std::shared_ptr<ExploredKernel>> explore_form(graph::CanonicalForm& form, const std::stop_token& stop) const;
  Status prefer(Entry& entry, const Entry& from, const std::optional<graph::Graph>& other, double share,
                const std::stop_token& stop) const;
  Result<Entry> explore_fresh(graph::CanonicalForm& form, const std::stop_token& stop) const;

  const Scorer& scorer_;
  StitchOptions options_;
  mutable std::mutex mutex_;
  struct Known {
    Entry entry;         ///< orders: of the canonical graph that was asked for
    graph::Graph asked;  ///< that graph
  };
  std::unordered_map<Hash128, Known> kernels_;
};

}  // namespace stitch::search
