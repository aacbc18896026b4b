#include "search/partition/quotient.h"

#include <algorithm>

namespace stitch::search {

Quotient::Quotient(const VertexGraph& vertices, const std::vector<VertexSet>& parts) : next_(parts.size()) {
  std::vector<int> part_of(vertices.size(), -1);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (const int v : parts[p].members()) part_of[v] = p;
  }
  for (int v = 0; v < vertices.size(); ++v) {
    for (const int consumer : vertices.consumers(v)) {
      const int from = part_of[v], to = part_of[consumer];
      if (from != to && from >= 0 && to >= 0) next_[from].insert(to);
    }
  }
}

/// Whether b can be reached from a through some third part.
bool Quotient::indirect(int a, int b) const {
  std::vector<bool> seen(next_.size(), false);
  std::vector<int> open;
  for (const int n : next_[a]) {
    if (n != b) open.push_back(n);
  }
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    if (at == b) return true;
    if (seen[at]) continue;
    seen[at] = true;
    for (const int n : next_[at]) open.push_back(n);
  }
  return false;
}

void Quotient::join(int a, int b) {
  std::set<int>& own = next_[a];
  own.merge(next_[b]);
  next_[b].clear();
  for (std::set<int>& next : next_) {
    if (next.erase(b) > 0) next.insert(a);
  }
  own.erase(a);
}

std::vector<int> Quotient::order() const {
  std::vector<int> waiting(next_.size(), 0);
  for (const auto& list : next_) {
    for (const int n : list) ++waiting[n];
  }
  std::set<int> ready;
  for (std::size_t p = 0; p < next_.size(); ++p) {
    if (waiting[p] == 0) ready.insert(p);
  }
  std::vector<int> out;
  while (!ready.empty()) {
    const int part = *ready.begin();
    ready.erase(ready.begin());
    out.push_back(part);
    for (const int n : next_[part]) {
      if (--waiting[n] == 0) ready.insert(n);
    }
  }
  return out.size() == next_.size() ? out : std::vector<int>{};
}

std::vector<int> Quotient::depths() const {
  std::vector<int> depth(next_.size(), 0);
  for (const int part : order()) {
    for (const int n : next_[part]) {
      depth[n] = std::max(depth[n], depth[part] + 1);
    }
  }
  return depth;
}

}  // namespace stitch::search
