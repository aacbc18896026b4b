#include "kernel/contraction/scaled_contraction.h"

#include <algorithm>
#include <array>
#include <optional>

#include "graph/builder.h"
#include "graph/dot_dimensions.h"
#include "graph/subgraph.h"
#include "kernel/contraction/contraction_sides.h"
#include "kernel/contraction/depth_scales.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::kernel {
namespace {

using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

template <class... Arguments>
Error unscalable(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return make_error(ErrorKind::unsupported, format, std::forward<Arguments>(arguments)...);
}

bool moves_elements(Op op) { return op == Op::reshape || op == Op::transpose || op == Op::slice; }

/// A conversion that rounds no more than to 16 bits: what is not rounded is more exact.
bool is_conversion(const Node& node) {
  return node.op == Op::convert && graph::is_floating(node.type().dtype) && graph::byte_size(node.type().dtype) >= 2;
}

/// Tensor cores take them as they are.
bool is_narrow(DType dtype) { return graph::byte_size(dtype) <= 2 && dtype != DType::pred; }

/// From an operand of the dot down to the narrow tensor that it is, scaled and in other layouts.
struct Chain {
  std::vector<NodeId> nodes;  ///< from the operand to the tensor's first reader
  Value tensor;               ///< a parameter
  bool is_scaled = false;
};

/// Operators on a way that is looked for.
constexpr int longest_way = 16;

std::optional<Chain> chain_of(const Graph& graph, Value value, int operators = 0) {
  const Node& node = graph.node(value.node);
  if (operators == longest_way) return std::nullopt;
  if (node.op == Op::parameter) {
    if (!is_narrow(node.type().dtype)) return std::nullopt;
    return Chain{{}, value, false};
  }
  const bool scales = node.op == Op::multiply;
  if (!scales && !moves_elements(node.op) && !is_conversion(node)) return std::nullopt;
  std::optional<Chain> found;
  for (std::size_t i = 0; i < (scales ? node.operands.size() : 1); ++i) {
    std::optional<Chain> through = chain_of(graph, node.operands[i], operators + 1);
    // Of two that lead to tensors nobody says which one is scaled.
    if (through && found) return std::nullopt;
    if (through) found = std::move(through);
  }
  if (!found) return std::nullopt;
  found->nodes.insert(found->nodes.begin(), value.node);
  found->is_scaled = found->is_scaled || scales;
  return found;
}

/// Operators of a graph one by one, some of them replaced.
class Copy {
 public:
  explicit Copy(const Graph& from) : from_(from), at_(from.size()) {
    to_.name = from.name;
    to_.constraints = from.constraints;
    for (const NodeId id : from.parameters()) at_[id] = to_.add_unchecked(from.node(id));
  }

  [[nodiscard]] Value at(Value value) const { return {at_[value.node].node, value.result}; }
  [[nodiscard]] bool has(NodeId id) const { return at_[id].node >= 0; }
  void replace(NodeId id, Value by) { at_[id] = by; }

  Result<Value> add(Op op, std::vector<Value> operands, graph::Attributes attributes = {}) {
    return to_.add(op, std::move(operands), std::move(attributes));
  }
  Value parameter(DType dtype, const Dims& dims) {
    graph::Builder one;
    const Value made = one.parameter(dtype, dims);
    return to_.add_unchecked(one.graph().node(made.node));
  }
  Result<Value> ones(DType dtype, const Dims& dims) {
    graph::Builder one;
    const Value scalar = one.scalar(dtype, 1);
    const Value constant = to_.add_unchecked(one.graph().node(scalar.node));
    return dims.empty() ? Result<Value>(constant)
                        : add(Op::broadcast, {constant}, graph::BroadcastAttributes{dims, {}});
  }
  /// A node on other operands.
  Result<Value> again(const Node& node, std::vector<Value> operands) {
    return to_.add(node.op, std::move(operands), node.attributes);
  }
  /// All that is not there yet and whose operands are, in the graph's order.
  void take_over() {
    for (NodeId id = 0; id < from_.size(); ++id) {
      if (has(id)) continue;
      Node node = from_.node(id);
      const bool whole = std::ranges::all_of(node.operands, [&](Value operand) { return has(operand.node); });
      if (!whole) continue;
      std::ranges::transform(node.operands, node.operands.begin(), [&](Value operand) { return at(operand); });
      at_[id] = to_.add_unchecked(std::move(node));
    }
  }
  /// With all parameters, and nothing that these results do not take.
  Result<Graph> finish(const std::vector<Value>& results) {
    std::vector<Value> parameters;
    for (const NodeId id : to_.parameters()) parameters.push_back({id, 0});
    return graph::subgraph(to_, parameters, results);
  }

 private:
  const Graph& from_;
  Graph to_;
  std::vector<Value> at_;  ///< by node: the first of its results; -1: not there
};

class Scaling {
 public:
  explicit Scaling(Graph graph) : whole_(std::make_shared<const Graph>(std::move(graph))), g_(*whole_) {}

  Result<ContractionProblem> derive() {
    STITCH_TRY(find_root());
    STITCH_TRY(find_chains());
    STITCH_TRY(find_sum());
    const bool operands_scaled = chains_[0].is_scaled || chains_[1].is_scaled;
    if (operands_scaled == sum_.has_value()) return unscalable("no scales, or scales of operands and of their sums");
    for (const NodeId id : way_) STITCH_TRY(check_alone(id));
    STITCH_ASSIGN(Graph product, product_alone());
    STITCH_ASSIGN(Graph scaling, scales_alone());
    STITCH_ASSIGN(ContractionProblem problem, derive_contraction(std::move(product)));
    STITCH_ASSIGN(const ContractionSides sides, sides_of(*problem.graph, problem.root));
    if (!is_in_own_order(*problem.graph, problem.root, sides)) return unscalable("parts that are not side by side");
    DepthScales scales;
    scales.graph = std::make_shared<const Graph>(std::move(scaling));
    scales.of_sums = sum_.has_value();
    for (const bool left : {true, false}) {
      if (chains_[left ? 0 : 1].is_scaled) scales.sides.push_back(left);
    }
    scales.dot = dot();
    scales.lhs_dims = operand_dims(0);
    scales.rhs_dims = operand_dims(1);
    scales.parts = sum_ ? sum_->parts : 0;
    const int stands_in = static_cast<int>(g_.parameters().size());
    scales.other_side = problem.left.parameter == stands_in + 1;
    for (ContractionOperand* operand : {&problem.left, &problem.right}) {
      const Value tensor = chains_[operand->parameter - stands_in].tensor;
      operand->parameter = *parameter_number(g_, tensor.node);
      operand->dtype = g_.type(tensor).dtype;
    }
    problem.scales = std::move(scales);
    problem.scaled = whole_;
    STITCH_TRY(describe_scales(problem));
    return problem;
  }

 private:
  /// Where scaled sums of parts are added.
  struct Sum {
    NodeId id;
    std::size_t parts;             ///< batch dimension of the dot
    std::vector<std::size_t> lie;  ///< of the summed value's dimensions, which of the dot's each is
  };

  [[nodiscard]] const graph::DotAttributes& dot() const { return g_.node(root_).as<graph::DotAttributes>(); }
  [[nodiscard]] const Dims& operand_dims(std::size_t i) const { return g_.type(g_.node(root_).operands[i]).dims; }

  Status find_root() {
    const std::vector<NodeId> roots = contraction_roots(g_);
    if (roots.size() != 1) return unscalable("{} products to scale", roots.size());
    root_ = roots[0];
    const Node& node = g_.node(root_);
    if (node.op != Op::dot || node.type().dtype == DType::f64) return unscalable("a {} to scale", to_string(node.op));
    users_ = graph::users(g_);
    is_result_ = graph::is_result(g_);
    return {};
  }

  Status find_chains() {
    for (std::size_t i = 0; i < 2; ++i) {
      auto chain = chain_of(g_, g_.node(root_).operands[i]);
      if (!chain) return unscalable("operand {} of '{}' is no narrow tensor that is scaled", i, g_.node(root_).name);
      way_.insert(way_.end(), chain->nodes.begin(), chain->nodes.end());
      chains_[i] = *std::move(chain);
    }
    const DType left = g_.type(chains_[0].tensor).dtype, right = g_.type(chains_[1].tensor).dtype;
    const bool alike = left == right || (graph::byte_size(left) == 1 && graph::byte_size(right) == 1 &&
                                         graph::is_floating(left) == graph::is_floating(right));
    return alike ? Status{} : unscalable("{} by {}, scaled", to_string(left), to_string(right));
  }

  /// Follows the dot's results through scales and transposes to a sum over one of its batch dimensions.
  Status find_sum() {
    std::vector<std::size_t> lie(g_.node(root_).type().dims.size());
    for (std::size_t d = 0; d < lie.size(); ++d) lie[d] = d;
    std::vector<NodeId> way;
    for (NodeId id = root_; users_[id].size() == 1 && !is_result_[id];) {
      way.push_back(id);
      id = users_[id][0];
      const Node& node = g_.node(id);
      if (node.op == Op::reduce) {
        const auto& a = node.as<graph::ReduceAttributes>();
        if (a.kind != graph::ReduceKind::sum || a.dimensions.size() != 1) return {};
        if (!graph::is_floating(node.type().dtype) || node.type().dtype == DType::f64) return {};
        const std::size_t parts = lie[a.dimensions[0]];
        if (parts >= dot().lhs_batch.size()) return {};
        lie.erase(lie.begin() + a.dimensions[0]);
        sum_ = Sum{id, parts, std::move(lie)};
        way_.insert(way_.end(), way.begin(), way.end());
        return {};
      }
      if (node.op == Op::transpose) {
        std::vector<std::size_t> next;
        for (const std::int64_t d : node.as<graph::TransposeAttributes>().permutation) next.push_back(lie[d]);
        lie = std::move(next);
      } else if (node.op == Op::convert ? !graph::is_floating(node.type().dtype) : node.op != Op::multiply) {
        return {};
      }
      // Its square is no scaled product.
      if (node.op == Op::multiply && node.operands[0] == node.operands[1]) return {};
    }
    return {};
  }

  /// What is scaled elsewhere is missing for whoever else reads it.
  [[nodiscard]] Status check_alone(NodeId id) const {
    if (users_[id].size() == 1 && !is_result_[id]) return {};
    const bool is_root = id == root_ && !sum_;
    return is_root ? Status{} : unscalable("'{}' is read by others", g_.node(id).name);
  }

  /// The product of parameters in the places of the tensors, not scaled, with what is behind it.
  Result<Graph> product_alone() const {
    Copy copy(g_);
    std::vector<Value> operands;
    for (const Chain& chain : chains_) operands.push_back(copy.parameter(DType::f32, g_.type(chain.tensor).dims));
    for (std::size_t i = 0; i < 2; ++i) {
      for (auto id = chains_[i].nodes.rbegin(); id != chains_[i].nodes.rend(); ++id) {
        const Node& node = g_.node(*id);
        if (!moves_elements(node.op)) continue;
        STITCH_ASSIGN(operands[i], copy.again(node, {operands[i]}));
      }
    }
    graph::DotAttributes a = dot();
    a.result = DType::f32;
    if (sum_) {
      a.lhs_contracting.insert(a.lhs_contracting.begin(), a.lhs_batch[sum_->parts]);
      a.rhs_contracting.insert(a.rhs_contracting.begin(), a.rhs_batch[sum_->parts]);
      a.lhs_batch.erase(a.lhs_batch.begin() + static_cast<std::ptrdiff_t>(sum_->parts));
      a.rhs_batch.erase(a.rhs_batch.begin() + static_cast<std::ptrdiff_t>(sum_->parts));
    }
    STITCH_ASSIGN(Value value, copy.add(Op::dot, operands, a));
    if (sum_) {
      Dims permutation;
      for (const std::size_t d : sum_->lie)
        permutation.push_back(static_cast<std::int64_t>(d > sum_->parts ? d - 1 : d));
      if (!std::ranges::is_sorted(permutation)) {
        STITCH_ASSIGN(value, copy.add(Op::transpose, {value}, graph::TransposeAttributes{permutation}));
      }
    }
    const NodeId last = sum_ ? sum_->id : root_;
    const DType dtype = g_.node(last).type().dtype;
    if (dtype != DType::f32) {
      STITCH_ASSIGN(value, copy.add(Op::convert, {value}, graph::ConvertAttributes{dtype}));
    }
    copy.replace(last, value);
    copy.take_over();
    std::vector<Value> results;
    for (const Value result : g_.results()) results.push_back(copy.at(result));
    return copy.finish(results);
  }

  /// What the scales would make of ones.
  Result<Graph> scales_alone() const {
    Copy copy(g_);
    std::vector<Value> results;
    if (sum_) {
      STITCH_ASSIGN(const Value one, copy.ones(g_.node(root_).type().dtype, g_.node(root_).type().dims));
      copy.replace(root_, one);
      copy.take_over();
      const Value scaled = g_.node(sum_->id).operands[0];
      STITCH_ASSIGN(const Value value, in_order_of_dot(copy, copy.at(scaled)));
      return copy.finish({value});
    }
    for (const Chain& chain : chains_) {
      if (!chain.is_scaled) continue;
      const NodeId first = chain.nodes.back();
      const bool converts = g_.node(first).op == Op::convert;
      const NodeId from = converts ? first : chain.tensor.node;
      STITCH_ASSIGN(const Value one, copy.ones(g_.node(from).type().dtype, g_.node(from).type().dims));
      copy.replace(from, one);
    }
    copy.take_over();
    for (std::size_t i = 0; i < 2; ++i) {
      if (chains_[i].is_scaled) results.push_back(copy.at(g_.node(root_).operands[i]));
    }
    return copy.finish(results);
  }

  /// The value that is summed, with its dimensions as the dot has them.
  Result<Value> in_order_of_dot(Copy& copy, Value value) const {
    // Where the dot's dimension d is.
    const graph::ReduceAttributes& a = g_.node(sum_->id).as<graph::ReduceAttributes>();
    std::vector<std::size_t> lie = sum_->lie;
    lie.insert(lie.begin() + a.dimensions[0], sum_->parts);
    Dims permutation(lie.size());
    for (std::size_t d = 0; d < lie.size(); ++d) permutation[lie[d]] = static_cast<std::int64_t>(d);
    if (std::ranges::is_sorted(permutation)) return value;
    return copy.add(Op::transpose, {value}, graph::TransposeAttributes{permutation});
  }

  std::shared_ptr<const Graph> whole_;
  const Graph& g_;
  NodeId root_ = -1;
  std::array<Chain, 2> chains_;
  std::optional<Sum> sum_;
  std::vector<NodeId> way_;  ///< what the kernel has no need of: scaled operands, and sums that are scaled
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_result_;
};

}  // namespace

Result<ContractionProblem> derive_scaled(Graph graph) { return Scaling(std::move(graph)).derive(); }

}  // namespace stitch::kernel
