#include "kernel/rewrite/tiled_scan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "graph/reduce_kind.h"
#include "kernel/rewrite/rewriting.h"

namespace stitch::kernel {
namespace {

using graph::Dims;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::ScanAttributes;
using graph::Value;

// Shorter lines a block or a warp walks faster than two phases more take: by prediction (H100) a line of 4,096 or 8,192
// side by side in memory loses, one of 16,384 gains; across memory 512 rows of 8 gain. Tiles are not smaller than what
// a block takes in a turn or two, and a line's totals are not many more than a tile's elements: of 1 × 131,072 to
// 16,777,216 numbers the best tile has 2,048 to 8,192, of 4,096 to 65,536 rows of 16 to 64 it has 128 to 256.
constexpr std::int64_t least_along = 8192, least_across = 512;
constexpr std::int64_t tile_along = 1024, tile_across = 128;

/// Elements in a tile of a line of `length`: a divisor, near to what is best; 0: there is none.
std::int64_t tile_of(std::int64_t length, bool along) {
  const double root = std::sqrt(static_cast<double>(length));
  const double best = along ? std::max<double>(tile_along, 2 * root) : std::max<double>(tile_across, root);
  const auto distance = [&](std::int64_t tile) { return std::fabs(std::log(static_cast<double>(tile) / best)); };
  // Rows in vectors of 16 bytes, of whatever type, where there are such.
  for (const std::int64_t unit : {16, 8, 4, 2, 1}) {
    std::int64_t found = 0;
    const auto least = static_cast<std::int64_t>(best / 4), most = std::min<std::int64_t>(4 * best, length / 2);
    for (std::int64_t tile = (least / unit + 1) * unit; tile <= most; tile += unit) {
      if (length % tile == 0 && (found == 0 || distance(tile) < distance(found))) found = tile;
    }
    if (found > 0 || !along) return found;
  }
  return 0;
}

class ScanTiling {
 public:
  explicit ScanTiling(const graph::Graph& kernel) : graph_(kernel) {}

  std::optional<graph::Graph> run() {
    const graph::Graph& kernel = graph_.kernel();
    for (graph::NodeId id = 0; id < kernel.size(); ++id) {
      if (const std::int64_t tile = tile_of_scan(kernel, kernel.node(id)); tile > 0) tiles_[id] = tile;
    }
    if (tiles_.empty()) return std::nullopt;
    for (graph::NodeId id = 0; id < kernel.size(); ++id) {
      const auto found = tiles_.find(id);
      if (found == tiles_.end()) {
        graph_.take_over(id);
      } else {
        graph_.replace({id}, tiled(kernel.node(id), found->second));
      }
    }
    return graph_.finish();
  }

 private:
  static std::int64_t tile_of_scan(const graph::Graph& kernel, const graph::Node& node) {
    if (node.op != Op::scan) return 0;
    const std::int64_t dimension = node.as<ScanAttributes>().dimension;
    const Dims& dims = kernel.type(node.operands[0]).dims;
    const std::int64_t length = dims[dimension];
    const bool along = std::all_of(dims.begin() + dimension + 1, dims.end(), [](std::int64_t d) { return d == 1; });
    return length < (along ? least_along : least_across) ? 0 : tile_of(length, along);
  }

  /// The tiles of a line, as what they are computed with.
  struct Tiles {
    ScanAttributes scan;  ///< along dimension `scan.dimension` of the tiles, by whose number `scan.dimension + 1` is
    Value x;
    Dims dims;  ///< of x
  };

  /// What is combined of all tiles before each, repeated over it; of the first the identity.
  Value before(const Tiles& tiles, DType dtype) {
    const std::int64_t within = tiles.scan.dimension + 1;
    const Value terms = converted(tiles.x, dtype);
    const Value totals = graph_.add(Op::reduce, {terms}, graph::ReduceAttributes{tiles.scan.kind, {within}});
    ScanAttributes over = tiles.scan;
    over.exclusive = true;
    Dims kept;
    for (std::int64_t d = 0; d < std::ssize(tiles.dims); ++d) {
      if (d != within) kept.push_back(d);
    }
    return graph_.add(Op::broadcast, {graph_.add(Op::scan, {totals}, over)},
                      graph::BroadcastAttributes{tiles.dims, kept});
  }

  /// Whether an element is the first of its tile.
  Value is_first(const Tiles& tiles) {
    const std::int64_t within = tiles.scan.dimension + 1;
    const Value place = graph_.add(Op::iota, {}, graph::IotaAttributes{{DType::s32, tiles.dims}, within});
    const auto first = static_cast<double>(tiles.scan.reverse ? tiles.dims[within] - 1 : 0);
    return graph_.add(Op::compare, {place, graph_.filled(DType::s32, tiles.dims, first)},
                      graph::CompareAttributes{graph::Comparison::eq});
  }

  /// The elements one place further on; what the first one is does not matter.
  Value moved_on(const Tiles& tiles) {
    const std::int64_t within = tiles.scan.dimension + 1;
    const Dims none(tiles.dims.size(), 0);
    Dims starts = none, limits = tiles.dims, low = none, high = none;
    if (tiles.scan.reverse) {
      starts[within] = high[within] = 1;
    } else {
      --limits[within];
      low[within] = 1;
    }
    const Value most = graph_.add(Op::slice, {tiles.x}, graph::SliceAttributes{starts, limits, Dims(none.size(), 1)});
    const Value nothing = graph_.filled(graph_.type(tiles.x).dtype, {}, 0);
    return graph_.add(Op::pad, {most, nothing}, graph::PadAttributes{low, high, none});
  }

  Value converted(Value x, DType dtype) {
    return graph_.type(x).dtype == dtype ? x : graph_.add(Op::convert, {x}, graph::ConvertAttributes{dtype});
  }

  Value tiled(const graph::Node& node, std::int64_t tile) {
    const graph::TensorType type = node.results[0];
    Tiles tiles = {node.as<ScanAttributes>(), {}, type.dims};
    const std::int64_t over = tiles.scan.dimension, within = over + 1;
    tiles.dims[over] /= tile;
    tiles.dims.insert(tiles.dims.begin() + within, tile);
    tiles.x = graph_.add(Op::reshape, {graph_.at(node.operands[0])}, graph::ReshapeAttributes{tiles.dims});
    const bool rounds = tiles.scan.kind == ReduceKind::sum || tiles.scan.kind == ReduceKind::product;
    const DType wide = rounds && graph::is_floating(type.dtype) ? graph::info(type.dtype).accumulator : type.dtype;
    const Value carry = before(tiles, wide), first = is_first(tiles);
    ScanAttributes inside = tiles.scan;
    inside.dimension = within;
    Value terms;
    if (tiles.scan.exclusive) {
      inside.exclusive = false;
      terms = graph_.add(Op::select, {first, carry, converted(moved_on(tiles), wide)});
    } else {
      const Value x = converted(tiles.x, wide);
      terms = graph_.add(Op::select, {first, graph_.add(graph::combining_op(inside.kind), {carry, x}), x});
    }
    const Value line = graph_.add(Op::scan, {converted(terms, type.dtype)}, inside);
    return graph_.add(Op::reshape, {line}, graph::ReshapeAttributes{type.dims});
  }

  Rewriting graph_;
  std::map<graph::NodeId, std::int64_t> tiles_;  ///< elements of a tile, by the scan
};

}  // namespace

std::optional<graph::Graph> tile_scans(const graph::Graph& kernel) { return ScanTiling(kernel).run(); }

}  // namespace stitch::kernel
