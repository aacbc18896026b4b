#include "graph/calls/wide_epilogue.h"

#include <algorithm>
#include <optional>
#include <set>

#include "graph/calls/call_leaves.h"

namespace stitch::graph {
namespace {

/// Operators of an epilogue at most: a kernel has registers for so much.
constexpr std::size_t longest_epilogue = 48;
/// What is smaller than the result by so much is stored and read for next to nothing.
constexpr std::int64_t small_share = 8;
/// Operators at most that an epilogue computes for itself of what lies in memory.
constexpr int most_computed = 24;

bool is_boundary(Op op) {
  const OpCategory category = info(op).category;
  return category == OpCategory::contraction || category == OpCategory::boundary || category == OpCategory::control;
}

class Widener {
 public:
  Widener(const Graph& graph, std::vector<LibraryCall> calls, const OwnCall& wanted)
      : graph_(graph), calls_(std::move(calls)), wanted_(wanted), uses_(users(graph)), results_(is_result(graph)) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      int deepest = 0;
      for (const Value operand : graph.node(id).operands) deepest = std::max(deepest, depth_[operand.node]);
      depth_.push_back(deepest + (is_boundary(graph.node(id).op) ? 1 : 0));
    }
    call_of_.resize(graph.size(), none);
    for (std::size_t c = 0; c < calls_.size(); ++c) own_nodes(c);
    for (std::size_t c = 0; c < calls_.size(); ++c) own_results(c);
  }

  std::vector<LibraryCall> widen() {
    for (std::size_t c = 0; c < calls_.size(); ++c) {
      LibraryCall& call = calls_[c];
      // Of an attention the second product is among what follows the first.
      const bool attention =
          std::ranges::any_of(call.epilogue, [&](NodeId id) { return graph_.node(id).op == Op::dot; });
      if (attention) continue;
      std::optional<LibraryCall> wide = widened(call);
      if (!wide) continue;
      call = *std::move(wide);
      own_nodes(c);
    }
    return std::move(calls_);
  }

 private:
  static constexpr int none = -1;

  /// A wider call has all the nodes that it had, and more.
  void own_nodes(std::size_t c) {
    call_of_[calls_[c].root] = static_cast<int>(c);
    for (const NodeId id : calls_[c].epilogue) call_of_[id] = static_cast<int>(c);
  }
  /// What several calls compute, as an attention and its gradients do, is whose result it is.
  void own_results(std::size_t c) {
    for (const Value value : calls_[c].results()) call_of_[value.node] = static_cast<int>(c);
  }
  [[nodiscard]] bool is_within_call(NodeId id) const { return call_of_[id] != none; }

  /// The call with the longest epilogue that it may have; nothing: that is no longer than what it has.
  std::optional<LibraryCall> widened(const LibraryCall& call) {
    const std::set<NodeId> behind = nodes_behind(call);
    const std::int64_t least = graph_.type(call.result).bytes();
    std::vector<LibraryCall> candidates;
    for (const NodeId end : behind) {
      if (graph_.node(end).op == Op::reshape || graph_.type({end}).bytes() > least) continue;
      const std::set<NodeId> inside = nodes_between(graph_, call.root, end);
      if (!std::ranges::includes(behind, inside) || inside.size() > longest_epilogue + 1) continue;
      if (inside.size() <= call.epilogue.size() + 1 || is_needed_outside(inside, end, uses_, results_)) continue;
      if (is_read_by_epilogues(inside, end)) continue;
      std::optional<LibraryCall> candidate = with_epilogue(call, inside, end);
      if (candidate) candidates.push_back(*std::move(candidate));
    }
    for (; !candidates.empty(); candidates.pop_back()) {
      const LibraryCall& longest = candidates.back();
      const Result<Graph> own = own_graph(graph_, longest);
      if (own && wanted_(*own, is_read_by_calls_alone(longest.result))) return longest;
    }
    return std::nullopt;
  }

  /// Whether other calls' epilogues read a value that would not be written any more: of one that they compute a part of
  /// for themselves (compute_what_is_not_stored) they read what that is made of, which the graph does not say.
  [[nodiscard]] bool is_read_by_epilogues(const std::set<NodeId>& inside, NodeId end) const {
    return std::ranges::any_of(calls_, [&](const LibraryCall& other) {
      if (inside.contains(other.root)) return false;
      const auto contracted = static_cast<std::ptrdiff_t>(std::min(other.viewed.size(), other.operands.size()));
      return std::any_of(other.operands.begin() + contracted, other.operands.end(),
                         [&](Value leaf) { return leaf.node != end && inside.contains(leaf.node); });
    });
  }

  /// Whether nobody reads a value but what is no fragment's, layouts aside.
  [[nodiscard]] bool is_read_by_calls_alone(Value value) const {
    return std::ranges::all_of(uses_[value.node], [&](NodeId user) {
      const Op op = graph_.node(user).op;
      if (op == Op::reshape || op == Op::transpose) return is_read_by_calls_alone({user, 0});
      return is_within_call(user) || is_boundary(op);
    });
  }

  /// The root and, ascending, what depends on it by element-wise operators and layouts alone, and is no other call's.
  [[nodiscard]] std::set<NodeId> nodes_behind(const LibraryCall& call) const {
    std::set<NodeId> behind = {call.root};
    std::vector<NodeId> open = {call.root};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      for (const NodeId user : uses_[id]) {
        const Op op = graph_.node(user).op;
        const bool follows = is_elementwise(op) || op == Op::transpose || op == Op::reshape;
        const bool taken = is_within_call(user) && call_of_[user] != call_of_[call.root];
        if (!follows || taken || behind.size() > 4 * longest_epilogue) continue;
        if (behind.insert(user).second) open.push_back(user);
      }
    }
    return behind;
  }

  [[nodiscard]] std::optional<LibraryCall> with_epilogue(const LibraryCall& call, const std::set<NodeId>& inside,
                                                         NodeId end) const {
    LibraryCall wide = call;
    wide.epilogue.clear();
    wide.result = {end, 0};
    CallLeaves leaves(graph_, inside);
    leaves.found = {call.operands[0], call.operands[1]};
    for (const NodeId id : inside) {
      if (id == call.root) continue;
      wide.epilogue.push_back(id);
      for (const Value operand : graph_.node(id).operands) leaves.add(operand);
    }
    if (!compute_what_is_not_stored(leaves, call)) return std::nullopt;
    for (const Value leaf : leaves.found) {
      if (!nodes_between(graph_, call.root, leaf.node).empty()) return std::nullopt;  // it would wait for itself
    }
    wide.operands = std::move(leaves.found);
    wide.description = describe_call(graph_, wide);
    return wide;
  }

  /// A leaf that would be stored for this call alone is computed in it, of what lies in memory. False: it cannot be.
  bool compute_what_is_not_stored(CallLeaves& leaves, const LibraryCall& call) const {
    int computed = 0;
    for (std::size_t i = 2; i < leaves.found.size();) {
      const Value leaf = leaves.found[i];
      if (is_in_memory(leaf, call)) {
        ++i;
        continue;
      }
      const Node& node = graph_.node(leaf.node);
      if (!is_elementwise(node.op) || is_within_call(leaf.node) || ++computed > most_computed) return false;
      leaves.found.erase(leaves.found.begin() + static_cast<std::ptrdiff_t>(i));
      for (const Value operand : node.operands) leaves.add(operand);
    }
    return true;
  }

  /// Whether a value that is read besides is stored whether this call reads it or not, or costs next to nothing.
  [[nodiscard]] bool is_in_memory(Value leaf, const LibraryCall& call) const {
    if (graph_.node(leaf.node).op == Op::parameter || results_[leaf.node]) return true;
    if (is_within_call(leaf.node)) return calls_[call_of_[leaf.node]].writes(leaf);
    const bool read = std::ranges::any_of(calls_, [&](const LibraryCall& other) {
      return other.root != call.root && std::ranges::count(other.operands, leaf) > 0;
    });
    if (read) return true;
    if (graph_.type(leaf).bytes() * small_share <= graph_.type(call.result).bytes()) return true;
    // What is no mere function of its operands is not computed again at a later level.
    return !is_elementwise(graph_.node(leaf.node).op) && depth_[leaf.node] > 0 && depth_[leaf.node] < depth_[call.root];
  }

  const Graph& graph_;
  std::vector<LibraryCall> calls_;
  const OwnCall& wanted_;
  const std::vector<std::vector<NodeId>> uses_;
  const std::vector<bool> results_;
  std::vector<int> call_of_;  ///< the call that computes a node, or none
  std::vector<int> depth_;    ///< boundaries on the longest way to a node, itself included
};

}  // namespace

std::vector<LibraryCall> widen_epilogues(const Graph& graph, std::vector<LibraryCall> calls, const OwnCall& wanted) {
  return Widener(graph, std::move(calls), wanted).widen();
}

}  // namespace stitch::graph
