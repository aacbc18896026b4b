#include "tuning/programs/product_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

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

/// Who waits for whom among the pieces, where some are one.
class Dependencies {
 public:
  Dependencies(std::span<const RegionPiece> pieces, const std::function<Value(Value)>& memory_of)
      : readers_(pieces.size()), one_(pieces.size()), depth_(pieces.size(), 0) {
    std::iota(one_.begin(), one_.end(), std::size_t{0});
    std::map<Value, std::size_t> writers;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      for (const Value value : pieces[p].writes) writers.emplace(value, p);
    }
    std::vector<int> missing(pieces.size(), 0);
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      std::set<std::size_t> before;
      for (const Value value : pieces[p].reads) {
        if (const auto writer = writers.find(memory_of(value)); writer != writers.end()) before.insert(writer->second);
      }
      for (const std::size_t writer : before) readers_[writer].push_back(p);
      missing[p] = static_cast<int>(before.size());
    }
    measure_depth(missing);
  }

  [[nodiscard]] int depth(std::size_t piece) const { return depth_[piece]; }
  /// The depth at which what it writes is read first; nothing: the region's caller reads it.
  [[nodiscard]] std::optional<int> first_read(std::size_t piece) const {
    std::optional<int> first;
    for (const std::size_t reader : readers_[piece]) first = std::min(first.value_or(depth_[reader]), depth_[reader]);
    return first;
  }

  /// Whether a way leads out of one of these pieces and back to one of them.
  [[nodiscard]] bool wait_for_one_another(const ProductGroup& group) const {
    std::set<std::size_t> targets;
    for (const std::size_t p : group) targets.insert(one_[p]);
    std::vector<std::size_t> open;
    std::vector<bool> seen(one_.size(), false);
    const auto follow = [&](std::size_t piece) {
      for (const std::size_t member : members_of(piece)) {
        for (const std::size_t reader : readers_[member]) {
          if (!seen[one_[reader]]) open.push_back(one_[reader]);
          seen[one_[reader]] = true;
        }
      }
    };
    for (const std::size_t p : targets) follow(p);
    while (!open.empty()) {
      const std::size_t piece = open.back();
      open.pop_back();
      if (targets.contains(piece)) return true;
      follow(piece);
    }
    return false;
  }

  void join(const ProductGroup& group) {
    for (const std::size_t p : group) one_[p] = group[0];
    joined_[group[0]] = group;
  }

 private:
  void measure_depth(std::vector<int> missing) {
    std::vector<std::size_t> ready;
    for (std::size_t p = 0; p < missing.size(); ++p) {
      if (missing[p] == 0) ready.push_back(p);
    }
    while (!ready.empty()) {
      const std::size_t piece = ready.back();
      ready.pop_back();
      for (const std::size_t reader : readers_[piece]) {
        depth_[reader] = std::max(depth_[reader], depth_[piece] + 1);
        if (--missing[reader] == 0) ready.push_back(reader);
      }
    }
  }
  [[nodiscard]] ProductGroup members_of(std::size_t piece) const {
    const auto found = joined_.find(piece);
    return found == joined_.end() ? ProductGroup{piece} : found->second;
  }

  std::vector<std::vector<std::size_t>> readers_;
  std::vector<std::size_t> one_;  ///< the first of the group that a piece is in, or itself
  std::map<std::size_t, ProductGroup> joined_;
  std::vector<int> depth_;  ///< pieces on the longest way to one
};

class Grouping {
 public:
  Grouping(const Graph& graph, std::span<const RegionPiece> pieces, const std::function<Value(Value)>& memory_of,
           const std::function<bool(const Graph&)>& wanted)
      : graph_(graph), pieces_(pieces), wanted_(wanted), waits_(pieces, memory_of), grouped_(pieces.size(), false) {
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      if (!is_product(p)) continue;
      for (const Value value : pieces[p].reads) readers_[memory_of(value)].push_back(p);
    }
  }

  std::vector<ProductGroup> group() {
    std::vector<ProductGroup> candidates;
    for (auto& [operand, readers] : readers_) {
      std::ranges::sort(readers, {}, [&](std::size_t p) { return call(p).root; });
      std::ranges::move(alike(readers), std::back_inserter(candidates));
    }
    // A product may share its left operand with some and its right one with others: the more there are, the better.
    std::ranges::stable_sort(candidates, std::ranges::greater(), &ProductGroup::size);
    for (ProductGroup& candidate : candidates) {
      std::erase_if(candidate, [&](std::size_t p) { return grouped_[p]; });
      take(candidate);
    }
    std::ranges::sort(groups_, {}, [&](const ProductGroup& group) { return call(group[0]).root; });
    return std::move(groups_);
  }

 private:
  [[nodiscard]] const LibraryCall& call(std::size_t p) const { return *std::get<const LibraryCall*>(pieces_[p].work); }
  /// One product: no attention.
  [[nodiscard]] bool is_product(std::size_t p) const {
    const auto* const* found = std::get_if<const LibraryCall*>(&pieces_[p].work);
    return found != nullptr && std::ranges::none_of((*found)->epilogue, [&](graph::NodeId id) {
             return graph_.node(id).op == graph::Op::dot;
           });
  }

  [[nodiscard]] Result<Graph> graph_of(const ProductGroup& group) const {
    std::vector<Value> reads, writes;
    for (const std::size_t p : group) {
      for (const Value value : pieces_[p].reads) {
        if (std::ranges::count(reads, value) == 0) reads.push_back(value);
      }
      writes.insert(writes.end(), pieces_[p].writes.begin(), pieces_[p].writes.end());
    }
    return graph::subgraph(graph_, reads, writes);
  }

  /// Of these products, those that are one by their shapes and near one another; each in one group of them.
  [[nodiscard]] std::vector<ProductGroup> alike(const std::vector<std::size_t>& products) const {
    std::vector<ProductGroup> groups;
    for (const std::size_t p : products) {
      const auto found = std::ranges::find_if(groups, [&](const ProductGroup& group) { return belongs(p, group); });
      if (found != groups.end()) {
        found->push_back(p);
      } else {
        groups.push_back({p});
      }
    }
    return groups;
  }
  [[nodiscard]] bool belongs(std::size_t p, const ProductGroup& group) const {
    if (group.size() == kernel::most_members || std::ranges::count(group, p) > 0) return false;
    const auto far = [&](std::size_t other) {
      const std::optional<int> read = waits_.first_read(p), other_read = waits_.first_read(other);
      return std::abs(waits_.depth(p) - waits_.depth(other)) > most_apart ||
             (read && other_read && std::abs(*read - *other_read) > most_apart);
    };
    if (std::ranges::any_of(group, far)) return false;
    const Result<Graph> both = graph_of({group[0], p});
    if (!both || !kernel::derive_merged(*both)) return false;
    ProductGroup larger = group;
    larger.push_back(p);
    return !waits_.wait_for_one_another(larger);
  }

  /// The group, or else what is left without one of its members.
  void take(const ProductGroup& candidate) {
    if (candidate.size() < 2 || accept(candidate) || candidate.size() == 2) return;
    for (std::size_t without = candidate.size(); without-- > 0;) {
      ProductGroup fewer = candidate;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(without));
      if (accept(fewer)) return;
    }
  }
  bool accept(const ProductGroup& group) {
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
  Dependencies waits_;
  std::map<Value, std::vector<std::size_t>> readers_;  ///< products by what they read
  std::vector<bool> grouped_;
  std::vector<ProductGroup> groups_;
};

}  // namespace

std::vector<ProductGroup> group_products(const Graph& graph, std::span<const RegionPiece> pieces,
                                         const std::function<Value(Value)>& memory_of,
                                         const std::function<bool(const Graph&)>& wanted) {
  return Grouping(graph, pieces, memory_of, wanted).group();
}

}  // namespace stitch::tuning
