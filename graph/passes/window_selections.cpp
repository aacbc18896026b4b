#include "graph/passes/window_selections.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "graph/infer_checks.h"
#include "graph/literal.h"
#include "graph/reduce_kind.h"
#include "graph/reference/evaluate_box.h"

namespace stitch::graph {
namespace {

// Comparing all elements of a window for each of them is faster up to here.
constexpr std::int64_t few_selected = 4;
constexpr std::int64_t most_terms = 16;          // of the sum over windows; beyond, a scatter
constexpr std::int64_t longest_comparison = 12;  // elements that are compared one after another

std::int64_t floor_divide(std::int64_t x, std::int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); }
std::int64_t divide_up(std::int64_t x, std::int64_t y) { return -floor_divide(-x, y); }

/// The windows along one dimension: window i covers [i·stride - low, i·stride - low + size).
struct Line {
  std::int64_t size, stride, low, extent;
  std::int64_t first, count;  ///< windows that reach into x
  std::int64_t overlap;       ///< windows over one element
  std::int64_t weight = 1;    ///< of a place along it among the window's places

  [[nodiscard]] bool moves() const { return size != 1 || stride != 1 || low != 0 || count != extent; }
};

std::vector<Line> lines_of(const SelectAndScatterAttributes& a, const Dims& x, const Dims& windows) {
  std::vector<Line> lines;
  for (std::size_t d = 0; d < x.size(); ++d) {
    Line line{a.sizes[d], a.strides[d], a.low[d], x[d], 0, 0, divide_up(a.sizes[d], a.strides[d])};
    line.first = std::max<std::int64_t>(0, divide_up(line.low - line.size + 1, line.stride));
    const std::int64_t last = std::min(windows[d] - 1, floor_divide(line.extent - 1 + line.low, line.stride));
    line.count = last - line.first + 1;
    line.low -= line.first * line.stride;
    if (line.count == 1) {  // it does not move
      line.stride = line.size;
      line.overlap = 1;
    }
    lines.push_back(line);
  }
  std::int64_t weight = 1;
  for (std::size_t d = lines.size(); d-- > 0;) {
    lines[d].weight = weight;
    weight *= lines[d].overlap * lines[d].stride;
  }
  return lines;
}

class Selection {
 public:
  Selection(Rewriter& graph, const Node& node)
      : graph_(graph),
        select_(node.as<SelectAndScatterAttributes>().select),
        x_(node.operands[0]),
        source_(node.operands[1]),
        lines_(lines_of(node.as<SelectAndScatterAttributes>(), graph.dims(x_), graph.dims(source_))) {
    std::int64_t places = 1;
    for (const Line& line : lines_) places *= line.overlap * line.stride;
    place_type_ = places <= 256 ? DType::u8 : DType::s32;
  }

  Value result() {
    source_ = part(source_, [](const Line& line) { return Interval{line.first, line.first + line.count}; });
    windows_ = graph_.dims(source_);
    const Value covered = padded(x_, identity(), [](const Line& line) {
      return Interval{line.low, (line.count - 1) * line.stride + line.size - line.low - line.extent};
    });
    const bool side_by_side =
        std::all_of(lines_.begin(), lines_.end(), [](const Line& l) { return l.size == l.stride; });
    const Value place = without_padding(side_by_side ? arg_reduced(covered) : compared(covered));
    std::int64_t terms = 1;
    for (const Line& line : lines_) terms *= line.overlap;
    return terms <= most_terms ? collected(place) : scattered(place);
  }

 private:
  // ---- which element a window selects -----------------------------------------------------------------------

  Value identity() {
    const DType dtype = graph_.dtype(x_);
    return graph_.constant(scalar_of(dtype, identity_bits(select_, dtype)));
  }

  Value arg_reduced(Value covered) {
    Dims tiled, permutation, inner;
    for (const Line& line : lines_) {
      if (line.size > 1) inner.push_back(tiled.size() + 1);
      permutation.push_back(tiled.size());
      tiled.push_back(line.count);
      if (line.size > 1) tiled.push_back(line.size);
    }
    permutation.insert(permutation.end(), inner.begin(), inner.end());
    Dims flat = windows_;
    std::int64_t elements = 1;
    for (const std::int64_t d : inner) elements *= tiled[d];
    flat.push_back(elements);
    const Value elements_of = graph_.reshape(graph_.transpose(graph_.reshape(covered, tiled), permutation), flat);
    const ArgReduceAttributes a{select_, static_cast<std::int64_t>(windows_.size()), DType::s32, false};
    const Value best = graph_.add(Op::arg_reduce, {elements_of}, a);
    return graph_.convert({best.node, 1}, place_type_);
  }

  /// The best of some elements per window, and their places.
  struct Best {
    Value value, place;
    bool placed = false;  ///< else the place is 0
  };

  Value compared(Value covered) {
    Dims sizes;
    for (const Line& line : lines_) sizes.push_back(line.size);
    if (element_count(sizes) <= longest_comparison) return compared_at_once(covered, Box::whole(sizes));
    Best best{covered, {}, false};
    for (std::size_t d = lines_.size(); d-- > 0;) {
      const Line& line = lines_[d];
      if (line.size <= longest_comparison) {
        best = along(best, d, {line.size, 1, line.stride, line.count, line.weight});
        continue;
      }
      // Steps that are multiples of the stride need the shorter windows at these places only.
      const std::int64_t unit = line.stride * line.stride <= line.size ? line.stride : 1;
      std::int64_t step = unit;
      while ((step + unit) * (step + unit) <= line.size) step += unit;
      const std::int64_t count = line.size / step, places = std::gcd(line.stride, step);
      const std::int64_t small = ((line.count - 1) * line.stride + (count - 1) * step) / places + 1;
      best = along(best, d, {step + line.size % step, 1, places, small, line.weight});
      best = along(best, d, {count, step / places, line.stride / places, line.count, line.weight * step});
    }
    return best.place;
  }

  Value compared_at_once(Value covered, const Box& window) {
    Best best;
    Dims index = window.start;
    do {
      Dims limits, strides;
      std::int64_t number = 0;
      for (std::size_t d = 0; d < index.size(); ++d) {
        limits.push_back(index[d] + (lines_[d].count - 1) * lines_[d].stride + 1);
        strides.push_back(lines_[d].stride);
        number += index[d] * lines_[d].weight;
      }
      const Value next = graph_.slice(covered, index, limits, strides), place = filled(place_type_, number);
      best = best.placed ? better_of(best, {next, place, true}) : Best{next, place, true};
    } while (next_index(window, index));
    return best.place;
  }

  /// `count` elements `distance` apart, from every `stride`-th on.
  struct Steps {
    std::int64_t count, distance, stride, results, weight;
  };

  Best along(const Best& before, std::size_t d, const Steps& steps) {
    Best best;
    for (std::int64_t i = 0; i < steps.count; ++i) {
      const auto taken = [&](Value value) {
        Dims starts(windows_.size(), 0), limits = graph_.dims(value), strides(windows_.size(), 1);
        starts[d] = i * steps.distance;
        limits[d] = starts[d] + (steps.results - 1) * steps.stride + 1;
        strides[d] = steps.stride;
        return graph_.slice(value, starts, limits, strides);
      };
      const Value next = taken(before.value);
      const auto number = [&] {
        return graph_.broadcast(graph_.scalar_integer(place_type_, i * steps.weight), graph_.dims(next), {});
      };
      const auto place = [&] {
        if (!before.placed) return number();
        const Value earlier = taken(before.place);
        return i == 0 ? earlier : graph_.binary(Op::add, earlier, number());
      };
      if (i == 0) {
        best = {next, place(), true};
        continue;
      }
      best = better_of(best, {next, place(), true});
    }
    return best;
  }

  /// Of equals the first.
  Best better_of(const Best& best, const Best& next) {
    const Value better = is_better(next.value, best.value);
    return {graph_.select(better, next.value, best.value), graph_.select(better, next.place, best.place), true};
  }

  /// NaN is more extreme than any number.
  Value is_better(Value next, Value best) {
    const bool largest = select_ == ReduceKind::max;
    if (!is_floating(graph_.dtype(x_))) return graph_.compare(largest ? Comparison::gt : Comparison::lt, next, best);
    const Value holds = graph_.compare(largest ? Comparison::ge : Comparison::le, best, next);
    return graph_.binary(Op::bit_and, graph_.unary(Op::bit_not, holds), graph_.compare(Comparison::eq, best, best));
  }

  // ---- where that is ----------------------------------------------------------------------------------------

  Value filled(DType dtype, std::int64_t value) {
    return graph_.broadcast(graph_.scalar_integer(dtype, value), windows_, {});
  }
  Value along_windows(DType dtype, std::size_t d) {
    const Value index = graph_.add(Op::iota, {}, IotaAttributes{{dtype, {windows_[d]}}, 0});
    return graph_.broadcast(index, windows_, {static_cast<std::int64_t>(d)});
  }

  /// A window's place along one dimension.
  Value place_along(Value place, std::size_t d) {
    const Line& line = lines_[d];
    const DType dtype = graph_.dtype(place);
    if (line.weight > 1) place = graph_.binary(Op::divide, place, filled(dtype, line.weight));
    const bool outermost =
        std::all_of(lines_.begin(), lines_.begin() + d, [](const Line& l) { return l.overlap * l.stride == 1; });
    return outermost ? place : graph_.binary(Op::remainder, place, filled(dtype, line.overlap * line.stride));
  }

  /// Where padding was selected, it is the first element of its window, and the others equal it.
  Value without_padding(Value place) {
    if (std::none_of(lines_.begin(), lines_.end(), [](const Line& line) { return line.low > 0; })) return place;
    const Value wide = graph_.convert(place, DType::s32);
    Value sum = filled(DType::s32, 0);
    for (std::size_t d = 0; d < lines_.size(); ++d) {
      const Line& line = lines_[d];
      if (line.overlap * line.stride == 1) continue;
      Value here = place_along(wide, d);
      if (line.low > 0) {
        const Value start = graph_.binary(Op::multiply, along_windows(DType::s32, d), filled(DType::s32, line.stride));
        here = graph_.binary(Op::maximum, here, graph_.binary(Op::subtract, filled(DType::s32, line.low), start));
      }
      sum = graph_.binary(Op::add, sum, graph_.binary(Op::multiply, here, filled(DType::s32, line.weight)));
    }
    return graph_.convert(sum, place_type_);
  }

  // ---- what an element receives -----------------------------------------------------------------------------

  /// An element of x stands in tile (index + low) / stride, counted from the first one that x reaches into.
  struct Tiles {
    std::int64_t first, count;
  };
  static Tiles tiles_of(const Line& line) {
    const std::int64_t first = floor_divide(line.low, line.stride);
    return {first, floor_divide(line.low + line.extent - 1, line.stride) - first + 1};
  }

  Value collected(Value place) {
    Dims tiled, flat;
    tile_dimensions_.clear();
    for (const Line& line : lines_) {
      tile_dimensions_.push_back(tiled.size());
      tiled.push_back(tiles_of(line).count);
      if (line.stride > 1) tiled.push_back(line.stride);
      flat.push_back(tiles_of(line).count * line.stride);
    }
    const Value places = places_in_tile(tiled);
    Dims turns;
    for (const Line& line : lines_) turns.push_back(line.overlap);
    const Box all = Box::whole(turns);
    std::optional<Value> sum;
    for (Dims turn = all.start;;) {
      Dims back;  // by how many windows: the first window first
      for (std::size_t d = 0; d < turn.size(); ++d) back.push_back(turns[d] - 1 - turn[d]);
      if (const std::optional<Value> term = received(place, places, back, tiled)) {
        sum = sum ? graph_.binary(Op::add, *sum, *term) : *term;
      }
      if (!next_index(all, turn)) break;
    }
    const Value whole = graph_.reshape(sum ? *sum : graph_.filled({graph_.dtype(x_), tiled}, 0), flat);
    return part(whole, [](const Line& line) {
      const std::int64_t start = line.low - tiles_of(line).first * line.stride;
      return Interval{start, start + line.extent};
    });
  }

  /// The place of each element of a tile in the window that begins with the tile.
  Value places_in_tile(const Dims& tiled) {
    std::optional<Value> sum;
    for (std::size_t d = 0; d < lines_.size(); ++d) {
      const Line& line = lines_[d];
      if (line.stride == 1) continue;
      const TensorType type{place_type_, {line.stride}};
      const Value weight = graph_.broadcast(graph_.scalar_integer(place_type_, line.weight), type.dims, {});
      const Value along = graph_.binary(Op::multiply, graph_.add(Op::iota, {}, IotaAttributes{type, 0}), weight);
      const Value term = graph_.broadcast(along, tiled, {tile_dimensions_[d] + 1});
      sum = sum ? graph_.binary(Op::add, *sum, term) : term;
    }
    return sum ? *sum : graph_.broadcast(graph_.scalar_integer(place_type_, 0), tiled, {});
  }

  /// What every element receives from the windows that begin `back` tiles before its own; nothing when there are none.
  std::optional<Value> received(Value place, Value places, const Dims& back, const Dims& tiled) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < lines_.size(); ++d) {
      const Line& line = lines_[d];
      const std::int64_t low = back[d] - tiles_of(line).first;
      if (low + line.count <= 0 || low >= tiles_of(line).count) return std::nullopt;
      offset += back[d] * line.stride * line.weight;
    }
    std::size_t next = 0;
    const auto shifted = [&](const Line& line) {
      const std::int64_t low = back[next++] - tiles_of(line).first;
      return Interval{low, tiles_of(line).count - line.count - low};
    };
    const auto spread = [&](Value value) {
      next = 0;
      const Value zero = graph_.scalar(graph_.dtype(value), 0);
      return graph_.broadcast(padded(value, zero, shifted), tiled, tile_dimensions_);
    };
    const Value there = graph_.broadcast(graph_.scalar_integer(place_type_, offset), tiled, {});
    const Value chosen = graph_.compare(Comparison::eq, spread(place), graph_.binary(Op::add, places, there));
    return graph_.select(chosen, spread(source_), graph_.filled({graph_.dtype(x_), tiled}, 0));
  }

  Value scattered(Value place) {
    const TensorType& type = graph_.type(x_);
    const DType index_type = counts_in_s32(type.elements()) ? DType::s32 : DType::s64;
    const Dims strides = row_major_strides(type.dims);
    const Value wide = graph_.convert(place, index_type);
    Value sum = filled(index_type, 0);
    for (std::size_t d = 0; d < lines_.size(); ++d) {
      const Line& line = lines_[d];
      const Value start = graph_.binary(Op::multiply, along_windows(index_type, d), filled(index_type, line.stride));
      Value index = graph_.binary(Op::subtract, start, filled(index_type, line.low));
      if (line.size > 1) index = graph_.binary(Op::add, index, place_along(wide, d));
      sum = graph_.binary(Op::add, sum, graph_.binary(Op::multiply, index, filled(index_type, strides[d])));
    }
    ScatterAttributes a;
    a.inserted_window_dims = a.scatter_dims_to_operand_dims = {0};
    a.index_vector_dim = 1;
    a.combiner = ReduceKind::sum;
    const Dims count = {element_count(windows_)};
    const Value zeros = graph_.filled({type.dtype, {type.elements()}}, 0);
    const Value flat = graph_.add(Op::scatter, {zeros, graph_.reshape(sum, count), graph_.reshape(source_, count)}, a);
    return graph_.reshape(flat, type.dims);
  }

  static bool counts_in_s32(std::int64_t count) { return count < std::int64_t{1} << 31; }

  // ---- along all dimensions ---------------------------------------------------------------------------------

  /// The elements of x in an interval per dimension.
  template <class OfLine>
  Value part(Value x, OfLine of_line) {
    Dims starts, limits;
    for (const Line& line : lines_) {
      const Interval taken = of_line(line);
      starts.push_back(taken.begin);
      limits.push_back(taken.end);
    }
    return graph_.slice(x, starts, limits, Dims(lines_.size(), 1));
  }

  /// x padded (cropped where negative) by so much in front of and behind each dimension.
  template <class OfLine>
  Value padded(Value x, Value fill, OfLine of_line) {
    PadAttributes pad{{}, {}, Dims(lines_.size(), 0)};
    bool any = false;
    for (const Line& line : lines_) {
      const Interval widths = of_line(line);
      pad.low.push_back(widths.begin);
      pad.high.push_back(widths.end);
      any = any || widths.begin != 0 || widths.end != 0;
    }
    return any ? graph_.add(Op::pad, {x, fill}, std::move(pad)) : x;
  }

  Rewriter& graph_;
  ReduceKind select_;
  Value x_, source_;
  std::vector<Line> lines_;
  DType place_type_ = DType::u8;
  Dims windows_;
  Dims tile_dimensions_;  ///< of the tiles' numbers
};

}  // namespace

Replacement select_once(Rewriter& graph, const Node& node) {
  if (node.op != Op::select_and_scatter) return {};
  const auto& a = node.as<SelectAndScatterAttributes>();
  const Dims& x = graph.dims(node.operands[0]);
  const bool empty = graph.type(node.operands[0]).elements() == 0 || graph.type(node.operands[1]).elements() == 0;
  if (empty || element_count(a.sizes) <= few_selected) return {};
  for (const Line& line : lines_of(a, x, graph.dims(node.operands[1]))) {
    if (line.count <= 0) return {};
  }
  return Selection(graph, node).result();
}

}  // namespace stitch::graph
