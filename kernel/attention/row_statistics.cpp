#include "kernel/attention/row_statistics.h"

#include <algorithm>
#include <optional>

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ReduceKind;
using graph::StridedView;
using graph::Value;

/// The value that layouts lead back to.
Value before_layouts(const Graph& graph, Value value) {
  for (;;) {
    const Node& node = graph.node(value.node);
    if (node.op != graph::Op::reshape && node.op != graph::Op::transpose) return value;
    value = node.operands[0];
  }
}

/// Which of the two a reduction is.
std::optional<ReduceKind> kind_of(const Graph& graph, const graph::ExpSum& of, NodeId reduction) {
  if (reduction == of.maximum) return ReduceKind::max;
  const std::optional<graph::ExpSum> sum = graph::match_exp_sum(graph, reduction);
  const bool same = sum && sum->exponential == of.exponential && sum->along == of.along;
  return same ? std::optional(ReduceKind::sum) : std::nullopt;
}

/// `value` by the positions of the logits that it is made of: those of a row's first one.
Result<StridedView> in_logits(const Graph& graph, const graph::ExpSum& of, Value value) {
  const StridedView logits = StridedView::of(graph, of.of);
  StridedView view{of.of, 0, {}};
  for (std::size_t d = 0; d < logits.dims.size(); ++d) {
    if (std::ranges::count(of.along, static_cast<std::int64_t>(d)) == 0) view.dims.push_back(logits.dims[d]);
  }
  std::vector<NodeId> layouts;
  for (const Value end = before_layouts(graph, value); value != end; value = graph.node(value.node).operands[0])
    layouts.push_back(value.node);
  for (auto id = layouts.rbegin(); id != layouts.rend(); ++id) {
    std::optional<StridedView> next = graph::apply_layout(view, graph.node(*id));
    if (!next) return make_error(ErrorKind::unsupported, "row statistics in a layout that strides cannot say");
    view = *std::move(next);
  }
  return view;
}

/// How the elements of some digits of the logits are stored.
Result<ContractionDigits> stored_as(const StridedView& view, const ContractionDigits& of_logits) {
  ContractionDigits digits;
  for (const auto& [extent, stride] : of_logits) {
    STITCH_ASSIGN(const ContractionDigits part, stored_between(view, stride, stride * extent));
    digits.insert(digits.end(), part.begin(), part.end());
  }
  return graph::collapsed(digits);
}

}  // namespace

Result<std::vector<RowStatistic>> row_statistics_of(const Graph& graph, const graph::Attention& attention,
                                                    std::span<const int> others, const ContractionResult& logits) {
  const graph::ExpSum& of = attention.softmax.sum;
  std::vector<RowStatistic> statistics;
  for (int r = 0; r < std::ssize(graph.results()); ++r) {
    if (std::ranges::count(others, r) > 0) continue;
    const Value result = graph.results()[r];
    const std::optional<ReduceKind> kind = kind_of(graph, of, before_layouts(graph, result).node);
    if (!kind) {
      return make_error(ErrorKind::unsupported,
                        "result {} of an attention is neither the maximum nor the sum of exponentials of its rows", r);
    }
    if (of.base != graph::ExpSum::Base::maximum || attention.softmax.empty_is_zero || attention.nan_is_zero)
      return make_error(ErrorKind::unsupported, "result {}: row statistics of a softmax that guards rows of -inf", r);
    if (const graph::DType dtype = graph.type(result).dtype; dtype != graph::DType::f32)
      return make_error(ErrorKind::unsupported, "result {}: row statistics in {}", r, to_string(dtype));
    STITCH_ASSIGN(const StridedView view, in_logits(graph, of, result));
    RowStatistic statistic{r, *kind, {}, {}};
    STITCH_ASSIGN(statistic.batch, stored_as(view, logits.batch));
    STITCH_ASSIGN(statistic.rows, stored_as(view, logits.rows));
    statistics.push_back(std::move(statistic));
  }
  return statistics;
}

void hash_statistics(Hasher& hasher, const std::vector<RowStatistic>& statistics) {
  for (const RowStatistic& statistic : statistics) {
    hasher.integer(static_cast<std::uint64_t>(statistic.result)).integer(static_cast<std::uint64_t>(statistic.kind));
    for (const ContractionDigits* digits : {&statistic.batch, &statistic.rows}) {
      hasher.integer(digits->size());
      for (const auto& [extent, stride] : *digits)
        hasher.integer(static_cast<std::uint64_t>(extent)).integer(static_cast<std::uint64_t>(stride));
    }
  }
}

}  // namespace stitch::kernel
