#include "graph/passes/attention/attention_gradients.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/builder.h"
#include "graph/fill.h"
#include "graph/passes/attention/gradient_sums.h"
#include "graph/passes/dead_code.h"

namespace stitch::graph {
namespace {

bool is_wide(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

/// Whether a node divides by what repeats.
bool divides_rows(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op != Op::divide || !is_wide(node.type().dtype)) return false;
  const Node& divisor = graph.node(node.operands[1].node);
  return divisor.op == Op::broadcast && graph.type(divisor.operands[0]).elements() < node.type().elements();
}

class GradientRewriter {
 public:
  explicit GradientRewriter(const Graph& graph) : graph_(graph), uses_(users(graph)), builder_(graph.name) {}

  Result<int> run(Graph& out) {
    for (GradientSum& sum : find_gradient_sums(graph_)) {
      plan_quotients(sum);
      plan_weights(sum.attention);
      sums_.emplace(sum.sum, std::move(sum));
    }
    if (sums_.empty()) return 0;
    for (NodeId id = 0; id < graph_.size(); ++id) rebuild(id);
    std::vector<Value> results;
    for (const Value value : graph_.results()) results.push_back(now(value));
    STITCH_ASSIGN(Graph made, builder_.finish(std::move(results)));
    made.constraints = graph_.constraints;
    out = std::move(made);
    STITCH_TRY(remove_dead_code(out, {}));
    return changes_;
  }

 private:
  /// `operand`: that of the node which is made of the quotient.
  struct Twin {
    int operand = 0;
    Value value;
  };

  // ---- what changes -------------------------------------------------------------------------------------------

  /// Divisions between the gradient of the weights and the next products.
  void plan_quotients(const GradientSum& sum) {
    std::vector<NodeId> open = {sum.gradient};
    std::set<NodeId> seen;
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (divides_rows(graph_, id)) quotients_.insert(id);
      for (const NodeId user : uses_[id]) {
        const bool goes_on = is_elementwise(graph_.node(user).op) || graph_.node(user).op == Op::transpose;
        if (goes_on && seen.insert(user).second) open.push_back(user);
      }
    }
  }

  /// The weights of an attention, from the division to the product.
  void plan_weights(const Attention& attention) {
    std::map<NodeId, int> chain;  // to the operand that is made of the quotient
    Value value = attention.product >= 0 ? weights_of(attention) : Value{};
    while (value != attention.quotient) {
      const Op op = graph_.node(value.node).op;
      const auto step = std::ranges::find(attention.dropout, value.node, &DropoutStep::node);
      const bool drops = step != attention.dropout.end();
      if (!drops && op != Op::convert && op != Op::transpose) return;
      const int operand = drops ? step->operand : 0;
      chain.emplace(value.node, operand);
      value = graph_.node(value.node).operands[operand];
    }
    if (!divides_rows(graph_, value.node)) return;
    chain.emplace(value.node, 0);
    for (const auto& [id, operand] : chain) {
      twins_.emplace(id, Twin{operand, {}});
      forward_.insert(id);
    }
    forward_.insert(attention.product);
  }
  [[nodiscard]] Value weights_of(const Attention& attention) const {
    const Node& product = graph_.node(attention.product);
    return product.operands[product.operands[1] == attention.values ? 0 : 1];
  }

  // ---- the new graph ------------------------------------------------------------------------------------------

  [[nodiscard]] Value now(Value old) const { return {now_[old.node].node, now_[old.node].result + old.result}; }

  void rebuild(NodeId id) {
    const Node& node = graph_.node(id);
    builder_.at(node.name, node.line);
    if (const auto sum = sums_.find(id); sum != sums_.end()) {
      now_.push_back(summed(sum->second));
      ++changes_;
      return;
    }
    const bool keeps = forward_.contains(id);
    std::vector<Value> operands;
    for (const Value operand : node.operands) {
      const auto twin = twins_.find(operand.node);
      operands.push_back(keeps || twin == twins_.end() ? now(operand) : twin->second.value);
    }
    now_.push_back(quotients_.contains(id) && !keeps ? multiplied(node, operands[0])
                                                     : builder_.add(node.op, operands, node.attributes, node.regions));
    if (const auto twin = twins_.find(id); twin != twins_.end()) {
      const Value made_of = node.operands[twin->second.operand];
      const auto below = twins_.find(made_of.node);
      operands[twin->second.operand] = below == twins_.end() ? now(made_of) : below->second.value;
      twin->second.value = divides_rows(graph_, id) ? multiplied(node, operands[0])
                                                    : builder_.add(node.op, operands, node.attributes, node.regions);
    }
  }

  /// The division as a multiplication.
  Value multiplied(const Node& division, Value dividend) {
    ++changes_;
    const Value repeated = division.operands[1];
    auto known = reciprocals_.find(repeated);
    if (known == reciprocals_.end()) {
      const Node& broadcast = graph_.node(repeated.node);
      const Value divisor = now(broadcast.operands[0]);
      const TensorType type = builder_.type(divisor);
      const std::optional<double> number = fill_number(graph_, repeated);
      const Value small = number ? builder_.filled(type.dtype, type.dims, 1 / *number)
                                 : builder_.binary(Op::divide, builder_.filled(type.dtype, type.dims, 1), divisor);
      known = reciprocals_.emplace(repeated, builder_.add(Op::broadcast, {small}, broadcast.attributes)).first;
    }
    return builder_.binary(Op::multiply, dividend, known->second);
  }

  Value summed(const GradientSum& sum) {
    const TensorType& type = graph_.node(sum.sum).type();
    const DType dtype = type.dtype == DType::f64 ? DType::f64 : DType::f32;
    const Value output = turned(builder_.convert(now(sum.output), dtype), sum.turned);
    const Value products = builder_.binary(Op::multiply, builder_.convert(now(sum.output_gradient), dtype), output);
    Value value = turned(builder_.reduce(ReduceKind::sum, products, {sum.width}), sum.order);
    for (const RowFactor& factor : sum.factor.numerators)
      value = builder_.binary(Op::multiply, value, repeated(factor, {dtype, type.dims}));
    for (const RowFactor& factor : sum.factor.denominators)
      value = builder_.binary(Op::divide, value, repeated(factor, {dtype, type.dims}));
    if (sum.factor.scale != 1)
      value = builder_.binary(Op::multiply, value, builder_.filled(dtype, type.dims, sum.factor.scale));
    return builder_.convert(value, type.dtype);
  }

  Value turned(Value value, const Dims& order) {
    return std::ranges::is_sorted(order) ? value : builder_.transpose(value, order);
  }

  /// The factor of every element of a tensor.
  Value repeated(const RowFactor& factor, const TensorType& type) {
    const Dims& dims = graph_.type(factor.value).dims;
    std::vector<std::pair<std::int64_t, std::int64_t>> places;  // of the tensor, and of the factor without extents of 1
    Dims extents, mapping, order;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == 1) continue;
      places.emplace_back(factor.along[d], std::ssize(extents));
      extents.push_back(dims[d]);
    }
    std::ranges::sort(places);
    for (const auto& [to, from] : places) {
      mapping.push_back(to);
      order.push_back(from);
    }
    Value value = builder_.convert(now(factor.value), type.dtype);
    value = turned(builder_.reshape(value, extents), order);
    return builder_.dims(value) == type.dims ? value : builder_.broadcast(value, type.dims, mapping);
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>> uses_;
  Builder builder_;
  std::map<NodeId, GradientSum> sums_;  ///< by the reductions that they replace
  std::set<NodeId> quotients_;          ///< divisions that become multiplications
  std::map<NodeId, Twin> twins_;        ///< weights by division, and what the backward pass has in their place
  std::set<NodeId> forward_;            ///< who keeps them
  std::map<Value, Value> reciprocals_;  ///< by what repeats
  std::vector<Value> now_;              ///< by old node, its first result
  int changes_ = 0;
};

}  // namespace

Result<int> simplify_attention_gradients(Graph& graph, const PassContext& context) {
  if (!context.reassociate || graph.constraints.eager_precision) return 0;
  const Graph before = graph;
  return GradientRewriter(before).run(graph);
}

}  // namespace stitch::graph
