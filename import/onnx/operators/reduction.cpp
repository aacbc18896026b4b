// Reductions, positions of extremes, cumulative sums.
#include <algorithm>
#include <limits>

#include "import/emit.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// Axes of a Reduce*: from the input (opset 18; ReduceSum 13) or the attribute; all of them when none are given.
Result<std::optional<Dims>> reduction_axes(Call& c) {
  STITCH_ASSIGN(const std::optional<Dims> given, c.integers_from(1, "axes"));
  STITCH_ASSIGN(const std::int64_t no_op, c.node.integer("noop_with_empty_axes", 0));
  const std::int64_t rank = c.rank(c.in(0));
  if (!given || given->empty()) {
    if (no_op != 0) return std::optional<Dims>{};
    return std::optional<Dims>{first_axes(rank)};
  }
  STITCH_ASSIGN(Dims axes, Call::normal_axes(*given, rank));
  return std::optional<Dims>{std::move(axes)};
}

/// `before` on the elements, the reduction, `after` on the results; without axes only the element-wise parts count.
template <class Before, class After>
Result<Values> reduce(Call& c, ReduceKind kind, const Before& before, const After& after) {
  STITCH_ASSIGN(const std::optional<Dims> axes, reduction_axes(c));
  STITCH_ASSIGN(const std::int64_t keep, c.node.integer("keepdims", 1));
  Value y = before(widen(c.b, c.in(0)));
  if (axes) y = keep != 0 ? reduce_keep(c.b, kind, y, *axes) : c.b.reduce(kind, y, *axes);
  return Values{c.b.convert(after(y), c.dtype(c.in(0)))};
}

constexpr auto as_is = [](Value x) { return x; };

Result<Values> extreme_position(Call& c, ReduceKind kind) {
  STITCH_TRY(c.need_rank(0, 1));
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", 0, c.rank(c.in(0))));
  STITCH_ASSIGN(const std::int64_t keep, c.node.integer("keepdims", 1));
  STITCH_ASSIGN(const std::int64_t last, c.node.integer("select_last_index", 0));
  const Value both = c.b.add(Op::arg_reduce, {c.in(0)}, graph::ArgReduceAttributes{kind, axis, DType::s64, last != 0});
  Value position{both.node, 1};
  Dims dims = c.dims(c.in(0));
  dims[axis] = 1;
  if (c.b.failed()) return Values{position};
  return Values{keep != 0 ? c.b.reshape(position, dims) : position};
}

/// Reductions of pred (opset 20 for Max and Min).
Result<Values> reduce_extreme(Call& c, ReduceKind kind, ReduceKind boolean) {
  if (c.dtype(c.in(0)) == DType::pred) return reduce(c, boolean, as_is, as_is);
  STITCH_ASSIGN(const std::optional<Dims> axes, reduction_axes(c));
  STITCH_ASSIGN(const std::int64_t keep, c.node.integer("keepdims", 1));
  if (!axes) return Values{c.in(0)};
  return Values{keep != 0 ? reduce_keep(c.b, kind, c.in(0), *axes) : c.b.reduce(kind, c.in(0), *axes)};
}

}  // namespace

Result<Values> reduce_sum(Call& c) { return reduce(c, ReduceKind::sum, as_is, as_is); }
Result<Values> reduce_product(Call& c) { return reduce(c, ReduceKind::product, as_is, as_is); }
Result<Values> reduce_max(Call& c) { return reduce_extreme(c, ReduceKind::max, ReduceKind::bit_or); }
Result<Values> reduce_min(Call& c) { return reduce_extreme(c, ReduceKind::min, ReduceKind::bit_and); }

Result<Values> reduce_mean(Call& c) {
  STITCH_ASSIGN(const std::optional<Dims> axes, reduction_axes(c));
  std::int64_t count = 1;
  if (axes) {
    for (const std::int64_t axis : *axes) count *= c.dims(c.in(0))[axis];
  }
  // The mean of nothing is NaN for floats; integers have no such value.
  if (count == 0 && graph::is_integer(c.dtype(c.in(0)))) return Call::wrong("the mean of no integers");
  return reduce(c, ReduceKind::sum, as_is, [&](Value sum) { return div(c.b, sum, count); });
}

Result<Values> reduce_l1(Call& c) {
  return reduce(
      c, ReduceKind::sum, [&](Value x) { return c.b.unary(Op::abs, x); }, as_is);
}

Result<Values> reduce_l2(Call& c) {
  const bool whole = graph::is_integer(c.dtype(c.in(0)));
  const DType dtype = c.dtype(c.in(0));
  return reduce(
      c, ReduceKind::sum, [&](Value x) { return square(c.b, x); },
      [&](Value sum) { return whole ? c.b.convert(sqrt(c.b, c.b.convert(sum, DType::f64)), dtype) : sqrt(c.b, sum); });
}

Result<Values> reduce_sum_square(Call& c) {
  return reduce(
      c, ReduceKind::sum, [&](Value x) { return square(c.b, x); }, as_is);
}

Result<Values> reduce_log_sum(Call& c) {
  if (!graph::is_floating(c.dtype(c.in(0)))) return Call::unsupported("logarithms of integers");
  return reduce(c, ReduceKind::sum, as_is, [&](Value sum) { return log(c.b, sum); });
}

Result<Values> reduce_log_sum_exp(Call& c) {
  if (!graph::is_floating(c.dtype(c.in(0)))) return Call::unsupported("logarithms of integers");
  STITCH_ASSIGN(const std::optional<Dims> axes, reduction_axes(c));
  STITCH_ASSIGN(const std::int64_t keep, c.node.integer("keepdims", 1));
  const Value x = widen(c.b, c.in(0));
  if (!axes) return Values{c.in(0)};
  // Shifted by the maximum against overflow; where that is not finite there is nothing to shift.
  const Value top = reduce_keep(c.b, ReduceKind::max, x, *axes);
  const Value shift = c.b.select(c.b.unary(Op::is_finite, top), top, like(c.b, top, 0.0));
  const Value total = reduce_keep(c.b, ReduceKind::sum, exp(c.b, sub(c.b, x, shift)), *axes);
  Value y = c.b.convert(add(c.b, log(c.b, total), shift), c.dtype(c.in(0)));
  if (keep == 0 && !c.b.failed()) {
    Dims dims;
    for (const std::int64_t d : other_axes(c.rank(c.in(0)), *axes)) dims.push_back(c.dims(c.in(0))[d]);
    y = c.b.reshape(y, dims);
  }
  return Values{y};
}

Result<Values> arg_max(Call& c) { return extreme_position(c, ReduceKind::max); }
Result<Values> arg_min(Call& c) { return extreme_position(c, ReduceKind::min); }

namespace {

Result<Values> cumulative(Call& c, ReduceKind kind) {
  STITCH_ASSIGN(const std::int64_t given, c.need_integer(1));
  STITCH_ASSIGN(const std::int64_t axis, Call::normal_axis(given, c.rank(c.in(0))));
  STITCH_ASSIGN(const std::int64_t exclusive, c.node.integer("exclusive", 0));
  STITCH_ASSIGN(const std::int64_t reverse, c.node.integer("reverse", 0));
  return Values{c.b.add(Op::scan, {c.in(0)}, graph::ScanAttributes{kind, axis, reverse != 0, exclusive != 0})};
}

}  // namespace

Result<Values> cum_sum(Call& c) { return cumulative(c, ReduceKind::sum); }
Result<Values> cum_prod(Call& c) { return cumulative(c, ReduceKind::product); }

}  // namespace stitch::import::onnx
