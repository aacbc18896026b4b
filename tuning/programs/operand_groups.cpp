#include "tuning/programs/operand_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/subgraph.h"
#include "kernel/contraction/computed_operand.h"
#include "tuning/programs/site_parts.h"

namespace stitch::tuning {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Value;

/// Of an operand's elements, of how many there is one of what its maker writes in its place.
constexpr std::int64_t small_share = 16;

/// Elements are where the operator says, all of one tensor: a product's kernel reads them there.
bool is_copied(graph::Op op) {
  using enum graph::Op;
  return op == reshape || op == transpose || op == broadcast || op == slice || op == reverse || op == gather;
}

class OperandGrouping {
 public:
  OperandGrouping(const Graph& graph, std::span<const RegionPiece> pieces, const std::function<Value(Value)>& memory_of,
                  const std::function<bool(const RegionPiece&)>& in_place,
                  const std::function<bool(const Graph&, bool)>& wanted)
      : graph_(graph), memory_of_(memory_of), in_place_(in_place), wanted_(wanted) {
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      now_.push_back({pieces[p].reads, pieces[p].writes, &pieces[p]});
      for (const Value value : pieces[p].writes) writers_.emplace(value, p);
      for (const Value value : pieces[p].reads) readers_[memory_of(value)].insert(p);
    }
    for (const Value value : graph.results()) results_.insert(memory_of(value));
  }

  std::vector<OperandGroup> group() {
    std::vector<OperandGroup> groups;
    for (std::size_t product = 0; product < now_.size(); ++product) {
      if (!multiplies(*now_[product].piece)) continue;
      for (const Value value : std::vector<Value>(now_[product].reads)) {
        std::optional<OperandGroup> group = group_of(product, value);
        if (!group) continue;
        apply(*group);
        groups.push_back(*std::move(group));
      }
    }
    return groups;
  }

 private:
  struct Piece {
    std::vector<Value> reads, writes;
    const RegionPiece* piece;
  };

  [[nodiscard]] bool multiplies(const RegionPiece& piece) const {
    return is_one_product(graph_, piece) || std::holds_alternative<MergedCalls>(piece.work) ||
           std::holds_alternative<ProductAndRows>(piece.work);
  }
  [[nodiscard]] static bool makes(const RegionPiece& piece) {
    return std::holds_alternative<const graph::FragmentSite*>(piece.work) ||
           std::holds_alternative<ProductAndRows>(piece.work);
  }

  [[nodiscard]] std::optional<OperandGroup> group_of(std::size_t product, Value read) const {
    const Value operand = memory_of_(read);
    const auto writer = writers_.find(operand);
    if (writer == writers_.end() || writer->second == product || results_.contains(operand)) return std::nullopt;
    const std::size_t maker = writer->second;
    const Piece& before = now_[maker];
    if (!makes(*before.piece) || in_place_(*before.piece)) return std::nullopt;
    if (std::ranges::count(before.writes, operand) != 1) return std::nullopt;
    OperandGroup group{maker, product, operand, {}, {}};
    std::vector<Value> sources;
    if (!find_sources(before, operand, sources)) return std::nullopt;
    // Whoever else reads it may compute it as well, which pays where it is made of less; until then it is written.
    const bool shared = readers_.at(operand).size() > 1;
    if (shared && !repeats(operand, sources)) return std::nullopt;
    group.writes = before.writes;
    if (!shared) std::erase(group.writes, operand);
    for (const Value source : sources) {
      const bool known = std::ranges::count(before.reads, source) + std::ranges::count(before.writes, source) > 0;
      if (!known) group.writes.push_back(source);
    }
    for (const Value value : now_[product].reads) {
      if (memory_of_(value) != operand) group.reads.push_back(value);
    }
    group.reads.insert(group.reads.end(), sources.begin(), sources.end());
    group.reads = distinct(group.reads);
    const Result<Graph> one = graph::subgraph(graph_, group.reads, now_[product].writes);
    if (!one || !multiplies_more(product, *one) || !wanted_(*one, group.writes.empty())) return std::nullopt;
    if (group.writes.empty()) return group;
    bool is_there = false;
    if (const auto* const* site = std::get_if<const graph::FragmentSite*>(&before.piece->work)) {
      is_there = with_other_results(graph_, **site, group.writes).ok();
    } else {
      const Result<Graph> rest = graph::subgraph(graph_, before.reads, group.writes);
      is_there = rest && wanted_(*rest, true);
    }
    return is_there ? std::optional(std::move(group)) : std::nullopt;
  }

  /// Whether a value has twice as many elements as anything that it is made of.
  [[nodiscard]] bool repeats(Value operand, std::span<const Value> sources) const {
    return std::ranges::all_of(
        sources, [&](Value source) { return 2 * graph_.type(source).elements() <= graph_.type(operand).elements(); });
  }

  /// Whether a product's kernel computes one more of what it multiplies; what it adds to a result is no operand.
  [[nodiscard]] bool multiplies_more(std::size_t product, const Graph& one) const {
    const Result<Graph> now = graph::subgraph(graph_, now_[product].reads, now_[product].writes);
    return now && kernel::computed_operands(one).size() > kernel::computed_operands(*now).size();
  }

  /// What a maker's value is made of element by element: what the maker reads, or writes besides, and small values that
  /// whole rows are combined to. False: it is made of more.
  [[nodiscard]] bool find_sources(const Piece& maker, Value operand, std::vector<Value>& sources) const {
    const std::vector<bool> combined = combining(maker);
    const std::int64_t small = graph_.type(operand).elements() / small_share;
    std::set<Value> seen;
    std::vector<Value> open = {operand};
    while (!open.empty()) {
      const Value value = open.back();
      open.pop_back();
      if (!seen.insert(value).second) continue;
      const Node& node = graph_.node(value.node);
      const bool written = value != operand && std::ranges::count(maker.writes, value) > 0;
      const graph::OpCategory category = graph::info(node.op).category;
      const bool fits = category == graph::OpCategory::elementwise || category == graph::OpCategory::layout ||
                        (category == graph::OpCategory::source && node.op != graph::Op::parameter);
      // What rows are combined to, or what says whose they are (sums of groups' sizes).
      const bool is_simple = fits && (category != graph::OpCategory::layout || is_copied(node.op));
      const bool is_statistic = (combined[value.node] || !is_simple) && graph_.type(value).elements() <= small;
      if (std::ranges::count(maker.reads, value) > 0 || written || is_statistic) {
        sources.push_back(value);
        continue;
      }
      if (!fits) return false;
      open.insert(open.end(), node.operands.begin(), node.operands.end());
    }
    std::ranges::sort(sources);
    return !sources.empty();
  }

  /// By node, whether a maker combines anything on the way from what it reads to it.
  [[nodiscard]] std::vector<bool> combining(const Piece& maker) const {
    std::vector<bool> inside(graph_.size(), false), combined(graph_.size(), false);
    for (const Value value : maker.reads) inside[value.node] = true;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (inside[id]) continue;
      const Node& node = graph_.node(id);
      const auto any = [&](const std::vector<bool>& of) {
        return std::ranges::any_of(node.operands, [&](Value operand) { return of[operand.node]; });
      };
      inside[id] = any(inside);
      combined[id] = inside[id] && (node.op == graph::Op::reduce || any(combined));
    }
    return combined;
  }

  void apply(const OperandGroup& group) {
    Piece &maker = now_[group.maker], &product = now_[group.product];
    for (const Value value : product.reads) readers_[memory_of_(value)].erase(group.product);
    if (group.writes.empty()) {
      for (const Value value : maker.reads) readers_[memory_of_(value)].erase(group.maker);
      maker.reads.clear();
    }
    writers_.erase(group.operand);
    for (const Value value : group.writes) writers_.emplace(value, group.maker);
    for (const Value value : group.reads) readers_[memory_of_(value)].insert(group.product);
    maker.writes = group.writes;
    product.reads = group.reads;
  }

  const Graph& graph_;
  const std::function<Value(Value)>& memory_of_;
  const std::function<bool(const RegionPiece&)>& in_place_;
  const std::function<bool(const Graph&, bool)>& wanted_;
  std::vector<Piece> now_;                          ///< what pieces read and write with the groups so far
  std::map<Value, std::size_t> writers_;            ///< pieces by what they write
  std::map<Value, std::set<std::size_t>> readers_;  ///< and by what they read
  std::set<Value> results_;                         ///< of the graph
};

}  // namespace

std::vector<OperandGroup> group_operands(const Graph& graph, std::span<const RegionPiece> pieces,
                                         const std::function<Value(Value)>& memory_of,
                                         const std::function<bool(const RegionPiece&)>& in_place,
                                         const std::function<bool(const Graph&, bool)>& wanted) {
  return OperandGrouping(graph, pieces, memory_of, in_place, wanted).group();
}

}  // namespace stitch::tuning
