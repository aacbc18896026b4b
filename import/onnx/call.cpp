#include "import/onnx/call.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>

#include "graph/literal.h"

namespace stitch::import::onnx {

using graph::ConstantAttributes;
using graph::Op;

std::optional<Value> Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
    const auto found = scope->values.find(name);
    if (found != scope->values.end()) return frame->import(*scope->frame, found->second);
  }
  return std::nullopt;
}

Call::Call(Scope& in_scope, NodeView view, std::int64_t opset_version, std::string where)
    : scope(in_scope),
      state(*in_scope.state),
      frame(*in_scope.frame),
      b(in_scope.frame->builder),
      node(view),
      version(opset_version),
      place(std::move(where)) {}

Result<std::int64_t> Call::normal_axis(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) return wrong("axis {} for rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

Result<Dims> Call::normal_axes(Dims axes, std::int64_t rank) {
  for (std::int64_t& axis : axes) {
    STITCH_ASSIGN(axis, normal_axis(axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    return wrong("axes {}: one appears twice", graph::to_string(axes));
  }
  return axes;
}

Result<std::int64_t> Call::axis(std::string_view attribute, std::int64_t fallback, std::int64_t rank) const {
  STITCH_ASSIGN(const std::int64_t given, node.integer(attribute, fallback));
  Result<std::int64_t> normal = normal_axis(given, rank);
  if (!normal) return normal.error().within(fmt::format("attribute '{}'", attribute));
  return normal;
}

Status Call::need_rank(std::size_t input, std::int64_t least, std::int64_t most) const {
  const std::int64_t given = rank(in(input));
  if (given >= least && given <= most) return {};
  return wrong("input {} is {}: its rank must be {}", input, graph::to_string(b.type(in(input))),
               least == most ? fmt::format("{}", least)
               : most >= 64  ? fmt::format("{} or more", least)
                             : fmt::format("{} to {}", least, most));
}

Result<ConstantAttributes> Call::need_constant(std::size_t input) {
  if (!has(input)) return wrong("input {} is missing", input);
  std::optional<ConstantAttributes> value = frame.evaluate(in(input), Known::assumed);
  if (!value) return unsupported("input {} must be known when the model is read", input);
  return std::move(*value);
}

Dims integers_of(const ConstantAttributes& constant) {
  Dims list(constant.type.elements());
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i] = graph::load_integer(constant.type.dtype, graph::element_at(constant, i));
  }
  return list;
}

Result<Dims> Call::need_integers(std::size_t input) {
  STITCH_ASSIGN(const ConstantAttributes value, need_constant(input));
  if (graph::is_floating(value.type.dtype)) return wrong("input {} is not of integers", input);
  return integers_of(value);
}

Result<std::int64_t> Call::need_integer(std::size_t input) {
  STITCH_ASSIGN(const Dims list, need_integers(input));
  if (list.size() != 1) return wrong("input {} has {} elements instead of one", input, list.size());
  return list[0];
}

Result<std::vector<double>> Call::need_numbers(std::size_t input) {
  STITCH_ASSIGN(const ConstantAttributes value, need_constant(input));
  std::vector<double> list(value.type.elements());
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = graph::element(value, i);
  return list;
}

Result<std::optional<Dims>> Call::integers_from(std::size_t input, std::string_view attribute) {
  if (!has(input)) return node.integers(attribute);
  STITCH_ASSIGN(Dims list, need_integers(input));
  return std::optional<Dims>(std::move(list));
}

Values Call::opaque(std::vector<TensorType> results, std::string_view reason) {
  Boundary& boundary = state.boundaries[place];
  const pb::NodeProto& proto = node.proto();
  boundary.op =
      proto.domain().empty() || proto.domain() == "ai.onnx" ? proto.op_type() : proto.domain() + "." + proto.op_type();
  boundary.place = place;
  boundary.reason = reason;
  b.at(place);
  Values operands;
  for (const std::optional<Value>& input : inputs) {
    if (input) operands.push_back(*input);
  }
  const std::size_t count = results.size();
  const Value first = b.add(Op::opaque, std::move(operands),
                            graph::OpaqueAttributes{"onnx." + boundary.op, node.describe(), std::move(results)});
  Values values;
  for (std::size_t i = 0; i < count; ++i) values.push_back({first.node, static_cast<std::int32_t>(i)});
  return values;
}

std::optional<std::vector<TensorType>> Call::declared() const {
  std::vector<TensorType> types;
  for (const std::string& name : node.proto().output()) {
    if (name.empty()) {
      types.push_back({DType::pred, {0}});  // an output that nobody asked for still has its place
      continue;
    }
    const auto found = scope.declared.find(name);
    if (found == scope.declared.end()) return std::nullopt;
    types.push_back(found->second);
  }
  return types;
}

void Call::note_range(Value indices, std::int64_t low, std::int64_t high) {
  if (&frame != state.root || high < low) return;
  std::vector<Value> wanted{indices};
  std::set<graph::NodeId> seen;
  const graph::Graph& graph = b.graph();
  while (!wanted.empty()) {
    const graph::NodeId id = wanted.back().node;
    wanted.pop_back();
    if (id < 0 || !seen.insert(id).second) continue;
    const graph::Node& source = graph.node(id);
    switch (source.op) {
      case Op::parameter: {
        if (!graph::is_integer(source.type().dtype)) break;
        const auto [range, fresh] = state.ranges.emplace(id, std::pair{low, high});
        if (!fresh) range->second = {std::max(range->second.first, low), std::min(range->second.second, high)};
        break;
      }
      case Op::convert:
      case Op::broadcast:
      case Op::reshape:
      case Op::transpose:
      case Op::slice:
      case Op::concatenate:
      case Op::reverse: wanted.insert(wanted.end(), source.operands.begin(), source.operands.end()); break;
      default: break;
    }
  }
}

}  // namespace stitch::import::onnx
