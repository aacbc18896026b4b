#include "kernel/rewrite/tiled_variance.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "kernel/rewrite/rewriting.h"

namespace stitch::kernel {
namespace {

using graph::Dims;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

// Elements of a row in one tile, at most. Two partial results of a tile are written and read: less than a hundredth of
// what is read. Where rows run across memory, a block holds several of them side by side.
constexpr std::int64_t most_along = 4096, most_across = 512;
constexpr std::int64_t least_tile = 64;

/// A row's dimensions divided into those of a tile and those that count tiles.
struct Tiling {
  Dims dims;          ///< of the operand with one dimension split in two
  Dims within, over;  ///< positions in `dims` that are reduced: inside a tile, of the tiles
  Dims place;         ///< where each dimension of the operand begins in `dims`
  std::int64_t elements = 1;
};

std::optional<Tiling> tiling_of(const Dims& dims, const Dims& reduced) {
  std::vector<bool> is_reduced(dims.size());
  std::int64_t row = 1;
  for (const std::int64_t d : reduced) {
    is_reduced[d] = true;
    row *= dims[d];
  }
  std::size_t last = dims.size();
  while (last > 0 && dims[last - 1] == 1) --last;
  if (last == 0) return std::nullopt;
  const std::int64_t most = is_reduced[last - 1] ? most_along : most_across;
  if (row <= most) return std::nullopt;
  // Whole dimensions from the last one on, then the largest divisor of the next.
  Tiling tiling;
  std::size_t at = dims.size();
  while (at > 0 && (!is_reduced[at - 1] || tiling.elements * dims[at - 1] <= most)) {
    --at;
    if (is_reduced[at]) tiling.elements *= dims[at];
  }
  if (at == 0) return std::nullopt;
  const std::int64_t whole = dims[--at];
  std::int64_t part = most / tiling.elements;
  while (whole % part != 0) --part;
  tiling.elements *= part;
  if (tiling.elements < least_tile) return std::nullopt;
  const auto add = [&](std::int64_t extent) {
    tiling.dims.push_back(extent);
    return std::ssize(tiling.dims) - 1;
  };
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t first = add(d == at ? whole / part : dims[d]);
    tiling.place.push_back(first);
    if (is_reduced[d]) (d <= at ? tiling.over : tiling.within).push_back(first);
    if (d == at) tiling.within.push_back(add(part));
  }
  return tiling;
}

/// Σ (x − c)² with c repeated along what is summed.
struct Deviation {
  Value x;
  Value c;       ///< has the dimensions that are kept, in some order
  Dims mapping;  ///< where they lie in x
};

class VarianceTiling {
 public:
  explicit VarianceTiling(const Graph& kernel) : kernel_(kernel), graph_(kernel) {}

  std::optional<Graph> run() {
    find();
    if (squares_.empty()) return std::nullopt;
    for (NodeId id = 0; id < kernel_.size(); ++id) copy(id);
    // The squares of the program itself are nobody's any more, and several variances may share their tiles' constants.
    return graph_.finish();
  }

 private:
  using Row = std::pair<Value, Dims>;  ///< what is summed, and along which dimensions

  [[nodiscard]] const Node& node(Value value) const { return kernel_.node(value.node); }

  [[nodiscard]] std::optional<Deviation> deviation(const Node& sum) const {
    const Node& square = node(sum.operands[0]);
    if (square.op != Op::multiply || square.operands[0] != square.operands[1]) return std::nullopt;
    const Node& difference = node(square.operands[0]);
    if (difference.op != Op::subtract) return std::nullopt;
    for (const std::size_t side : {std::size_t{1}, std::size_t{0}}) {
      const Node& repeated = node(difference.operands[side]);
      if (repeated.op != Op::broadcast) continue;
      const Dims& mapping = repeated.as<graph::BroadcastAttributes>().mapping;
      const Dims& along = sum.as<graph::ReduceAttributes>().dimensions;
      const bool constant_along =
          std::ranges::none_of(mapping, [&](std::int64_t d) { return std::ranges::find(along, d) != along.end(); });
      if (constant_along) return Deviation{difference.operands[1 - side], repeated.operands[0], mapping};
    }
    return std::nullopt;
  }

  [[nodiscard]] static bool is_sum(const Node& node) {
    if (node.op != Op::reduce || node.as<graph::ReduceAttributes>().kind != graph::ReduceKind::sum) return false;
    return node.results[0].dtype == graph::DType::f32 || node.results[0].dtype == graph::DType::f64;
  }

  /// Whether `value` is computed from `from`.
  [[nodiscard]] bool depends(Value value, NodeId from) const {
    std::vector<NodeId> open = {value.node};
    std::vector<bool> seen(kernel_.size());
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (id == from) return true;
      if (id < from || seen[id]) continue;  // operands come before their users
      seen[id] = true;
      for (const Value operand : kernel_.node(id).operands) open.push_back(operand.node);
    }
    return false;
  }

  void find() {
    std::map<Row, NodeId> sums;
    for (NodeId id = 0; id < kernel_.size(); ++id) {
      const Node& sum = kernel_.node(id);
      if (!is_sum(sum)) continue;
      const Dims& along = sum.as<graph::ReduceAttributes>().dimensions;
      sums.emplace(Row{sum.operands[0], along}, id);
      const auto found = deviation(sum);
      if (!found) continue;
      const Row row = {found->x, along};
      const auto mean = sums.find(row);
      // Where c does not wait for the row's own sum, one pass is all that the program takes.
      if (mean == sums.end() || !depends(found->c, mean->second)) continue;
      auto tiling = tiling_of(kernel_.type(found->x).dims, along);
      if (!tiling) continue;
      squares_.emplace(id, *found);
      rows_.emplace(row, Tiles{std::move(*tiling), {}, {}, {}});
    }
  }

  /// A row's tiles: the operand with its new dimensions, and per tile sum and mean.
  struct Tiles {
    Tiling tiling;
    std::optional<Value> x, sums, means;
  };

  Value reduce(Value x, Dims along) {
    return graph_.add(Op::reduce, {x}, graph::ReduceAttributes{graph::ReduceKind::sum, std::move(along)});
  }

  /// Positions that stay when `along` are reduced, and where `of` lie among them.
  static Dims positions_without(const Dims& of, const Dims& along) {
    Dims positions;
    for (const std::int64_t d : of)
      positions.push_back(d - std::ranges::count_if(along, [&](std::int64_t a) { return a < d; }));
    return positions;
  }

  Tiles& tiles_of(const Row& row) {
    Tiles& tiles = rows_.at(row);
    if (tiles.means) return tiles;
    const Tiling& tiling = tiles.tiling;
    tiles.x = graph_.add(Op::reshape, {graph_.at(row.first)}, graph::ReshapeAttributes{tiling.dims});
    tiles.sums = reduce(*tiles.x, tiling.within);
    const graph::TensorType type = graph_.type(*tiles.sums);
    tiles.means = graph_.add(Op::multiply, {*tiles.sums, graph_.filled(type.dtype, type.dims, 1.0 / tiling.elements)});
    return tiles;
  }

  Value tiled_sum(const Row& row) {
    const Tiles& tiles = tiles_of(row);
    return reduce(*tiles.sums, positions_without(tiles.tiling.over, tiles.tiling.within));
  }

  Value tiled_squares(NodeId sum) {
    const Deviation& it = squares_.at(sum);
    const Tiles& tiles = tiles_of({it.x, kernel_.node(sum).as<graph::ReduceAttributes>().dimensions});
    const Tiling& tiling = tiles.tiling;
    Dims outside;  // positions of the operand that a tile's results keep
    for (std::int64_t d = 0; d < std::ssize(tiling.dims); ++d) {
      if (std::ranges::find(tiling.within, d) == tiling.within.end()) outside.push_back(d);
    }
    const Value mean = graph_.add(Op::broadcast, {*tiles.means}, graph::BroadcastAttributes{tiling.dims, outside});
    const Value own = graph_.add(Op::subtract, {*tiles.x, mean});
    const Value squares = reduce(graph_.add(Op::multiply, {own, own}), tiling.within);

    const graph::TensorType type = graph_.type(squares);
    Dims mapping;
    for (const std::int64_t d : it.mapping) mapping.push_back(tiling.place[d]);
    const Value c = graph_.add(Op::broadcast, {graph_.at(it.c)},
                               graph::BroadcastAttributes{type.dims, positions_without(mapping, tiling.within)});
    const Value apart = graph_.add(Op::subtract, {*tiles.means, c});
    const Value shift =
        graph_.add(Op::multiply, {graph_.filled(type.dtype, type.dims, static_cast<double>(tiling.elements)),
                                  graph_.add(Op::multiply, {apart, apart})});
    return reduce(graph_.add(Op::add, {squares, shift}), positions_without(tiling.over, tiling.within));
  }

  void copy(NodeId id) {
    const Node& from = kernel_.node(id);
    if (is_sum(from)) {
      const Row row = {from.operands[0], from.as<graph::ReduceAttributes>().dimensions};
      if (squares_.contains(id)) return graph_.replace({id}, tiled_squares(id));
      if (rows_.contains(row)) return graph_.replace({id}, tiled_sum(row));
    }
    graph_.take_over(id);
  }

  const Graph& kernel_;
  Rewriting graph_;
  std::map<NodeId, Deviation> squares_;  ///< by the sum of squares
  std::map<Row, Tiles> rows_;
};

}  // namespace

std::optional<Graph> tile_variances(const Graph& kernel) { return VarianceTiling(kernel).run(); }

}  // namespace stitch::kernel
