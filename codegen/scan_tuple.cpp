#include "codegen/scan_tuple.h"

#include "codegen/spelling.h"
#include "graph/literal.h"
#include "graph/reduce_kind.h"

namespace stitch::codegen {

using graph::Node;
using graph::Op;

namespace {

std::string at(const ScanTuple::Names& names, int component) {
  return fmt::format("{}{}{}", names.name, component, names.subscript);
}

/// The operator of a combiner, of scalars by name.
std::string scalar_expression(const graph::Graph& combiner, const Node& node, const std::vector<std::string>& names) {
  kernel::Item item;
  item.kind = kernel::Item::Kind::compute;
  item.op = node.op;
  item.dtype = node.type().dtype;
  if (node.op == Op::compare) item.comparison = node.as<graph::CompareAttributes>().direction;
  std::vector<std::string> operands;
  for (const graph::Value operand : node.operands) operands.push_back(names[operand.node]);
  return expression(item, combiner.type(node.operands[node.op == Op::select ? 1 : 0]).dtype, operands);
}

}  // namespace

ScanTuple::ScanTuple(GroupScope& scope, const kernel::Anchor& anchor)
    : scope_(scope), node_(scope.graph.node(anchor.node)), anchor_(anchor) {
  for (const graph::TensorType& type : node_.results) {
    const graph::DType dtype = node_.op == Op::scan ? graph::info(type.dtype).accumulator : type.dtype;
    types_.push_back(compute_type(dtype));
  }
}

std::string ScanTuple::identity() const {
  const graph::DType dtype = node_.type().dtype;
  // The type's own, not its accumulator's: an exclusive scan stores it.
  return literal(dtype, graph::identity_bits(node_.as<graph::ScanAttributes>().kind, dtype));
}

void ScanTuple::emit_combiner() {
  if (node_.op == Op::scan) return;
  const graph::Graph& combiner = *node_.regions[0];
  Writer& out = scope_.out;
  std::string parameters;
  std::vector<std::string> names(combiner.size());
  for (int side = 0; side < 2; ++side) {
    for (int c = 0; c < components(); ++c) {
      const std::string name = fmt::format("{}{}", side == 0 ? "left" : "right", c);
      names[combiner.parameters()[side * components() + c]] = name;
      parameters += fmt::format("{}const {} {}", parameters.empty() ? "" : ", ", type(c), name);
    }
  }
  for (int c = 0; c < components(); ++c) parameters += fmt::format(", {}& result{}", type(c), c);
  out.open("const auto combine = []({})", parameters);
  for (graph::NodeId id = 0; id < combiner.size(); ++id) {
    const Node& node = combiner.node(id);
    if (node.op == Op::parameter) continue;
    if (node.op == Op::constant) {
      names[id] = literal(node.type().dtype, graph::element_bits(node.as<graph::ConstantAttributes>(), 0));
      continue;
    }
    std::string name = fmt::format("{}_{}", graph::to_string(node.op), id);
    for (char& c : name) c = c == '-' ? '_' : c;
    out.line("const {} {} = {};", compute_type(node.type().dtype), name, scalar_expression(combiner, node, names));
    names[id] = name;
  }
  for (int c = 0; c < components(); ++c) out.line("result{} = {};", c, names[combiner.results()[c].node]);
  out.set_depth(out.depth() - 1);
  out.line("}};");
}

std::string ScanTuple::each(const Names& names) const {
  std::string text;
  for (int c = 0; c < components(); ++c) text += fmt::format("{}{}", c == 0 ? "" : ", ", at(names, c));
  return text;
}

void ScanTuple::declare(const Names& names) {
  for (int c = 0; c < components(); ++c) scope_.out.line("{} {};", type(c), at(names, c));
}

void ScanTuple::assign(const Names& to, const Names& from) {
  for (int c = 0; c < components(); ++c) scope_.out.line("{} = {};", at(to, c), at(from, c));
}

void ScanTuple::combine(const Names& left, const Names& right, const std::string& condition) {
  const std::string when = condition.empty() ? "" : fmt::format("if ({}) ", condition);
  if (node_.op != Op::scan)
    return scope_.out.line("{}combine({}, {}, {});", when, each(left), each(right), each(right));
  const std::string functor = combiner(node_.as<graph::ScanAttributes>().kind);
  scope_.out.line("{}{} = {}::combine({}, {});", when, at(right, 0), functor, at(left, 0), at(right, 0));
}

void ScanTuple::shuffle_up(const Names& to, const Names& from, const std::string& distance) {
  for (int c = 0; c < components(); ++c)
    scope_.out.line("const {} {} = __shfl_up_sync(0xffffffffu, {}, {});", type(c), at(to, c), at(from, c), distance);
}

void ScanTuple::broadcast(const Names& to, const Names& from, int lane) {
  for (int c = 0; c < components(); ++c)
    scope_.out.line("{} {} = __shfl_sync(0xffffffffu, {}, {});", type(c), at(to, c), at(from, c), lane);
}

}  // namespace stitch::codegen
