#include "import/onnx/region.h"

#include <algorithm>

#include "graph/literal.h"
#include "import/onnx/prune.h"

namespace stitch::import::onnx {
namespace {

using graph::Builder;
using graph::Graph;
using graph::NodeId;
using graph::Op;
using graph::TensorType;
using graph::Value;
using Values = std::vector<Value>;

bool keep_all(NodeId) { return true; }

Result<std::shared_ptr<const Graph>> close(Builder& builder, Values results) {
  Result<Graph> whole = builder.finish(std::move(results));
  if (!whole) return whole.error();
  return std::shared_ptr<const Graph>(std::make_shared<Graph>(prune(*whole, keep_all).graph));
}

Values parameters_of(Builder& builder, const std::vector<TensorType>& types) {
  Values parameters;
  for (const TensorType& type : types) parameters.push_back(builder.parameter(type.dtype, type.dims));
  return parameters;
}

Values results_of(Value first, std::size_t from, std::size_t count) {
  Values values;
  for (std::size_t i = 0; i < count; ++i) values.push_back({first.node, static_cast<std::int32_t>(from + i)});
  return values;
}

}  // namespace

Result<Values> emit_loop(Frame& frame, const Values& initial, std::int64_t trip_count, const LoopBody& body) {
  Values operands{frame.builder.constant(graph::splat({graph::DType::s64, {}}, 0))};
  operands.insert(operands.end(), initial.begin(), initial.end());
  std::vector<TensorType> types;
  for (const Value operand : operands) types.push_back(frame.builder.type(operand));

  Frame region("body", &frame);
  Builder& b = region.builder;
  const Values parameters = parameters_of(b, types);
  STITCH_ASSIGN(const Values next, body.step(region, parameters));
  Values results{b.binary(Op::add, parameters[0], b.scalar(graph::DType::s64, 1))};
  results.insert(results.end(), next.begin(), next.end());
  for (std::size_t i = 0; i < results.size() && !b.failed(); ++i) {
    if (i >= types.size() || b.type(results[i]) != types[i]) {
      return make_error(ErrorKind::unsupported, "an iteration changes the type of a carried value");
    }
  }
  for (const Frame::Capture& capture : region.captures()) {
    operands.push_back(capture.outer);
    types.push_back(frame.builder.type(capture.outer));
    results.push_back(capture.inner);
  }
  STITCH_ASSIGN(std::shared_ptr<const Graph> body_graph, close(b, std::move(results)));

  Builder condition("condition");
  const Values seen = parameters_of(condition, types);
  const Value decision = body.proceed(condition, seen);
  STITCH_ASSIGN(std::shared_ptr<const Graph> condition_graph, close(condition, {decision}));
  const Value loop = frame.builder.add(Op::loop, std::move(operands), graph::LoopAttributes{trip_count},
                                       {std::move(body_graph), std::move(condition_graph)});
  return results_of(loop, 1, initial.size());
}

Result<Values> emit_counted_loop(Frame& frame, const Values& initial, std::int64_t trip_count,
                                 decltype(LoopBody::step) step) {
  const auto proceed = [&](Builder& b, const Values& parameters) {
    const Value limit = b.constant(graph::dense_integers({graph::DType::s64, {}}, std::vector{trip_count}));
    return b.compare(graph::Comparison::lt, parameters[0], limit);
  };
  return emit_loop(frame, initial, trip_count, {std::move(step), proceed});
}

namespace {

/// A region whose parameters are exactly `types`; `slots[i]` is the capture that parameter i stands for, or -1.
Result<std::shared_ptr<const Graph>> with_parameters(const Graph& graph, const std::vector<TensorType>& types,
                                                     const std::vector<NodeId>& slots) {
  Graph region;
  region.name = graph.name;
  std::vector<NodeId> copies(graph.size(), -1);
  for (std::size_t i = 0; i < types.size(); ++i) {
    Result<Value> parameter = region.add(Op::parameter, {}, graph::ParameterAttributes{types[i]});
    if (!parameter) return parameter.error();
    if (slots[i] >= 0) copies[slots[i]] = parameter->node;
  }
  for (NodeId id = 0; id < graph.size(); ++id) {
    NodeId& copy = copies[id];
    if (copy >= 0) continue;
    graph::Node node = graph.node(id);
    for (Value& operand : node.operands) operand.node = copies[operand.node];
    copy = region.add_unchecked(std::move(node)).node;
  }
  Values results(graph.results().begin(), graph.results().end());
  for (Value& result : results) result.node = copies[result.node];
  region.set_results(std::move(results));
  return std::shared_ptr<const Graph>(std::make_shared<Graph>(prune(region, keep_all).graph));
}

}  // namespace

Result<Values> emit_conditional(Frame& frame, Value condition, const Branch& when_true, const Branch& when_false) {
  Frame regions[2] = {Frame("true", &frame), Frame("false", &frame)};
  std::vector<Graph> graphs;
  std::vector<std::vector<TensorType>> result_types(2);
  for (const std::size_t i : {0U, 1U}) {
    STITCH_ASSIGN(Values results, (i == 0 ? when_true : when_false)(regions[i]));
    for (const Value result : results) result_types[i].push_back(regions[i].builder.type(result));
    STITCH_ASSIGN(Graph graph, regions[i].builder.finish(std::move(results)));
    graphs.push_back(std::move(graph));
  }
  if (result_types[0] != result_types[1]) {
    return make_error(ErrorKind::unsupported, "the branches' results differ in type");
  }
  Values operands{condition};
  std::vector<TensorType> types;
  std::vector<NodeId> slots[2];
  for (const std::size_t i : {0U, 1U}) {
    for (const Frame::Capture& capture : regions[i].captures()) {
      std::size_t at = 1;
      while (at < operands.size() && operands[at] != capture.outer) ++at;
      if (at == operands.size()) {
        operands.push_back(capture.outer);
        types.push_back(frame.builder.type(capture.outer));
        for (std::vector<NodeId>& list : slots) list.push_back(-1);
      }
      slots[i][at - 1] = capture.inner.node;
    }
  }
  std::vector<std::shared_ptr<const Graph>> branches(2);
  for (const std::size_t i : {0U, 1U}) {
    // graph::conditional: a pred selects branch 0 when it is true.
    STITCH_ASSIGN(branches[i], with_parameters(graphs[i], types, slots[i]));
  }
  const std::size_t count = result_types[0].size();
  const Value node = frame.builder.add(Op::conditional, std::move(operands), {}, std::move(branches));
  return results_of(node, 0, count);
}

}  // namespace stitch::import::onnx
