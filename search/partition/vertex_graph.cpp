#include "search/partition/vertex_graph.h"

#include <algorithm>
#include <bit>
#include <set>

#include "kernel/structure/kernel_graph.h"

namespace stitch::search {

using graph::NodeId;
using graph::Op;
using graph::Value;

void VertexSet::merge(const VertexSet& other) {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

void VertexSet::subtract(const VertexSet& other) {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
}

bool VertexSet::intersects(const VertexSet& other) const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if ((words_[i] & other.words_[i]) != 0) return true;
  }
  return false;
}

bool VertexSet::is_within(const VertexSet& other) const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if ((words_[i] & ~other.words_[i]) != 0) return false;
  }
  return true;
}

bool VertexSet::misses_common(const VertexSet& a, const VertexSet& b) const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if ((a.words_[i] & b.words_[i] & ~words_[i]) != 0) return true;
  }
  return false;
}

int VertexSet::count() const {
  int total = 0;
  for (const std::uint64_t word : words_) total += std::popcount(word);
  return total;
}

std::vector<int> VertexSet::members() const {
  std::vector<int> list;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    for (std::uint64_t rest = words_[i]; rest != 0; rest &= rest - 1) list.push_back(64 * i + std::countr_zero(rest));
  }
  return list;
}

VertexGraph::VertexGraph(const graph::Graph& fragment)
    : fragment_(&fragment), uses_(fragment), attached_(kernel::attached_operators(fragment)) {
  const std::vector<bool> results = graph::is_result(fragment);
  std::vector<bool> needed = results;  // what no result needs has no kernel
  for (NodeId id = fragment.size(); id-- > 0;) {
    if (!needed[id] || kernel::is_empty(fragment.node(id))) continue;
    for (const Value operand : fragment.node(id).operands) needed[operand.node] = true;
  }
  vertex_of_.assign(fragment.size(), -1);
  for (NodeId id = 0; id < fragment.size(); ++id) {
    const std::size_t at = id;
    if (kernel::is_empty(fragment.node(id)) || !needed[at]) continue;
    if (results[at]) attached_[at] = false;  // somebody must store it
    // A parameter that is a result must be copied: a vertex that nobody depends on.
    if (attached_[at] || (fragment.node(id).op == Op::parameter && !results[at])) continue;
    vertex_of_[at] = nodes_.size();
    nodes_.push_back(id);
    is_result_.push_back(results[at]);
  }
  const std::size_t n = nodes_.size();
  consumers_.resize(n);
  producers_.resize(n);
  reads_.resize(n);
  descendants_.assign(n, VertexSet(n));
  ancestors_.assign(n, VertexSet(n));
  // What is read through attached operators.
  std::vector<std::set<Value>> behind(fragment.size());
  for (NodeId id = 0; id < fragment.size(); ++id) {
    std::set<Value> sources;
    for (const Value operand : fragment.node(id).operands) {
      const std::size_t at = operand.node;
      if (attached_[at])
        sources.insert(behind[at].begin(), behind[at].end());
      else
        sources.insert(operand);
    }
    const int vertex = vertex_of_[id];
    if (vertex < 0) {
      behind[id] = std::move(sources);
      continue;
    }
    const std::size_t v = vertex;
    reads_[v].assign(sources.begin(), sources.end());
    for (const Value source : sources) {
      const int producer = fragment.node(source.node).op == Op::parameter ? -1 : vertex_of_[source.node];
      if (producer < 0 || (!producers_[v].empty() && producers_[v].back() == producer)) continue;
      producers_[v].push_back(producer);
      consumers_[producer].push_back(vertex);
    }
  }
  for (std::size_t v = 0; v < n; ++v) {
    for (const int producer : producers_[v]) {
      ancestors_[v].merge(ancestors_[producer]);
      ancestors_[v].insert(producer);
    }
  }
  for (std::size_t v = n; v-- > 0;) {
    for (const int consumer : consumers_[v]) {
      descendants_[v].merge(descendants_[consumer]);
      descendants_[v].insert(consumer);
    }
  }
}

std::vector<NodeId> VertexGraph::nodes_of(const VertexSet& set) const {
  std::vector<NodeId> list;
  for (const int vertex : set.members()) list.push_back(node(vertex));
  return list;
}

}  // namespace stitch::search
