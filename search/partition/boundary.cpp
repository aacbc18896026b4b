#include "search/partition/boundary.h"

#include <algorithm>
#include <map>
#include <vector>

#include "search/partition/min_cut.h"

namespace stitch::search {
namespace {

using graph::Op;
using graph::Value;

bool combines(Op op) { return graph::info(op).category == graph::OpCategory::reduction || op == Op::scatter; }

class BoundaryCut {
 public:
  BoundaryCut(const VertexGraph& vertices, const VertexSet& first, const VertexSet& second)
      : vertices_(vertices), first_(first), second_(second) {
    members_ = first.members();
    const std::vector<int> more = second.members();
    members_.insert(members_.end(), more.begin(), more.end());
    for (std::size_t i = 0; i < members_.size(); ++i) node_of_[members_[i]] = 2 + i;
    next_node_ = 2 + members_.size();
    for (const int v : members_) {
      for (const Value value : vertices.reads(v)) readers_[value].push_back(v);
    }
  }

  std::vector<std::pair<VertexSet, VertexSet>> divide() {
    fix_members();
    add_handed_values();
    add_inputs();
    MinCut cut(next_node_);
    for (const Edge& edge : edges_) cut.edge(edge.from, edge.to, edge.bytes);
    const std::vector<bool> near = cut.source_side(source, sink);
    std::vector<std::pair<VertexSet, VertexSet>> divisions;
    for (const std::vector<bool>& in_first : {near, cut.far_source_side(sink)}) {
      VertexSet before(vertices_.size()), after = before;
      for (const int v : members_) (in_first[at(v)] ? before : after).insert(v);
      if (bytes_between(before, after) >= bytes_between(first_, second_)) continue;
      if (divisions.empty() || divisions[0].first != before)
        divisions.emplace_back(std::move(before), std::move(after));
    }
    return divisions;
  }

 private:
  static constexpr int source = 0, sink = 1;
  struct Edge {
    int from, to;
    std::int64_t bytes;
  };

  [[nodiscard]] std::size_t at(int vertex) const { return node_of_.at(vertex); }
  [[nodiscard]] bool is_member(int vertex) const { return first_.contains(vertex) || second_.contains(vertex); }

  /// `x` in the first kernel forces `y` into the first.
  void implies(int x, int y) { edges_.push_back({x, y, MinCut::infinite}); }

  void fix_members() {
    const auto is_foreign = [&](int v) { return !is_member(v); };
    VertexSet combined(vertices_.size());
    for (const int v : members_) {
      if (first_.contains(v) && combines(vertices_.fragment().node(vertices_.node(v)).op)) combined.insert(v);
    }
    for (const int v : members_) {
      const auto &consumers = vertices_.consumers(v), &producers = vertices_.producers(v);
      const bool stays = combines(vertices_.fragment().node(vertices_.node(v)).op);
      if (first_.contains(v) && (stays || std::any_of(consumers.begin(), consumers.end(), is_foreign)))
        implies(source, node_of_.at(v));
      const bool waits = vertices_.ancestors(v).intersects(combined);
      if (second_.contains(v) && (stays || waits || std::any_of(producers.begin(), producers.end(), is_foreign)))
        implies(node_of_.at(v), sink);
      for (const int producer : producers) {
        if (is_member(producer)) implies(node_of_.at(v), node_of_.at(producer));
      }
    }
  }

  /// A value that somebody in the second kernel reads is written and read, or only read when it is written anyway.
  void add_handed_values() {
    for (const int v : members_) {
      const auto& results = vertices_.fragment().node(vertices_.node(v)).results;
      for (std::int32_t r = 0; r < std::ssize(results); ++r) {
        const Value value{vertices_.node(v), r};
        const auto& consumers = vertices_.consumers(v);
        const bool written = vertices_.is_result(v) ||
                             std::any_of(consumers.begin(), consumers.end(), [&](int c) { return !is_member(c); });
        const std::int64_t bytes = results[r].bytes() * (written ? 1 : 2);
        const int handed = next_node_++;
        edges_.push_back({node_of_.at(v), handed, bytes});
        handed_[value] = bytes;
        for (const int c : readers_of(value)) implies(handed, node_of_.at(c));
      }
    }
  }

  void add_inputs() {
    for (const int v : members_) {
      for (const Value value : vertices_.reads(v)) {
        const int producer = vertices_.vertex_of(value.node);
        const bool own =
            producer >= 0 && vertices_.fragment().node(value.node).op != Op::parameter && is_member(producer);
        if (!own) inputs_[value] = vertices_.fragment().type(value).bytes();
      }
    }
    for (const auto& [value, bytes] : inputs_) {
      const int by_first = next_node_++, by_second = next_node_++;
      edges_.push_back({by_first, by_second, bytes});
      for (const int reader : readers_of(value)) {
        implies(node_of_.at(reader), by_first);
        implies(by_second, node_of_.at(reader));
      }
    }
  }

  [[nodiscard]] const std::vector<int>& readers_of(Value value) const {
    static const std::vector<int> nobody;
    const auto found = readers_.find(value);
    return found == readers_.end() ? nobody : found->second;
  }

  /// What a division costs: values handed over, and inputs that both sides read.
  [[nodiscard]] std::int64_t bytes_between(const VertexSet& first, const VertexSet& second) const {
    const auto is_read_in = [&](Value value, const VertexSet& side) {
      const std::vector<int>& readers = readers_of(value);
      return std::any_of(readers.begin(), readers.end(), [&](int v) { return side.contains(v); });
    };
    std::int64_t total = 0;
    for (const auto& [value, bytes] : handed_) {
      if (first.contains(vertices_.vertex_of(value.node)) && is_read_in(value, second)) total += bytes;
    }
    for (const auto& [value, bytes] : inputs_) {
      if (is_read_in(value, first) && is_read_in(value, second)) total += bytes;
    }
    return total;
  }

  const VertexGraph& vertices_;
  const VertexSet &first_, &second_;
  std::vector<int> members_;
  std::map<int, int> node_of_;
  int next_node_ = 0;
  std::map<Value, std::vector<int>> readers_;
  std::vector<Edge> edges_;
  std::map<Value, std::int64_t> handed_, inputs_;
};

}  // namespace

std::vector<std::pair<VertexSet, VertexSet>> best_boundaries(const VertexGraph& vertices, const VertexSet& first,
                                                             const VertexSet& second) {
  return BoundaryCut(vertices, first, second).divide();
}

}  // namespace stitch::search
