#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/reference/evaluate_run.h"

// sort: the order of a line, and which elements a correct kernel may have where the keys are not exact.

namespace stitch::graph::reference {
namespace {

constexpr double unchecked = std::numeric_limits<double>::infinity();
constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();

/// Integers in the order of floats: NaN is the greatest, and both zeros are one.
std::int64_t order_of(double x) {
  if (std::isnan(x)) return highest;
  const auto bits = std::bit_cast<std::int64_t>(x == 0 ? 0.0 : x);
  return bits < 0 ? bits ^ highest : bits;
}

std::int64_t order_of(std::int64_t x, DType dtype) {
  return dtype == DType::u64 ? static_cast<std::int64_t>(static_cast<std::uint64_t>(x) ^ (std::uint64_t{1} << 63)) : x;
}

/// The places that a key may have in the order of all numbers.
struct Reach {
  std::int64_t low = 0, high = 0;
};

Reach reach_of(const Block& keys, std::int64_t at, bool descending) {
  const double e = keys.exact() ? 0 : keys.data->bounds[at];
  Reach reach;
  if (is_floating(keys.dtype)) {
    const double x = keys.data->floats[at];
    reach = {order_of(x - e), order_of(x + e)};
    if (std::isnan(x) || std::isinf(x)) reach = {order_of(x), order_of(x)};
  } else {
    const std::int64_t x = order_of(keys.data->integers[at], keys.dtype);
    const double off = std::min(e, 0x1p62);
    const auto away = static_cast<std::int64_t>(std::ceil(off));
    reach = {x < lowest + away ? lowest : x - away, x > highest - away ? highest : x + away};
  }
  if (e == unchecked) reach = {lowest, highest};
  return descending ? Reach{~reach.high, ~reach.low} : reach;
}

/// How far two values of a block are apart.
double distance(const Block& x, std::int64_t a, std::int64_t b) {
  if (!is_floating(x.dtype)) {
    const std::int64_t m = x.data->integers[a], n = x.data->integers[b];
    if (x.dtype == DType::u64)
      return std::fabs(static_cast<double>(static_cast<std::uint64_t>(m)) -
                       static_cast<double>(static_cast<std::uint64_t>(n)));
    return std::fabs(static_cast<double>(m) - static_cast<double>(n));
  }
  const double m = x.data->floats[a], n = x.data->floats[b];
  if (m == n || (std::isnan(m) && std::isnan(n))) return 0;
  return std::isfinite(m) && std::isfinite(n) ? std::fabs(m - n) : unchecked;
}

/// One line in order.
class Line {
 public:
  /// `first`, `step`: where the line's elements stand in blocks of the operands' whole box.
  Line(const Block& keys, std::int64_t first, std::int64_t step, std::int64_t length, bool descending)
      : first_(first), step_(step), order_(length) {
    for (std::int64_t i = 0; i < length; ++i) reach_.push_back(reach_of(keys, place(i), descending));
    std::iota(order_.begin(), order_.end(), 0);
    std::vector<std::int64_t> keys_in_order;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t key = is_floating(keys.dtype) ? order_of(keys.data->floats[place(i)])
                                                       : order_of(keys.data->integers[place(i)], keys.dtype);
      keys_in_order.push_back(descending ? ~key : key);
    }
    std::ranges::stable_sort(order_, {}, [&](std::int64_t i) { return keys_in_order[i]; });
    if (!keys.exact()) find_ranks();
  }

  /// Where the element that is `rank`th stands.
  [[nodiscard]] std::int64_t at(std::int64_t rank) const { return place(order_[rank]); }

  /// Bounds of the first of `x`'s elements in the order: of each of those that may be there, its own and its distance.
  [[nodiscard]] std::vector<double> bounds(const Block& x, std::int64_t count) const {
    std::vector<double> bounds(count);
    const auto own = [&](std::int64_t i) { return x.exact() ? 0 : x.data->bounds[place(i)]; };
    for (std::int64_t rank = 0; rank < count; ++rank) bounds[rank] = own(order_[rank]);
    if (ranks_.empty()) return bounds;
    if (doubtful_ > most_doubtful * std::ssize(order_)) {
      widen_runs(x, bounds);
      return bounds;
    }
    for (const auto& [low, high, i] : ranks_) {
      for (std::int64_t rank = low; rank <= std::min(high, count - 1); ++rank)
        bounds[rank] = std::max(bounds[rank], distance(x, place(i), at(rank)) + own(i));
    }
    return bounds;
  }

 private:
  /// Places that an element may have, on average, until all of those that overlap are taken for one set of places.
  static constexpr std::int64_t most_doubtful = 64;

  struct Ranks {
    std::int64_t low, high;
    std::int64_t element;
  };

  [[nodiscard]] std::int64_t place(std::int64_t i) const { return first_ + i * step_; }

  /// The ranks of elements that may have several: those before it for certain, and those that may be before it.
  void find_ranks() {
    using Key = std::pair<std::int64_t, std::int64_t>;
    std::vector<Key> lows, highs;
    for (std::int64_t i = 0; i < std::ssize(reach_); ++i) {
      lows.emplace_back(reach_[i].low, i);
      highs.emplace_back(reach_[i].high, i);
    }
    std::ranges::sort(lows);
    std::ranges::sort(highs);
    for (std::int64_t i = 0; i < std::ssize(reach_); ++i) {
      const Reach& own = reach_[i];
      const auto certain = std::ranges::lower_bound(highs, Key{own.low, i}) - highs.begin();
      const auto possible =
          std::ranges::lower_bound(lows, Key{own.high, i}) - lows.begin() - (own.low < own.high ? 1 : 0);
      if (certain == possible) continue;
      ranks_.push_back({certain, possible, i});
      doubtful_ += possible - certain + 1;
    }
    std::ranges::sort(ranks_, {}, &Ranks::low);
  }

  /// What any element of a run of overlapping ranks has may be at each of its places.
  void widen_runs(const Block& x, std::vector<double>& bounds) const {
    for (std::size_t begin = 0, end = 0; begin < ranks_.size(); begin = end) {
      std::int64_t last = ranks_[begin].high;
      for (; end < ranks_.size() && ranks_[end].low <= last; ++end) last = std::max(last, ranks_[end].high);
      // The distance from one of them to another is at most that from either to a third.
      const std::int64_t any = place(ranks_[begin].element);
      double widest = 0;
      for (std::size_t k = begin; k < end; ++k) {
        const std::int64_t at = place(ranks_[k].element);
        widest = std::max(widest, distance(x, at, any) + (x.exact() ? 0 : x.data->bounds[at]));
      }
      for (std::int64_t rank = ranks_[begin].low; rank <= last && rank < std::ssize(bounds); ++rank)
        bounds[rank] = distance(x, at(rank), any) + widest;
    }
  }

  std::int64_t first_, step_;
  std::vector<Reach> reach_;
  std::vector<std::int64_t> order_;
  std::vector<Ranks> ranks_;   ///< of elements that may have several, by the first
  std::int64_t doubtful_ = 0;  ///< sum of how many they may have
};

/// The wanted boxes of all results, with whole lines of `extent`.
Box lines_of(std::span<const Box> wanted, std::size_t dimension, std::int64_t extent) {
  Box box = wanted[0];
  for (const Box& other : wanted) box = hull(box, other);
  box.start[dimension] = 0;
  box.size[dimension] = extent;
  return box;
}

void put(const Block& from, std::int64_t at, Storage& to, std::int64_t place) {
  if (is_floating(from.dtype)) {
    to.floats[place] = from.data->floats[at];
  } else {
    to.integers[place] = from.data->integers[at];
  }
}

}  // namespace

void Evaluation::demand_sort(NodeId id) {
  const Node& node = graph_.node(id);
  const std::size_t d = node.as<SortAttributes>().dimension;
  std::vector<Box> wanted;
  std::vector<bool> live(node.operands.size(), false);
  for (std::int32_t r = 0; r < std::ssize(node.results); ++r) {
    for (const Box& box : slot({id, r}).region.boxes()) wanted.push_back(box);
    live[r] = r == 0 || !slot({id, r}).region.empty();
  }
  const Box box = lines_of(wanted, d, graph_.type(node.operands[0]).dims[d]);
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (!live[i]) continue;
    slot(node.operands[i]).region.add(box);
    state(id).reads[i] = true;
  }
}

Status Evaluation::compute_sort(NodeId id) {
  const Node& node = graph_.node(id);
  const auto& a = node.as<SortAttributes>();
  const std::size_t d = a.dimension;
  const std::int64_t length = graph_.type(node.operands[0]).dims[d];
  std::vector<Box> wanted;
  for (std::int32_t r = 0; r < std::ssize(node.results); ++r) {
    for (const Box& box : slot({id, r}).region.boxes()) wanted.push_back(box);
  }
  const Box whole = lines_of(wanted, d, length), sorted = lines_of(wanted, d, a.count);
  const OpContext c = context(id, 0);
  struct Result {
    std::int32_t number = 0;
    Block from, to;
  };
  std::vector<Result> results;
  Block keys;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (!state(id).reads[i]) continue;
    STITCH_ASSIGN(const Block part, c.operand(i, whole));
    STITCH_ASSIGN(Block dense, expanded(memory_, part));
    if (i == 0) keys = dense;
    if (slot({id, static_cast<std::int32_t>(i)}).region.empty()) continue;
    const bool exact = keys.exact() && dense.exact();
    STITCH_ASSIGN(StorageRef storage, memory_.make(dense.dtype, sorted.elements(), options_.bounds && !exact));
    storage->nonnegative = dense.data->nonnegative;
    Block to{dense.dtype, sorted, std::move(storage), false};
    results.push_back({static_cast<std::int32_t>(i), std::move(dense), std::move(to)});
  }
  Box lines = whole;
  lines.size[d] = 1;
  const std::int64_t step = row_major_strides(whole.size)[d], step_to = row_major_strides(sorted.size)[d];
  Dims index = lines.start;
  for (std::int64_t i = 0; i < lines.elements(); ++i, next_index(lines, index)) {
    STITCH_TRY(memory_.go_on());
    const Line line(keys, offset_in(whole, index), step, length, a.descending);
    const std::int64_t first = offset_in(sorted, index);
    for (Result& result : results) {
      for (std::int64_t rank = 0; rank < a.count; ++rank)
        put(result.from, line.at(rank), *result.to.data, first + rank * step_to);
      if (result.to.exact()) continue;
      const std::vector<double> bounds = line.bounds(result.from, a.count);
      for (std::int64_t rank = 0; rank < a.count; ++rank) result.to.data->bounds[first + rank * step_to] = bounds[rank];
    }
  }
  for (const Result& result : results) {
    Slot& to = slot({id, result.number});
    for (const Box& part : to.region.boxes()) {
      STITCH_ASSIGN(Block block, extract(memory_, result.to, part));
      to.blocks.push_back(std::move(block));
    }
  }
  return {};
}

}  // namespace stitch::graph::reference
