#include "search/partition/merging.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "search/partition/quotient.h"

namespace stitch::search {
namespace {

using graph::NodeId;
using graph::Value;

struct Merge {
  int a = 0, b = 0;  ///< parts, a < b
  VertexSet together;
  double gain_us = 0;
};

/// Pairs of parts that hand values to one another or read the same ones; per part the few that share most bytes.
std::vector<std::pair<int, int>> related_pairs(const VertexGraph& vertices, const std::vector<VertexSet>& parts) {
  const std::size_t most_partners = parts.size() > 64 ? 3 : 6;
  constexpr std::int64_t least_bytes = 4096;  // of a value that is only read by both
  std::map<Value, std::vector<int>> readers;
  std::map<Value, int> writer;
  for (int p = 0; p < std::ssize(parts); ++p) {
    for (const int v : parts[p].members()) {
      const NodeId node = vertices.node(v);
      for (int r = 0; r < std::ssize(vertices.fragment().node(node).results); ++r) writer[{node, r}] = p;
      for (const Value value : vertices.reads(v)) {
        std::vector<int>& list = readers[value];
        if (list.empty() || list.back() != p) list.push_back(p);
      }
    }
  }
  std::map<std::pair<int, int>, std::int64_t> shared;
  for (const auto& [value, list] : readers) {
    const std::int64_t bytes = vertices.fragment().type(value).bytes();
    if (const auto from = writer.find(value); from != writer.end()) {
      for (const int p : list) {
        if (p != from->second) shared[std::minmax(p, from->second)] += bytes + 1;
      }
    }
    // A value that very many read (a scalar, a table) is no reason to join any two of them.
    if (bytes < least_bytes || list.size() > 16) continue;
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (std::size_t j = i + 1; j < list.size(); ++j) shared[std::minmax(list[i], list[j])] += bytes;
    }
  }
  std::vector<std::vector<std::pair<std::int64_t, int>>> partners(parts.size());
  for (const auto& [pair, bytes] : shared) {
    partners[pair.first].emplace_back(-bytes, pair.second);
    partners[pair.second].emplace_back(-bytes, pair.first);
  }
  std::set<std::pair<int, int>> pairs;
  for (int p = 0; p < std::ssize(parts); ++p) {
    auto& list = partners[p];
    std::sort(list.begin(), list.end());
    for (std::size_t i = 0; i < std::min(most_partners, list.size()); ++i) pairs.insert(std::minmax(p, list[i].second));
  }
  return {pairs.begin(), pairs.end()};
}

/// Pairs worth merging, most gain first.
std::vector<Merge> gainful_merges(const VertexGraph& vertices, const std::vector<VertexSet>& parts,
                                  const Quotient& quotient, PartPrices& prices, PartLimits& limits) {
  std::vector<Merge> merges;
  for (const auto& [a, b] : related_pairs(vertices, parts)) {
    if (!quotient.mergeable(a, b)) continue;
    Merge merge{a, b, parts[a], 0};
    merge.together.merge(parts[b]);
    if (!limits.allows(merge.together)) continue;
    merges.push_back(std::move(merge));
  }
  std::vector<VertexSet> unions;
  for (const Merge& merge : merges) unions.push_back(merge.together);
  prices.warm(unions);
  for (Merge& merge : merges) {
    const std::optional<double> us = prices.feasible_us(merge.together);
    if (!us) {
      limits.note_infeasible(std::move(merge.together));
      continue;
    }
    merge.gain_us = *prices.feasible_us(parts[merge.a]) + *prices.feasible_us(parts[merge.b]) - *us;
  }
  std::erase_if(merges, [](const Merge& merge) { return merge.gain_us <= rounding_us; });
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& x, const Merge& y) { return x.gain_us > y.gain_us; });
  return merges;
}

}  // namespace

void merge_neighbours(const VertexGraph& vertices, std::vector<VertexSet>& parts, std::size_t most_parts,
                      PartPrices& prices, PartLimits& limits) {
  if (parts.size() > most_parts) return;
  while (parts.size() > 1) {
    Quotient quotient(vertices, parts);
    std::vector<Merge> merges = gainful_merges(vertices, parts, quotient, prices, limits);
    if (merges.empty()) return;
    std::vector<bool> touched(parts.size(), false);
    for (Merge& merge : merges) {
      const int a = merge.a, b = merge.b;
      if (touched[a] || touched[b]) continue;
      touched[a] = touched[b] = true;
      // An earlier merge of this round may have closed a way around this pair.
      if (!quotient.mergeable(a, b)) continue;
      quotient.join(a, b);
      parts[a] = std::move(merge.together);
      parts[b] = VertexSet(vertices.size());
    }
    std::erase(parts, VertexSet(vertices.size()));
  }
}

}  // namespace stitch::search
