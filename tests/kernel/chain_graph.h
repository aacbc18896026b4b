#pragma once

#include <limits>
#include <stdexcept>
#include <string>

#include "graph/builder.h"
#include "graph/graph.h"
#include "tests/kernel/random_mask.h"

/// Chains of products: the gradients of attentions as they are once scores are computed again (Dao et al. 2022,
/// Algorithm 4), and products that take what others make.
namespace stitch::kernel::test {

struct ChainCase {
  enum class Kind : std::uint8_t { queries, keys_and_values, keys, values, gelu };
  std::string name;
  Kind kind = Kind::queries;
  graph::Dims batch;
  std::int64_t rows, keys, depth, width;
  graph::DType dtype = graph::DType::f16;
  bool causal = false;
  bool bias = false;          ///< of [rows, keys]
  bool heads_inside = false;  ///< operands and results as [batch, rows, heads, depth]
  std::int64_t group = 1;     ///< heads that share keys and values
  bool dropout = false;       ///< of the weights, by a key that is the last parameter
  bool lengths = false;       ///< keys of a batch from its length on are hidden, which is a parameter
};
inline void PrintTo(const ChainCase& each, std::ostream* out) { *out << each.name; }

/// Parameters: queries, keys, values and the gradient of the attention's result where they are needed, and of each row
/// the maximum of its logits, the reciprocal of its sum and what its gradient is relative to; a dropout's key.
class ChainGraph {
 public:
  explicit ChainGraph(const ChainCase& chain) : c_(chain) {}

  graph::Graph make() {
    if (c_.kind == ChainCase::Kind::gelu) return finish({gelu()});
    using Kind = ChainCase::Kind;
    const bool values_alone = c_.kind == Kind::values;
    const graph::Value queries = operand(c_.rows, c_.depth, 1), keys = operand(c_.keys, c_.depth, c_.group);
    const graph::Value values = values_alone ? graph::Value{} : operand(c_.keys, c_.width, c_.group);
    const graph::Value gradient = operand(c_.rows, c_.width, 1);
    const graph::Value greatest = row_value(), inverse = row_value();
    const graph::Value weights =
        b_.binary(graph::Op::multiply, exponentials(dot(queries, keys, false, false), greatest), repeated(inverse));
    const auto turned_product = [&](graph::Value of, graph::Value other) {
      return inside(dot(b_.convert(of, c_.dtype), other, true, true));
    };
    const graph::Value relative = values_alone ? graph::Value{} : row_value();
    if (c_.dropout) mask_ = random_mask(b_, b_.parameter(graph::DType::u32, {2}), scores(), kept);
    const graph::Value left = dropped(weights);
    if (values_alone) return finish({turned_product(left, gradient)});
    graph::Value slopes = dropped(b_.convert(dot(gradient, values, false, false), graph::DType::f32));
    slopes = b_.binary(graph::Op::multiply, weights, b_.binary(graph::Op::subtract, slopes, repeated(relative)));
    slopes = b_.binary(graph::Op::multiply, slopes, b_.filled(graph::DType::f32, scores(), 0.125));
    if (c_.kind == Kind::queries) return finish({inside(dot(b_.convert(slopes, c_.dtype), keys, false, true))});
    if (c_.kind == Kind::keys) return finish({turned_product(slopes, queries)});
    return finish({turned_product(slopes, queries), turned_product(left, gradient)});
  }

 private:
  [[nodiscard]] std::int64_t rank() const { return std::ssize(c_.batch); }
  [[nodiscard]] graph::Dims with_batch(std::int64_t rows, std::int64_t columns) const {
    graph::Dims dims = c_.batch;
    dims.insert(dims.end(), {rows, columns});
    return dims;
  }
  [[nodiscard]] graph::Dims scores() const { return with_batch(c_.rows, c_.keys); }
  [[nodiscard]] graph::Dims exchanged(std::int64_t a, std::int64_t b) const {
    graph::Dims order;
    for (std::int64_t d = 0; d < rank() + 2; ++d) order.push_back(d == a ? b : d == b ? a : d);
    return order;
  }

  graph::Value operand(std::int64_t rows, std::int64_t columns, std::int64_t group) {
    graph::Dims dims = with_batch(rows, columns);
    const std::int64_t heads = dims[rank() - 1];
    dims[rank() - 1] /= group;
    if (c_.heads_inside) std::swap(dims[rank() - 1], dims[rank()]);
    graph::Value value = b_.parameter(c_.dtype, dims);
    if (c_.heads_inside) value = b_.transpose(value, exchanged(rank() - 1, rank()));
    if (group == 1) return value;
    graph::Dims wide = with_batch(rows, columns), mapping;
    wide[rank() - 1] = heads / group;
    wide.insert(wide.begin() + rank(), group);
    for (std::int64_t d = 0; d < std::ssize(wide); ++d) {
      if (d != rank()) mapping.push_back(d);
    }
    return b_.reshape(b_.broadcast(value, wide, mapping), with_batch(rows, columns));
  }
  graph::Value inside(graph::Value value) {
    return c_.heads_inside ? b_.transpose(value, exchanged(rank() - 1, rank())) : value;
  }

  graph::Value dropped(graph::Value weights) {
    if (!c_.dropout) return weights;
    const graph::Value grown =
        b_.binary(graph::Op::multiply, weights, b_.filled(graph::DType::f32, scores(), 1 / kept));
    return b_.select(mask_, grown, b_.filled(graph::DType::f32, scores(), 0));
  }

  graph::Value row_value() {
    graph::Dims dims = c_.batch;
    dims.push_back(c_.rows);
    return b_.parameter(graph::DType::f32, dims);
  }
  graph::Value repeated(graph::Value of_rows) {
    graph::Dims kept;
    for (std::int64_t d = 0; d <= rank(); ++d) kept.push_back(d);
    return b_.broadcast(of_rows, scores(), kept);
  }

  /// The left operand is contracted along its last dimension or the one before, the right one too.
  graph::Value dot(graph::Value left, graph::Value right, bool left_turned, bool right_turned) {
    graph::DotAttributes dot;
    for (std::int64_t d = 0; d < rank(); ++d) dot.lhs_batch.push_back(d);
    dot.rhs_batch = dot.lhs_batch;
    dot.lhs_contracting = {rank() + (left_turned ? 0 : 1)};
    dot.rhs_contracting = {rank() + (right_turned ? 0 : 1)};
    dot.result = c_.dtype;
    return b_.dot(left, right, dot);
  }

  graph::Value exponentials(graph::Value products, graph::Value greatest) {
    using graph::Op;
    graph::Value logits = b_.convert(products, graph::DType::f32);
    logits = b_.binary(Op::multiply, logits, b_.filled(graph::DType::f32, scores(), 0.125));
    if (c_.bias) {
      const graph::Value bias = b_.parameter(graph::DType::f32, {c_.rows, c_.keys});
      logits = b_.binary(Op::add, logits, b_.broadcast(bias, scores(), {rank(), rank() + 1}));
    }
    if (c_.causal) {
      const graph::Value row = b_.iota(graph::DType::s32, {c_.rows, c_.keys}, 0);
      const graph::Value key = b_.iota(graph::DType::s32, {c_.rows, c_.keys}, 1);
      const graph::Value seen = b_.compare(graph::Comparison::ge, row, key);
      logits = b_.select(b_.broadcast(seen, scores(), {rank(), rank() + 1}), logits,
                         b_.filled(graph::DType::f32, scores(), -1e9));
    }
    if (c_.lengths) {
      const graph::Value length = b_.broadcast(b_.parameter(graph::DType::s32, {c_.batch[0]}), scores(), {0});
      const graph::Value key = b_.iota(graph::DType::s32, scores(), rank() + 1);
      logits = b_.select(b_.compare(graph::Comparison::lt, key, length), logits,
                         b_.filled(graph::DType::f32, scores(), -1e9));
    }
    return b_.unary(Op::exp, b_.binary(Op::subtract, logits, repeated(greatest)));
  }

  /// x·A, an activation, ·B.
  graph::Value gelu() {
    const graph::Value x = operand(c_.rows, c_.depth, 1), first = operand(c_.keys, c_.depth, 1);
    const graph::Value second = operand(c_.keys, c_.width, 1);
    const graph::Value hidden = b_.convert(dot(x, first, false, false), graph::DType::f32);
    const graph::Value active = b_.binary(graph::Op::multiply, hidden, b_.unary(graph::Op::logistic, hidden));
    return dot(b_.convert(active, c_.dtype), second, false, true);
  }

  graph::Graph finish(const std::vector<graph::Value>& results) {
    auto graph = b_.finish(results);
    if (!graph) throw std::runtime_error(c_.name + ": " + graph.error().message);
    return *std::move(graph);
  }

  static constexpr double kept = 0.75;
  const ChainCase& c_;
  graph::Builder b_;
  graph::Value mask_;
};

inline graph::Graph chain_graph(const ChainCase& chain) { return ChainGraph(chain).make(); }

}  // namespace stitch::kernel::test
