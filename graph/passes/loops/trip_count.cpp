#include "graph/passes/loops/trip_count.h"

#include <algorithm>

#include "graph/literal.h"
#include "graph/passes/range_analysis.h"

namespace stitch::graph {
namespace {

// Counters beyond this are taken as unknown: the arithmetic below stays far from overflow.
constexpr std::int64_t most_trips = std::int64_t{1} << 31;

std::optional<std::int64_t> scalar_constant(const Graph& graph, Value value) {
  const Node& node = graph.node(value.node);
  if (node.op != Op::constant || node.type().rank() != 0 || is_floating(node.type().dtype)) return std::nullopt;
  return load_integer(node.type().dtype, node.as<ConstantAttributes>().data.data());
}

Comparison swapped(Comparison direction) {
  switch (direction) {
    case Comparison::lt: return Comparison::gt;
    case Comparison::le: return Comparison::ge;
    case Comparison::gt: return Comparison::lt;
    case Comparison::ge: return Comparison::le;
    default: return direction;
  }
}

/// Trips of `for (i = start; i DIRECTION limit; i += step)`.
std::optional<std::int64_t> trips(std::int64_t start, std::int64_t step, Comparison direction, std::int64_t limit) {
  if (direction == Comparison::gt || direction == Comparison::ge) {
    return trips(-start, -step, swapped(direction), -limit);
  }
  if (direction == Comparison::le) return trips(start, step, Comparison::lt, limit + 1);
  if (direction == Comparison::ne) {
    const std::int64_t distance = limit - start;
    if (step == 0 || distance % step != 0 || distance / step < 0) return std::nullopt;
    return distance / step;
  }
  if (direction != Comparison::lt) return std::nullopt;
  if (start >= limit) return 0;
  if (step <= 0) return std::nullopt;
  return (limit - start + step - 1) / step;
}

}  // namespace

std::optional<std::int64_t> counter_step(const Graph& body, std::size_t i) {
  const Value result = body.results()[i], parameter{body.parameters()[i], 0};
  const Node& node = body.node(result.node);
  if (node.op != Op::add || node.type().rank() != 0 || !is_integer(node.type().dtype)) return std::nullopt;
  for (const std::size_t side : {0, 1}) {
    if (node.operands[side] == parameter) return scalar_constant(body, node.operands[1 - side]);
  }
  return std::nullopt;
}

std::optional<std::int64_t> trip_count(const Graph& body, const Graph& condition,
                                       const std::function<std::optional<std::int64_t>(std::size_t)>& start) {
  const Node& test = condition.node(condition.results()[0].node);
  if (test.op != Op::compare) return std::nullopt;
  const auto parameters = condition.parameters();
  for (const std::size_t side : {0, 1}) {
    const auto counter = std::find(parameters.begin(), parameters.end(), test.operands[side].node);
    const auto limit = scalar_constant(condition, test.operands[1 - side]);
    if (counter == parameters.end() || !limit) continue;
    const std::size_t i = counter - parameters.begin();
    const auto first = start(i), step = counter_step(body, i);
    if (!first || !step) return std::nullopt;
    const DType dtype = condition.type(test.operands[side]).dtype;
    for (const std::int64_t value : {*first, *step, *limit}) {
      const bool beyond_signed = value < 0 && is_unsigned_integer(dtype);  // 2^63 or more
      if (beyond_signed || value < -most_trips || value > most_trips) return std::nullopt;
    }
    const Comparison direction = test.as<CompareAttributes>().direction;
    const auto count = trips(*first, *step, side == 0 ? direction : swapped(direction), *limit);
    if (!count) return std::nullopt;
    // The value that ends the loop must be one that the counter can have: otherwise it wraps and the loop goes on.
    const double last = static_cast<double>(*first) + static_cast<double>(*step) * static_cast<double>(*count);
    const ValueRange all = range_of(dtype);
    return last >= all.low && last <= all.high ? count : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace stitch::graph
