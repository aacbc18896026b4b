#include "kernel/rewrite/online_softmax.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/passes/dead_code.h"

namespace stitch::kernel {
namespace {

using graph::Dims;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

// Shorter rows are a warp's, or fit the registers of few: an exchange is shuffles, and a second sweep costs less than
// the exponentials.
constexpr std::int64_t least_row = 2048;

bool reduces_by(const Node& node, ReduceKind kind) {
  return node.op == Op::reduce && node.as<graph::ReduceAttributes>().kind == kind;
}

/// Positions of the dimensions that stay.
Dims kept_dimensions(std::size_t rank, const Dims& reduced) {
  Dims kept;
  for (std::size_t d = 0; d < rank; ++d) {
    if (std::ranges::count(reduced, static_cast<std::int64_t>(d)) == 0) kept.push_back(static_cast<std::int64_t>(d));
  }
  return kept;
}

class OnlineSoftmax {
 public:
  explicit OnlineSoftmax(const Graph& kernel) : kernel_(kernel) {}

  std::optional<Graph> run() {
    for (NodeId id = 0; id < kernel_.size(); ++id) {
      if (const auto maximum = maximum_of(kernel_.node(id))) maximum_of_sum_[id] = *maximum;
    }
    if (maximum_of_sum_.empty()) return std::nullopt;
    for (const auto& [sum, maximum] : maximum_of_sum_) joined_.emplace(maximum, NodeId{-1});
    Graph graph;
    graph.name = kernel_.name;
    graph.constraints = kernel_.constraints;
    for (NodeId id = 0; id < kernel_.size(); ++id) {
      if (!copy(id, graph)) return std::nullopt;
    }
    for (const Value result : kernel_.results()) graph.add_result(at_.at(result));
    if (!graph::remove_dead_code(graph, {})) return std::nullopt;
    return graph;
  }

 private:
  /// The maximum m of x, of a sum of exp(x − m) along the same dimensions.
  [[nodiscard]] std::optional<NodeId> maximum_of(const Node& sum) const {
    if (!reduces_by(sum, ReduceKind::sum)) return std::nullopt;
    const graph::TensorType& type = kernel_.type(sum.operands[0]);
    if (type.dtype != graph::DType::f32 && type.dtype != graph::DType::f64) return std::nullopt;
    const Dims& along = sum.as<graph::ReduceAttributes>().dimensions;
    std::int64_t row = 1;
    for (const std::int64_t d : along) row *= type.dims[d];
    if (row < least_row) return std::nullopt;
    const Node& exponential = kernel_.node(sum.operands[0].node);
    if (exponential.op != Op::exp) return std::nullopt;
    const Node& difference = kernel_.node(exponential.operands[0].node);
    if (difference.op != Op::subtract) return std::nullopt;
    const Node& repeated = kernel_.node(difference.operands[1].node);
    if (repeated.op != Op::broadcast) return std::nullopt;
    const Value maximum = repeated.operands[0];
    const Node& greatest = kernel_.node(maximum.node);
    const bool same = reduces_by(greatest, ReduceKind::max) && greatest.operands[0] == difference.operands[0] &&
                      greatest.as<graph::ReduceAttributes>().dimensions == along &&
                      repeated.as<graph::BroadcastAttributes>().mapping == kept_dimensions(type.dims.size(), along);
    return same ? std::optional(maximum.node) : std::nullopt;
  }

  bool copy(NodeId id, Graph& graph) {
    const Node& from = kernel_.node(id);
    if (const auto sum = maximum_of_sum_.find(id); sum != maximum_of_sum_.end()) {
      at_[{id}] = {joined_.at(sum->second), 1};
      return true;
    }
    if (const auto joined = joined_.find(id); joined != joined_.end()) {
      const auto both = graph.add(Op::max_exp_sum, {at_.at(from.operands[0])},
                                  graph::MaxExpSumAttributes{from.as<graph::ReduceAttributes>().dimensions});
      if (!both) return false;
      joined->second = both->node;
      at_[{id}] = *both;
      return true;
    }
    Node node = from;
    for (Value& operand : node.operands) operand = at_.at(operand);
    const Value first = graph.add_unchecked(std::move(node));
    for (std::int32_t r = 0; r < std::ssize(from.results); ++r) at_[{id, r}] = {first.node, r};
    return true;
  }

  const Graph& kernel_;
  std::map<NodeId, NodeId> maximum_of_sum_;
  std::map<NodeId, NodeId> joined_;  ///< by the maximum: the reduction of both in the new graph
  std::map<Value, Value> at_;        ///< values of the kernel in the new graph
};

}  // namespace

std::optional<Graph> join_max_and_exp_sums(const Graph& kernel) { return OnlineSoftmax(kernel).run(); }

}  // namespace stitch::kernel
