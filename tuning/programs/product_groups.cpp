#include "tuning/programs/product_groups.h"

#include <algorithm>
#include <map>
#include <optional>

#include "graph/subgraph.h"
#include "kernel/contraction/merged_contraction.h"

namespace stitch::tuning {
namespace {

using graph::Graph;
using graph::LibraryCall;
using graph::Value;

/// Pieces on the way between the first and the last of a group that can be computed, or is read: two products of an
/// attention's backward pass and what is between them.
constexpr int most_apart = 4;

class Grouping {
 public:
  Grouping(const Graph& graph, std::span<const RegionPiece> pieces, const std::function<Value(Value)>& memory_of,
           const std::function<bool(const Graph&)>& wanted)
      : graph_(graph), pieces_(pieces), wanted_(wanted), waits_(pieces, memory_of), grouped_(pieces.size(), false) {
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      if (!is_one_product(graph, pieces[p])) continue;
      for (const Value value : pieces[p].reads) readers_[memory_of(value)].push_back(p);
    }
  }

  std::vector<PieceGroup> group() {
    std::vector<PieceGroup> candidates;
    for (auto& [operand, readers] : readers_) {
      std::ranges::sort(readers, {}, [&](std::size_t p) { return call(p).root; });
      std::ranges::move(alike(readers), std::back_inserter(candidates));
    }
    // A product may share its left operand with some and its right one with others: the more there are, the better.
    std::ranges::stable_sort(candidates, std::ranges::greater(), &PieceGroup::size);
    for (PieceGroup& candidate : candidates) {
      std::erase_if(candidate, [&](std::size_t p) { return grouped_[p]; });
      take(candidate);
    }
    std::ranges::sort(groups_, {}, [&](const PieceGroup& group) { return call(group[0]).root; });
    return std::move(groups_);
  }

 private:
  [[nodiscard]] const LibraryCall& call(std::size_t p) const { return *std::get<const LibraryCall*>(pieces_[p].work); }

  [[nodiscard]] Result<Graph> graph_of(const PieceGroup& group) const {
    std::vector<Value> reads, writes;
    for (const std::size_t p : group) {
      reads.insert(reads.end(), pieces_[p].reads.begin(), pieces_[p].reads.end());
      writes.insert(writes.end(), pieces_[p].writes.begin(), pieces_[p].writes.end());
    }
    return graph::subgraph(graph_, distinct(reads), writes);
  }

  /// Of these products, those that are one by their shapes and near one another; each in one group of them.
  [[nodiscard]] std::vector<PieceGroup> alike(const std::vector<std::size_t>& products) const {
    std::vector<PieceGroup> groups;
    for (const std::size_t p : products) {
      const auto found = std::ranges::find_if(groups, [&](const PieceGroup& group) { return belongs(p, group); });
      if (found != groups.end()) {
        found->push_back(p);
      } else {
        groups.push_back({p});
      }
    }
    return groups;
  }
  [[nodiscard]] bool belongs(std::size_t p, const PieceGroup& group) const {
    if (group.size() == kernel::most_members || std::ranges::count(group, p) > 0) return false;
    const auto far = [&](std::size_t other) {
      const std::optional<int> read = waits_.first_read(p), other_read = waits_.first_read(other);
      return std::abs(waits_.depth(p) - waits_.depth(other)) > most_apart ||
             (read && other_read && std::abs(*read - *other_read) > most_apart);
    };
    if (std::ranges::any_of(group, far)) return false;
    const Result<Graph> both = graph_of({group[0], p});
    if (!both || !kernel::derive_merged(*both)) return false;
    PieceGroup larger = group;
    larger.push_back(p);
    return !waits_.wait_for_one_another(larger);
  }

  /// The group, or else what is left without one of its members.
  void take(const PieceGroup& candidate) {
    if (candidate.size() < 2 || accept(candidate) || candidate.size() == 2) return;
    for (std::size_t without = candidate.size(); without-- > 0;) {
      PieceGroup fewer = candidate;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(without));
      if (accept(fewer)) return;
    }
  }
  bool accept(const PieceGroup& group) {
    if (waits_.wait_for_one_another(group)) return false;
    const Result<Graph> one = graph_of(group);
    if (!one || !wanted_(*one)) return false;
    waits_.join(group);
    for (const std::size_t p : group) grouped_[p] = true;
    groups_.push_back(group);
    return true;
  }

  const Graph& graph_;
  const std::span<const RegionPiece> pieces_;
  const std::function<bool(const Graph&)>& wanted_;
  PieceDependencies waits_;
  std::map<Value, std::vector<std::size_t>> readers_;  ///< products by what they read
  std::vector<bool> grouped_;
  std::vector<PieceGroup> groups_;
};

}  // namespace

std::vector<PieceGroup> group_products(const Graph& graph, std::span<const RegionPiece> pieces,
                                       const std::function<Value(Value)>& memory_of,
                                       const std::function<bool(const Graph&)>& wanted) {
  return Grouping(graph, pieces, memory_of, wanted).group();
}

}  // namespace stitch::tuning
