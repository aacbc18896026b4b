#include "tuning/programs/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

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
  Placer(std::span<const ArenaBlock> blocks, std::span<const LentMemory> lent)
      : blocks_(blocks), lent_(lent), neighbours_(blocks.size()) {
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

  /// `prefer_lent`: before gaps of the arena.
  [[nodiscard]] ArenaLayout place(const std::vector<int>& order, bool prefer_lent) const {
    ArenaLayout layout{std::vector<std::int64_t>(blocks_.size(), none), std::vector<int>(blocks_.size(), arena)};
    std::vector<Range> taken;
    for (const int b : order) {
      taken.clear();
      for (const int other : neighbours_[b]) {
        if (layout.offsets[other] == none) continue;
        taken.push_back({layout.lies_in[other], layout.offsets[other], layout.offsets[other] + blocks_[other].bytes});
      }
      std::ranges::sort(taken);
      const Gap gap = best_gap(blocks_[b], taken, layout.bytes, prefer_lent);
      layout.offsets[b] = gap.from;
      layout.lies_in[b] = gap.lies_in;
      if (gap.lies_in == arena) layout.bytes = std::max(layout.bytes, gap.from + blocks_[b].bytes);
    }
    return layout;
  }

 private:
  static constexpr std::int64_t none = -1;
  static constexpr int arena = ArenaLayout::arena;

  struct Range {
    int lies_in = arena;
    std::int64_t from = 0, until = 0;
    auto operator<=>(const Range&) const = default;
  };
  struct Gap {
    int lies_in = arena;
    std::int64_t from = none, bytes = std::numeric_limits<std::int64_t>::max();
  };

  [[nodiscard]] Gap best_gap(const ArenaBlock& block, std::span<const Range> taken, std::int64_t arena_bytes,
                             bool prefer_lent) const {
    const auto behind_arena = std::ranges::find_if(taken, [](const Range& range) { return range.lies_in != arena; });
    const std::size_t in_arena = behind_arena - taken.begin();
    Gap inside, lent;
    // The end of the last range is a place too, the last of all where the arena must grow for it.
    const std::int64_t end = smallest_gap(arena, taken.first(in_arena), block.bytes, inside);
    if (inside.from == none) inside = {arena, end, std::numeric_limits<std::int64_t>::max()};
    const bool grows = inside.from + block.bytes > arena_bytes;
    if (!prefer_lent && !grows) return inside;
    taken = taken.subspan(in_arena);
    const std::int64_t used = block.bytes - block.slack;
    for (int l = 0; l < std::ssize(lent_); ++l) {
      std::size_t count = 0;
      while (count < taken.size() && taken[count].lies_in == l) ++count;
      const std::int64_t there = lent_[l].bytes - lent_[l].slack;
      if (lent_[l].until > block.last && there >= used) {
        const std::int64_t last = smallest_gap(l, taken.first(count), block.bytes, lent);
        const std::int64_t left = there - last;
        if (left >= used && left < lent.bytes) lent = {l, last, left};
      }
      taken = taken.subspan(count);
    }
    return lent.from == none ? inside : lent;
  }

  /// Makes `best` the smallest gap between the ranges that holds `bytes`, if it is smaller. Returns the end of the last
  /// range.
  static std::int64_t smallest_gap(int lies_in, std::span<const Range> taken, std::int64_t bytes, Gap& best) {
    std::int64_t end = 0;
    for (const Range& range : taken) {
      const std::int64_t gap = range.from - end;
      if (gap >= bytes && gap < best.bytes) best = {lies_in, end, gap};
      end = std::max(end, range.until);
    }
    return end;
  }

  const std::span<const ArenaBlock> blocks_;
  const std::span<const LentMemory> lent_;
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

/// The most bytes, up to `room`, that some of these sizes have together; `room` where there are too many to look.
std::int64_t most_that_fits(const std::vector<std::int64_t>& sizes, std::int64_t room) {
  constexpr std::size_t most_sums = 4096;
  const std::int64_t all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (all <= room) return all;
  std::vector<std::int64_t> sums = {0}, longer;
  for (const std::int64_t size : sizes) {
    longer.clear();
    for (const std::int64_t sum : sums) {
      if (sum + size <= room) longer.push_back(sum + size);
    }
    const std::size_t middle = sums.size();
    sums.insert(sums.end(), longer.begin(), longer.end());
    std::inplace_merge(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(middle), sums.end());
    sums.erase(std::unique(sums.begin(), sums.end()), sums.end());
    if (sums.size() > most_sums) return room;
  }
  return sums.back();
}

/// No more bytes than these of what is in use at a step lie in lent memory. Each of it holds no more than what fits
/// there whole; and of any number of the smallest, all together hold no more than what fits into one of them: large
/// blocks leave them empty, however many there are.
std::int64_t most_lent(std::span<const ArenaBlock> blocks, std::span<const LentMemory> lent, int step) {
  std::vector<const ArenaBlock*> used;
  for (const ArenaBlock& block : blocks) {
    if (block.first <= step && step <= block.last) used.push_back(&block);
  }
  const auto there = [&](int l) { return lent[l].bytes - lent[l].slack; };
  std::vector<bool> fits_somewhere(used.size(), false);
  std::int64_t fitting = 0;
  std::vector<std::int64_t> sizes, before, room, fit_smaller;  // by lent memory, smallest first
  std::int64_t bytes_before = -1;
  for (const int l : ordered(lent.size(), [&](int l) { return std::pair(there(l), lent[l].until); })) {
    std::swap(before, sizes);
    sizes.clear();
    fit_smaller.push_back(fitting);
    for (std::size_t u = 0; u < used.size(); ++u) {
      if (used[u]->last >= lent[l].until || used[u]->bytes - used[u]->slack > there(l)) continue;
      sizes.push_back(used[u]->bytes);
      if (!fits_somewhere[u]) fitting += used[u]->bytes;
      fits_somewhere[u] = true;
    }
    // Layers have results of the same sizes.
    const bool as_before = lent[l].bytes == bytes_before && sizes == before;
    room.push_back(as_before ? room.back() : most_that_fits(sizes, lent[l].bytes));
    bytes_before = lent[l].bytes;
  }
  std::int64_t most = fitting, larger = 0;
  for (std::size_t l = lent.size(); l-- > 0;) {
    larger += room[l];
    most = std::min(most, fit_smaller[l] + larger);
  }
  return most;
}

/// The order with the block that ends highest in the arena at its front.
std::vector<int> raised(std::span<const ArenaBlock> blocks, const ArenaLayout& layout, std::vector<int> order) {
  const auto highest = std::ranges::max_element(order, {}, [&](int b) {
    const bool in_arena = layout.lies_in[b] == ArenaLayout::arena;
    return std::tuple(in_arena, layout.offsets[b] + blocks[b].bytes, blocks[b].bytes);
  });
  std::rotate(order.begin(), highest, highest + 1);
  return order;
}

}  // namespace

std::int64_t most_alive(std::span<const ArenaBlock> blocks, std::span<const LentMemory> lent) {
  const int first = first_step(blocks);
  const std::vector<std::int64_t> alive = alive_by_step(blocks, first);
  std::int64_t most = 0;
  // From the fullest step on, as long as lending nothing could still leave more than what is known.
  for (const int step : ordered(alive.size(), [&](int s) { return -alive[s]; })) {
    if (alive[step] <= most) break;
    most = std::max(most, alive[step] - most_lent(blocks, lent, first + step));
  }
  return most;
}

ArenaLayout lay_out(std::span<const ArenaBlock> blocks, std::span<const LentMemory> lent) {
  const Placer placer(blocks, lent);
  constexpr int most_orders = 200;
  constexpr std::int64_t most_work = 200'000'000;  // pairs looked at: a second
  const std::int64_t pairs = 1 + std::ssize(blocks) * (std::ssize(blocks) + std::ssize(lent));
  const int rounds = std::clamp<std::int64_t>(most_work / pairs / (lent.empty() ? 1 : 2), 4, most_orders);
  ArenaLayout best;
  best.bytes = std::numeric_limits<std::int64_t>::max();
  best.bound = most_alive(blocks, lent);
  for (const bool prefer_lent : {true, false}) {
    for (std::vector<int>& order : first_orders(blocks)) {
      for (int round = 0; round < rounds; ++round) {
        ArenaLayout layout = placer.place(order, prefer_lent);
        layout.bound = best.bound;
        if (layout.bytes < best.bytes) best = layout;
        if (best.bytes <= best.bound) return best;
        order = raised(blocks, layout, std::move(order));
      }
    }
    if (lent.empty()) break;
  }
  return best;
}

}  // namespace stitch::tuning
