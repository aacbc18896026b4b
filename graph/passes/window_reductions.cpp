#include "graph/passes/window_reductions.h"

#include <algorithm>
#include <numeric>

#include "graph/infer_checks.h"
#include "graph/literal.h"
#include "graph/reduce_kind.h"

namespace stitch::graph {
namespace {

/// Windows side by side of so many elements are read as they are; others are a reduction.
constexpr std::int64_t few_elements = 8;
/// A kernel reads the window of every result, unrolled: beyond this many loads it has too few registers for them, or
/// takes seconds to compile.
constexpr std::int64_t most_window_elements = 32;

class Splitter {
 public:
  Splitter(Rewriter& graph, const Node& node)
      : graph_(graph), x_(node.operands[0]), a_(node.as<ReduceWindowAttributes>()), type_(node.type()) {}

  Replacement result() {
    if (type_.elements() == 0 || graph_.type(x_).elements() == 0) return {};
    if (is_whole()) return neighbours_reduced();
    const std::int64_t elements = element_count(a_.sizes);
    if (elements > few_elements && is_side_by_side()) return neighbours_reduced();
    if (elements <= most_window_elements) return {};
    if (const DType wide = accumulator(); wide != type_.dtype) {  // one that is not rounded in between
      const Value sums = graph_.add(Op::reduce_window, {graph_.convert(x_, wide)}, a_);
      return graph_.convert(sums, type_.dtype);
    }
    for (std::size_t d = 0; d < a_.sizes.size(); ++d) {
      if (common_divisor(d) > 1) return neighbours_reduced();
    }
    const std::size_t d = first_dimension();
    return a_.sizes[d] == element_count(a_.sizes) ? in_two_levels(d) : apart(d);
  }

 private:
  [[nodiscard]] DType accumulator() const {
    const bool rounds = is_floating(type_.dtype) && (a_.kind == ReduceKind::sum || a_.kind == ReduceKind::product);
    return rounds ? info(type_.dtype).accumulator : type_.dtype;
  }

  [[nodiscard]] bool is_idempotent() const {
    return a_.kind == ReduceKind::max || a_.kind == ReduceKind::min || a_.kind == ReduceKind::bit_and ||
           a_.kind == ReduceKind::bit_or;
  }

  [[nodiscard]] bool is_untouched(std::size_t d) const {
    return a_.sizes[d] == 1 && a_.strides[d] == 1 && a_.low[d] == 0 && a_.high[d] == 0 && a_.base_dilation[d] == 1;
  }

  /// Whether every dimension is either left as it is or covered by its only window.
  [[nodiscard]] bool is_whole() const {
    bool any = false;
    for (std::size_t d = 0; d < a_.sizes.size(); ++d) {
      if (is_untouched(d)) continue;
      if (type_.dims[d] != 1 || a_.low[d] != 0 || a_.sizes[d] != graph_.dims(x_)[d] || common_divisor(d) == 1)
        return false;
      any = true;
    }
    return any;
  }

  [[nodiscard]] bool is_side_by_side() const {
    for (std::size_t d = 0; d < a_.sizes.size(); ++d) {
      if (!is_untouched(d) && common_divisor(d) != std::max(a_.sizes[d], a_.strides[d])) return false;
    }
    return true;
  }

  /// How many neighbours every window along d has together or not at all.
  [[nodiscard]] std::int64_t common_divisor(std::size_t d) const {
    if (a_.base_dilation[d] != 1 || a_.window_dilation[d] != 1) return 1;
    return type_.dims[d] == 1 ? a_.sizes[d] : std::gcd(a_.sizes[d], a_.strides[d]);
  }

  Value identity() { return graph_.constant(scalar_of(type_.dtype, identity_bits(a_.kind, type_.dtype))); }

  Value neighbours_reduced() {
    const Dims& extents = graph_.dims(x_);
    PadAttributes pad{Dims(extents.size(), 0), Dims(extents.size(), 0), Dims(extents.size(), 0)};
    ReduceWindowAttributes rest = a_;
    Dims tiled, reduced, kept;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      const std::int64_t g = common_divisor(d);
      if (g == 1) {
        tiled.push_back(extents[d]);
        kept.push_back(extents[d]);
        continue;
      }
      const std::int64_t covered = (type_.dims[d] - 1) * a_.strides[d] + a_.sizes[d];
      pad.low[d] = a_.low[d];
      pad.high[d] = covered - a_.low[d] - extents[d];
      rest.sizes[d] = a_.sizes[d] / g;
      rest.strides[d] = type_.dims[d] == 1 ? 1 : a_.strides[d] / g;
      rest.low[d] = rest.high[d] = 0;
      tiled.insert(tiled.end(), {covered / g, g});
      kept.push_back(covered / g);
      reduced.push_back(tiled.size() - 1);
    }
    const Dims none(extents.size(), 0);
    const Value covered = pad.low == none && pad.high == none ? x_ : graph_.add(Op::pad, {x_, identity()}, pad);
    const Value sums = graph_.reshape(graph_.reduce(a_.kind, graph_.reshape(covered, tiled), reduced), kept);
    if (kept == type_.dims && element_count(rest.sizes) == 1 && rest.low == none && rest.high == none) return sums;
    return graph_.add(Op::reduce_window, {sums}, rest);
  }

  /// The dimension that leaves the fewest elements for the others.
  [[nodiscard]] std::size_t first_dimension() const {
    const auto left = [&](std::size_t d) { return static_cast<double>(type_.dims[d]) / graph_.dims(x_)[d]; };
    std::size_t first = a_.sizes.size();
    for (std::size_t d = 0; d < a_.sizes.size(); ++d) {
      if (a_.sizes[d] > 1 && (first == a_.sizes.size() || left(d) < left(first))) first = d;
    }
    return first;
  }

  /// What the window does in dimensions other than d is left for afterwards.
  Value apart(std::size_t d) {
    ReduceWindowAttributes here = a_, others = a_;
    for (std::size_t i = 0; i < a_.sizes.size(); ++i) set_untouched(i == d ? others : here, i);
    return graph_.add(Op::reduce_window, {graph_.add(Op::reduce_window, {x_}, here)}, others);
  }

  static void set_untouched(ReduceWindowAttributes& a, std::size_t d) {
    a.sizes[d] = a.strides[d] = a.base_dilation[d] = a.window_dilation[d] = 1;
    a.low[d] = a.high[d] = 0;
  }

  /// A window of `count` windows of `size`, `step` apart, and `rest` further elements.
  struct Levels {
    std::int64_t size, step, count, rest;
  };

  [[nodiscard]] Levels levels(std::size_t d) const {
    const std::int64_t n = a_.sizes[d], stride = a_.strides[d];
    // Steps that are multiples of the stride need the small windows at these places only.
    const std::int64_t unit = stride * stride <= n ? stride : 1;
    Levels best{n, n, 1, 0};
    for (std::int64_t step = unit; step < n && step * step <= 4 * n; step += unit) {
      const std::int64_t count = n / step, rest = n % step;
      const Levels each = is_idempotent() ? Levels{step + rest, step, count, 0} : Levels{step, step, count, rest};
      if (count > 1 && each.size + each.count + each.rest < best.size + best.count + best.rest) best = each;
    }
    return best;
  }

  Replacement in_two_levels(std::size_t d) {
    const Levels level = levels(d);
    if (level.count == 1) return {};
    const std::int64_t dilation = a_.window_dilation[d], stride = a_.strides[d];
    const std::int64_t distance = level.step * dilation, places = std::gcd(stride, distance);
    ReduceWindowAttributes inner = a_, outer = a_;
    for (std::size_t i = 0; i < a_.sizes.size(); ++i) set_untouched(outer, i);
    inner.sizes[d] = level.size;
    inner.strides[d] = places;
    outer.sizes[d] = level.count;
    outer.strides[d] = stride / places;
    outer.window_dilation[d] = distance / places;
    const std::int64_t count =
        ((type_.dims[d] - 1) * stride + (level.count - 1) * distance) / places + 1;  // of the small windows
    fit(inner, d, count);
    const Value sums = graph_.add(Op::reduce_window, {graph_.add(Op::reduce_window, {x_}, inner)}, outer);
    if (level.rest == 0) return sums;
    ReduceWindowAttributes behind = a_;
    behind.sizes[d] = level.rest;
    behind.low[d] -= level.count * distance;
    fit(behind, d, type_.dims[d]);
    return graph_.binary(combining_op(a_.kind), sums, graph_.add(Op::reduce_window, {x_}, behind));
  }

  /// Ends the padding behind x where the last of `count` windows ends.
  void fit(ReduceWindowAttributes& a, std::size_t d, std::int64_t count) const {
    const std::int64_t extent = (graph_.dims(x_)[d] - 1) * a.base_dilation[d] + 1;
    a.high[d] = (count - 1) * a.strides[d] + (a.sizes[d] - 1) * a.window_dilation[d] + 1 - a.low[d] - extent;
  }

  Rewriter& graph_;
  Value x_;
  ReduceWindowAttributes a_;
  TensorType type_;
};

}  // namespace

Replacement split_window(Rewriter& graph, const Node& node) {
  if (node.op != Op::reduce_window) return {};
  return Splitter(graph, node).result();
}

}  // namespace stitch::graph
