#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "graph/graph.h"

namespace stitch::daemon {

/// Memory for the constants of fragments that wait to be predicted. A constant of equal elements is some bytes of a
/// request and, from decoding on, all of its elements, so that what a request takes of the budget of bodies says
/// nothing of what it holds.
class ConstantBudget {
 public:
  explicit ConstantBudget(std::int64_t bytes) : bytes_(bytes) {}

  /// What is held as long as the hold lives; a small graph always is. The budget must outlive it. Error:
  /// resource_exhausted.
  using Hold = std::shared_ptr<const void>;
  Result<Hold> hold(const graph::Graph& graph);

  /// Of all graphs that are held now.
  [[nodiscard]] std::int64_t held() const { return held_; }

 private:
  const std::int64_t bytes_;
  std::atomic<std::int64_t> held_ = 0;
};

/// Bytes of all constants of a graph and its regions, as they lie in memory. A region that is shared counts once for
/// each of its uses.
std::int64_t constant_bytes(const graph::Graph& graph);

}  // namespace stitch::daemon
