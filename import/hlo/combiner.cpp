#include "import/hlo/combiner.h"

#include <array>
#include <cmath>
#include <limits>

#include "graph/reduce_kind.h"
#include "import/hlo/element_program.h"

namespace stitch::import::hlo {
namespace {

using graph::DType;
using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

/// Those that combine; `replace` does not.
constexpr std::array<ReduceKind, 7> kinds = {ReduceKind::sum,    ReduceKind::product, ReduceKind::max,
                                             ReduceKind::min,    ReduceKind::bit_and, ReduceKind::bit_or,
                                             ReduceKind::bit_xor};

/// Every value of `narrow` is one of `wide`.
bool holds(DType wide, DType narrow) {
  const graph::DTypeInfo& w = graph::info(wide);
  const graph::DTypeInfo& n = graph::info(narrow);
  if (wide == narrow) return true;
  if (w.kind != n.kind || w.bytes <= n.bytes) return false;
  return w.mantissa_bits >= n.mantissa_bits;
}

/// The value behind conversions to wider types and reshapes of scalars.
Value behind_widening(const Graph& graph, Value value) {
  for (;;) {
    const Node& node = graph.node(value.node);
    const bool widens = node.op == Op::convert && holds(node.type().dtype, graph.type(node.operands[0]).dtype);
    if (!widens && node.op != Op::reshape) return value;
    value = node.operands[0];
  }
}

/// The value behind conversions back to the narrower type of the combiner, and to such a type and back again: whoever
/// computes in the wider type throughout is allowed to (docs/ir.md).
Value behind_narrowing(const Graph& graph, Value value) {
  for (;;) {
    const Node& node = graph.node(value.node);
    if (node.op != Op::convert && node.op != Op::reshape) return value;
    const Node& before = graph.node(node.operands[0].node);
    // Rounding may be left out; integers wrap or saturate, which changes the value.
    const bool there_and_back = before.op == Op::convert && graph.type(before.operands[0]) == node.type() &&
                                graph::is_floating(node.type().dtype) && holds(node.type().dtype, before.type().dtype);
    const bool narrows = holds(graph.type(node.operands[0]).dtype, node.type().dtype);
    if (!there_and_back && !narrows && node.op != Op::reshape) return value;
    value = there_and_back ? before.operands[0] : node.operands[0];
  }
}

/// On truth values the extremes are the logical operators; one name for one thing.
ReduceKind canonical(ReduceKind kind, DType dtype) {
  if (dtype != DType::pred) return kind;
  if (kind == ReduceKind::max) return ReduceKind::bit_or;
  if (kind == ReduceKind::min) return ReduceKind::bit_and;
  return kind;
}

std::optional<ReduceKind> kind_of_result(const Graph& graph, std::size_t index) {
  const std::size_t count = graph.results().size();
  const Value accumulator{graph.parameters()[index], 0};
  const Value element{graph.parameters()[index + count], 0};
  if (graph.type(accumulator) != graph.type(element) || graph.type(accumulator).rank() != 0) return std::nullopt;
  const Value result = behind_narrowing(graph, graph.results()[index]);
  if (result == element) return ReduceKind::replace;
  const Node& node = graph.node(result.node);
  if (node.operands.size() != 2) return std::nullopt;
  const Value x = behind_widening(graph, node.operands[0]);
  const Value y = behind_widening(graph, node.operands[1]);
  if (!(x == accumulator && y == element) && !(x == element && y == accumulator)) return std::nullopt;
  for (const ReduceKind kind : kinds) {
    if (graph::combining_op(kind) == node.op) return canonical(kind, graph.type(element).dtype);
  }
  return std::nullopt;
}

/// Two values whose order is that of `i` and `j`.
struct Order {
  double x, y;
};
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Whether the pair (value, position) that the combiner returns for each order is that of `wanted`; with `any_tie`,
/// either position will do for equal values.
bool behaves_as(const ElementProgram& program, DType value_type, DType position_type, ArgCombiner wanted,
                bool any_tie) {
  constexpr std::array<Order, 3> orders = {{{1, 2}, {2, 1}, {1, 1}}};
  constexpr std::array<Order, 2> positions = {{{3, 5}, {5, 3}}};
  const auto run = [&](double a, double p, double b, double q) -> std::optional<Order> {
    const std::array<double, 4> given = {a, p, b, q};
    std::vector<Scalar> inputs;
    for (const ElementProgram::Input& input : program.inputs()) {
      const std::size_t at = input.parameter;
      inputs.push_back(from_number(given[at], at % 2 == 0 ? value_type : position_type));
    }
    const auto result = program.run(inputs);
    if (!result) return std::nullopt;
    return Order{as_number((*result)[0], value_type), as_number((*result)[1], position_type)};
  };
  for (const Order& values : orders) {
    for (const Order& position : positions) {
      const bool first = values.x == values.y ? (position.x < position.y) != wanted.last
                                              : (values.x > values.y) == (wanted.kind == ReduceKind::max);
      const auto result = run(values.x, position.x, values.y, position.y);
      if (!result || !same(result->x, first ? values.x : values.y)) return false;
      const bool tie = any_tie && values.x == values.y && (result->y == position.x || result->y == position.y);
      if (!tie && result->y != (first ? position.x : position.y)) return false;
    }
  }
  if (!graph::is_floating(value_type)) return true;
  // A NaN wins, with its position, in at least one order: one that always loses is not what arg_reduce computes. Two
  // keep one of the positions.
  int lost = 0;
  for (const Order& values : {Order{nan_value, 1}, Order{1, nan_value}, Order{nan_value, nan_value}}) {
    const auto result = run(values.x, 3, values.y, 5);
    if (!result) return false;
    const bool is_first = same(result->x, values.x) && result->y == 3;
    const bool is_second = same(result->x, values.y) && result->y == 5;
    if (!is_first && !is_second) return false;
    lost += !std::isnan(result->x);
  }
  return lost < 2;
}

}  // namespace

std::optional<std::vector<ReduceKind>> independent_kinds(const Graph& combiner) {
  const std::size_t count = combiner.results().size();
  if (count == 0 || combiner.parameters().size() != 2 * count) return std::nullopt;
  std::vector<ReduceKind> found;
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<ReduceKind> kind = kind_of_result(combiner, i);
    if (!kind) return std::nullopt;
    found.push_back(*kind);
  }
  return found;
}

std::optional<ArgCombiner> arg_combiner(const Graph& combiner) {
  if (combiner.results().size() != 2 || combiner.parameters().size() != 4) return std::nullopt;
  const graph::TensorType value = combiner.type(combiner.results()[0]);
  const graph::TensorType position = combiner.type(combiner.results()[1]);
  if (value.rank() != 0 || position.rank() != 0 || !graph::is_integer(position.dtype)) return std::nullopt;
  if (!graph::is_floating(value.dtype) && !graph::is_integer(value.dtype)) return std::nullopt;
  const std::array<graph::TensorType, 4> expected = {value, position, value, position};
  for (std::size_t i = 0; i < 4; ++i) {
    if (combiner.node(combiner.parameters()[i]).type() != expected[i]) return std::nullopt;
  }
  const std::array<Element, 2> outputs = {{{combiner.results()[0], 0}, {combiner.results()[1], 0}}};
  const auto program = ElementProgram::compile(combiner, outputs);
  if (!program || !program->only_compares()) return std::nullopt;
  struct Candidate {
    ArgCombiner arg;
    bool any_tie;
  };
  constexpr std::array<Candidate, 6> candidates = {{{{ReduceKind::max, false}, false},
                                                    {{ReduceKind::max, true}, false},
                                                    {{ReduceKind::min, false}, false},
                                                    {{ReduceKind::min, true}, false},
                                                    {{ReduceKind::max, false}, true},
                                                    {{ReduceKind::min, false}, true}}};
  for (const Candidate& candidate : candidates) {
    if (behaves_as(*program, value.dtype, position.dtype, candidate.arg, candidate.any_tie)) return candidate.arg;
  }
  return std::nullopt;
}

std::optional<ReduceKind> selection_kind(const Graph& selection) {
  if (selection.results().size() != 1 || selection.parameters().size() != 2) return std::nullopt;
  const graph::TensorType type = selection.node(selection.parameters()[0]).type();
  if (type.rank() != 0 || selection.node(selection.parameters()[1]).type() != type) return std::nullopt;
  if (selection.type(selection.results()[0]) != graph::TensorType{DType::pred, {}}) return std::nullopt;
  const Element output{selection.results()[0], 0};
  const auto program = ElementProgram::compile(selection, {&output, 1});
  if (!program || !program->only_compares() || type.dtype == DType::pred) return std::nullopt;
  const auto keeps = [&](double selected, double candidate) {
    std::vector<Scalar> inputs;
    for (const ElementProgram::Input& input : program->inputs()) {
      inputs.push_back(from_number(input.parameter == 0 ? selected : candidate, type.dtype));
    }
    const auto result = program->run(inputs);
    return result && (*result)[0].integer != 0;
  };
  if (!keeps(1, 1)) return std::nullopt;
  if (keeps(2, 1) && !keeps(1, 2)) return ReduceKind::max;
  if (keeps(1, 2) && !keeps(2, 1)) return ReduceKind::min;
  return std::nullopt;
}

bool is_idempotent(ReduceKind kind) {
  return kind == ReduceKind::max || kind == ReduceKind::min || kind == ReduceKind::bit_and ||
         kind == ReduceKind::bit_or;
}

}  // namespace stitch::import::hlo
