#include "kernel/rewrite/online_softmax.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/dot_dimensions.h"
#include "graph/passes/common_subexpressions.h"
#include "graph/passes/dead_code.h"
#include "graph/softmax.h"

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

class OnlineSoftmax {
 public:
  explicit OnlineSoftmax(const Graph& kernel) : kernel_(kernel) {}

  std::optional<Graph> run() {
    for (NodeId id = 0; id < kernel_.size(); ++id) {
      if (const auto found = exp_sum(id)) sums_[id] = *found;
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
  /// Of a row that is long enough, in a type that such a reduction has.
  [[nodiscard]] std::optional<graph::ExpSum> exp_sum(NodeId sum) const {
    std::optional<graph::ExpSum> found = graph::match_exp_sum(kernel_, sum);
    if (!found || found->base == graph::ExpSum::Base::not_empty) return std::nullopt;
    const graph::TensorType& type = kernel_.type(found->of);
    if (type.dtype != graph::DType::f32 && type.dtype != graph::DType::f64) return std::nullopt;
    return graph::product_of(type.dims, found->along) >= least_row ? found : std::nullopt;
  }

  Value add(Op op, std::vector<Value> operands, graph::Attributes attributes = {}) {
    const auto added = graph_.add(op, std::move(operands), std::move(attributes));
    failed_ = failed_ || !added;
    return added ? *added : Value{};
  }

  /// Relative to 0 the sum of a row whose maximum m is −∞ is 0, that of one with +∞ is ∞, and with NaN it is NaN:
  /// exp(m).
  Value sum_of(const graph::ExpSum& found) {
    const Value maximum = at_.at({found.maximum}), sum = {maximum.node, 1};
    if (found.base == graph::ExpSum::Base::maximum) return sum;
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
  std::map<NodeId, graph::ExpSum> sums_;
  std::set<NodeId> joined_;    ///< the maxima that become reductions of both
  std::map<Value, Value> at_;  ///< values of the kernel in the new graph
};

}  // namespace

std::optional<Graph> join_max_and_exp_sums(const Graph& kernel) { return OnlineSoftmax(kernel).run(); }

}  // namespace stitch::kernel
