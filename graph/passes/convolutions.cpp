#include "graph/passes/convolutions.h"

#include <algorithm>

#include "graph/passes/rewriter.h"

namespace stitch::graph {
namespace {

/// Each position is a load more of every element, from L1 as a rule: with many that is what a kernel waits for. It
/// still does better than a product of one column for each feature, which is what a library's call comes down to (on an
/// H100 f32[8,250,256] under 31 positions took cuDNN 74 us, and a product of ours 107 us, where memory takes 3 us:
/// bench/results/gpu/h100-2026-11-28-1). 7 × 7 are among them (ConvNeXt).
constexpr std::int64_t most_positions = 64;

/// And of all convolutions of a graph: what is written out is six operators for each.
constexpr std::int64_t most_positions_of_graph = 4096;
/// The padded input, over input and result: beyond it padding is nearly all that there is.
constexpr double most_padding = 16;

std::int64_t positions_of(const ConvolutionAttributes& a, const TensorType& kernel) {
  std::int64_t positions = 1;
  for (const std::int64_t d : a.kernel_spatial) {
    if (!multiply_extent(positions, kernel.dims[d])) return most_positions + 1;
  }
  return positions;
}

/// Elements of the input with its padding and holes.
double padded_elements(const ConvolutionAttributes& a, const TensorType& input) {
  double elements = static_cast<double>(input.dims[a.input_batch]) * static_cast<double>(input.dims[a.input_feature]);
  for (std::size_t s = 0; s < a.input_spatial.size(); ++s) {
    elements *= static_cast<double>(input.dims[a.input_spatial[s]]) * static_cast<double>(a.input_dilation[s]) +
                static_cast<double>(a.low[s]) + static_cast<double>(a.high[s]);
  }
  return elements;
}

/// Whether every feature has a window of its own that fits into slices.
bool is_depthwise(const Node& node, const TensorType& input, const TensorType& kernel) {
  const auto& a = node.as<ConvolutionAttributes>();
  const DType dtype = node.type().dtype, sum = info(dtype).accumulator;
  const bool same = info(input.dtype).accumulator == sum && info(kernel.dtype).accumulator == sum;
  if (!is_floating(dtype) || !same || a.batch_groups != 1 || node.type().elements() == 0) return false;
  const std::int64_t features = input.dims[a.input_feature];
  if (a.feature_groups != features || features == 1 || kernel.dims[a.kernel_output_feature] != features) return false;
  const std::int64_t positions = positions_of(a, kernel);
  const auto whole = [](std::int64_t edge) { return edge >= 0; };
  const double there = static_cast<double>(input.elements()) + static_cast<double>(node.type().elements());
  return positions >= 1 && positions <= most_positions && std::ranges::all_of(a.low, whole) &&
         std::ranges::all_of(a.high, whole) && padded_elements(a, input) <= most_padding * there;
}

/// Positions of all convolutions that would be written out.
std::int64_t positions_of(const Graph& graph) {
  std::int64_t positions = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::convolution) continue;
    const TensorType &input = graph.type(node.operands[0]), &kernel = graph.type(node.operands[1]);
    if (is_depthwise(node, input, kernel)) positions += positions_of(node.as<ConvolutionAttributes>(), kernel);
  }
  return positions;
}

class Depthwise {
 public:
  Depthwise(Rewriter& graph, const Node& node)
      : graph_(graph),
        a_(node.as<ConvolutionAttributes>()),
        result_(node.type()),
        sum_type_(info(node.type().dtype).accumulator),
        kernel_(node.operands[1]),
        padded_(padded(node.operands[0])) {
    spread_ = graph.dims(padded_);
    for (std::size_t s = 0; s < rank(); ++s) spread_[a_.input_spatial[s]] = result_.dims[a_.output_spatial[s]];
  }

  Value write_out() {
    Dims position(rank(), 0);
    Value sum = product(position);
    while (advance(position)) sum = graph_.binary(Op::add, sum, product(position));
    Dims permutation(spread_.size());
    permutation[a_.output_batch] = a_.input_batch;
    permutation[a_.output_feature] = a_.input_feature;
    for (std::size_t s = 0; s < rank(); ++s) permutation[a_.output_spatial[s]] = a_.input_spatial[s];
    return graph_.convert(graph_.transpose(sum, permutation), result_.dtype);
  }

 private:
  [[nodiscard]] std::size_t rank() const { return a_.input_spatial.size(); }
  [[nodiscard]] std::int64_t window(std::size_t s) const { return graph_.dims(kernel_)[a_.kernel_spatial[s]]; }

  bool advance(Dims& position) const {
    for (std::size_t s = rank(); s-- > 0;) {
      if (++position[s] < window(s)) return true;
      position[s] = 0;
    }
    return false;
  }

  Value padded(Value input) {
    const std::size_t dimensions = graph_.dims(input).size();
    PadAttributes pad{Dims(dimensions, 0), Dims(dimensions, 0), Dims(dimensions, 0)};
    bool any = false;
    for (std::size_t s = 0; s < rank(); ++s) {
      const std::int64_t d = a_.input_spatial[s];
      pad.low[d] = a_.low[s];
      pad.high[d] = a_.high[s];
      pad.interior[d] = a_.input_dilation[s] - 1;
      any = any || pad.low[d] != 0 || pad.high[d] != 0 || pad.interior[d] != 0;
    }
    return any ? graph_.add(Op::pad, {input, graph_.scalar(graph_.dtype(input), 0)}, std::move(pad)) : input;
  }

  /// What all windows see at one of their positions, times the kernel there.
  Value product(const Dims& position) {
    Dims starts(spread_.size(), 0), limits = graph_.dims(padded_), strides(spread_.size(), 1);
    const Dims& kernel = graph_.dims(kernel_);
    Dims first(kernel.size(), 0), last = kernel, steps(kernel.size(), 1);
    for (std::size_t s = 0; s < rank(); ++s) {
      const std::int64_t d = a_.input_spatial[s];
      starts[d] = position[s] * a_.kernel_dilation[s];
      limits[d] = starts[d] + (spread_[d] - 1) * a_.strides[s] + 1;
      strides[d] = a_.strides[s];
      const bool reversed = s < a_.window_reversal.size() && a_.window_reversal[s];
      first[a_.kernel_spatial[s]] = reversed ? window(s) - 1 - position[s] : position[s];
      last[a_.kernel_spatial[s]] = first[a_.kernel_spatial[s]] + 1;
    }
    const Value seen = graph_.convert(graph_.slice(padded_, starts, limits, strides), sum_type_);
    const Value weights = graph_.reshape(graph_.slice(kernel_, first, last, steps), {spread_[a_.input_feature]});
    return graph_.binary(Op::multiply, seen,
                         graph_.broadcast(graph_.convert(weights, sum_type_), spread_, {a_.input_feature}));
  }

  Rewriter& graph_;
  const ConvolutionAttributes& a_;
  const TensorType& result_;
  const DType sum_type_;
  const Value kernel_, padded_;
  Dims spread_;  ///< the result's dimensions in the input's order
};

Replacement convolutions_rule(Rewriter& graph, const Node& node) {
  if (node.op != Op::convolution) return {};
  if (!is_depthwise(node, graph.type(node.operands[0]), graph.type(node.operands[1]))) return {};
  return Depthwise(graph, node).write_out();
}

}  // namespace

Result<int> simplify_convolutions(Graph& graph, const PassContext&) {
  const std::int64_t positions = positions_of(graph);
  if (positions == 0 || positions > most_positions_of_graph) return 0;
  return rewrite(graph, convolutions_rule);
}

}  // namespace stitch::graph
