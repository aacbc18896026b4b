#include "tuning/programs/row_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/subgraph.h"

namespace stitch::tuning {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Value;

class RowGrouping {
 public:
  RowGrouping(const Graph& graph, std::span<const RegionPiece> pieces, const std::function<Value(Value)>& memory_of,
              const std::function<bool(const Graph&, bool)>& wanted, const GroupedSums* sums)
      : graph_(graph), pieces_(pieces), memory_of_(memory_of), wanted_(wanted), sums_(sums), waits_(pieces, memory_of) {
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      if (is_one_product(graph, pieces[p])) writers_.emplace(pieces[p].writes[0], p);
    }
  }

  std::vector<RowGroup> group() {
    std::vector<RowGroup> groups;
    for (std::size_t rows = 0; rows < pieces_.size(); ++rows) {
      if (!is_fragment(rows) && !is_one_product(graph_, pieces_[rows])) continue;
      for (const Value value : pieces_[rows].reads) {
        const auto writer = writers_.find(memory_of_(value));
        if (writer == writers_.end() || writer->second == rows) continue;
        if (taken_.contains(writer->second) || taken_.contains(rows)) continue;
        std::optional<RowGroup> group = group_of(writer->second, rows);
        if (!group) continue;
        waits_.join({writer->second, rows});
        taken_.insert({writer->second, rows});
        groups.push_back(*std::move(group));
        break;
      }
    }
    return groups;
  }

 private:
  [[nodiscard]] bool is_fragment(std::size_t p) const {
    return std::holds_alternative<const graph::FragmentSite*>(pieces_[p].work);
  }
  /// Whether a fragment has a reduction, or slices, which may be gates. One that has neither, and one result, would be
  /// the product's epilogue already.
  [[nodiscard]] bool combines(std::size_t p) const {
    const auto& nodes = std::get<const graph::FragmentSite*>(pieces_[p].work)->graph.nodes();
    return std::ranges::any_of(
        nodes, [](const graph::Node& node) { return node.op == graph::Op::reduce || node.op == graph::Op::slice; });
  }

  /// Whether anybody but these two reads what the product writes.
  [[nodiscard]] bool is_read_elsewhere(std::size_t product, std::size_t rows) const {
    const Value result = pieces_[product].writes[0];
    const auto is_same = [&](Value value) { return memory_of_(value) == result; };
    if (std::ranges::any_of(graph_.results(), is_same)) return true;
    for (const std::size_t reader : waits_.readers(product)) {
      if (reader != rows) return true;
    }
    return false;
  }

  [[nodiscard]] bool share_an_operand(std::size_t product, std::size_t other) const {
    return std::ranges::any_of(pieces_[product].reads, [&](Value value) {
      const auto is_same = [&](Value read) { return memory_of_(read) == memory_of_(value); };
      return std::ranges::any_of(pieces_[other].reads, is_same);
    });
  }

  [[nodiscard]] std::optional<RowGroup> group_of(std::size_t product, std::size_t rows) const {
    if (waits_.wait_for_others_between({product, rows})) return std::nullopt;
    RowGroup group{product, rows, pieces_[product].reads, pieces_[rows].writes, {}};
    if (!leave_sums(rows, group)) return std::nullopt;
    const Value result = pieces_[product].writes[0];
    for (const Value value : pieces_[rows].reads) {
      if (memory_of_(value) != result) group.reads.push_back(value);
    }
    group.reads = distinct(group.reads);
    const bool writes_it = std::ranges::count(group.writes, result) > 0;
    const bool rest_reads_it = group.rest && std::ranges::any_of(group.rest->arguments, [&](Value value) {
                                 return memory_of_(value) == result;
                               });
    if (!writes_it && (rest_reads_it || is_read_elsewhere(product, rows))) group.writes.push_back(result);
    // Two products are one where they are gates of the same units, and nobody else needs the first one.
    if (!is_fragment(rows) && (group.writes.size() > 1 || !share_an_operand(product, rows))) return std::nullopt;
    if (is_fragment(rows) && group.writes.size() == 1 && !combines(rows)) return std::nullopt;
    const Result<Graph> one = graph::subgraph(graph_, group.reads, group.writes);
    // What adds up sums alone is one kernel for all products.
    if (!one || !wanted_(*one, !group.rest || sums_->adds_up(*group.rest))) return std::nullopt;
    return group;
  }

  /// Of a fragment that makes sums over rows in two steps, the group's kernel leaves what the first ones do, and what
  /// is made of that is the rest. False: the rest needs more.
  [[nodiscard]] bool leave_sums(std::size_t rows, RowGroup& group) const {
    if (sums_ == nullptr || !is_fragment(rows)) return true;
    const graph::FragmentSite& site = *std::get<const graph::FragmentSite*>(pieces_[rows].work);
    std::set<NodeId> behind;  // a first step
    std::vector<Value> groups, writes, results;
    for (const NodeId id : site.nodes) {
      const bool is_behind = std::ranges::any_of(graph_.node(id).operands, [&](Value operand) {
        return behind.contains(operand.node) || std::ranges::count(groups, operand) > 0;
      });
      if (is_behind) behind.insert(id);
      if (!is_behind && sums_->groups.contains({id, 0})) groups.push_back({id, 0});
    }
    if (groups.empty()) return true;
    for (const Value value : group.writes) (behind.contains(value.node) ? results : writes).push_back(value);
    if (!results.empty()) {
      auto rest = behind_groups(*sums_, site, groups, std::move(results));
      if (!rest) return false;
      group.rest = *std::move(rest);
    }
    group.writes = std::move(writes);
    for (const Value value : groups) {
      if (std::ranges::count(group.writes, value) == 0) group.writes.push_back(value);
    }
    return true;
  }

  const Graph& graph_;
  const std::span<const RegionPiece> pieces_;
  const std::function<Value(Value)>& memory_of_;
  const std::function<bool(const Graph&, bool)>& wanted_;
  const GroupedSums* const sums_;
  PieceDependencies waits_;
  std::map<Value, std::size_t> writers_;  ///< products by what they write
  std::set<std::size_t> taken_;           ///< pieces that are in a group
};

}  // namespace

std::vector<RowGroup> group_rows(const Graph& graph, std::span<const RegionPiece> pieces,
                                 const std::function<Value(Value)>& memory_of,
                                 const std::function<bool(const Graph&, bool)>& wanted, const GroupedSums* sums) {
  return RowGrouping(graph, pieces, memory_of, wanted, sums).group();
}

}  // namespace stitch::tuning
