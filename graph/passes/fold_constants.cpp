#include "graph/passes/fold_constants.h"

#include <algorithm>
#include <unordered_map>

#include "graph/literal.h"
#include "graph/passes/rewriter.h"
#include "graph/reference/evaluate.h"

namespace stitch::graph {
namespace {

constexpr std::int64_t most_folded_elements = 4096;
constexpr std::int64_t most_table_elements = 1024;     // of what iotas make
constexpr std::int64_t most_operand_elements = 65536;  // what a folded reduction or slice may read
constexpr int most_expression_nodes = 64;

bool is_foldable(const Node& node) {
  const OpCategory category = info(node.op).category;
  if (category == OpCategory::source || category == OpCategory::boundary || category == OpCategory::control) {
    return false;
  }
  return node.op != Op::broadcast && node.op != Op::reshape && node.type().elements() <= most_folded_elements;
}

bool is_repeated_constant(const Rewriter& graph, Value v) {
  if (graph.is(v, Op::broadcast) && graph.type(v).elements() <= most_operand_elements) v = graph.operand(v);
  return graph.is(v, Op::constant) && graph.type(v).elements() <= most_operand_elements;
}

/// The graph that computes one node from constants and iotas.
class Expression {
 public:
  explicit Expression(const Rewriter& from) : from_(from) {}

  /// Adds `node` and all it depends on; false when that is not constant, or too much.
  bool add(const Node& node, bool with_iotas) {
    Node copy{node.op, {}, node.attributes, node.results, {}, {}, 0};
    for (const Value& operand : node.operands) {
      const auto value = copied(operand, with_iotas);
      if (!value) return false;
      copy.operands.push_back(*value);
    }
    const NodeId id = graph_.add_unchecked(std::move(copy)).node;
    std::vector<Value> results;
    for (std::size_t i = 0; i < node.results.size(); ++i) results.push_back({id, static_cast<std::int32_t>(i)});
    graph_.set_results(std::move(results));
    return true;
  }

  [[nodiscard]] bool has_iota() const { return has_iota_; }

  [[nodiscard]] Result<std::vector<Tensor>> value() const {
    EvaluateOptions options;
    options.round = true;
    return evaluate(graph_, {}, options);
  }

 private:
  std::optional<Value> copied(Value value, bool with_iotas) {
    const auto found = copies_.find(value.node);
    if (found != copies_.end()) return Value{found->second, value.result};
    const Node& node = from_.node(value);
    const bool simple = with_iotas ? is_expression(node) : is_repeated_constant(from_, value);
    if (!simple || graph_.size() >= most_expression_nodes) return std::nullopt;
    Node copy{node.op, {}, node.attributes, node.results, {}, {}, 0};
    for (const Value& operand : node.operands) {
      const auto inner = copied(operand, with_iotas);
      if (!inner) return std::nullopt;
      copy.operands.push_back(*inner);
    }
    has_iota_ = has_iota_ || node.op == Op::iota;
    const NodeId id = graph_.add_unchecked(std::move(copy)).node;
    copies_.emplace(value.node, id);
    return Value{id, value.result};
  }

  static bool is_expression(const Node& node) {
    if (node.type().elements() > most_folded_elements) return false;
    return node.op == Op::constant || node.op == Op::iota || node.op == Op::broadcast || node.op == Op::reshape ||
           is_elementwise(node.op);
  }

  const Rewriter& from_;
  Graph graph_;
  bool has_iota_ = false;
  std::unordered_map<NodeId, NodeId> copies_;
};

Replacement folded(Rewriter& graph, const Expression& expression) {
  const Result<std::vector<Tensor>> tensors = expression.value();
  if (!tensors) return {};
  std::vector<Value> results;
  for (const Tensor& tensor : *tensors) results.push_back(graph.constant(constant_from(tensor)));
  return results;
}

/// A constant of equal elements as a broadcast scalar.
Replacement constant(Rewriter& graph, const Node& node) {
  const auto& a = node.as<ConstantAttributes>();
  if (a.type.elements() <= 1 || !is_splat(a)) return {};
  return graph.broadcast(graph.constant(scalar_of(a.type.dtype, element_bits(a, 0))), a.type.dims, {});
}

Replacement fold_constants_rule(Rewriter& graph, const Node& node) {
  if (node.op == Op::constant) return constant(graph, node);
  if (!is_foldable(node)) return {};
  const auto repeated = [&](const Value& v) { return is_repeated_constant(graph, v); };
  if (std::all_of(node.operands.begin(), node.operands.end(), repeated)) {
    Expression expression(graph);
    if (expression.add(node, false)) return folded(graph, expression);
  }
  const bool table = info(node.op).cost == OpCost::expensive && is_floating(node.type().dtype) &&
                     is_elementwise(node.op) && node.type().elements() <= most_table_elements;
  if (!table) return {};
  Expression expression(graph);
  if (!expression.add(node, true) || !expression.has_iota()) return {};
  return folded(graph, expression);
}

}  // namespace

Result<int> fold_constants(Graph& graph, const PassContext&) { return rewrite(graph, fold_constants_rule); }

}  // namespace stitch::graph
