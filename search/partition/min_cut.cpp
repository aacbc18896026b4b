#include "search/partition/min_cut.h"

#include <algorithm>
#include <queue>

namespace stitch::search {

void MinCut::edge(int from, int to, std::int64_t capacity) {
  first_[from].push_back(edges_.size());
  edges_.push_back({to, capacity});
  first_[to].push_back(edges_.size());
  edges_.push_back({from, 0});
}

bool MinCut::label(int source, int sink) {
  level_.assign(first_.size(), -1);
  level_[source] = 0;
  std::queue<int> open;
  open.push(source);
  while (!open.empty()) {
    const int node = open.front();
    open.pop();
    for (const int e : first_[node]) {
      const Edge& edge = edges_[e];
      if (edge.left > 0 && level_[edge.to] < 0) {
        level_[edge.to] = level_[node] + 1;
        open.push(edge.to);
      }
    }
  }
  return level_[sink] >= 0;
}

std::int64_t MinCut::push(int node, int sink, std::int64_t limit) {
  if (node == sink) return limit;
  const std::size_t at = node;
  for (; next_[at] < first_[at].size(); ++next_[at]) {
    const int e = first_[at][next_[at]];
    Edge& edge = edges_[e];
    if (edge.left <= 0 || level_[edge.to] != level_[at] + 1) continue;
    if (const std::int64_t pushed = push(edge.to, sink, std::min(limit, edge.left)); pushed > 0) {
      edge.left -= pushed;
      edges_[e ^ 1].left += pushed;
      return pushed;
    }
  }
  return 0;
}

std::vector<bool> MinCut::source_side(int source, int sink) {
  while (label(source, sink)) {
    next_.assign(first_.size(), 0);
    while (push(source, sink, infinite) > 0) {
    }
  }
  std::vector<bool> side(first_.size());
  for (std::size_t i = 0; i < side.size(); ++i) side[i] = level_[i] >= 0;
  return side;
}

std::vector<bool> MinCut::far_source_side(int sink) const {
  // All but what could still send something to the sink.
  std::vector<bool> side(first_.size(), true);
  std::vector<int> open = {sink};
  side[sink] = false;
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    for (const int e : first_[node]) {
      const Edge& back = edges_[e ^ 1];  // from the other end to here
      const std::size_t other = edges_[e].to;
      if (back.left > 0 && side[other]) {
        side[other] = false;
        open.push_back(other);
      }
    }
  }
  return side;
}

}  // namespace stitch::search
