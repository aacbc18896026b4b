#include "graph/calls/attention_gradients.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/calls/attention.h"
#include "graph/calls/call_leaves.h"
#include "graph/dot_dimensions.h"

namespace stitch::graph {
namespace {

/// What follows a dot by element-wise operators and transposes, itself included: where its rows and its columns are.
using Places = std::map<NodeId, std::pair<std::int64_t, std::int64_t>>;
constexpr std::pair<std::int64_t, std::int64_t> nowhere = {-1, -1};

std::pair<std::int64_t, std::int64_t> moved(const Node& transpose, std::pair<std::int64_t, std::int64_t> place) {
  const Dims& permutation = transpose.as<TransposeAttributes>().permutation;
  const auto at = [&](std::int64_t d) { return std::ranges::find(permutation, d) - permutation.begin(); };
  return {at(place.first), at(place.second)};
}

/// Of a dot with one free dimension on either side; nothing of another.
Places places_behind(const Graph& graph, NodeId dot, const std::vector<std::vector<NodeId>>& uses) {
  const auto& a = graph.node(dot).as<DotAttributes>();
  const auto batch = std::ssize(a.lhs_batch), rank = std::ssize(graph.node(dot).type().dims);
  const std::size_t left = graph.type(graph.node(dot).operands[0]).dims.size();
  if (rank != batch + 2 || free_dimensions(left, a.lhs_batch, a.lhs_contracting).size() != 1) return {};
  Places places = {{dot, {batch, batch + 1}}};
  std::set<NodeId> open(uses[dot].begin(), uses[dot].end());
  while (!open.empty()) {
    const NodeId id = *open.begin();  // its operands are known
    open.erase(open.begin());
    const Node& node = graph.node(id);
    if (!is_elementwise(node.op) && node.op != Op::transpose) continue;
    std::optional<std::pair<std::int64_t, std::int64_t>> place;
    for (const Value operand : node.operands) {
      const auto known = places.find(operand.node);
      if (known == places.end()) continue;
      const auto there = node.op == Op::transpose ? moved(node, known->second) : known->second;
      place = place.value_or(there) == there ? there : nowhere;  // the scores and the same turned
    }
    places.emplace(id, *place);
    open.insert(uses[id].begin(), uses[id].end());
  }
  return places;
}

/// An attention whose output has been differentiated, or others need its rows' sums.
struct TrainedAttention {
  std::optional<Attention> attention;   ///< nothing: the forward pass is in another graph, of which rows' sums came
  NodeId dot = -1;                      ///< the scores'
  Places scores;                        ///< what follows them
  NodeId gradient = -1;                 ///< the dot that makes the gradient of the weights
  Places weights;                       ///< what follows that
  const LibraryCall* output = nullptr;  ///< the attention's second product
  /// Calls of the dots that multiply what follows, by what they contract.
  std::vector<const LibraryCall*> over_keys, over_rows;

  [[nodiscard]] bool follows(Value value) const { return scores.contains(value.node) || weights.contains(value.node); }
};

/// Whether values that are written may lead to what the calls read: also through calls, of which all results wait for
/// all operands.
class Waits {
 public:
  explicit Waits(const Graph& graph) : graph_(graph) {}

  /// Whether one of the calls would wait for itself, with those that were taken.
  [[nodiscard]] bool go_round(const std::vector<LibraryCall>& calls) const {
    return std::ranges::any_of(calls, [&](const LibraryCall& call) {
      const std::vector<bool> behind = behind_results(call, calls);
      return std::ranges::any_of(call.operands, [&](Value value) { return behind[value.node]; });
    });
  }
  void take(const std::vector<LibraryCall>& calls) { taken_.insert(taken_.end(), calls.begin(), calls.end()); }

 private:
  [[nodiscard]] std::vector<bool> behind_results(const LibraryCall& from, const std::vector<LibraryCall>& calls) const {
    std::vector<bool> behind(graph_.size(), false);
    for (const Value value : from.results()) behind[value.node] = true;
    for (bool changed = true; changed;) {
      for (NodeId id = 0; id < graph_.size(); ++id) {
        const auto& operands = graph_.node(id).operands;
        if (!behind[id]) behind[id] = std::ranges::any_of(operands, [&](Value value) { return behind[value.node]; });
      }
      changed = false;
      for (const auto* list : {&taken_, &calls}) {
        for (const LibraryCall& call : *list) changed = pass_on(call, behind) || changed;
      }
    }
    return behind;
  }
  static bool pass_on(const LibraryCall& call, std::vector<bool>& behind) {
    if (std::ranges::none_of(call.operands, [&](Value value) { return behind[value.node]; })) return false;
    bool changed = false;
    for (const Value value : call.results()) {
      changed = changed || !behind[value.node];
      behind[value.node] = true;
    }
    return changed;
  }

  const Graph& graph_;
  std::vector<LibraryCall> taken_;
};

class GradientJoiner {
 public:
  GradientJoiner(const Graph& graph, std::vector<LibraryCall> calls, const std::function<bool(const Graph&)>& wanted)
      : graph_(graph),
        calls_(std::move(calls)),
        values_(graph, calls_),
        wanted_(wanted),
        uses_(users(graph)),
        results_(is_result(graph)),
        waits_(graph) {
    for (const LibraryCall& call : calls_) call_of_.emplace(call.root, &call);
  }

  std::vector<LibraryCall> join() {
    std::set<NodeId> gone;  // dots of joined calls
    std::vector<LibraryCall> joined;
    // Whole ones first: of what one of them has, another would take a part.
    std::vector<TrainedAttention> attentions;
    for (const LibraryCall& call : calls_) {
      if (std::optional<TrainedAttention> found = trained(call)) attentions.push_back(*std::move(found));
    }
    for (const LibraryCall& call : calls_) {
      if (std::optional<TrainedAttention> found = differentiated(call)) attentions.push_back(*std::move(found));
    }
    for (const TrainedAttention& each : attentions) {
      const TrainedAttention* found = &each;
      std::set<NodeId> dots = {found->dot, found->gradient};
      if (found->output != nullptr) dots.insert(found->output->root);
      for (const auto* each : found->over_keys) dots.insert(each->root);
      for (const auto* each : found->over_rows) dots.insert(each->root);
      dots.erase(-1);
      // A dot of two attentions is the first one's.
      if (std::ranges::any_of(dots, [&](NodeId id) { return gone.contains(id); })) continue;
      const std::vector<LibraryCall> own = calls_of(*found);
      const CallValues taken(graph_, joined);
      const auto reads_inside = [&](const LibraryCall& each) {
        return std::ranges::any_of(each.operands, [&](Value value) { return taken.is_within(value); });
      };
      if (own.empty() || std::ranges::any_of(own, reads_inside)) continue;
      waits_.take(own);
      joined.insert(joined.end(), own.begin(), own.end());
      gone.merge(dots);
    }
    std::erase_if(calls_, [&](const LibraryCall& call) { return gone.contains(call.root); });
    std::ranges::move(joined, std::back_inserter(calls_));
    std::ranges::stable_sort(calls_, {}, &LibraryCall::root);
    return std::move(calls_);
  }

 private:
  // ---- what belongs together ------------------------------------------------------------------------------------

  [[nodiscard]] std::optional<TrainedAttention> trained(const LibraryCall& product) const {
    if (graph_.node(product.root).op != Op::dot) return std::nullopt;
    std::optional<Attention> attention = match_attention(graph_, product.root);
    if (!attention || attention->softmax.sum.along.size() != 1) return std::nullopt;
    TrainedAttention found;
    found.output = &product;
    found.dot = attention->scores;
    found.scores = places_behind(graph_, attention->scores, uses_);
    const auto logits = found.scores.find(attention->logits.node);
    if (logits == found.scores.end()) return std::nullopt;
    const bool columns_are_keys = logits->second.second == attention->softmax.sum.along[0];
    found.attention = std::move(attention);
    if (!find_products(columns_are_keys, found) || !find_gradient(found)) return std::nullopt;
    if (found.over_keys.empty() && found.over_rows.empty() && !gives_rows(*found.attention)) return std::nullopt;
    return found;
  }

  /// Whether others need what an attention has of its rows: without, it is a call like any other.
  [[nodiscard]] bool gives_rows(const Attention& attention) const {
    for (const NodeId row : {attention.softmax.sum.maximum, sum_of(attention)}) {
      if (row < 0) continue;
      const auto is_outside = [&](NodeId user) { return std::ranges::count(attention.inner, user) == 0; };
      if (results_[row] || std::ranges::any_of(uses_[row], is_outside)) return true;
    }
    return false;
  }

  /// The gradients of an attention whose forward pass is in another graph: exponentials of scores less what their rows
  /// have, of which dots on both sides are made.
  [[nodiscard]] std::optional<TrainedAttention> differentiated(const LibraryCall& call) const {
    if (graph_.node(call.root).op != Op::dot) return std::nullopt;
    TrainedAttention found;
    found.dot = call.root;
    found.scores = places_behind(graph_, call.root, uses_);
    const std::optional<bool> columns_are_keys = keys_behind(found.scores);
    if (!columns_are_keys || !find_products(*columns_are_keys, found) || !find_gradient(found)) return std::nullopt;
    if (found.over_rows.empty() || found.gradient < 0) return std::nullopt;
    return found;
  }

  /// Whether the columns are the keys: the dimension along which what is taken off before the exponential is repeated.
  [[nodiscard]] std::optional<bool> keys_behind(const Places& scores) const {
    for (const auto& [id, place] : scores) {
      if (graph_.node(id).op != Op::exp || place == nowhere) continue;
      const Node& taken_off = graph_.node(graph_.node(id).operands[0].node);
      if (taken_off.op != Op::subtract) continue;
      const Node& rows = graph_.node(taken_off.operands[1].node);
      if (rows.op != Op::broadcast) continue;
      const Dims& mapping = rows.as<BroadcastAttributes>().mapping;
      const bool by_row = std::ranges::count(mapping, place.first) != 0;
      if (by_row != (std::ranges::count(mapping, place.second) != 0)) return by_row;
    }
    return std::nullopt;
  }

  /// Which other dots multiply what follows the scores. False: something does that is no gradient.
  bool find_products(bool columns_are_keys, TrainedAttention& found) const {
    std::set<NodeId> dots;
    for (const auto& [id, place] : found.scores) {
      for (const NodeId user : uses_[id]) {
        if (graph_.node(user).op == Op::dot) dots.insert(user);
      }
    }
    if (found.attention && dots.erase(found.attention->product) == 0) return false;
    for (const NodeId id : dots) {
      const int side = side_of(found, id);
      const auto& a = graph_.node(id).as<DotAttributes>();
      const Dims& contracting = side == 0 ? a.lhs_contracting : a.rhs_contracting;
      if (side < 0 || contracting.size() != 1 || !call_of_.contains(id)) return false;
      const auto [rows, columns] = found.scores.at(graph_.node(id).operands[side].node);
      if (contracting[0] != rows && contracting[0] != columns) return false;
      const bool over_keys = (contracting[0] == columns) == columns_are_keys;
      (over_keys ? found.over_keys : found.over_rows).push_back(call_of_.at(id));
    }
    return found.over_keys.size() <= 1 && found.over_rows.size() <= 2;
  }
  /// The operand of a dot that follows the scores; -1: both do, or none.
  [[nodiscard]] int side_of(const TrainedAttention& found, NodeId dot) const {
    const auto& operands = graph_.node(dot).operands;
    const bool left = found.scores.contains(operands[0].node), right = found.scores.contains(operands[1].node);
    return left == right ? -1 : left ? 0 : 1;
  }

  /// The one dot besides the scores that leads to the products without masks or biases of the forward pass, if there is
  /// one. False: there are several.
  bool find_gradient(TrainedAttention& found) const {
    std::set<NodeId> inner;
    if (found.attention) inner.insert(found.attention->inner.begin(), found.attention->inner.end());
    std::set<NodeId> dots, seen;
    std::vector<NodeId> open;
    for (const auto& list : {found.over_keys, found.over_rows}) {
      for (const LibraryCall* call : list)
        open.push_back(graph_.node(call->root).operands[side_of(found, call->root)].node);
    }
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!seen.insert(id).second || id == found.dot || inner.contains(id)) continue;
      const Node& node = graph_.node(id);
      if (node.op == Op::dot) dots.insert(id);
      if (!is_elementwise(node.op) && node.op != Op::transpose) continue;
      for (const Value operand : node.operands) open.push_back(operand.node);
    }
    if (dots.empty()) return true;
    if (dots.size() > 1) return false;
    found.gradient = *dots.begin();
    found.weights = places_behind(graph_, found.gradient, uses_);
    return !found.weights.empty();
  }

  // ---- calls ----------------------------------------------------------------------------------------------------

  /// All calls of an attention; empty: it cannot be, or is not wanted.
  [[nodiscard]] std::vector<LibraryCall> calls_of(const TrainedAttention& found) const {
    std::vector<std::vector<const LibraryCall*>> together, apart;
    if (!found.over_keys.empty()) together.push_back(found.over_keys);
    apart = together;
    if (!found.over_rows.empty()) together.push_back(found.over_rows);
    for (const LibraryCall* call : found.over_rows) apart.push_back({call});
    std::vector<LibraryCall> calls = calls_with(found, together);
    if (calls.empty() && apart.size() > together.size()) calls = calls_with(found, apart);
    return calls;
  }

  [[nodiscard]] std::vector<LibraryCall> calls_with(
      const TrainedAttention& found, const std::vector<std::vector<const LibraryCall*>>& gradients) const {
    std::vector<LibraryCall> calls;
    if (found.attention) {
      std::optional<LibraryCall> forward = call_of_attention(graph_, *found.attention, *found.output, values_);
      if (!forward) return {};
      calls.push_back(*std::move(forward));
    }
    for (const auto& products : gradients) calls.push_back(gradient_call(found, products));
    if (found.attention && !give_rows(found, calls)) return {};
    if (is_needed_besides(calls) || waits_.go_round(calls)) return {};
    for (const LibraryCall& call : calls) {
      if (std::ranges::any_of(call.operands, [&](Value value) { return values_.is_within(value); })) return {};
      const Result<Graph> own = own_graph(graph_, call);
      if (!own || !wanted_(*own)) return {};
    }
    return calls;
  }

  [[nodiscard]] LibraryCall gradient_call(const TrainedAttention& found,
                                          const std::vector<const LibraryCall*>& products) const {
    std::set<NodeId> inside;
    for (const LibraryCall* product : products) {
      const NodeId root = product->root;
      add_inner(found, graph_.node(root).operands[side_of(found, root)].node, inside);
      inside.insert(root);
      inside.insert(product->epilogue.begin(), product->epilogue.end());
    }
    LibraryCall call;
    call.root = inside.contains(found.gradient) ? found.gradient : found.dot;
    call.result = products[0]->result;
    if (products.size() > 1) call.further = {products[1]->result};
    CallLeaves leaves(graph_, inside, true);
    for (const NodeId id : inside) {
      if (id != call.root) call.epilogue.push_back(id);
      if (graph_.node(id).op != Op::dot) continue;
      for (const Value operand : graph_.node(id).operands) {
        if (inside.contains(operand.node)) continue;
        call.viewed.push_back(operand);
        const Value read = values_.in_memory(operand);
        if (std::ranges::count(leaves.found, read) == 0) leaves.found.push_back(read);
      }
    }
    for (const NodeId id : inside) {
      if (graph_.node(id).op == Op::dot) continue;
      for (const Value operand : graph_.node(id).operands) leaves.add(operand);
    }
    call.operands = std::move(leaves.found);
    const auto& scores = graph_.node(found.dot).operands;
    call.description = fmt::format("attention {}·{}, {}", to_string(graph_.type(scores[0])),
                                   to_string(graph_.type(scores[1])), gradient_name(found, call, products));
    return call;
  }
  static std::string_view gradient_name(const TrainedAttention& found, const LibraryCall& call,
                                        const std::vector<const LibraryCall*>& products) {
    if (products == found.over_keys) return "gradient of its queries";
    if (products.size() == 2) return "gradients of its keys and values";
    return call.root == found.gradient ? "gradient of its keys" : "gradient of its values";
  }

  /// Adds a node that follows the scores or the gradient of the weights, and what leads to it from there.
  void add_inner(const TrainedAttention& found, NodeId id, std::set<NodeId>& inside) const {
    if (!inside.insert(id).second || id == found.dot || id == found.gradient) return;
    for (const Value operand : graph_.node(id).operands) {
      if (found.follows(operand)) add_inner(found, operand.node, inside);
    }
  }

  /// Has the forward call (the first) give the rows that others need. What follows these by the row is no longer its
  /// own. False: others need more of it.
  bool give_rows(const TrainedAttention& found, std::vector<LibraryCall>& calls) const {
    LibraryCall& forward = calls[0];
    const std::set<NodeId> all = nodes_of(calls), own = nodes_of({&forward, 1});
    const NodeId greatest = found.attention->softmax.sum.maximum, sum = sum_of(*found.attention);
    std::set<NodeId> needed;
    std::vector<NodeId> open;
    for (const LibraryCall& call : calls) {
      for (const Value value : call.operands) open.push_back(value.node);
    }
    for (const NodeId id : found.attention->inner) {
      if (found.follows({id, 0})) continue;
      const bool outside = std::ranges::any_of(uses_[id], [&](NodeId user) { return !all.contains(user); });
      if (outside || results_[id]) open.push_back(id);
    }
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!own.contains(id) || forward.writes({id, 0})) continue;
      if (found.follows({id, 0})) return false;
      if (!needed.insert(id).second || id == greatest || id == sum) continue;
      if (graph_.node(id).op == Op::reduce) return false;
      for (const Value operand : graph_.node(id).operands) open.push_back(operand.node);
    }
    for (const NodeId id : {greatest, sum}) {
      if (needed.erase(id) > 0) forward.further.push_back({id, 0});
    }
    std::erase_if(forward.epilogue, [&](NodeId id) { return needed.contains(id); });
    return true;
  }
  [[nodiscard]] NodeId sum_of(const Attention& attention) const {
    for (const NodeId id : attention.inner) {
      const auto found = match_exp_sum(graph_, id);
      if (found && found->exponential == attention.softmax.sum.exponential) return id;
    }
    return -1;
  }

  static std::set<NodeId> nodes_of(std::span<const LibraryCall> calls) {
    std::set<NodeId> all;
    for (const LibraryCall& call : calls) {
      all.insert(call.root);
      all.insert(call.epilogue.begin(), call.epilogue.end());
    }
    return all;
  }

  /// Whether anybody but these calls needs what one of them has on its way.
  [[nodiscard]] bool is_needed_besides(const std::vector<LibraryCall>& calls) const {
    const std::set<NodeId> all = nodes_of(calls);
    return std::ranges::any_of(all, [&](NodeId id) {
      if (std::ranges::any_of(calls, [&](const LibraryCall& call) { return call.writes({id, 0}); })) return false;
      return results_[id] || std::ranges::any_of(uses_[id], [&](NodeId user) { return !all.contains(user); });
    });
  }

  const Graph& graph_;
  std::vector<LibraryCall> calls_;
  const CallValues values_;
  const std::function<bool(const Graph&)>& wanted_;
  const std::vector<std::vector<NodeId>> uses_;
  const std::vector<bool> results_;
  std::map<NodeId, const LibraryCall*> call_of_;  ///< by their dots
  Waits waits_;
};

}  // namespace

std::vector<LibraryCall> join_attention_gradients(const Graph& graph, std::vector<LibraryCall> calls,
                                                  const std::function<bool(const Graph&)>& wanted) {
  return GradientJoiner(graph, std::move(calls), wanted).join();
}

}  // namespace stitch::graph
