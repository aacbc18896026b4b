#include "kernel/rewrite/online_softmax.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/passes/common_subexpressions.h"
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
// the exponentials. By prediction one of 32 such kernels gains (2 %), so that exploring them twice is not worth its
// time.
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

/// A sum of exponentials relative to the maximum of its row.
struct ExpSum {
  NodeId maximum = -1;
  bool guarded = false;  ///< relative to 0 where the maximum is not finite
};

class OnlineSoftmax {
 public:
  explicit OnlineSoftmax(const Graph& kernel) : kernel_(kernel) {}

  std::optional<Graph> run() {
    for (NodeId id = 0; id < kernel_.size(); ++id) {
      if (const auto found = exp_sum(kernel_.node(id))) sums_[id] = *found;
    }
    if (sums_.empty()) return std::nullopt;
    for (const auto& [sum, found] : sums_) joined_.insert(found.maximum);
    graph_.name = kernel_.name;
    graph_.constraints = kernel_.constraints;
    for (NodeId id = 0; id < kernel_.size(); ++id) copy(id);
    for (const Value result : kernel_.results()) graph_.add_result(at_.at(result));
    // Where a maximum is finite may have been asked before.
    failed_ = failed_ || !graph::remove_dead_code(graph_, {}) || !graph::merge_common_subexpressions(graph_, {});
    if (failed_) return std::nullopt;
    return std::move(graph_);
  }

 private:
  [[nodiscard]] const Node& node(Value value) const { return kernel_.node(value.node); }

  [[nodiscard]] bool is_zero(Value value) const {
    const Node& from = node(value).op == Op::broadcast ? node(node(value).operands[0]) : node(value);
    if (from.op != Op::constant) return false;
    const auto is_clear = [](std::byte byte) { return byte == std::byte{0}; };
    return std::ranges::all_of(from.as<graph::ConstantAttributes>().data, is_clear);
  }

  /// The maximum m of which `value` is m itself or, as libraries write it where a row may be all −∞, m where that is
  /// finite and 0 elsewhere.
  [[nodiscard]] std::optional<ExpSum> base_of(Value value) const {
    const Node& from = node(value);
    if (from.op == Op::reduce) return ExpSum{value.node, false};
    if (from.op != Op::select) return std::nullopt;
    const Node& finite = node(from.operands[0]);
    const bool guarded =
        finite.op == Op::is_finite && finite.operands[0] == from.operands[1] && is_zero(from.operands[2]);
    return guarded ? std::optional(ExpSum{from.operands[1].node, true}) : std::nullopt;
  }

  /// Whether `sum` is Σ exp(x − m) along the dimensions of which m is the maximum of the same x.
  [[nodiscard]] std::optional<ExpSum> exp_sum(const Node& sum) const {
    if (!reduces_by(sum, ReduceKind::sum)) return std::nullopt;
    const graph::TensorType& type = kernel_.type(sum.operands[0]);
    if (type.dtype != graph::DType::f32 && type.dtype != graph::DType::f64) return std::nullopt;
    const Dims& along = sum.as<graph::ReduceAttributes>().dimensions;
    std::int64_t row = 1;
    for (const std::int64_t d : along) row *= type.dims[d];
    if (row < least_row) return std::nullopt;
    const Node& exponential = node(sum.operands[0]);
    if (exponential.op != Op::exp) return std::nullopt;
    const Node& difference = node(exponential.operands[0]);
    if (difference.op != Op::subtract) return std::nullopt;
    const Node& repeated = node(difference.operands[1]);
    if (repeated.op != Op::broadcast) return std::nullopt;
    if (repeated.as<graph::BroadcastAttributes>().mapping != kept_dimensions(type.dims.size(), along))
      return std::nullopt;
    const std::optional<ExpSum> found = base_of(repeated.operands[0]);
    if (!found) return std::nullopt;
    const Node& greatest = kernel_.node(found->maximum);
    const bool same = reduces_by(greatest, ReduceKind::max) && greatest.operands[0] == difference.operands[0] &&
                      greatest.as<graph::ReduceAttributes>().dimensions == along;
    return same ? found : std::nullopt;
  }

  Value add(Op op, std::vector<Value> operands, graph::Attributes attributes = {}) {
    const auto added = graph_.add(op, std::move(operands), std::move(attributes));
    failed_ = failed_ || !added;
    return added ? *added : Value{};
  }

  /// Relative to 0 the sum of a row whose maximum m is −∞ is 0, that of one with +∞ is ∞, and with NaN it is NaN:
  /// exp(m).
  Value sum_of(const ExpSum& found) {
    const Value maximum = at_.at({found.maximum}), sum = {maximum.node, 1};
    if (!found.guarded) return sum;
    return add(Op::select, {add(Op::is_finite, {maximum}), sum, add(Op::exp, {maximum})});
  }

  void copy(NodeId id) {
    const Node& from = kernel_.node(id);
    if (const auto sum = sums_.find(id); sum != sums_.end()) {
      at_[{id}] = sum_of(sum->second);
      return;
    }
    if (joined_.contains(id)) {
      at_[{id}] = add(Op::max_exp_sum, {at_.at(from.operands[0])},
                      graph::MaxExpSumAttributes{from.as<graph::ReduceAttributes>().dimensions});
      return;
    }
    Node node = from;
    for (Value& operand : node.operands) operand = at_.at(operand);
    const Value first = graph_.add_unchecked(std::move(node));
    for (std::int32_t r = 0; r < std::ssize(from.results); ++r) at_[{id, r}] = {first.node, r};
  }

  const Graph& kernel_;
  Graph graph_;
  bool failed_ = false;
  std::map<NodeId, ExpSum> sums_;
  std::set<NodeId> joined_;    ///< the maxima that become reductions of both
  std::map<Value, Value> at_;  ///< values of the kernel in the new graph
};

}  // namespace

std::optional<Graph> join_max_and_exp_sums(const Graph& kernel) { return OnlineSoftmax(kernel).run(); }

}  // namespace stitch::kernel
