#include "kernel/rewrite/online_softmax.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/dot_dimensions.h"
#include "graph/softmax.h"
#include "kernel/rewrite/rewriting.h"

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
  explicit OnlineSoftmax(const Graph& kernel) : kernel_(kernel), graph_(kernel) {}

  std::optional<Graph> run() {
    for (NodeId id = 0; id < kernel_.size(); ++id) {
      if (const auto found = exp_sum(id)) sums_[id] = *found;
    }
    if (sums_.empty()) return std::nullopt;
    for (const auto& [sum, found] : sums_) joined_.insert(found.maximum);
    for (NodeId id = 0; id < kernel_.size(); ++id) copy(id);
    return graph_.finish();  // where a maximum is finite may have been asked before
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

  /// Relative to 0 the sum of a row whose maximum m is −∞ is 0, that of one with +∞ is ∞, and with NaN it is NaN:
  /// exp(m).
  Value sum_of(const graph::ExpSum& found) {
    const Value maximum = graph_.at({found.maximum}), sum = {maximum.node, 1};
    if (found.base == graph::ExpSum::Base::maximum) return sum;
    return graph_.add(Op::select, {graph_.add(Op::is_finite, {maximum}), sum, graph_.add(Op::exp, {maximum})});
  }

  void copy(NodeId id) {
    if (const auto sum = sums_.find(id); sum != sums_.end()) return graph_.replace({id}, sum_of(sum->second));
    if (!joined_.contains(id)) return graph_.take_over(id);
    const Node& maximum = kernel_.node(id);
    graph_.replace({id}, graph_.add(Op::max_exp_sum, {graph_.at(maximum.operands[0])},
                                    graph::MaxExpSumAttributes{maximum.as<graph::ReduceAttributes>().dimensions}));
  }

  const Graph& kernel_;
  Rewriting graph_;
  std::map<NodeId, graph::ExpSum> sums_;
  std::set<NodeId> joined_;  ///< the maxima that become reductions of both
};

}  // namespace

std::optional<Graph> join_max_and_exp_sums(const Graph& kernel) { return OnlineSoftmax(kernel).run(); }

}  // namespace stitch::kernel
