#include "graph/passes/unrolled/step_pairs.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/hash.h"
#include "graph/canonical.h"

namespace stitch::graph {
namespace {

constexpr std::size_t most_seeds = 32;
constexpr int look_back = 10, look_ahead = 3;  ///< operators that a node's kind takes in
constexpr int most_steps_back = 1 << 14;       ///< nodes met on the way to the turn before

bool is_plain(const Node& node) {
  const OpCategory category = info(node.op).category;
  return node.results.size() == 1 && node.regions.empty() && node.op != Op::parameter &&
         category != OpCategory::boundary && category != OpCategory::control &&
         (category != OpCategory::contraction || node.op == Op::dot);
}

/// Whether two slices of one tensor take equally many elements, at other places.
bool slices_alike(const SliceAttributes& a, const SliceAttributes& b) { return a.strides == b.strides; }

/// What a node looks like without its operands; slices of any place look the same.
std::uint64_t look(const Node& node) {
  std::uint64_t hash = mix(0, static_cast<std::uint64_t>(node.op));
  for (const TensorType& type : node.results) {
    hash = mix(hash, static_cast<std::uint64_t>(type.dtype));
    for (const std::int64_t extent : type.dims) hash = mix(hash, static_cast<std::uint64_t>(extent));
  }
  return hash;
}

/// By node: how many operators lie on the longest way to it.
std::vector<int> levels_of(const Graph& graph) {
  std::vector<int> level(graph.size(), 0);
  for (NodeId id = 0; id < graph.size(); ++id) {
    for (const Value operand : graph.node(id).operands) level[id] = std::max(level[id], level[operand.node] + 1);
  }
  return level;
}

/// The last node of the kind of `later` that it is computed from; -1: none is near.
NodeId nearest_before(const Graph& graph, const std::vector<std::uint64_t>& kind, const std::vector<int>& level,
                      NodeId later) {
  std::priority_queue<std::pair<int, NodeId>> open;
  std::set<NodeId> seen;
  const auto enter = [&](NodeId id) {
    for (const Value operand : graph.node(id).operands) {
      if (seen.insert(operand.node).second) open.emplace(level[operand.node], operand.node);
    }
  };
  enter(later);
  for (int steps = 0; !open.empty() && steps < most_steps_back; ++steps) {
    const NodeId id = open.top().second;
    open.pop();
    if (kind[id] == kind[later]) return id;
    enter(id);
  }
  return -1;
}

}  // namespace

NodeKinds kinds_of(const Graph& graph) {
  std::vector<std::uint64_t> looks(graph.size());
  for (NodeId id = 0; id < graph.size(); ++id) looks[id] = look(graph.node(id));
  NodeKinds kinds{looks, looks, looks};
  for (int round = 0; round < look_back; ++round) {
    std::vector<std::uint64_t> next = looks;
    for (NodeId id = 0; id < graph.size(); ++id) {
      for (const Value operand : graph.node(id).operands) next[id] = mix(next[id], kinds.made_of[operand.node]);
    }
    kinds.made_of = std::move(next);
  }
  for (int round = 0; round < look_ahead; ++round) {
    std::vector<std::uint64_t> next = looks;
    for (NodeId id = 0; id < graph.size(); ++id) {
      const Node& node = graph.node(id);
      std::uint64_t beside = 0;  // sums, because the order of users and of commutative operands does not matter
      for (const Value operand : node.operands) beside += mix(1, looks[operand.node]);
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        const std::size_t place = is_commutative(node) || node.op == Op::concatenate ? 0 : i;
        next[node.operands[i].node] += mix(mix(place, beside), kinds.used_for[id]);
      }
    }
    kinds.used_for = std::move(next);
    if (round == 0) kinds.used_by = kinds.used_for;
  }
  return kinds;
}

StepPairs::StepPairs(const Graph& graph) : graph_(graph), before_(graph.size(), -1), after_(graph.size(), -1) {
  operands_.reserve(graph.size());
  for (const Node& node : graph.nodes()) operands_.push_back(node.operands);
}

int StepPairs::likeness(Value later, Value earlier) const {
  if (later == earlier) return 2;
  return alike(later.node, earlier.node) ? 1 : 0;
}

void StepPairs::put_in_order(NodeId later, NodeId earlier) {
  if (!is_commutative(graph_.node(later))) return;
  const std::vector<Value>& a = operands_[later];
  std::vector<Value>& b = operands_[earlier];
  if (likeness(a[0], b[1]) + likeness(a[1], b[0]) > likeness(a[0], b[0]) + likeness(a[1], b[1])) std::swap(b[0], b[1]);
}

bool StepPairs::alike(NodeId later, NodeId earlier) const {
  const Node &a = graph_.node(later), &b = graph_.node(earlier);
  if (a.op != b.op || a.operands.size() != b.operands.size() || a.results != b.results || !is_plain(a)) return false;
  if (a.op == Op::slice && a.operands == b.operands)
    return slices_alike(a.as<SliceAttributes>(), b.as<SliceAttributes>());
  return a.attributes == b.attributes;
}

bool StepPairs::walk(NodeId later, NodeId earlier, bool contractions) {
  const std::size_t mark = paired_.size();
  if (!alike(later, earlier)) return false;
  std::vector<std::pair<NodeId, NodeId>> open{{later, earlier}};
  bool failed = false;
  while (!open.empty() && !failed) {
    const auto [a, b] = open.back();
    open.pop_back();
    if (a == b || before_[a] >= 0 || after_[b] >= 0) continue;
    const Node& node = graph_.node(a);
    if (!alike(a, b)) {
      failed = node.operands.empty();
      continue;
    }
    failed = node.op == Op::dot && !contractions;
    before_[a] = b;
    after_[b] = a;
    paired_.push_back(a);
    put_in_order(a, b);
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      open.emplace_back(operands_[a][i].node, operands_[b][i].node);
  }
  if (!failed) return true;
  for (std::size_t i = mark; i < paired_.size(); ++i) {
    after_[before_[paired_[i]]] = -1;
    before_[paired_[i]] = -1;
  }
  paired_.resize(mark);
  return false;
}

std::vector<std::pair<NodeId, NodeId>> repeated_steps(const Graph& graph, const NodeKinds& kinds,
                                                      std::size_t fewest_turns) {
  const std::vector<std::uint64_t>& kind = kinds.made_of;
  const std::vector<int> level = levels_of(graph);
  std::unordered_map<std::uint64_t, std::vector<NodeId>> members;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (is_elementwise(graph.node(id).op) && graph.node(id).results.size() == 1) members[kind[id]].push_back(id);
  }
  std::vector<std::pair<int, NodeId>> ends;  // the first level of a kind, its last node
  for (const auto& [hash, nodes] : members) {
    std::set<int> levels;
    for (const NodeId id : nodes) levels.insert(level[id]);
    const NodeId last = *std::ranges::max_element(nodes, {}, [&](NodeId id) { return std::pair(level[id], id); });
    if (levels.size() >= fewest_turns) ends.emplace_back(*levels.begin(), last);
  }
  std::ranges::sort(ends);
  std::vector<std::pair<NodeId, NodeId>> seeds;
  for (const auto& [first_level, last] : ends) {
    if (seeds.size() == most_seeds) break;
    const NodeId earlier = nearest_before(graph, kind, level, last);
    if (earlier >= 0) seeds.emplace_back(last, earlier);
  }
  return seeds;
}

Graph with_shared_layouts(const Graph& graph) {
  Graph to;
  to.name = graph.name;
  to.constraints = graph.constraints;
  std::vector<NodeId> copy;
  std::map<std::tuple<Op, std::uint64_t, std::vector<Value>>, std::vector<NodeId>> known;
  for (NodeId id = 0; id < graph.size(); ++id) {
    Node node = graph.node(id);
    for (Value& operand : node.operands) operand.node = copy[operand.node];
    const OpCategory category = info(node.op).category;
    const bool shared = node.op != Op::parameter && (category == OpCategory::source || category == OpCategory::layout);
    if (!shared) {
      copy.push_back(to.add_unchecked(std::move(node)).node);
      continue;
    }
    std::uint64_t looks = look(node);
    if (node.op == Op::constant) {
      const auto& data = node.as<ConstantAttributes>().data;
      for (std::size_t i = 0; i < std::min<std::size_t>(data.size(), 64); ++i)
        looks = mix(looks, std::to_integer<std::uint64_t>(data[i]));
    }
    std::vector<NodeId>& equals = known[{node.op, looks, node.operands}];
    const auto found =
        std::ranges::find_if(equals, [&](NodeId other) { return to.node(other).attributes == node.attributes; });
    if (found != equals.end()) {
      copy.push_back(*found);
      continue;
    }
    copy.push_back(to.add_unchecked(std::move(node)).node);
    equals.push_back(copy.back());
  }
  for (const Value result : graph.results()) to.add_result({copy[result.node], result.result});
  return to;
}

}  // namespace stitch::graph
