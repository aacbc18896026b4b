#include "kernel/attention/visible_keys.h"

#include <algorithm>
#include <limits>

#include "graph/calls/attention.h"
#include "graph/literal.h"
#include "kernel/contraction/contraction_shape.h"

namespace stitch::kernel {
namespace {

using graph::Comparison;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Value;

constexpr double infinity = std::numeric_limits<double>::infinity();
/// Beyond all rows and keys.
constexpr std::int64_t far_away = std::int64_t{1} << 31;

struct Interval {
  double low = -infinity, high = infinity;
  [[nodiscard]] bool is_true() const { return low >= 1; }
  [[nodiscard]] bool is_false() const { return high <= 0; }
};
constexpr Interval unknown;
constexpr Interval either = {0, 1};

Interval truth(bool surely, bool surely_not) { return {surely ? 1.0 : 0.0, surely_not ? 0.0 : 1.0}; }

/// The positions along a dimension that are asked for, both ends included.
using Range = std::pair<std::int64_t, std::int64_t>;
using Box = std::vector<Range>;

Interval compared(Comparison direction, Interval a, Interval b) {
  switch (direction) {
    case Comparison::lt: return truth(a.high < b.low, a.low >= b.high);
    case Comparison::le: return truth(a.high <= b.low, a.low > b.high);
    case Comparison::gt: return truth(a.low > b.high, a.high <= b.low);
    case Comparison::ge: return truth(a.low >= b.high, a.high < b.low);
    case Comparison::eq:
      return truth(a.low == a.high && a.low == b.low && a.low == b.high, a.high < b.low || a.low > b.high);
    case Comparison::ne:
      return truth(a.high < b.low || a.low > b.high, a.low == a.high && a.low == b.low && a.low == b.high);
  }
  return either;
}

/// What a value's elements in a box may be.
class Bounds {
 public:
  /// `shown`: what is taken for true.
  explicit Bounds(const Graph& graph, std::optional<Value> shown = {}) : graph_(graph), shown_(shown) {}

  [[nodiscard]] Interval of(Value value, const Box& box) const {  // NOLINT(misc-no-recursion): a mask's few operators
    if (value == shown_) return truth(true, false);
    const Node& node = graph_.node(value.node);
    const auto operand = [&](int i) { return of(node.operands[i], box); };
    switch (node.op) {
      case Op::constant: {
        const auto& constant = node.as<graph::ConstantAttributes>();
        if (!graph::is_splat(constant)) return unknown;
        const double filled = graph::element(constant, 0);
        return {filled, filled};
      }
      case Op::iota: {
        const Range& range = box[node.as<graph::IotaAttributes>().dimension];
        return {static_cast<double>(range.first), static_cast<double>(range.second)};
      }
      case Op::broadcast: {
        Box inside;
        for (const std::int64_t d : node.as<graph::BroadcastAttributes>().mapping) inside.push_back(box[d]);
        return of(node.operands[0], inside);
      }
      case Op::transpose: {
        const auto& permutation = node.as<graph::TransposeAttributes>().permutation;
        Box inside(box.size());
        for (std::size_t d = 0; d < box.size(); ++d) inside[permutation[d]] = box[d];
        return of(node.operands[0], inside);
      }
      case Op::reshape: return reshaped(node, box);
      case Op::convert: return graph::is_floating(node.type().dtype) ? operand(0) : unknown;
      case Op::compare: return compared(node.as<graph::CompareAttributes>().direction, operand(0), operand(1));
      case Op::bit_and: return node.type().dtype == graph::DType::pred ? both(operand(0), operand(1)) : unknown;
      case Op::bit_or: return node.type().dtype == graph::DType::pred ? any(operand(0), operand(1)) : unknown;
      case Op::bit_not: {
        const Interval a = operand(0);
        return node.type().dtype == graph::DType::pred ? truth(a.is_false(), a.is_true()) : unknown;
      }
      case Op::add: {
        const Interval a = operand(0), b = operand(1);
        return {a.low + b.low, a.high + b.high};
      }
      case Op::subtract: {
        if (graph::is_unsigned_integer(node.type().dtype)) return unknown;
        const Interval a = operand(0), b = operand(1);
        return {a.low - b.high, a.high - b.low};
      }
      case Op::select: {
        const Interval condition = operand(0);
        if (condition.is_true()) return operand(1);
        if (condition.is_false()) return operand(2);
        const Interval yes = operand(1), no = operand(2);
        return {std::min(yes.low, no.low), std::max(yes.high, no.high)};
      }
      default: return unknown;
    }
  }

 private:
  static Interval both(Interval a, Interval b) {
    return truth(a.is_true() && b.is_true(), a.is_false() || b.is_false());
  }
  static Interval any(Interval a, Interval b) {
    return truth(a.is_true() || b.is_true(), a.is_false() && b.is_false());
  }

  /// Where nothing but extents of 1 comes or goes.
  [[nodiscard]] Interval reshaped(const Node& node, const Box& box) const {  // NOLINT(misc-no-recursion)
    const graph::Dims& from = node.type().dims;
    const graph::Dims& to = graph_.type(node.operands[0]).dims;
    Box inside;
    std::size_t d = 0;
    for (const std::int64_t extent : to) {
      while (d < from.size() && from[d] == 1 && extent != 1) ++d;
      if (extent == 1) {
        inside.emplace_back(0, 0);
      } else if (d < from.size() && from[d] == extent) {
        inside.push_back(box[d++]);
      } else {
        return unknown;
      }
    }
    return of(node.operands[0], inside);
  }

  const Graph& graph_;
  const std::optional<Value> shown_;
};

/// The logits' dimensions in terms of rows and keys.
class LogitBoxes {
 public:
  explicit LogitBoxes(const AttentionProblem& problem, std::optional<Value> shown = {})
      : p_(problem), graph_(*problem.scores.graph), bounds_(graph_, shown) {
    logits_ = graph_.results()[0];
    const graph::Dims& dims = graph_.type(logits_).dims;
    std::int64_t stride = 1;
    places_.resize(dims.size());
    for (std::size_t d = dims.size(); d-- > 0; stride *= dims[d]) {
      places_[d] = {dims[d], step_of(p_.scores.result.rows, stride), step_of(p_.scores.result.columns, stride)};
    }
  }

  /// After how many rows one of the dimensions that are joined to rows begins anew.
  [[nodiscard]] std::vector<std::int64_t> repetitions() const {
    std::vector<std::int64_t> rows;
    for (const Place& place : places_) {
      if (place.row_step > 0) rows.push_back(place.row_step * place.extent);
    }
    return rows;
  }

  /// Whether no logit there counts beside others. Both ranges are within the extents.
  [[nodiscard]] bool nothing_at(Range rows, Range keys) const {
    return bounds_.of(logits_, box_of(rows, keys)).high <= hiding_logit;
  }

  /// Whether all selects of the logits are of one mind there, and have what they do not hide.
  [[nodiscard]] bool all_seen_at(Range rows, Range keys) const { return sees(logits_, box_of(rows, keys)); }

 private:
  struct Place {
    std::int64_t extent = 1, row_step = 0, key_step = 0;
  };

  [[nodiscard]] Box box_of(Range rows, Range keys) const {
    Box box;
    for (const Place& place : places_) {
      if (place.row_step > 0) {
        box.push_back(part_of(rows, place.row_step, place.extent));
      } else if (place.key_step > 0) {
        box.push_back(part_of(keys, place.key_step, place.extent));
      } else {
        box.emplace_back(0, place.extent - 1);
      }
    }
    return box;
  }

  /// Through element-wise operators, which have the logits' box; what is broadcast or turned has no select that hides.
  [[nodiscard]] bool sees(Value value, const Box& box) const {  // NOLINT(misc-no-recursion): a mask's few operators
    const Node& node = graph_.node(value.node);
    if (node.op == Op::select) {
      const Interval condition = bounds_.of(node.operands[0], box);
      const bool hides = bounds_.of(node.operands[1], box).high <= hiding_logit;
      if (!(hides ? condition.is_false() : condition.is_true())) return false;
      return sees(node.operands[hides ? 2 : 1], box);
    }
    if (!graph::is_elementwise(node.op)) return !has_select(value);
    return std::ranges::all_of(node.operands, [&](Value operand) { return sees(operand, box); });
  }
  [[nodiscard]] bool has_select(Value value) const {  // NOLINT(misc-no-recursion)
    const Node& node = graph_.node(value.node);
    if (node.op == Op::select) return true;
    if (node.op == Op::parameter || value.node == p_.scores.root) return false;
    return std::ranges::any_of(node.operands, [&](Value operand) { return has_select(operand); });
  }

  /// Of a joined dimension the step that one of the tensor's dimensions makes; 0: it is another's.
  static std::int64_t step_of(const ContractionDigits& digits, std::int64_t stride) {
    std::int64_t step = 1;
    for (std::size_t i = digits.size(); i-- > 0; step *= digits[i].extent) {
      if (stride >= digits[i].stride && stride < digits[i].stride * digits[i].extent)
        return step * (stride / digits[i].stride);
    }
    return 0;
  }
  static Range part_of(Range range, std::int64_t step, std::int64_t extent) {
    const std::int64_t low = range.first / step, high = range.second / step;
    if (low / extent != high / extent) return {0, extent - 1};
    return {low % extent, high % extent};
  }

  const AttentionProblem& p_;
  const Graph& graph_;
  const Bounds bounds_;
  Value logits_;
  std::vector<Place> places_;
};

/// Whether each of the rows has a key that counts: the first, the last, or the one at its own place.
bool each_sees_some(const LogitBoxes& logits, Range rows, std::int64_t keys, std::int64_t of_rows) {
  for (std::int64_t row = rows.first; row <= rows.second; ++row) {
    const std::int64_t own = std::min(row % std::max<std::int64_t>(1, std::min(keys, of_rows)), keys - 1);
    const auto sees = [&](std::int64_t key) { return !logits.nothing_at({row, row}, {key, key}); };
    if (!sees(0) && !sees(own) && !sees(keys - 1)) return false;
  }
  return true;
}

/// The largest n up to `most` for which `holds`; it holds of all below, and of 0.
template <class Holds>
std::int64_t largest(std::int64_t most, const Holds& holds) {
  std::int64_t low = 0;
  for (std::int64_t step = std::int64_t{1} << 40; step > 0; step /= 2) {
    if (low + step <= most && holds(low + step)) low += step;
  }
  return low;
}

std::optional<std::int64_t> fitting(std::int64_t low, std::int64_t count, const auto& fits) {
  for (std::int64_t offset = low; offset < low + count; ++offset) {
    if (fits(offset)) return offset;
  }
  return std::nullopt;
}

/// The longest run of tiles of keys that begins with the first one that `rows` see as a whole; {0, 0}: there is none.
KeyTiles seen_by(const LogitBoxes& logits, Range rows, std::int64_t tiles, std::int64_t block_keys) {
  const auto seen = [&](std::int64_t first, std::int64_t last) {
    return logits.all_seen_at(rows, {first * block_keys, last * block_keys - 1});
  };
  for (std::int64_t first = 0; first < tiles; ++first) {
    if (seen(first, first + 1))
      return {first, first + largest(tiles - first, [&](std::int64_t n) { return seen(first, first + n); })};
  }
  return {};
}

std::int64_t floored(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

}  // namespace

std::vector<KeyTiles> visible_keys(const AttentionProblem& problem, std::int64_t block_rows, std::int64_t block_keys) {
  const std::int64_t row_tiles = divided_up(problem.rows(), block_rows), tiles = divided_up(problem.keys(), block_keys);
  std::vector<KeyTiles> needed(row_tiles, {0, tiles});
  const LogitBoxes logits(problem);
  const std::int64_t last = problem.keys() - 1;
  for (std::int64_t t = 0; t < row_tiles; ++t) {
    const Range rows = {t * block_rows, std::min((t + 1) * block_rows, problem.rows()) - 1};
    KeyTiles& each = needed[t];
    each.first = largest(tiles - 1, [&](std::int64_t n) { return logits.nothing_at(rows, {0, n * block_keys - 1}); });
    each.last = tiles - largest(tiles - 1, [&](std::int64_t n) {
                  return logits.nothing_at(rows, {(tiles - n) * block_keys, last});
                });
    const bool all = each.first == 0 && each.last == tiles;
    if (!all && (each.first >= each.last || !each_sees_some(logits, rows, problem.keys(), problem.rows())))
      each = {0, tiles};
  }
  return needed;
}

bool each_row_sees_some(const AttentionProblem& problem) {
  return each_sees_some(LogitBoxes(problem), {0, problem.rows() - 1}, problem.keys(), problem.rows());
}

bool each_row_sees_first(const AttentionProblem& problem, Value shown, bool turned) {
  const Range first = {0, 0};
  const LogitBoxes logits(problem, shown);
  return turned ? logits.all_seen_at(first, {0, problem.keys() - 1})
                : logits.all_seen_at({0, problem.rows() - 1}, first);
}

KeyTiles KeyWalk::of(std::int64_t row_tile, const AttentionSchedule& s, std::int64_t key_tiles) const {
  const std::int64_t begin = row_tile % period * s.block_rows;
  KeyTiles tiles = {0, key_tiles};
  if (below) tiles.first = std::max<std::int64_t>(0, floored(begin + *below, s.block_keys));
  if (above) tiles.last = std::min(key_tiles, floored(begin + *above, s.block_keys) + 1);
  return tiles;
}

KeyWalk key_walk(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  if (!schedule.skips || problem.stores_operands()) return {};
  const std::vector<KeyTiles> needed = visible_keys(problem, schedule.block_rows, schedule.block_keys);
  const std::int64_t tiles = divided_up(problem.keys(), schedule.block_keys), count = std::ssize(needed);
  std::vector<std::int64_t> periods = {std::max<std::int64_t>(1, count)};
  for (const std::int64_t rows : LogitBoxes(problem).repetitions()) {
    if (rows % schedule.block_rows == 0) periods.push_back(rows / schedule.block_rows);
  }
  for (const std::int64_t period : periods) {
    // Of a last tile that is not whole the walk may have a tile of keys too many.
    const auto fits = [&](const KeyWalk& walk, auto member) {
      for (std::int64_t t = 0; t < count; ++t) {
        const KeyTiles walked = walk.of(t, schedule, tiles);
        const bool whole = (t + 1) * schedule.block_rows <= problem.rows();
        const bool covers = walked.first <= needed[t].first && walked.last >= needed[t].last;
        if (whole ? walked.*member != needed[t].*member : !covers) return false;
      }
      return true;
    };
    KeyWalk walk{period, {}, {}};
    for (std::int64_t t = 0; t < count && (!walk.below || !walk.above); ++t) {
      const std::int64_t begin = t % period * schedule.block_rows;
      if (needed[t].first > 0 && !walk.below) {
        walk.below = fitting(needed[t].first * schedule.block_keys - begin, schedule.block_keys, [&](std::int64_t b) {
          return fits({period, b, {}}, &KeyTiles::first);
        });
        if (!walk.below) break;
      }
      if (needed[t].last < tiles && !walk.above) {
        walk.above =
            fitting((needed[t].last - 1) * schedule.block_keys - begin, schedule.block_keys, [&](std::int64_t b) {
              return fits({period, {}, b}, &KeyTiles::last);
            });
        if (!walk.above) break;
      }
    }
    if (walk.below || walk.above) return walk;
  }
  return {};
}

std::optional<KeyWalk> seen_keys(const AttentionProblem& problem, const AttentionSchedule& schedule,
                                 std::optional<Value> shown) {
  const std::int64_t keys = schedule.block_keys, tiles = problem.keys() / keys;
  AttentionSchedule skipping = schedule;
  skipping.skips = true;
  KeyWalk walk{key_walk(problem, skipping).period, {}, {}};
  const LogitBoxes logits(problem, shown);
  bool any = false;
  for (std::int64_t t = 0; t < problem.rows() / schedule.block_rows; ++t) {
    const std::int64_t row = t * schedule.block_rows, begin = t % walk.period * schedule.block_rows;
    const KeyTiles seen = seen_by(logits, {row, row + schedule.block_rows - 1}, tiles, keys);
    any |= seen.first < seen.last;
    // What holds of all tiles of rows: there may be more that some of them see.
    if (seen.last < tiles) walk.above = std::min(walk.above.value_or(far_away), seen.last * keys - 1 - begin);
    if (seen.first > 0) walk.below = std::max(walk.below.value_or(-far_away), seen.first * keys - begin);
  }
  return any ? std::optional(walk) : std::nullopt;
}

std::optional<double> logit_factor(const AttentionProblem& problem) {
  constexpr double least = 0x1p-20, most = 0x1p20;
  const Graph& graph = *problem.scores.graph;
  const Bounds bounds(graph);
  const auto interval = [&](Value value) {
    Box box;
    for (const std::int64_t extent : graph.type(value).dims) box.emplace_back(0, extent - 1);
    return bounds.of(value, box);
  };
  double factor = 1;
  Value value = graph.results()[0];
  while (value.node != problem.scores.root) {
    const Node& node = graph.node(value.node);
    // Types of 16 bits would round on the way.
    if (node.type().dtype != graph::DType::f32) return std::nullopt;
    if (node.op == Op::select) {
      const bool hides = interval(node.operands[1]).high <= hiding_logit;
      const Interval hidden = interval(node.operands[hides ? 1 : 2]);
      // Of a row that has nothing but a finite constant so far the exponents must be 0 as they stand: as products they
      // would be what rounding left of a billion.
      if (hidden.high != -infinity) return std::nullopt;
      value = node.operands[hides ? 2 : 1];
    } else if (node.op == Op::convert) {
      value = node.operands[0];
    } else if (node.op == Op::multiply || node.op == Op::divide) {
      const Interval right = interval(node.operands[1]), left = interval(node.operands[0]);
      const bool from_right = right.low == right.high;
      if (!from_right && (node.op == Op::divide || left.low != left.high)) return std::nullopt;
      const double constant = from_right ? right.low : left.low;
      factor = node.op == Op::multiply ? factor * constant : factor / constant;
      value = node.operands[from_right ? 0 : 1];
    } else {
      return std::nullopt;
    }
  }
  return factor >= least && factor <= most ? std::optional(factor) : std::nullopt;
}

}  // namespace stitch::kernel
