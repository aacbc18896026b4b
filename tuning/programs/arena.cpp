#include "tuning/programs/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace stitch::tuning {
namespace {

/// Bytes in use at every step, from the first one that has any.
std::vector<std::int64_t> alive_by_step(std::span<const ArenaBlock> blocks, int first) {
  std::vector<std::int64_t> changes;
  const auto change = [&](std::size_t step, std::int64_t bytes) {
    if (changes.size() <= step) changes.resize(step + 1);
    changes[step] += bytes;
  };
  for (const ArenaBlock& block : blocks) {
    if (block.first > block.last) continue;
    change(block.first - first, block.bytes);
    change(block.last - first + 1, -block.bytes);
  }
  std::partial_sum(changes.begin(), changes.end(), changes.begin());
  return changes;
}

int first_step(std::span<const ArenaBlock> blocks) {
  int first = 0;
  for (const ArenaBlock& block : blocks) first = std::min(first, block.first);
  return first;
}

class Placer {
 public:
  explicit Placer(std::span<const ArenaBlock> blocks) : blocks_(blocks), neighbours_(blocks.size()) {
    std::vector<int> order(blocks.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int b) { return std::pair(blocks[b].first, b); });
    for (std::size_t i = 0; i < order.size(); ++i) {
      const ArenaBlock& a = blocks[order[i]];
      if (a.first > a.last) continue;
      for (std::size_t j = i + 1; j < order.size() && blocks[order[j]].first <= a.last; ++j) {
        if (blocks[order[j]].first > blocks[order[j]].last) continue;
        neighbours_[order[i]].push_back(order[j]);
        neighbours_[order[j]].push_back(order[i]);
      }
    }
  }

  [[nodiscard]] ArenaLayout place(const std::vector<int>& order) const {
    constexpr std::int64_t none = -1;
    ArenaLayout layout{std::vector<std::int64_t>(blocks_.size(), none), 0};
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const int b : order) {
      taken.clear();
      for (const int other : neighbours_[b]) {
        if (layout.offsets[other] != none)
          taken.emplace_back(layout.offsets[other], layout.offsets[other] + blocks_[other].bytes);
      }
      std::ranges::sort(taken);
      layout.offsets[b] = best_fit(taken, blocks_[b].bytes);
      layout.bytes = std::max(layout.bytes, layout.offsets[b] + blocks_[b].bytes);
    }
    return layout;
  }

 private:
  /// The start of the smallest gap between the ranges that holds `bytes`, or the end of the last range.
  static std::int64_t best_fit(const std::vector<std::pair<std::int64_t, std::int64_t>>& taken, std::int64_t bytes) {
    std::int64_t best = -1, best_gap = std::numeric_limits<std::int64_t>::max(), end = 0;
    for (const auto& [from, until] : taken) {
      const std::int64_t gap = from - end;
      if (gap >= bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, until);
    }
    return best >= 0 ? best : end;
  }

  const std::span<const ArenaBlock> blocks_;
  std::vector<std::vector<int>> neighbours_;  ///< per block, those in use at the same time
};

template <class Key>
std::vector<int> ordered(std::size_t count, const Key& key) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, key);
  return order;
}

std::vector<std::vector<int>> first_orders(std::span<const ArenaBlock> blocks) {
  const int first = first_step(blocks);
  const std::vector<std::int64_t> alive = alive_by_step(blocks, first);
  const auto fullest = [&](int b) {
    std::int64_t most = 0;
    for (int s = blocks[b].first; s <= blocks[b].last; ++s) most = std::max(most, alive[s - first]);
    return most;
  };
  const auto length = [&](int b) { return blocks[b].last - blocks[b].first; };
  const std::size_t count = blocks.size();
  return {ordered(count, [&](int b) { return std::pair(-blocks[b].bytes, blocks[b].first); }),
          ordered(count, [&](int b) { return std::pair(-fullest(b), -blocks[b].bytes); }),
          ordered(count, [&](int b) { return std::pair(-length(b), -blocks[b].bytes); }),
          ordered(count, [&](int b) { return std::pair(blocks[b].first, -blocks[b].bytes); })};
}

/// The order with the block that ends highest at its front.
std::vector<int> raised(std::span<const ArenaBlock> blocks, const ArenaLayout& layout, std::vector<int> order) {
  const auto highest = std::ranges::max_element(
      order, {}, [&](int b) { return std::pair(layout.offsets[b] + blocks[b].bytes, blocks[b].bytes); });
  std::rotate(order.begin(), highest, highest + 1);
  return order;
}

}  // namespace

std::int64_t most_alive(std::span<const ArenaBlock> blocks) {
  const std::vector<std::int64_t> alive = alive_by_step(blocks, first_step(blocks));
  return alive.empty() ? 0 : std::max<std::int64_t>(0, *std::ranges::max_element(alive));
}

ArenaLayout lay_out(std::span<const ArenaBlock> blocks) {
  const std::int64_t bound = most_alive(blocks);
  const Placer placer(blocks);
  constexpr int most_orders = 200;
  constexpr std::int64_t most_work = 200'000'000;  // pairs looked at: a second
  const std::int64_t pairs = 1 + std::ssize(blocks) * std::ssize(blocks);
  const int rounds = std::clamp<std::int64_t>(most_work / pairs, 4, most_orders);
  ArenaLayout best;
  best.bytes = std::numeric_limits<std::int64_t>::max();
  for (std::vector<int>& order : first_orders(blocks)) {
    for (int round = 0; round < rounds; ++round) {
      ArenaLayout layout = placer.place(order);
      if (layout.bytes < best.bytes) best = layout;
      if (best.bytes <= bound) return best;
      order = raised(blocks, layout, std::move(order));
    }
  }
  return best;
}

}  // namespace stitch::tuning
