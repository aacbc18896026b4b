#include "graph/calls/column_tiles.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "graph/builder.h"
#include "graph/calls/find_calls.h"
#include "graph/calls/row_results.h"
#include "graph/fill.h"
#include "graph/softmax.h"
#include "graph/subgraph.h"

namespace stitch::graph {
namespace {

/// Columns [first, first + tiles · width).
struct ColumnPart {
  std::int64_t first = 0, tiles = 0, width = 0;
};

std::vector<ColumnPart> parts_of(std::int64_t columns) {
  const std::int64_t whole = columns / tile_columns, rest = columns % tile_columns;
  std::vector<ColumnPart> parts = {{0, whole, tile_columns}};
  if (rest == 1) {  // a row of one column is none
    --parts[0].tiles;
    parts.push_back({(whole - 1) * tile_columns, 1, tile_columns + 1});
  } else if (rest > 0) {
    parts.push_back({whole * tile_columns, 1, rest});
  }
  return parts;
}

/// A product with what its rows are combined to, and nothing else that anybody needs.
struct Head {
  NodeId dot = -1;
  std::set<NodeId> plain;             ///< the product and what is made of it element by element
  std::set<NodeId> within;            ///< these, and what is between them and sums of exponentials
  std::set<NodeId> reductions;        ///< of the former
  std::map<NodeId, ExpSum> exp_sums;  ///< by the sum
};

class HeadFinder {
 public:
  explicit HeadFinder(const Graph& graph) : graph_(graph), uses_(users(graph)), results_(is_result(graph)) {}

  [[nodiscard]] std::optional<Head> head_of(NodeId dot) const {
    const Node& node = graph_.node(dot);
    const auto& attributes = node.as<DotAttributes>();
    const std::size_t right = graph_.type(node.operands[1]).dims.size();
    if (right != attributes.rhs_batch.size() + attributes.rhs_contracting.size() + 1) return std::nullopt;
    if (node.type().dims.back() <= most_untiled_columns) return std::nullopt;
    Head head;
    head.dot = dot;
    std::vector<NodeId> open = {dot};
    head.plain.insert(dot);
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (results_[id]) return std::nullopt;
      for (const NodeId user : uses_[id]) {
        if (head.plain.contains(user) || head.reductions.contains(user)) continue;
        if (is_reduction(user, dot)) {
          head.reductions.insert(user);
        } else if (is_elementwise(graph_.node(user).op) && graph_.type({user}).dims == node.type().dims) {
          head.plain.insert(user);
          open.push_back(user);
        } else {
          return std::nullopt;
        }
      }
    }
    return take_exp_sums(head) && is_closed(head) ? std::optional(head) : std::nullopt;
  }

 private:
  /// Whether it combines whole rows, and nothing but these, in a way that parts can be.
  [[nodiscard]] bool is_reduction(NodeId id, NodeId dot) const {
    const Node& node = graph_.node(id);
    if (node.op != Op::reduce || graph_.type(node.operands[0]).dims != graph_.node(dot).type().dims) return false;
    const auto& a = node.as<ReduceAttributes>();
    const auto last = static_cast<std::int64_t>(graph_.node(dot).type().dims.size()) - 1;
    const bool combines = a.kind == ReduceKind::sum || a.kind == ReduceKind::max || a.kind == ReduceKind::min;
    return combines && a.dimensions == Dims{last} && node.type().dtype == DType::f32;
  }

  /// Moves sums of exponentials, which wait for a maximum, and what they are of, from the plain ones.
  [[nodiscard]] bool take_exp_sums(Head& head) const {
    head.within = head.plain;
    for (const NodeId id : head.reductions) {
      const std::optional<ExpSum> sum = match_exp_sum(graph_, id);
      if (!sum || !head.reductions.contains(sum->maximum)) continue;
      const NodeId exponential = sum->exponential, difference = graph_.node(exponential).operands[0].node;
      if (uses_[exponential].size() != 1 || uses_[difference].size() != 1) return false;
      head.plain.erase(exponential);
      head.plain.erase(difference);
      head.exp_sums.emplace(id, *sum);
    }
    for (const auto& [id, sum] : head.exp_sums) {
      head.reductions.erase(id);
      if (!head.plain.contains(sum.of.node)) return false;
    }
    return !head.reductions.empty();
  }

  /// Whether nothing that is combined as it is waits for what rows are combined to.
  [[nodiscard]] bool is_closed(const Head& head) const {
    std::vector<bool> behind(graph_.size(), false);
    for (NodeId id = head.dot + 1; id < graph_.size(); ++id) {
      if (head.reductions.contains(id) || head.exp_sums.contains(id)) behind[id] = true;
      for (const Value operand : graph_.node(id).operands) behind[id] = behind[id] || behind[operand.node];
      if (behind[id] && head.plain.contains(id)) return false;
    }
    return true;
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>> uses_;
  const std::vector<bool> results_;
};

class Tiler {
 public:
  Tiler(const Graph& graph, const Head& head)
      : graph_(graph), head_(head), b_(graph.name), full_(graph.node(head.dot).type().dims) {}

  Result<Graph> tile() {
    const std::vector<ColumnPart> parts = parts_of(full_.back());
    for (const ColumnPart& part : parts) parts_.push_back({part, {}, {}});
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (head_.within.contains(id)) continue;
      b_.at(graph_.node(id).name, graph_.node(id).line);
      if (head_.reductions.contains(id)) {
        made_[{id, 0}] = combined(id);
      } else if (const auto sum = head_.exp_sums.find(id); sum != head_.exp_sums.end()) {
        made_[{id, 0}] = combined(sum->second);
      } else {
        copy_node(graph_, id, b_, made_);
      }
    }
    return finish_copy(graph_, b_, made_);
  }

 private:
  struct Part {
    ColumnPart columns;
    std::map<Value, Value> tiled;     ///< of the product's size, as [tiles, …, width]
    std::map<NodeId, Value> results;  ///< of reductions, as [tiles, …]
  };

  [[nodiscard]] std::int64_t last() const { return std::ssize(full_) - 1; }
  [[nodiscard]] Dims rows_of(std::int64_t tiles) const {
    Dims dims = full_;
    dims.pop_back();
    dims.insert(dims.begin(), tiles);
    return dims;
  }
  [[nodiscard]] Dims tiled_dims(const Part& part) const {
    Dims dims = rows_of(part.columns.tiles);
    dims.push_back(part.columns.width);
    return dims;
  }

  /// What the tiles of all parts have, and how that is combined.
  Value combined(NodeId reduction) {
    const auto kind = graph_.node(reduction).as<ReduceAttributes>().kind;
    std::vector<Value> of_parts;
    for (Part& part : parts_) {
      const Value operand = tiled(part, graph_.node(reduction).operands[0]);
      of_parts.push_back(part.results[reduction] = b_.reduce(kind, operand, {last() + 1}));
    }
    return b_.reduce(kind, joined(of_parts), {0});
  }

  Value combined(const ExpSum& sum) {
    std::vector<Value> sums, maxima;
    for (Part& part : parts_) {
      const Dims rows = rows_of(part.columns.tiles);
      const Value greatest = part.results.at(sum.maximum);
      Dims along(rows.size());
      std::iota(along.begin(), along.end(), 0);
      const Value base = b_.broadcast(base_of(greatest, rows, sum.base), tiled_dims(part), along);
      const Value e = b_.unary(Op::exp, b_.binary(Op::subtract, tiled(part, sum.of), base));
      sums.push_back(b_.reduce(ReduceKind::sum, e, {last() + 1}));
      maxima.push_back(greatest);
    }
    const Value all = joined(sums);
    const Node& difference = graph_.node(graph_.node(sum.exponential).operands[0].node);
    const Value base = made_.at(graph_.node(difference.operands[1].node).operands[0]);
    Dims along(full_.size() - 1);
    std::iota(along.begin(), along.end(), 1);
    const Value apart = b_.binary(Op::subtract, joined(maxima), b_.broadcast(base, b_.dims(all), along));
    return b_.reduce(ReduceKind::sum, b_.binary(Op::multiply, all, b_.unary(Op::exp, apart)), {0});
  }

  /// What exponentials of a tile are relative to.
  Value base_of(Value greatest, const Dims& rows, ExpSum::Base kind) {
    const Value zero = b_.filled(DType::f32, rows, 0);
    if (kind == ExpSum::Base::finite) return b_.select(b_.unary(Op::is_finite, greatest), greatest, zero);
    const Value least = b_.filled(DType::f32, rows, -std::numeric_limits<double>::infinity());
    return b_.select(b_.compare(Comparison::eq, greatest, least), zero, greatest);
  }

  Value joined(const std::vector<Value>& of_parts) {
    return of_parts.size() == 1 ? of_parts[0] : b_.concatenate(of_parts, 0);
  }

  /// A value of the product's size as a part's tiles.
  Value tiled(Part& part, Value value) {
    const auto known = part.tiled.find(value);
    if (known != part.tiled.end()) return known->second;
    const Node& node = graph_.node(value.node);
    Value made;
    if (value.node == head_.dot) {
      made = tiled_dot(part, node);
    } else if (const auto number = fill_number(graph_, value)) {
      made = b_.filled(node.type().dtype, tiled_dims(part), *number);
    } else if (const std::optional<Value> chosen = tiled_choice(part, node)) {
      made = *chosen;
    } else if (is_elementwise(node.op)) {
      std::vector<Value> operands;
      for (const Value operand : node.operands) operands.push_back(tiled(part, operand));
      made = b_.add(node.op, operands, node.attributes);
    } else if (node.op == Op::iota) {
      made = tiled_iota(part, node);
    } else if (node.op == Op::broadcast) {
      made = tiled_broadcast(part, node);
    } else {
      made = with_tiles(part, made_.at(value), last(), true);
    }
    return part.tiled[value] = made;
  }

  /// Dimension `d` of a tensor, of the product's columns, as a part's tiles and their columns; the tiles `in_front`.
  Value with_tiles(const Part& part, Value value, std::int64_t d, bool in_front) {
    const auto& [first, tiles, width] = part.columns;
    Dims starts(b_.dims(value).size(), 0), limits = b_.dims(value);
    starts[d] = first;
    limits[d] = first + tiles * width;
    if (starts[d] != 0 || limits != b_.dims(value)) value = b_.slice(value, starts, limits);
    Dims dims = b_.dims(value);
    dims[d] = width;
    dims.insert(dims.begin() + d, tiles);
    value = b_.reshape(value, dims);
    if (!in_front || d == 0) return value;
    Dims order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + d, order.begin() + d + 1);
    return b_.transpose(value, order);
  }

  Value tiled_dot(const Part& part, const Node& dot) {
    const auto& a = dot.as<DotAttributes>();
    const Value left = made_.at(dot.operands[0]), right = made_.at(dot.operands[1]);
    Dims dims = b_.dims(left), along(b_.dims(left).size());
    dims.insert(dims.begin(), part.columns.tiles);
    std::iota(along.begin(), along.end(), 1);
    std::int64_t columns = 0;
    while (std::ranges::count(a.rhs_batch, columns) + std::ranges::count(a.rhs_contracting, columns) > 0) ++columns;
    const auto behind = [](const Dims& dimensions, std::int64_t from) {
      Dims moved = dimensions;
      for (std::int64_t& d : moved) d += d >= from ? 1 : 0;
      return moved;
    };
    DotAttributes tiled = a;
    tiled.lhs_batch = behind(a.lhs_batch, 0);
    tiled.lhs_batch.insert(tiled.lhs_batch.begin(), 0);
    tiled.lhs_contracting = behind(a.lhs_contracting, 0);
    tiled.rhs_batch = behind(a.rhs_batch, columns);
    tiled.rhs_batch.insert(tiled.rhs_batch.begin(), columns);
    tiled.rhs_contracting = behind(a.rhs_contracting, columns);
    return b_.dot(b_.broadcast(left, dims, along), with_tiles(part, right, columns, false), tiled);
  }

  Value tiled_iota(const Part& part, const Node& node) {
    const DType dtype = node.type().dtype;
    const Dims dims = tiled_dims(part);
    const std::int64_t along = node.as<IotaAttributes>().dimension;
    if (along != last()) return b_.iota(dtype, dims, along + 1);
    const auto filled = [&](std::int64_t value) { return b_.filled(dtype, dims, static_cast<double>(value)); };
    const Value tile = b_.binary(Op::multiply, b_.iota(dtype, dims, 0), filled(part.columns.width));
    const Value column = b_.binary(Op::add, tile, b_.iota(dtype, dims, last() + 1));
    return part.columns.first == 0 ? column : b_.binary(Op::add, column, filled(part.columns.first));
  }

  /// Whether a column is a row's own, as a label says it: asked with the column within the tile, so that what the
  /// tile's number does to the label is of rows alone. Nothing: it asks something else.
  std::optional<Value> tiled_choice(const Part& part, const Node& node) {
    if (node.op != Op::compare) return std::nullopt;
    const Comparison asked = node.as<CompareAttributes>().direction;
    if (asked != Comparison::eq && asked != Comparison::ne) return std::nullopt;
    for (const int side : {0, 1}) {
      const Node &column = graph_.node(node.operands[side].node), &label = graph_.node(node.operands[1 - side].node);
      const DType dtype = graph_.type(node.operands[0]).dtype;
      if (column.op != Op::iota || column.as<IotaAttributes>().dimension != last() || !is_integer(dtype)) continue;
      if (label.op != Op::broadcast || std::ranges::count(label.as<BroadcastAttributes>().mapping, last()) > 0)
        continue;
      const auto& [first, tiles, width] = part.columns;
      const Dims rows = rows_of(tiles);
      Dims along = label.as<BroadcastAttributes>().mapping, all(rows.size());
      for (std::int64_t& d : along) ++d;
      std::iota(all.begin(), all.end(), 0);
      const auto filled = [&](std::int64_t value) { return b_.filled(dtype, rows, static_cast<double>(value)); };
      const Value begins =
          b_.binary(Op::add, b_.binary(Op::multiply, b_.iota(dtype, rows, 0), filled(width)), filled(first));
      const Value own = b_.binary(Op::subtract, b_.broadcast(made_.at(label.operands[0]), rows, along), begins);
      return b_.compare(asked, b_.iota(dtype, tiled_dims(part), last() + 1), b_.broadcast(own, tiled_dims(part), all));
    }
    return std::nullopt;
  }

  Value tiled_broadcast(const Part& part, const Node& node) {
    const Dims& mapping = node.as<BroadcastAttributes>().mapping;
    Value source = made_.at(node.operands[0]);
    Dims along;
    const auto columns = std::ranges::find(mapping, last());
    if (columns != mapping.end()) {
      source = with_tiles(part, source, columns - mapping.begin(), true);
      along.push_back(0);
    }
    for (const std::int64_t d : mapping) along.push_back(d + 1);
    return b_.broadcast(source, tiled_dims(part), along);
  }

  const Graph& graph_;
  const Head& head_;
  Builder b_;
  const Dims full_;
  std::vector<Part> parts_;
  std::map<Value, Value> made_;
};

/// How many calls have rows of products for results that have no more columns than a tile.
std::ptrdiff_t row_calls(const Graph& graph, const OwnCall& own) {
  LibraryOptions options;
  options.own = own;
  return std::ranges::count_if(find_library_calls(graph, options), [&](const LibraryCall& call) {
    return has_row_results(graph, call) && graph.type({call.root}).dims.back() <= tile_columns + 1;
  });
}

}  // namespace

Graph tile_columns_of_heads(Graph graph, const OwnCall& own) {
  std::set<NodeId> left;  // heads that stay as they are: nodes before them do not change
  for (bool changed = true; changed;) {
    changed = false;
    const HeadFinder finder(graph);
    for (NodeId id = 0; id < graph.size() && !changed; ++id) {
      if (graph.node(id).op != Op::dot || left.contains(id)) continue;
      const std::optional<Head> head = finder.head_of(id);
      if (!head) continue;
      Result<Graph> tiled = Tiler(graph, *head).tile();
      const auto parts = static_cast<std::ptrdiff_t>(parts_of(graph.node(id).type().dims.back()).size());
      changed = tiled && row_calls(*tiled, own) >= row_calls(graph, own) + parts;
      if (changed) {
        graph = *std::move(tiled);
      } else {
        left.insert(id);
      }
    }
  }
  return graph;
}

}  // namespace stitch::graph
