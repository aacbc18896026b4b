#include "kernel/structure/group_forming.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// Sharing a load smaller than this is no reason for two anchors to share a mapping.
constexpr std::int64_t shared_load_elements = 1024;

/// Of a reduction whose partial results are finished apart from all others.
constexpr int no_source = -1;

bool is_subset(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::all_of(a, [&](int x) { return std::ranges::find(b, x) != b.end(); });
}

/// It walks its axis in its own way and holds no reduction on the side.
bool is_special(const Draft& draft) {
  return draft.kind == Draft::Kind::scan || draft.kind == Draft::Kind::sort || draft.kind == Draft::Kind::scatter;
}

/// Drafts of a phase that are joined step by step: a disjoint-set forest. Joined ones have axes of which one set
/// contains the others.
class JoinedDrafts {
 public:
  explicit JoinedDrafts(const std::vector<Draft*>& drafts) : parent_(drafts.size()), sources_(drafts.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const Draft* draft : drafts) axes_.push_back(draft->axes);
  }

  [[nodiscard]] std::size_t root(std::size_t i) {
    while (parent_[i] != i) {
      parent_[i] = parent_[parent_[i]];
      i = parent_[i];
    }
    return i;
  }

  /// False where the axes of neither contain those of the other.
  bool join(std::size_t a, std::size_t b) {
    a = root(a);
    b = root(b);
    if (a == b) return true;
    if (!is_subset(axes_[a], axes_[b]) && !is_subset(axes_[b], axes_[a])) return false;
    if (is_subset(axes_[a], axes_[b])) axes_[a] = axes_[b];
    parent_[b] = a;
    sources_[a].insert(sources_[b].begin(), sources_[b].end());
    return true;
  }

  /// Sources of the partial results that the draft's group finishes.
  [[nodiscard]] const std::set<int>& sources(std::size_t i) { return sources_[root(i)]; }
  void add_source(std::size_t i, int source) { sources_[i].insert(source); }

 private:
  std::vector<std::size_t> parent_;
  std::vector<std::vector<int>> axes_;  ///< of roots: those of all of the group
  std::vector<std::set<int>> sources_;
};

/// Finishes that may be together are.
void join_finishes(JoinedDrafts& joined, const std::map<NodeId, std::size_t>& finish_at,
                   const std::map<NodeId, int>& source_of) {
  std::map<int, std::size_t> first;
  for (const auto& [node, at] : finish_at) {
    const int source = source_of.at(node);
    if (source != no_source) joined.join(first.try_emplace(source, at).first->second, at);
  }
}

/// Anchors that read the same large values share a mapping, so that each value is read once (dominant merging).
void join_readers(JoinedDrafts& joined, const std::vector<Draft*>& drafts) {
  std::map<NodeId, std::vector<std::size_t>> readers;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    if (is_special(*drafts[i])) continue;
    for (const NodeId load : drafts[i]->loads) readers[load].push_back(i);
  }
  for (const auto& [load, list] : readers) {
    for (std::size_t i = 1; i < list.size(); ++i) {
      if (drafts[list[i]]->finished.empty() == drafts[list[0]]->finished.empty()) joined.join(list[0], list[i]);
    }
  }
}

}  // namespace

void GroupForming::find_needs(const std::vector<Draft*>& drafts, const GroupBuilder& builder,
                              std::vector<Missing>& blocked) {
  for (Draft* draft : drafts) find_needs(*draft, builder, blocked);
}

void GroupForming::find_needs(Draft& draft, const GroupBuilder& builder, std::vector<Missing>& blocked) {
  ++walk_;
  std::vector<Value> open = roots(draft);
  while (!open.empty()) {
    const Value value = open.back();
    open.pop_back();
    const Node& node = graph_.node(value.node);
    const bool large = graph_.type(value).elements() >= shared_load_elements;
    if (node.op == Op::parameter || builder.is_stored(value)) {
      if (large || may_be_written_over(value)) draft.loads.insert(value.node);
      continue;
    }
    if (std::exchange(walked_[value.node], walk_) == walk_) continue;
    // Random bits take longer to compute than most values to load.
    if (graph::makes_random_bits(node.op) && large) draft.loads.insert(value.node);
    if (is_stored_only(node.op)) {
      blocked.push_back(missing(draft, value.node));
      continue;
    }
    if (is_reduction(node.op)) {
      const bool global = phases_.is_global(value.node);
      if (phases_.finished(value.node) == draft.phase) {
        (global ? draft.finished : draft.local_reductions).insert(value.node);
        continue;
      }
      // Of an earlier phase and not stored (or a foreign index will show): item construction decides.
      blocked.push_back(missing(draft, value.node));
      continue;
    }
    for (const Value operand : node.operands) open.push_back(operand);
  }
  if (draft.kind == Draft::Kind::finish) draft.finished.insert(draft.node);
}

/// Whether a result may be written where a value lies, which only one group may read then (kernel/program/in_place.h).
bool GroupForming::may_be_written_over(Value value) const {
  const graph::TensorType& type = graph_.type(value);
  if (!graph_.constraints.in_place || type.elements() <= 1) return false;
  return std::ranges::any_of(graph_.results(), [&](Value result) { return graph_.type(result) == type; });
}

/// What an anchor reads first.
std::vector<Value> GroupForming::roots(const Draft& draft) const {
  const std::vector<Value>& operands = graph_.node(draft.node).operands;
  switch (draft.kind) {
    case Draft::Kind::finish: return {};
    case Draft::Kind::reduce:
    case Draft::Kind::scan:
    case Draft::Kind::scatter: return operands;
    case Draft::Kind::sort: {
      std::vector<Value> read = {operands[0]};
      for (const auto& [result, output] : draft.stored) read.push_back(operands[result]);
      return read;
    }
    case Draft::Kind::fill: return {operands[0]};
    case Draft::Kind::update:
    case Draft::Kind::add_updates: return {operands.begin() + 1, operands.end()};
    case Draft::Kind::output:
    case Draft::Kind::piece:
    case Draft::Kind::keep: break;
  }
  return {draft.value};
}

std::vector<std::vector<Draft*>> GroupForming::form_groups(const std::vector<Draft*>& drafts,
                                                           std::vector<Missing>& blocked) const {
  JoinedDrafts joined(drafts);
  std::map<NodeId, std::size_t> reduction_at, finish_at;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    if (drafts[i]->kind == Draft::Kind::reduce && !drafts[i]->global) reduction_at[drafts[i]->node] = i;
    if (drafts[i]->kind == Draft::Kind::finish) finish_at[drafts[i]->node] = i;
  }
  const std::map<NodeId, int> source_of = sources_of(finish_at);
  for (const auto& [node, at] : finish_at) joined.add_source(at, source_of.at(node));
  join_finishes(joined, finish_at, source_of);
  const std::size_t blocked_before = blocked.size();
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const Draft& draft = *drafts[i];
    if (is_special(draft)) {
      for (const auto* needed : {&draft.local_reductions, &draft.finished}) {
        for (const NodeId reduction : *needed) blocked.push_back(missing(draft, reduction));
      }
      continue;
    }
    for (const NodeId reduction : draft.local_reductions) {
      if (!joined.join(i, reduction_at.at(reduction))) blocked.push_back(missing(draft, reduction));
    }
    for (const NodeId finished : draft.finished) {
      // A finished reduction is complete in its own group only; whoever spans more axes reads it from memory.
      const std::size_t at = finish_at.at(finished);
      if (joined.root(i) == joined.root(at)) continue;
      const std::set<int>& own = joined.sources(i);
      const int source = source_of.at(finished);
      const bool same = own.empty() || (own.size() == 1 && source != no_source && *own.begin() == source);
      if (!is_subset(draft.axes, analysis_.of(Value{finished, 0})) || !same || !joined.join(at, i))
        blocked.push_back(missing(draft, finished));
    }
  }
  if (blocked.size() > blocked_before) return {};
  join_readers(joined, drafts);
  std::map<std::size_t, std::vector<Draft*>> groups;
  for (std::size_t i = 0; i < drafts.size(); ++i) groups[joined.root(i)].push_back(drafts[i]);
  std::vector<std::vector<Draft*>> ordered;
  for (auto& [root, members] : groups) ordered.push_back(std::move(members));
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a[0]->node < b[0]->node; });
  return ordered;
}

void GroupForming::number_reductions(const std::vector<Draft*>& group) {
  for (const Draft* draft : group) {
    if (draft->kind == Draft::Kind::reduce) group_of_reduction_[draft->node] = next_group_;
  }
  ++next_group_;
}

/// Finishing two reductions in one group needs one axis over their partials: they must come from the same group of the
/// phase before and reduce the same axes there. Those that may be together have the same number; no_source: none other.
std::map<NodeId, int> GroupForming::sources_of(const std::map<NodeId, std::size_t>& finish_at) const {
  std::map<std::tuple<int, std::vector<int>, std::vector<int>>, int> numbers;
  std::map<NodeId, int> source_of;
  for (const auto& [node, at] : finish_at) {
    source_of[node] = no_source;
    const auto group = group_of_reduction_.find(node);
    if (group == group_of_reduction_.end()) continue;
    const int next = numbers.size();
    const auto source = std::tuple(group->second, analysis_.reduced(node), analysis_.of(Value{node, 0}));
    source_of[node] = numbers.try_emplace(source, next).first->second;
  }
  return source_of;
}

}  // namespace stitch::kernel
