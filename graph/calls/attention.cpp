#include "graph/calls/attention.h"

#include <algorithm>
#include <set>

#include "graph/dot_dimensions.h"
#include "graph/fill.h"
#include "graph/strided_view.h"

namespace stitch::graph {
namespace {

/// The nearest dot that a value depends on through element-wise operators, layouts and reductions.
std::optional<NodeId> dot_before(const Graph& graph, Value value) {
  std::set<NodeId> open = {value.node};
  while (!open.empty()) {
    const NodeId id = *open.rbegin();
    open.erase(id);
    const Node& node = graph.node(id);
    if (node.op == Op::dot) return id;
    const OpCategory category = info(node.op).category;
    if (category == OpCategory::boundary || category == OpCategory::control) return std::nullopt;
    for (const Value operand : node.operands) open.insert(operand.node);
  }
  return std::nullopt;
}

/// Whether the node is its third operand with 0 for NaN.
bool replaces_nan(const Graph& graph, const Node& node) {
  if (node.op != Op::select) return false;
  const Node& asked = graph.node(node.operands[0].node);
  return asked.op == Op::is_nan && asked.operands[0] == node.operands[2] && fill_number(graph, node.operands[1]) == 0.0;
}

/// Of an operator that may be a dropout's: which of its operands may be made of the weights, with the others by
/// themselves. A select has 0 for the other one.
std::vector<int> dropped_operands(const Graph& graph, const Node& node) {
  if (!is_floating(node.type().dtype)) return {};
  if (node.op == Op::multiply) return {0, 1};
  if (node.op == Op::divide) return {0};
  if (node.op != Op::select) return {};
  if (fill_number(graph, node.operands[2]) == 0.0) return {1};
  if (fill_number(graph, node.operands[1]) == 0.0) return {2};
  return {};
}

/// Finds the softmax that `value` is, converted, with 0 for NaN or behind a dropout of a few operators.
bool find_softmax(const Graph& graph, Value value, Attention& found) {  // NOLINT(misc-no-recursion): of bounded depth
  constexpr std::size_t most_steps = 4;
  for (;;) {
    if (const std::optional<Softmax> softmax = match_softmax(graph, value)) {
      found.softmax = *softmax;
      found.quotient = value;
      return true;
    }
    const Node& node = graph.node(value.node);
    if (node.op == Op::convert) {
      value = node.operands[0];
    } else if (replaces_nan(graph, node)) {
      found.nan_is_zero = true;
      value = node.operands[2];
    } else {
      break;
    }
  }
  if (found.dropout.size() == most_steps) return false;
  const bool nan_is_zero = found.nan_is_zero;
  for (const int operand : dropped_operands(graph, graph.node(value.node))) {
    found.dropout.push_back({value.node, operand});
    if (find_softmax(graph, graph.node(value.node).operands[operand], found)) return true;
    found.dropout.pop_back();
    found.nan_is_zero = nan_is_zero;
  }
  return false;
}

/// Whether what a dropout multiplies by is made of the scores, too: then it is none.
bool weighs_by_scores(const Graph& graph, const Attention& attention) {
  return std::ranges::any_of(attention.dropout, [&](const DropoutStep& step) {
    const std::vector<Value>& operands = graph.node(step.node).operands;
    for (std::size_t o = 0; o < operands.size(); ++o) {
      const bool own = static_cast<int>(o) == step.operand;
      if (!own && !nodes_between(graph, attention.scores, operands[o].node).empty()) return true;
    }
    return false;
  });
}

class Joiner {
 public:
  Joiner(const Graph& graph, std::vector<LibraryCall> calls, const std::function<bool(const Graph&)>& wanted,
         bool updates)
      : graph_(graph),
        updates_(updates),
        calls_(std::move(calls)),
        values_(graph, calls_),
        wanted_(wanted),
        uses_(users(graph)),
        results_(is_result(graph)) {}

  std::vector<LibraryCall> join() {
    std::set<NodeId> gone;  // dots of joined calls
    std::vector<LibraryCall> joined;
    for (const LibraryCall& call : calls_) {
      if (graph_.node(call.root).op != Op::dot) continue;
      const std::optional<Attention> found = match_attention(graph_, call.root);
      if (!found || gone.contains(found->scores)) continue;
      std::optional<LibraryCall> one = joined_call(*found, call);
      if (!one) continue;
      gone.insert({found->scores, found->product});
      for (const NodeId id : one->epilogue) {
        if (graph_.node(id).op == Op::dynamic_update_slice) updated_.insert(id);
      }
      joined.push_back(*std::move(one));
    }
    std::erase_if(calls_, [&](const LibraryCall& call) { return gone.contains(call.root); });
    std::ranges::move(joined, std::back_inserter(calls_));
    std::ranges::stable_sort(calls_, {}, &LibraryCall::root);
    return std::move(calls_);
  }

 private:
  std::optional<LibraryCall> joined_call(const Attention& attention, const LibraryCall& product) {
    std::optional<LibraryCall> call = call_of_attention(graph_, attention, product, values_);
    if (!call) return std::nullopt;
    std::set<NodeId> inside(call->epilogue.begin(), call->epilogue.end());
    inside.insert(call->root);
    if (is_needed_outside(inside, call->result.node, uses_, results_)) return std::nullopt;
    if (std::optional<LibraryCall> paged = with_pages(*call, inside)) {
      if (std::optional<LibraryCall> more = with_updates(*paged, inside); more && is_one(*more)) return more;
      if (is_one(*paged)) return paged;
    }
    if (std::optional<LibraryCall> more = with_updates(*call, inside); more && is_one(*more)) return more;
    return is_one(*call) ? std::move(call) : std::nullopt;
  }

  [[nodiscard]] bool is_one(const LibraryCall& call) const {
    std::vector<NodeId> begins = {call.root};  // all that it computes is behind these
    std::ranges::copy_if(call.epilogue, std::back_inserter(begins), [&](NodeId id) {
      return graph_.node(id).op == Op::dynamic_update_slice || graph_.node(id).op == Op::gather;
    });
    for (const Value operand : call.operands) {
      for (const NodeId id : begins) {
        if (!nodes_between(graph_, id, operand.node).empty()) return false;  // it would wait for itself
      }
    }
    const Result<Graph> own = own_graph(graph_, call);
    return own && wanted_(*own);
  }

  /// The same call where it finds the keys and values that it reads by a table. Nothing: none are gathered, or others
  /// need what is.
  [[nodiscard]] std::optional<LibraryCall> with_pages(LibraryCall call, const std::set<NodeId>& inside) const {
    std::vector<NodeId> gathers;
    for (const Value viewed : call.viewed) {
      const NodeId id = values_.in_memory(viewed).node;
      const bool known = std::ranges::count(gathers, id) > 0;
      if (graph_.node(id).op == Op::gather && !known) gathers.push_back(id);
    }
    if (gathers.empty()) return std::nullopt;
    for (const NodeId id : gathers) {
      const auto is_inside = [&](NodeId user) { return inside.contains(user) || leads_inside(user, inside); };
      if (results_[id] || !std::ranges::all_of(uses_[id], is_inside)) return std::nullopt;
      std::erase(call.operands, Value{id, 0});
      for (const Value operand : graph_.node(id).operands) {
        const Value read = without_reshapes(graph_, operand);
        if (values_.is_within(read)) return std::nullopt;
        if (std::ranges::count(call.operands, read) == 0) call.operands.push_back(read);
      }
      for (Value& viewed : call.viewed) {
        if (values_.in_memory(viewed).node == id) viewed = without_reshapes(graph_, graph_.node(id).operands[0]);
      }
    }
    call.epilogue.insert(call.epilogue.end(), gathers.begin(), gathers.end());
    std::ranges::sort(call.epilogue);
    call.description += ", of pages";
    return call;
  }

  /// The same call where it updates the keys and values that it reads, which others have of it then. Nothing: none of
  /// them is an update, or not its own.
  [[nodiscard]] std::optional<LibraryCall> with_updates(LibraryCall call, const std::set<NodeId>& inside) const {
    if (!updates_ || !has_few_queries(call.root)) return std::nullopt;
    std::vector<NodeId> updates;
    for (const Value operand : call.operands) {
      const bool is_update = graph_.node(operand.node).op == Op::dynamic_update_slice;
      if (is_update && !updated_.contains(operand.node)) updates.push_back(operand.node);
    }
    if (updates.empty()) return std::nullopt;
    for (const NodeId id : updates) {
      std::erase(call.operands, Value{id, 0});
      const std::vector<Value> operands = graph_.node(id).operands;
      for (std::size_t o = 0; o < operands.size(); ++o) {
        if (fill_bits(graph_, operands[o])) continue;
        const Value read = o < 2 ? without_reshapes(graph_, operands[o]) : operands[o];
        if (values_.is_within(read)) return std::nullopt;
        if (std::ranges::count(call.operands, read) == 0) call.operands.push_back(read);
      }
      for (Value& viewed : call.viewed) {
        if (values_.in_memory(viewed).node == id) viewed = without_reshapes(graph_, operands[0]);
      }
      const auto is_inside = [&](NodeId user) { return inside.contains(user) || leads_inside(user, inside); };
      if (results_[id] || !std::ranges::all_of(uses_[id], is_inside)) call.further.push_back({id, 0});
    }
    call.epilogue.insert(call.epilogue.end(), updates.begin(), updates.end());
    std::ranges::sort(call.epilogue);
    call.description += updates.size() == 1 ? ", with an update" : fmt::format(", with {} updates", updates.size());
    return call;
  }

  /// Whether one block has all rows of queries, as in decoding. Where there are more, every block would read what one
  /// of them writes, and the kernel that takes no updates has warp groups' products and leaves out what a mask hides.
  [[nodiscard]] bool has_few_queries(NodeId scores) const {
    constexpr std::int64_t rows_of_a_block = 64;
    const Node& node = graph_.node(scores);
    const auto& dot = node.as<DotAttributes>();
    const auto free = [&](Value operand, const Dims& batch, const Dims& contracting) {
      const Dims& dims = graph_.type(operand).dims;
      return product_of(dims, free_dimensions(dims.size(), batch, contracting));
    };
    return std::min(free(node.operands[0], dot.lhs_batch, dot.lhs_contracting),
                    free(node.operands[1], dot.rhs_batch, dot.rhs_contracting)) <= rows_of_a_block;
  }

  /// Whether a layout is read by the nodes inside alone.
  [[nodiscard]] bool leads_inside(NodeId id, const std::set<NodeId>& inside) const {
    const Op op = graph_.node(id).op;
    const bool moves = op == Op::reshape || op == Op::transpose || op == Op::broadcast;
    return moves && !results_[id] && std::ranges::all_of(uses_[id], [&](NodeId user) {
             return inside.contains(user) || leads_inside(user, inside);
           });
  }

  const Graph& graph_;
  const bool updates_;
  std::set<NodeId> updated_;  ///< updates that a joined call does
  std::vector<LibraryCall> calls_;
  const CallValues values_;
  const std::function<bool(const Graph&)>& wanted_;
  const std::vector<std::vector<NodeId>> uses_;
  const std::vector<bool> results_;
};

}  // namespace

std::optional<LibraryCall> call_of_attention(const Graph& graph, const Attention& attention, const LibraryCall& product,
                                             const CallValues& values) {
  LibraryCall call;
  call.root = attention.scores;
  call.epilogue = attention.inner;
  call.epilogue.push_back(attention.product);
  call.epilogue.insert(call.epilogue.end(), product.epilogue.begin(), product.epilogue.end());
  call.result = product.result;
  const Node& scores = graph.node(attention.scores);
  call.viewed = {scores.operands[0], scores.operands[1], attention.values};
  std::set<NodeId> inside(call.epilogue.begin(), call.epilogue.end());
  inside.insert(call.root);
  CallLeaves leaves(graph, inside, true);
  for (const Value operand : call.viewed) {
    const Value read = values.in_memory(operand);
    if (std::ranges::count(leaves.found, read) == 0) leaves.found.push_back(read);
  }
  for (const NodeId id : call.epilogue) {
    for (const Value operand : graph.node(id).operands) {
      if (operand != attention.values) leaves.add(operand);
    }
  }
  call.operands = std::move(leaves.found);
  if (std::ranges::any_of(call.operands, [&](Value value) { return values.is_within(value); })) return std::nullopt;
  call.description = fmt::format("attention {}·{}, softmax, ·{}", to_string(graph.type(scores.operands[0])),
                                 to_string(graph.type(scores.operands[1])), to_string(graph.type(attention.values)));
  return call;
}

std::optional<Attention> match_attention(const Graph& graph, NodeId product) {
  if (graph.node(product).op != Op::dot) return std::nullopt;
  for (const int side : {0, 1}) {
    Attention found;
    found.product = product;
    found.values = graph.node(product).operands[1 - side];
    found.weights = view_of(graph, graph.node(product).operands[side]).source;
    if (!find_softmax(graph, found.weights, found)) continue;
    found.logits = found.softmax.sum.of;
    const std::optional<NodeId> scores = dot_before(graph, found.logits);
    if (!scores) continue;
    found.scores = *scores;
    if (weighs_by_scores(graph, found)) continue;
    for (const NodeId id : nodes_between(graph, *scores, product)) {
      if (id != *scores && id != product) found.inner.push_back(id);
    }
    return found;
  }
  return std::nullopt;
}

std::vector<LibraryCall> join_attentions(const Graph& graph, std::vector<LibraryCall> calls,
                                         const std::function<bool(const Graph&)>& wanted, bool updates) {
  return Joiner(graph, std::move(calls), wanted, updates).join();
}

}  // namespace stitch::graph
