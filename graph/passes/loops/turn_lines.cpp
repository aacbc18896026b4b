#include "graph/passes/loops/turn_lines.h"

#include <algorithm>

#include "graph/infer_checks.h"
#include "graph/literal.h"
#include "graph/passes/loops/trip_count.h"
#include "graph/passes/range_analysis.h"

namespace stitch::graph {
namespace {

// Beyond these nothing is taken as known: the arithmetic on lines stays far from overflow.
constexpr std::int64_t most_first = std::int64_t{1} << 40, most_step = std::int64_t{1} << 20;

bool is_small(const TurnLines::Line& line) {
  return line.first >= -most_first && line.first <= most_first && line.step >= -most_step && line.step <= most_step;
}

}  // namespace

TurnLines::TurnLines(const Graph& body, std::span<const std::optional<std::int64_t>> starts, std::int64_t turns)
    : body_(body), turns_(turns), lines_(body.size()) {
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto step = counter_step(body, i);
    if (step && starts[i] && is_small({*starts[i], *step})) lines_[body.parameters()[i]] = Line{*starts[i], *step};
  }
  for (NodeId id = 0; id < body.size(); ++id) {
    const Node& node = body.node(id);
    if (node.op == Op::parameter || node.results.size() != 1 || node.type().elements() != 1) continue;
    const auto line = line_of(node);
    if (line && is_small(*line)) lines_[id] = line;
  }
}

/// Sums and differences wrap, so a line is right modulo 2^bits; it is exact wherever it fits the dtype.
std::optional<TurnLines::Line> TurnLines::line_of(const Node& node) const {
  if (!is_integer(node.type().dtype)) return std::nullopt;
  if (node.op == Op::constant) {
    return Line{load_integer(node.type().dtype, node.as<ConstantAttributes>().data.data()), 0};
  }
  if (node.op != Op::add && node.op != Op::subtract && node.op != Op::negate && node.op != Op::convert &&
      node.op != Op::reshape) {
    return std::nullopt;
  }
  const auto& a = of(node.operands[0].node);
  if (!a || node.op == Op::reshape) return a;
  if (node.op == Op::negate) return Line{-a->first, -a->step};
  if (node.op == Op::convert) {
    const DType from = body_.type(node.operands[0]).dtype;
    return is_integer(from) && fits(*a, from) ? a : std::nullopt;
  }
  const auto& b = of(node.operands[1].node);
  if (!b) return std::nullopt;
  const std::int64_t sign = node.op == Op::add ? 1 : -1;
  return Line{a->first + sign * b->first, a->step + sign * b->step};
}

bool TurnLines::fits(const Line& line, DType dtype) const {
  const double first = line.first;
  const double last = first + line.step * static_cast<double>(turns_ - 1);
  const ValueRange all = range_of(dtype);
  return std::min(first, last) >= all.low && std::max(first, last) <= all.high;
}

std::optional<TurnAxis> TurnLines::axis(const Dims& extents, const Dims& sizes, const Node& node,
                                        std::size_t first_start) const {
  std::optional<TurnAxis> found;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (sizes[d] == extents[d]) continue;  // whatever the start, it is clamped to 0
    const Value start = node.operands[first_start + d];
    const auto& line = of(start.node);
    if (found || sizes[d] != 1 || extents[d] != turns_ || !line || !fits(*line, body_.type(start).dtype)) return {};
    const bool forward = line->first == 0 && line->step == 1;
    if (!forward && !(line->first == turns_ - 1 && line->step == -1)) return {};
    found = TurnAxis{static_cast<std::int64_t>(d), !forward};
  }
  return found;
}

}  // namespace stitch::graph
