#include "graph/calls/winograd.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/f32_products.h"
#include "graph/subgraph.h"

namespace stitch::graph {
namespace {

constexpr std::int64_t window_edge = 3;

using Lines = std::vector<Value>;

/// The transforms of one dimension, on tensors in the place of a vector's elements: Bᵀ, G and Aᵀ of Lavin and Gray §4.1
/// and §4.3. Where rows differ in signs alone, sums of even and odd places are shared.
class Transforms {
 public:
  Transforms(Builder& b, std::int64_t tile) : b_(b), tile_(tile) {}

  [[nodiscard]] Lines input(const Lines& d) {
    if (tile_ == 2) return {minus(d[0], d[2]), plus(d[1], d[2]), minus(d[2], d[1]), minus(d[1], d[3])};
    const Value even = minus(d[4], times(d[2], 4)), odd = minus(d[3], times(d[1], 4));
    const Value near = minus(d[4], d[2]), far = times(minus(d[3], d[1]), 2);
    return {plus(minus(times(d[0], 4), times(d[2], 5)), d[4]),
            plus(even, odd),
            minus(even, odd),
            plus(near, far),
            minus(near, far),
            plus(minus(times(d[1], 4), times(d[3], 5)), d[5])};
  }

  [[nodiscard]] Lines filter(const Lines& g) {
    const Value ends = plus(g[0], g[2]);
    if (tile_ == 2) {
      const Value even = times(ends, 1.0 / 2), odd = times(g[1], 1.0 / 2);
      return {g[0], plus(even, odd), minus(even, odd), g[2]};
    }
    const Value even = times(ends, -1.0 / 6), odd = times(g[1], 1.0 / 6);
    const Value outer = plus(times(g[0], 1.0 / 24), times(g[2], 1.0 / 6)), inner = times(g[1], 1.0 / 12);
    return {times(g[0], 1.0 / 4), minus(even, odd), plus(even, odd), plus(outer, inner), minus(outer, inner), g[2]};
  }

  [[nodiscard]] Lines result(const Lines& m) {
    if (tile_ == 2) return {plus(m[0], plus(m[1], m[2])), minus(minus(m[1], m[2]), m[3])};
    const Value near = plus(m[1], m[2]), near_apart = minus(m[1], m[2]);
    const Value far = plus(m[3], m[4]), far_apart = minus(m[3], m[4]);
    return {plus(m[0], plus(near, far)), plus(near_apart, times(far_apart, 2)), plus(near, times(far, 4)),
            plus(plus(near_apart, times(far_apart, 8)), m[5])};
  }

 private:
  Value plus(Value x, Value y) { return b_.binary(Op::add, x, y); }
  Value minus(Value x, Value y) { return b_.binary(Op::subtract, x, y); }
  Value times(Value x, double factor) { return b_.binary(Op::multiply, x, b_.filled(b_.dtype(x), b_.dims(x), factor)); }

  Builder& b_;
  const std::int64_t tile_;
};

/// One convolution's steps, in a graph that is being built.
class Winograd {
 public:
  Winograd(Builder& b, const Graph& graph, const Node& node, std::int64_t tile)
      : b_(b),
        transforms_(b, tile),
        a_(node.as<ConvolutionAttributes>()),
        x_(graph.type(node.operands[0]).dims),
        w_(graph.type(node.operands[1]).dims),
        y_(node.type().dims),
        tile_(tile) {
    for (const int s : {0, 1}) tiles_[s] = (positions(s) + tile - 1) / tile;
  }

  /// [places, tiles, features] where features are innermost in x, else [places, features, tiles].
  Value input(Value x) {
    PadAttributes pad{Dims(4, 0), Dims(4, 0), Dims(4, 0)};
    bool pads = false;
    for (const int s : {0, 1}) {
      const std::int64_t d = a_.input_spatial[s];
      pad.low[d] = a_.low[s];
      pad.high[d] = tiles_[s] * tile_ + window_edge - 1 - x_[d] - a_.low[s];
      pads = pads || pad.low[d] != 0 || pad.high[d] != 0;
    }
    if (pads) x = b_.add(Op::pad, {x, b_.scalar(b_.dtype(x), 0)}, pad);
    const auto seen = [&](Value of, int s) {
      Lines lines;
      for (std::int64_t place = 0; place < edge(); ++place) lines.push_back(every_tile(of, s, place));
      return transforms_.input(lines);
    };
    std::vector<Value> places;
    for (const Value row : seen(x, 0)) {
      for (const Value place : seen(row, 1)) places.push_back(one_place(place));
    }
    return b_.concatenate(std::move(places), 0);
  }

  /// [places, features, results] or [places, results, features], whichever order they have in the filter.
  Value filter(Value w) {
    const auto of = [&](Value from, int s) {
      Lines lines;
      const bool reversed = s < std::ssize(a_.window_reversal) && a_.window_reversal[s];
      for (std::int64_t place = 0; place < window_edge; ++place) {
        const std::int64_t there = reversed ? window_edge - 1 - place : place;
        lines.push_back(strided(from, a_.kernel_spatial[s], there, there + 1, 1));
      }
      return transforms_.filter(lines);
    };
    const std::int64_t features = w_[a_.kernel_input_feature], results = w_[a_.kernel_output_feature];
    const Dims plane = features_stand_first() ? Dims{1, features, results} : Dims{1, results, features};
    std::vector<Value> places;
    for (const Value row : of(w, 0)) {
      for (const Value place : of(row, 1)) places.push_back(b_.reshape(place, plane));
    }
    return b_.concatenate(std::move(places), 0);
  }

  /// [places, tiles, results] where results are innermost in y, else [places, results, tiles].
  Value product(Value v, Value u) {
    const DType dtype = b_.dtype(v);
    const std::int64_t of_v = features_last() ? 2 : 1, of_u = features_stand_first() ? 1 : 2;
    return results_last() ? b_.dot(v, u, {{0}, {0}, {of_v}, {of_u}, dtype})
                          : b_.dot(u, v, {{0}, {0}, {of_u}, {of_v}, dtype});
  }

  Value result(Value products) {
    Lines rows;
    for (std::int64_t row = 0; row < edge(); ++row)
      rows.push_back(strided(products, 0, row * edge(), (row + 1) * edge(), 1));
    std::vector<Value> of_rows;
    for (const Value row : transforms_.result(rows)) {
      Lines places;
      for (std::int64_t place = 0; place < edge(); ++place) places.push_back(strided(row, 0, place, place + 1, 1));
      of_rows.push_back(interleaved_columns(transforms_.result(places)));
    }
    return in_place(b_.concatenate(std::move(of_rows), results_last() ? 2 : 3));
  }

 private:
  [[nodiscard]] std::int64_t edge() const { return tile_ + window_edge - 1; }
  [[nodiscard]] std::int64_t images() const { return x_[a_.input_batch]; }
  [[nodiscard]] std::int64_t positions(int s) const { return y_[a_.output_spatial[s]]; }
  [[nodiscard]] bool features_last() const { return a_.input_feature == 3; }
  [[nodiscard]] bool results_last() const { return a_.output_feature == 3; }
  [[nodiscard]] bool features_stand_first() const { return a_.kernel_input_feature < a_.kernel_output_feature; }

  Value strided(Value x, std::int64_t dimension, std::int64_t first, std::int64_t limit, std::int64_t stride) {
    Dims starts(b_.dims(x).size(), 0), limits = b_.dims(x), strides(b_.dims(x).size(), 1);
    starts[dimension] = first;
    limits[dimension] = limit;
    strides[dimension] = stride;
    return b_.slice(x, starts, limits, strides);
  }

  /// What every tile sees at one place along a spatial dimension.
  Value every_tile(Value x, int s, std::int64_t place) {
    return strided(x, a_.input_spatial[s], place, place + (tiles_[s] - 1) * tile_ + 1, tile_);
  }

  /// One place of all tiles, in the order in which the product reads it.
  Value one_place(Value place) {
    const std::int64_t tiles = images() * tiles_[0] * tiles_[1], features = x_[a_.input_feature];
    Dims order = {a_.input_batch, a_.input_spatial[0], a_.input_spatial[1]};
    order.insert(features_last() ? order.end() : order.begin(), a_.input_feature);
    return b_.reshape(b_.transpose(place, order),
                      features_last() ? Dims{1, tiles, features} : Dims{1, features, tiles});
  }

  /// Columns of a tile's row, [1, tiles, results] each, side by side: [images, tiles, 1, tiles, columns, results], or
  /// [results, images, tiles, 1, tiles, columns].
  Value interleaved_columns(const Lines& columns) {
    const std::int64_t results = y_[a_.output_feature];
    Dims apart = {images(), tiles_[0], tiles_[1], 1}, joined = {images(), tiles_[0], 1, tiles_[1], tile_};
    apart.insert(results_last() ? apart.end() : apart.begin(), results);
    joined.insert(results_last() ? joined.end() : joined.begin(), results);
    std::vector<Value> parts;
    for (const Value column : columns) parts.push_back(b_.reshape(column, apart));
    return b_.reshape(b_.concatenate(std::move(parts), results_last() ? 3 : 4), joined);
  }

  /// Whole tiles as the convolution's result: without what is behind its edges, in its order.
  Value in_place(Value tiles) {
    const std::int64_t results = y_[a_.output_feature];
    Dims all = {images(), tiles_[0] * tile_, tiles_[1] * tile_}, there = {images(), positions(0), positions(1)};
    Dims from = {a_.output_batch, a_.output_spatial[0], a_.output_spatial[1]};
    const auto with_features = [&](Dims& dims, std::int64_t entry) {
      dims.insert(results_last() ? dims.end() : dims.begin(), entry);
    };
    with_features(all, results);
    with_features(there, results);
    with_features(from, a_.output_feature);
    Value y = b_.reshape(tiles, all);
    if (all != there) y = b_.slice(y, Dims(4, 0), there);
    Dims permutation(4);
    for (std::size_t d = 0; d < from.size(); ++d) permutation[from[d]] = static_cast<std::int64_t>(d);
    return b_.transpose(y, permutation);
  }

  Builder& b_;
  Transforms transforms_;
  const ConvolutionAttributes& a_;
  const Dims &x_, &w_, &y_;
  const std::int64_t tile_;
  std::array<std::int64_t, 2> tiles_ = {};
};

Status check(const Graph& graph, const Node& node, std::int64_t tile) {
  if (!has_winograd_form(graph, node))
    return make_error(ErrorKind::invalid_argument, "'{}' is no convolution of 3 × 3 that tiles are transformed of",
                      node.name);
  if (std::ranges::count(winograd_tiles, tile) == 0)
    return make_error(ErrorKind::invalid_argument, "there are no transforms for tiles of {} × {}", tile, tile);
  return {};
}

}  // namespace

Result<WinogradSteps> winograd_steps(const Graph& graph, const Node& node, std::int64_t tile) {
  STITCH_TRY(check(graph, node, tile));
  const auto step = [&](const std::vector<TensorType>& read, const auto& make) -> Result<Graph> {
    Builder b;
    std::vector<Value> values;
    for (const TensorType& type : read) values.push_back(b.parameter(type.dtype, type.dims));
    Winograd winograd(b, graph, node, tile);
    STITCH_ASSIGN(Graph made, b.finish({make(winograd, values)}));
    made.constraints = graph.constraints;
    return made;
  };
  const auto type = [](const Graph& of) { return of.type(of.results()[0]); };
  WinogradSteps steps;
  STITCH_ASSIGN(steps.input, step({graph.type(node.operands[0])}, [](auto& w, auto& of) { return w.input(of[0]); }));
  STITCH_ASSIGN(steps.filter, step({graph.type(node.operands[1])}, [](auto& w, auto& of) { return w.filter(of[0]); }));
  STITCH_ASSIGN(steps.product, step({type(steps.input), type(steps.filter)},
                                    [](auto& w, auto& of) { return w.product(of[0], of[1]); }));
  STITCH_ASSIGN(steps.result, step({type(steps.product)}, [](auto& w, auto& of) { return w.result(of[0]); }));
  return steps;
}

Result<Graph> with_winograd(const Graph& graph, const std::map<NodeId, std::int64_t>& tiles) {
  Builder b(graph.name);
  std::map<Value, Value> made;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const auto tile = tiles.find(id);
    if (tile == tiles.end()) {
      copy_node(graph, id, b, made);
      continue;
    }
    const Node& node = graph.node(id);
    STITCH_TRY(check(graph, node, tile->second));
    b.at(node.name, node.line);
    Winograd winograd(b, graph, node, tile->second);
    const Value u = winograd.filter(made.at(node.operands[1])), v = winograd.input(made.at(node.operands[0]));
    made[{id, 0}] = winograd.result(winograd.product(v, u));
  }
  return finish_copy(graph, b, made);
}

}  // namespace stitch::graph
