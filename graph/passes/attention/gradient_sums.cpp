#include "graph/passes/attention/gradient_sums.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "graph/dot_dimensions.h"
#include "graph/strided_view.h"

namespace stitch::graph {
namespace {

// Dimensions of operands are told by labels: those of the logits, and one more for the width of values and output.

/// One side of a dot that has one free and one contracted dimension.
struct DotOperand {
  Value value;
  Dims batch;
  std::int64_t free = -1, contracted = -1;

  /// Its labels, those of its batch in order, of its free and of its contracted dimension being these.
  [[nodiscard]] Dims labels(const Dims& of_batch, std::int64_t of_free, std::int64_t of_contracted) const {
    Dims all(batch.size() + 2);
    for (std::size_t d = 0; d < batch.size(); ++d) all[batch[d]] = of_batch[d];
    all[free] = of_free;
    all[contracted] = of_contracted;
    return all;
  }
};

std::optional<DotOperand> operand_of(const Graph& graph, const Node& dot, int side) {
  const auto& a = dot.as<DotAttributes>();
  const Dims& batch = side == 0 ? a.lhs_batch : a.rhs_batch;
  const Dims& contracting = side == 0 ? a.lhs_contracting : a.rhs_contracting;
  const std::size_t rank = graph.type(dot.operands[side]).dims.size();
  const Dims free = free_dimensions(rank, batch, contracting);
  if (free.size() != 1 || contracting.size() != 1) return std::nullopt;
  return DotOperand{dot.operands[side], batch, free[0], contracting[0]};
}

/// An attention's second product by labels.
struct AttentionOutput {
  Attention attention;
  std::int64_t keys;  ///< the label
  std::int64_t rows;
  Dims values;         ///< labels of Attention::values
  Dims result;         ///< labels of the product
  RowProduct weights;  ///< exponential (left out) times the reciprocal of its sum; leaves: a dropout's masks
};

/// Takes the exponential out of a product's leaves.
std::optional<RowProduct::Leaf> take_leaf(RowProduct& product, NodeId node) {
  const auto found = std::ranges::find_if(product.leaves, [&](const auto& leaf) { return leaf.value.node == node; });
  if (found == product.leaves.end()) return std::nullopt;
  RowProduct::Leaf leaf = *found;
  product.leaves.erase(found);
  return leaf;
}

/// The weights that a dot multiplies, by labels: `labels` of the operand, whose dimension `keys` is.
void relabel(RowProduct& weights, const Dims& labels, std::int64_t keys) {
  for (RowProduct::Leaf& mask : weights.leaves) {
    for (std::int64_t& d : mask.along) d = labels[d];
  }
  for (auto* factors : {&weights.numerators, &weights.denominators}) {
    for (RowFactor& factor : *factors) {
      for (std::int64_t& d : factor.along) {
        if (d < 0) continue;
        const std::int64_t label = labels[d < keys ? d : d + 1];
        d = label < labels[keys] ? label : label - 1;
      }
    }
  }
}

std::optional<AttentionOutput> output_of(const Graph& graph, NodeId product) {
  std::optional<Attention> attention = match_attention(graph, product);
  if (!attention || attention->nan_is_zero || attention->softmax.sum.along.size() != 1) return std::nullopt;
  const Node& dot = graph.node(product);
  const int side = dot.operands[1] == attention->values ? 0 : 1;
  const auto weights = operand_of(graph, dot, side), values = operand_of(graph, dot, 1 - side);
  if (!weights || !values) return std::nullopt;
  auto factors = row_product(graph, dot.operands[side], weights->contracted);
  const auto exponential = factors ? take_leaf(*factors, attention->softmax.sum.exponential) : std::nullopt;
  if (!exponential) return std::nullopt;
  Dims labels(exponential->along.size());
  for (std::size_t d = 0; d < labels.size(); ++d) labels[exponential->along[d]] = static_cast<std::int64_t>(d);
  AttentionOutput found;
  found.keys = attention->softmax.sum.along[0];
  found.rows = labels[weights->free];
  if (labels[weights->contracted] != found.keys) return std::nullopt;
  relabel(*factors, labels, weights->contracted);
  const auto width = std::ssize(labels);
  for (const std::int64_t d : weights->batch) found.result.push_back(labels[d]);
  found.values = values->labels(found.result, width, found.keys);
  found.result.push_back(side == 0 ? found.rows : width);
  found.result.push_back(side == 0 ? width : found.rows);
  found.weights = *std::move(factors);
  found.attention = *std::move(attention);
  return found;
}

/// Whether two values have the same elements where their labels are the same.
bool are_same(const Graph& graph, Value a, const Dims& labels_of_a, Value b, const Dims& labels_of_b) {
  const StridedView from_a = view_of(graph, a), from_b = view_of(graph, b);
  if (from_a.source != from_b.source || from_a.offset != from_b.offset) return false;
  for (std::size_t d = 0; d < labels_of_a.size(); ++d) {
    const auto same = std::ranges::find(labels_of_b, labels_of_a[d]) - labels_of_b.begin();
    if (same == std::ssize(labels_of_b) || collapsed(from_a.dims[d]) != collapsed(from_b.dims[same])) return false;
  }
  return true;
}

/// The order of dimensions with the labels `from` that gives them the labels `to`.
Dims order_for(const Dims& from, const Dims& to) {
  Dims order;
  for (const std::int64_t label : to) order.push_back(std::ranges::find(from, label) - from.begin());
  return order;
}

bool rounds(const Graph& graph, const Node& node) {
  return node.op == Op::convert && is_floating(node.type().dtype) &&
         byte_size(node.type().dtype) <= byte_size(graph.type(node.operands[0]).dtype);
}

class SumFinder {
 public:
  explicit SumFinder(const Graph& graph) : graph_(graph), uses_(users(graph)), results_(is_result(graph)) {}

  std::vector<GradientSum> find() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (graph_.node(id).op != Op::dot) continue;
      if (auto output = output_of(graph_, id))
        outputs_.emplace(output->attention.softmax.sum.exponential, *std::move(output));
    }
    std::vector<GradientSum> sums;
    for (NodeId id = 0; !outputs_.empty() && id < graph_.size(); ++id) {
      if (auto sum = sum_of(id)) sums.push_back(*std::move(sum));
    }
    return sums;
  }

 private:
  [[nodiscard]] std::optional<GradientSum> sum_of(NodeId id) const {
    const Node& node = graph_.node(id);
    if (node.op != Op::reduce || node.as<ReduceAttributes>().kind != ReduceKind::sum) return std::nullopt;
    const Dims& along = node.as<ReduceAttributes>().dimensions;
    if (along.size() != 1 || !is_floating(node.type().dtype)) return std::nullopt;
    const auto summed = row_product(graph_, node.operands[0], along[0]);
    if (!summed) return std::nullopt;
    for (const RowProduct::Leaf& weights : summed->leaves) {
      const auto [first, last] = outputs_.equal_range(weights.value.node);
      for (auto output = first; output != last; ++output) {
        if (auto found = sum_of_weights(id, *summed, weights, output->second)) return found;
      }
    }
    return std::nullopt;
  }

  /// The same with these weights; of the other leaves one is the gradient's dot.
  [[nodiscard]] std::optional<GradientSum> sum_of_weights(NodeId id, const RowProduct& summed,
                                                          const RowProduct::Leaf& weights,
                                                          const AttentionOutput& output) const {
    Dims label(weights.along.size());  // of the dimensions that the reduction sees
    for (std::size_t d = 0; d < label.size(); ++d) label[weights.along[d]] = static_cast<std::int64_t>(d);
    for (const RowProduct::Leaf& dot : summed.leaves) {
      if (graph_.node(dot.value.node).op != Op::dot || summed.leaves.size() != output.weights.leaves.size() + 2)
        continue;
      std::vector<RowProduct::Leaf> masks;
      for (const RowProduct::Leaf& leaf : summed.leaves) {
        if (&leaf != &weights && &leaf != &dot) masks.push_back(leaf);
      }
      for (RowProduct::Leaf& mask : masks) {
        for (std::int64_t& d : mask.along) d = label[d];
      }
      if (!std::ranges::is_permutation(masks, output.weights.leaves)) continue;
      if (auto found = sum_with(id, summed, weights, dot, output)) return found;
    }
    return std::nullopt;
  }

  /// Whether the sum `id` of these factors is that of this output.
  [[nodiscard]] std::optional<GradientSum> sum_with(NodeId id, const RowProduct& summed,
                                                    const RowProduct::Leaf& exponential, const RowProduct::Leaf& dot,
                                                    const AttentionOutput& output) const {
    const std::int64_t along = graph_.node(id).as<ReduceAttributes>().dimensions[0];
    if (exponential.along[output.keys] != along) return std::nullopt;
    Dims label(exponential.along.size());  // of the dimensions that the reduction sees
    for (std::size_t d = 0; d < label.size(); ++d) label[exponential.along[d]] = static_cast<std::int64_t>(d);
    GradientSum found;
    found.sum = id;
    found.attention = output.attention;
    found.gradient = dot.value.node;
    Dims of_gradient;
    if (!find_gradient(dot, label, output, found, of_gradient)) return std::nullopt;
    Dims of_output = find_stored(output, found);
    if (found.output.node >= id) return std::nullopt;
    const auto width = std::ssize(label);
    found.turned = order_for(of_output, of_gradient);
    found.width = std::ranges::find(of_gradient, width) - of_gradient.begin();
    of_gradient.erase(of_gradient.begin() + found.width);
    label.erase(label.begin() + along);
    found.order = order_for(of_gradient, label);
    found.factor = quotient(summed, output, order_for(label, label_without_keys(output.keys, width)));
    return found;
  }

  /// Labels of the logits without the keys.
  static Dims label_without_keys(std::int64_t keys, std::int64_t rank) {
    Dims labels;
    for (std::int64_t d = 0; d < rank; ++d) {
      if (d != keys) labels.push_back(d);
    }
    return labels;
  }

  /// Whether the dot is that of a gradient with the same values; with the labels of the gradient.
  [[nodiscard]] bool find_gradient(const RowProduct::Leaf& leaf, const Dims& label, const AttentionOutput& output,
                                   GradientSum& found, Dims& labels) const {
    const Node& dot = graph_.node(leaf.value.node);
    const auto width = std::ssize(label);
    for (const int side : {0, 1}) {
      const auto gradient = operand_of(graph_, dot, side), values = operand_of(graph_, dot, 1 - side);
      if (!gradient || !values) return false;
      Dims made;  // labels of what the dot makes
      for (const std::int64_t d : leaf.along) made.push_back(label[d]);
      const std::size_t batch = gradient->batch.size();
      const std::int64_t rows = made[batch + side], keys = made[batch + 1 - side];
      made.resize(batch);
      const Dims of_values = values->labels(made, keys, width);
      if (!are_same(graph_, values->value, of_values, output.attention.values, output.values)) continue;
      labels = gradient->labels(made, rows, width);
      found.output_gradient = gradient->value;
      return true;
    }
    return false;
  }

  /// The output as it is stored: what alone follows it, as long as that only transposes or rounds, and comes before the
  /// sum. Gives its labels.
  Dims find_stored(const AttentionOutput& output, GradientSum& found) const {
    Dims labels = output.result;
    found.output = {output.attention.product, 0};
    for (;;) {
      const NodeId at = found.output.node;
      if (uses_[at].size() != 1 || results_[at] || uses_[at][0] > found.sum) return labels;
      const Node& user = graph_.node(uses_[at][0]);
      if (user.op == Op::transpose) {
        Dims turned;
        for (const std::int64_t d : user.as<TransposeAttributes>().permutation) turned.push_back(labels[d]);
        labels = turned;
      } else if (!rounds(graph_, user)) {
        return labels;
      }
      found.output = {uses_[at][0], 0};
    }
  }

  /// What multiplies the weights, given what multiplies the exponentials. `places`: where in the reduction's result the
  /// logits' dimensions are, without the keys.
  static RowProduct quotient(const RowProduct& summed, const AttentionOutput& output, const Dims& places) {
    RowProduct factor{summed.scale / output.weights.scale, summed.numerators, summed.denominators, {}};
    const auto add = [&](const std::vector<RowFactor>& from, std::vector<RowFactor>& to) {
      for (RowFactor each : from) {
        for (std::int64_t& d : each.along) d = d < 0 ? d : places[d];
        to.push_back(std::move(each));
      }
    };
    add(output.weights.numerators, factor.denominators);
    add(output.weights.denominators, factor.numerators);
    cancel(factor);
    return factor;
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>> uses_;
  const std::vector<bool> results_;
  std::multimap<NodeId, AttentionOutput> outputs_;  ///< by their exponentials
};

}  // namespace

std::vector<GradientSum> find_gradient_sums(const Graph& graph) { return SumFinder(graph).find(); }

}  // namespace stitch::graph
