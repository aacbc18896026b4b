#include "kernel/attention/attention_problem.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "graph/calls/attention.h"
#include "graph/dot_dimensions.h"
#include "graph/subgraph.h"
#include "kernel/structure/kernel_graph.h"

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::StridedView;
using graph::Value;

/// The updates, or the gathers of pages, that keys and values are made by, if they are.
struct Updates {
  std::optional<NodeId> keys, values;
};
template <class Before>
Updates made_by(const Graph& graph, const graph::Attention& attention, const Before& before) {
  Updates updates;
  for (const Value operand : graph.node(attention.scores).operands) {
    if (!updates.keys) updates.keys = before(graph, operand);
  }
  updates.values = before(graph, attention.values);
  return updates;
}

/// The parameters, those that are updated as the updates leave them, and caches as their pages are gathered. Error:
/// unsupported (pages of one cache by two tables).
Result<std::vector<Value>> sources_of(const Graph& graph, const Updates& updates, const Updates& gathers) {
  std::vector<Value> sources;
  for (const NodeId parameter : graph.parameters()) sources.push_back({parameter, 0});
  const auto replace = [&](int parameter, NodeId by) {
    const bool other = sources[parameter] != Value{graph.parameters()[parameter], 0} && sources[parameter].node != by;
    sources[parameter] = {by, 0};
    return !other;
  };
  for (const auto& update : {updates.keys, updates.values}) {
    if (update) replace(updated_parameter_of(graph, *update), *update);
  }
  for (const auto& gather : {gathers.keys, gathers.values}) {
    if (gather && !replace(paged_parameter_of(graph, *gather), *gather))
      return make_error(ErrorKind::unsupported, "keys and values in pages of one cache, each by its own table");
  }
  return sources;
}

/// The part of the graph that leads to `wanted`, with `sources` for its parameters and, behind them, `source`, if there
/// is one.
Result<ContractionProblem> part_of(const Graph& graph, std::vector<Value> sources, std::optional<Value> source,
                                   Value wanted) {
  if (source) sources.push_back(*source);
  STITCH_ASSIGN(Graph part, graph::subgraph(graph, sources, {wanted}));
  return derive_contraction(std::move(part));
}

/// How some dimensions of a value that lies densely step.
ContractionDigits digits_along(const Graph& graph, Value value, const graph::Dims& along) {
  const StridedView view = StridedView::of(graph, value);
  ContractionDigits digits;
  for (const std::int64_t d : along) digits.insert(digits.end(), view.dims[d].begin(), view.dims[d].end());
  return graph::collapsed(digits);
}

Result<graph::NodeId> last_dot(const Graph& graph) {
  int dots = 0;
  NodeId last = -1;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.node(id).op != graph::Op::dot) continue;
    last = id;
    ++dots;
  }
  if (dots == 2) return last;
  return make_error(ErrorKind::unsupported, "attention has two dots, not {}", dots);
}

/// The number of the first result that is made of the product: statistics are not.
Result<int> result_of_product(const Graph& graph, NodeId product) {
  for (int r = 0; r < std::ssize(graph.results()); ++r) {
    if (path_from_root(graph, product, graph.results()[r].node)) return r;
  }
  return make_error(ErrorKind::unsupported, "no result of an attention is made of its second dot");
}

/// Rows up to which heads that share keys and values are rows of one problem: a tile of them would be mostly empty.
constexpr std::int64_t few_rows = 32;

/// How many of the innermost batches share an operand.
std::int64_t shared_by(const ContractionOperand& operand) {
  const bool repeats = !operand.batch.empty() && operand.batch.back().stride == 0;
  return repeats ? operand.batch.back().extent : 1;
}

/// Takes the innermost digits, `extent` elements of them, out of `digits`. Nothing: no digits are just that.
std::optional<ContractionDigits> take_inner(ContractionDigits& digits, std::int64_t extent) {
  ContractionDigits inner;
  while (extent > 1) {
    if (digits.empty()) return std::nullopt;
    graph::StridedView::Digit& last = digits.back();
    const std::int64_t part = std::min(extent, last.extent);
    if (extent % part != 0 || last.extent % part != 0) return std::nullopt;
    inner.insert(inner.begin(), {part, last.stride});
    extent /= part;
    if (last.extent == part) {
      digits.pop_back();
    } else {
      last = {last.extent / part, last.stride * part};
    }
  }
  return inner;
}

/// Moves the innermost `heads` of the batch to the rows, outermost.
bool move_to_rows(ContractionDigits& batch, ContractionDigits& rows, std::int64_t heads) {
  std::optional<ContractionDigits> inner = take_inner(batch, heads);
  if (!inner) return false;
  inner->insert(inner->end(), rows.begin(), rows.end());
  rows = graph::collapsed(*inner);
  return true;
}

/// Heads that share keys and values become rows (grouped queries, Ainslie et al. 2023), so that they are read once.
void join_shared_heads(AttentionProblem& problem) {
  const std::int64_t heads = std::gcd(shared_by(problem.scores.right), shared_by(problem.product.right));
  if (heads == 1 || problem.rows() > few_rows) return;
  AttentionProblem joined = problem;
  const auto joins = [&](ContractionResult& result) { return move_to_rows(result.batch, result.rows, heads); };
  const bool all = (!joined.dropout || joins(joined.dropout->result)) &&
                   move_to_rows(joined.scores.left.batch, joined.scores.left.free, heads) &&
                   joins(joined.scores.result) && joins(joined.product.result) &&
                   take_inner(joined.scores.right.batch, heads) && take_inner(joined.product.right.batch, heads) &&
                   std::ranges::all_of(joined.statistics, [&](RowStatistic& statistic) {
                     return move_to_rows(statistic.batch, statistic.rows, heads);
                   });
  if (!all) return;
  std::vector<ContractionProblem*> parts = {&joined.scores, &joined.product};
  if (joined.dropout) parts.push_back(&*joined.dropout);
  for (ContractionProblem* part : parts) {
    part->batch /= heads;
    part->rows *= heads;
  }
  problem = std::move(joined);
}

/// Which of the graph's results an update is, reshaped at most; −1: none.
int result_of_update(const Graph& graph, NodeId update) {
  for (int r = 0; r < std::ssize(graph.results()); ++r) {
    Value value = graph.results()[r];
    while (graph.node(value.node).op == graph::Op::reshape) value = graph.node(value.node).operands[0];
    if (value.node == update) return r;
  }
  return -1;
}

/// What keys and values have new. Values that are the keys' tensor are stored by the tiles of keys.
Status find_updates(const Graph& graph, const Updates& updates, AttentionProblem& problem) {
  const bool same = updates.keys && updates.keys == updates.values;
  if (updates.keys) {
    STITCH_ASSIGN(problem.updated_keys, updated_operand(graph, *updates.keys, problem.scores.right, problem.batch(),
                                                        true, result_of_update(graph, *updates.keys)));
  }
  if (updates.values) {
    STITCH_ASSIGN(problem.updated_values,
                  updated_operand(graph, *updates.values, problem.product.right, problem.batch(), false,
                                  same ? -1 : result_of_update(graph, *updates.values)));
  }
  return {};
}

/// What becomes of the softmax before it is multiplied.
Result<ContractionProblem> dropout_of(const Graph& graph, std::vector<Value> sources, const graph::Attention& attention,
                                      const ContractionProblem& product) {
  sources.push_back(attention.quotient);
  STITCH_ASSIGN(Graph part, graph::subgraph(graph, sources, {attention.weights}));
  ContractionProblem dropout;
  dropout.batch = product.batch;
  dropout.rows = product.rows;
  dropout.columns = product.contracted;
  const ContractionOperand& lies = product.left;
  dropout.result = {lies.dtype, lies.batch, lies.free, lies.contracted, false};
  dropout.root = part.parameters().back();
  dropout.graph = std::make_shared<const Graph>(std::move(part));
  return dropout;
}

bool is_supported(const ContractionProblem& problem) { return problem.accumulator == graph::DType::f32; }

}  // namespace

std::int64_t AttentionProblem::least_bytes() const {
  std::int64_t bytes = kernel::least_bytes(*graph);
  for (const auto& [paged, operand] : {std::pair(&paged_keys, &scores.right), {&paged_values, &product.right}}) {
    if (!*paged || (operand == &product.right && paged_keys == paged_values)) continue;
    const std::int64_t unread = std::max<std::int64_t>(0, (*paged)->cache_elements() - (*paged)->gathered);
    bytes -= unread * graph::byte_size(operand->dtype);
  }
  return bytes;
}

Result<AttentionProblem> derive_attention(Graph graph) {
  AttentionProblem problem;
  problem.graph = std::make_shared<const Graph>(std::move(graph));
  const Graph& g = *problem.graph;
  STITCH_ASSIGN(const NodeId product, last_dot(g));
  const std::optional<graph::Attention> found = graph::match_attention(g, product);
  if (!found) return make_error(ErrorKind::unsupported, "two dots that are no attention");
  problem.empty_is_zero = found->softmax.empty_is_zero;
  problem.nan_is_zero = found->nan_is_zero;
  problem.weight_scale = found->softmax.scale;
  STITCH_ASSIGN(problem.result, result_of_product(g, product));
  const Updates updates = made_by(g, *found, update_before), gathers = made_by(g, *found, gather_before);
  STITCH_ASSIGN(const std::vector<Value> sources, sources_of(g, updates, gathers));
  STITCH_ASSIGN(problem.scores, part_of(g, sources, std::nullopt, found->logits));
  STITCH_ASSIGN(problem.product, part_of(g, sources, found->weights, g.results()[problem.result]));
  const int weights = static_cast<int>(g.parameters().size());
  if (problem.product.left.parameter != weights) problem.product = turned(std::move(problem.product));
  if (problem.product.left.parameter != weights)
    return make_error(ErrorKind::unsupported, "the second dot of an attention does not read its weights as they are");
  const ContractionDigits keys = digits_along(g, found->logits, found->softmax.sum.along);
  if (problem.scores.result.columns != keys) problem.scores = turned(std::move(problem.scores));
  if (problem.scores.result.columns != keys || problem.product.left.contracted != keys)
    return make_error(ErrorKind::unsupported, "softmax along something else than the keys");
  if (problem.scores.result.batch != problem.product.left.batch ||
      problem.scores.result.rows != problem.product.left.free)
    return make_error(ErrorKind::unsupported, "batch and rows of an attention's dots do not go together");
  if (!is_supported(problem.scores) || !is_supported(problem.product))
    return make_error(ErrorKind::unsupported, "attention that is summed in something else than f32");
  if (problem.keys() == 0) return make_error(ErrorKind::unsupported, "attention without keys");
  std::vector<int> others = {problem.result};
  for (const auto& update : {updates.keys, updates.values}) {
    if (update) others.push_back(result_of_update(g, *update));
  }
  if (!found->dropout.empty()) {
    STITCH_ASSIGN(problem.dropout, dropout_of(g, sources, *found, problem.product));
  }
  STITCH_ASSIGN(problem.statistics, row_statistics_of(g, *found, others, problem.scores.result));
  join_shared_heads(problem);
  STITCH_TRY(find_updates(g, updates, problem));
  if (gathers.keys && paged_parameter_of(g, *gathers.keys) != problem.scores.right.parameter)
    return make_error(ErrorKind::unsupported, "queries in pages");
  if (gathers.keys) {
    STITCH_ASSIGN(problem.paged_keys, paged_operand(g, *gathers.keys, problem.scores.right));
  }
  if (gathers.values) {
    STITCH_ASSIGN(problem.paged_values, paged_operand(g, *gathers.values, problem.product.right));
  }
  // The weights are never in memory.
  problem.product.left.batch = graph::collapsed({{problem.batch(), problem.rows() * problem.keys()}});
  problem.product.left.free = graph::collapsed({{problem.rows(), problem.keys()}});
  problem.product.left.contracted = graph::collapsed({{problem.keys(), 1}});
  return problem;
}

std::string to_string(const AttentionProblem& problem) {
  const bool keys = problem.updated_keys.has_value(), values = problem.updated_values.has_value();
  const bool paged_keys = problem.paged_keys.has_value(), paged_values = problem.paged_values.has_value();
  return fmt::format("{} {}×[{},{}]·[{},{}], softmax{}, ·[{},{}] → {}{}{}{}", to_string(problem.scores.left.dtype),
                     problem.batch(), problem.rows(), problem.depth(), problem.keys(), problem.depth(),
                     problem.dropout ? ", dropout" : "", problem.keys(), problem.width(),
                     to_string(problem.product.result.dtype), problem.statistics.empty() ? "" : ", with row statistics",
                     keys && values ? ", with updated keys and values"
                     : keys         ? ", with updated keys"
                     : values       ? ", with updated values"
                                    : "",
                     paged_keys && paged_values ? ", of paged keys and values"
                     : paged_keys               ? ", of paged keys"
                     : paged_values             ? ", of paged values"
                                                : "");
}

Hash128 attention_hash(const AttentionProblem& problem) {
  Hasher hasher;
  hasher.text("stitch-attention-1").text(contraction_hash(problem.scores).hex());
  hasher.text(contraction_hash(problem.product).hex())
      .integer((problem.empty_is_zero ? 1 : 0) + (problem.nan_is_zero ? 2 : 0));
  if (problem.weight_scale != 1) hasher.text(fmt::format("scale {}", problem.weight_scale));
  if (problem.dropout) hasher.text("dropout").text(contraction_hash(*problem.dropout).hex());
  hash_statistics(hasher, problem.statistics);
  if (problem.updated_keys) hash_update(hasher.text("updated keys"), *problem.updated_keys);
  if (problem.updated_values) hash_update(hasher.text("updated values"), *problem.updated_values);
  if (problem.paged_keys) hash_pages(hasher.text("paged keys"), *problem.paged_keys);
  if (problem.paged_values) hash_pages(hasher.text("paged values"), *problem.paged_values);
  return hasher.finish();
}

}  // namespace stitch::kernel
