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
              const std::function<bool(const Graph&)>& wanted)
      : graph_(graph), pieces_(pieces), memory_of_(memory_of), wanted_(wanted), waits_(pieces, memory_of) {
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
    RowGroup group{product, rows, pieces_[product].reads, pieces_[rows].writes};
    const Value result = pieces_[product].writes[0];
    for (const Value value : pieces_[rows].reads) {
      if (memory_of_(value) != result) group.reads.push_back(value);
    }
    group.reads = distinct(group.reads);
    const bool writes_it = std::ranges::count(group.writes, result) > 0;
    if (!writes_it && is_read_elsewhere(product, rows)) group.writes.push_back(result);
    // Two products are one where they are gates of the same units, and nobody else needs the first one.
    if (!is_fragment(rows) && (group.writes.size() > 1 || !share_an_operand(product, rows))) return std::nullopt;
    if (is_fragment(rows) && group.writes.size() == 1 && !combines(rows)) return std::nullopt;
    const Result<Graph> one = graph::subgraph(graph_, group.reads, group.writes);
    if (!one || !wanted_(*one)) return std::nullopt;
    return group;
  }

  const Graph& graph_;
  const std::span<const RegionPiece> pieces_;
  const std::function<Value(Value)>& memory_of_;
  const std::function<bool(const Graph&)>& wanted_;
  PieceDependencies waits_;
  std::map<Value, std::size_t> writers_;  ///< products by what they write
  std::set<std::size_t> taken_;           ///< pieces that are in a group
};

}  // namespace

std::vector<RowGroup> group_rows(const Graph& graph, std::span<const RegionPiece> pieces,
                                 const std::function<Value(Value)>& memory_of,
                                 const std::function<bool(const Graph&)>& wanted) {
  return RowGrouping(graph, pieces, memory_of, wanted).group();
}

}  // namespace stitch::tuning
