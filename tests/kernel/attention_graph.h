#pragma once

#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/graph.h"
#include "tests/kernel/random_mask.h"

/// Attentions as models write them.
namespace stitch::kernel::test {

/// Those from `empty_rows` on hide keys of a batch by a parameter, maybe all: such rows give 0, or NaN. Lengths of
/// batches are a parameter (from which on keys are hidden), as are the numbers of segments, of rows and of keys.
enum class Mask : std::uint8_t {
  none,
  causal,
  window,
  keys,
  bias,
  empty_rows,
  nan_rows,
  unguarded_rows,
  lengths,
  causal_lengths,
  window_lengths,
  segments
};

/// How the weights are dropped: 0 by a select, or by a factor, before they are converted or after that.
enum class Dropout : std::uint8_t { none, selected, multiplied, narrow };

struct AttentionCase {
  std::string name;
  graph::Dims batch;  ///< as many dimensions as there are
  std::int64_t rows, keys, depth, width;
  graph::DType dtype = graph::DType::f16;
  Mask mask = Mask::none;
  std::int64_t group = 1;      ///< heads that share keys and values
  bool keys_turned = false;    ///< the product takes keys as [depth, keys]
  bool heads_inside = false;   ///< queries, keys and values as [rows, heads, depth], so is the result
  bool reciprocal = true;      ///< weights by the reciprocal of the sum
  bool weights_right = false;  ///< the second product has values on its left
  bool narrow_logits = false;  ///< softmax in the operands' type
  bool lines_of_keys = false;  ///< [depth, keys] and [width, keys] in memory
  double hidden = -std::numeric_limits<double>::infinity();  ///< the logit that a mask gives (of `keys` −10⁴)
  std::vector<graph::ReduceKind> statistics = {};            ///< of rows, that are results besides, in this order
  bool statistics_kept = false;                              ///< these as [batch…, rows, 1]
  bool statistics_first = false;                             ///< before the result of the product
  std::int64_t new_keys = 0;            ///< of keys and values that are parameters, too, as a cache is updated
  std::optional<std::int64_t> at = {};  ///< where these begin; else a parameter says it
  bool keeps_updated = true;            ///< what is updated is a result
  std::int64_t page = 0;                ///< keys and values lie in pages of so many keys, of caches that have more
  Dropout dropout = Dropout::none;      ///< of every fourth weight, with a key for it as the last parameter
};

/// The same with keys and values in pages.
inline AttentionCase with_pages(AttentionCase attention, std::int64_t page) {
  attention.page = page;
  return attention;
}

/// The same with a dropout.
inline AttentionCase with_dropout(AttentionCase attention, Dropout dropout) {
  attention.dropout = dropout;
  return attention;
}

/// The same with keys and values that are a cache and what is new.
inline AttentionCase with_updates(AttentionCase attention, std::int64_t new_keys, bool keeps_updated = true,
                                  std::optional<std::int64_t> at = {}) {
  attention.new_keys = new_keys;
  attention.keeps_updated = keeps_updated;
  attention.at = at;
  return attention;
}

/// The same with row statistics as results.
inline AttentionCase with_statistics(AttentionCase attention, std::vector<graph::ReduceKind> statistics) {
  attention.statistics = std::move(statistics);
  return attention;
}

inline void PrintTo(const AttentionCase& attention, std::ostream* out) { *out << attention.name; }

/// Parameters: queries, keys, values, and a mask or bias if there is one; keys and values that are updated are followed
/// by what is new, keys before that by where it begins; keys in pages by their table.
class AttentionGraph {
 public:
  explicit AttentionGraph(const AttentionCase& attention) : c_(attention) {}

  graph::Graph make() {
    const graph::Value queries = operand(c_.rows, c_.depth, 1), keys = of_keys(c_.depth);
    const graph::Value values = of_keys(c_.width);
    const std::int64_t n = rank();
    graph::DotAttributes scores;
    scores.lhs_batch = scores.rhs_batch = batch_dimensions();
    scores.lhs_contracting = {n + 1};
    scores.rhs_contracting = {n + 1};
    scores.result = c_.dtype;
    const graph::Value turned = c_.keys_turned ? b_.transpose(keys, swapped()) : keys;
    if (c_.keys_turned) scores.rhs_contracting = {n};
    graph::Value weights = softmax(logits(b_.dot(queries, turned, scores)));
    if (c_.dropout != Dropout::narrow) weights = dropped(weights);
    weights = b_.convert(weights, c_.dtype);
    if (c_.dropout == Dropout::narrow) weights = dropped(weights);
    if (c_.mask == Mask::nan_rows) {
      const graph::Value zero = b_.filled(c_.dtype, with_batch(c_.rows, c_.keys), 0);
      weights = b_.select(b_.unary(graph::Op::is_nan, weights), zero, weights);
    }
    graph::DotAttributes product;
    product.lhs_batch = product.rhs_batch = batch_dimensions();
    product.result = c_.dtype;
    graph::Value result;
    if (c_.weights_right) {
      product.lhs_contracting = {n};
      product.rhs_contracting = {n + 1};
      result = b_.transpose(b_.dot(values, weights, product), swapped());
    } else {
      product.lhs_contracting = {n + 1};
      product.rhs_contracting = {n};
      result = b_.dot(weights, values, product);
    }
    if (c_.heads_inside) result = b_.transpose(result, inside());
    std::vector<graph::Value> results;
    for (const graph::ReduceKind kind : c_.statistics) {
      const graph::Value each = kind == graph::ReduceKind::max ? greatest_ : sum_;
      results.push_back(c_.statistics_kept ? b_.reshape(each, with_batch(c_.rows, 1)) : each);
    }
    results.insert(c_.statistics_first ? results.end() : results.begin(), result);
    if (c_.keeps_updated) results.insert(results.end(), updated_.begin(), updated_.end());
    auto graph = b_.finish(results);
    if (!graph) throw std::runtime_error(graph.error().message);
    return *std::move(graph);
  }

 private:
  [[nodiscard]] std::int64_t rank() const { return std::ssize(c_.batch); }
  [[nodiscard]] graph::Dims batch_dimensions() const {
    graph::Dims all;
    for (std::int64_t d = 0; d < rank(); ++d) all.push_back(d);
    return all;
  }
  [[nodiscard]] graph::Dims with_batch(std::int64_t rows, std::int64_t columns) const {
    graph::Dims dims = c_.batch;
    dims.insert(dims.end(), {rows, columns});
    return dims;
  }
  /// Of [batch…, rows, columns]: rows and columns exchanged.
  [[nodiscard]] graph::Dims swapped() const {
    graph::Dims order = batch_dimensions();
    order.insert(order.end(), {rank() + 1, rank()});
    return order;
  }
  /// Of [batch…, heads, rows, columns]: heads and rows exchanged.
  [[nodiscard]] graph::Dims inside() const {
    graph::Dims order = batch_dimensions();
    order.back() = rank();
    order.insert(order.end(), {rank() - 1, rank() + 1});
    return order;
  }

  /// [batch…, keys, columns].
  graph::Value of_keys(std::int64_t columns) {
    if (c_.page > 0) return in_pages(columns);
    if (!c_.lines_of_keys) return operand(c_.keys, columns, c_.group, c_.heads_inside ? rank() - 1 : rank());
    return b_.transpose(operand(columns, c_.keys, c_.group, rank() + 1), swapped());
  }
  /// Gathered of a cache [pages, page, heads, columns], of batches [batch, heads].
  graph::Value in_pages(std::int64_t columns) {
    const std::int64_t heads = c_.batch[1] / c_.group, places = c_.keys / c_.page;
    const graph::Value cache = b_.parameter(c_.dtype, {c_.batch[0] * places + 3, c_.page, heads, columns});
    if (table_.node < 0) table_ = b_.parameter(graph::DType::s32, {c_.batch[0], places});
    graph::GatherAttributes by_page;
    by_page.offset_dims = {2, 3, 4};
    by_page.collapsed_slice_dims = by_page.start_index_map = {0};
    by_page.index_vector_dim = 2;
    by_page.slice_sizes = {1, c_.page, heads, columns};
    const graph::Value gathered = b_.add(graph::Op::gather, {cache, table_}, by_page);
    const graph::Value value = b_.transpose(b_.reshape(gathered, {c_.batch[0], c_.keys, heads, columns}), {0, 2, 1, 3});
    if (c_.group == 1) return value;
    const graph::Dims wide = {c_.batch[0], heads, c_.group, c_.keys, columns};
    return b_.reshape(b_.broadcast(value, wide, {0, 1, 3, 4}), with_batch(c_.keys, columns));
  }

  /// `along`: the dimension of keys, where some of them may be new.
  graph::Value operand(std::int64_t rows, std::int64_t columns, std::int64_t group, std::int64_t along = -1) {
    graph::Dims dims = with_batch(rows, columns);
    const std::int64_t heads = dims[rank() - 1];
    dims[rank() - 1] /= group;
    if (c_.heads_inside) std::swap(dims[rank() - 1], dims[rank()]);
    graph::Value value = b_.parameter(c_.dtype, dims);
    if (along >= 0 && c_.new_keys > 0) value = updated(value, along);
    if (c_.heads_inside) value = b_.transpose(value, inside());
    if (group == 1) return value;
    graph::Dims repeated = with_batch(rows, columns), mapping;
    repeated[rank() - 1] = heads / group;
    repeated.insert(repeated.begin() + rank(), group);
    for (std::int64_t d = 0; d < std::ssize(repeated); ++d) {
      if (d != rank()) mapping.push_back(d);
    }
    return b_.reshape(b_.broadcast(value, repeated, mapping), with_batch(rows, columns));
  }

  graph::Value updated(graph::Value cache, std::int64_t along) {
    const graph::DType places = graph::DType::s32;
    if (updated_.empty())
      first_ = c_.at ? b_.filled(places, {}, static_cast<double>(*c_.at)) : b_.parameter(places, {});
    graph::Dims dims = b_.dims(cache);
    dims[along] = c_.new_keys;
    std::vector<graph::Value> operands = {cache, b_.parameter(c_.dtype, dims)};
    for (std::int64_t d = 0; d < std::ssize(dims); ++d)
      operands.push_back(d == along ? first_ : b_.filled(places, {}, 0));
    updated_.push_back(b_.add(graph::Op::dynamic_update_slice, operands, graph::UpdateAttributes{}));
    return updated_.back();
  }

  graph::Value logits(graph::Value scores) {
    using graph::Op;
    const graph::Dims dims = with_batch(c_.rows, c_.keys);
    if (!c_.narrow_logits) scores = b_.convert(scores, graph::DType::f32);
    const graph::DType dtype = b_.dtype(scores);
    scores = b_.binary(Op::multiply, scores, b_.filled(dtype, dims, 0.125));
    const std::int64_t n = rank();
    const graph::Value row = b_.iota(graph::DType::s32, {c_.rows, c_.keys}, 0);
    const graph::Value key = b_.iota(graph::DType::s32, {c_.rows, c_.keys}, 1);
    graph::Value seen;
    switch (c_.mask) {
      case Mask::none: return scores;
      case Mask::bias:
        return b_.binary(Op::add, scores, b_.broadcast(b_.parameter(dtype, {c_.rows, c_.keys}), dims, {n, n + 1}));
      case Mask::causal: seen = b_.compare(graph::Comparison::ge, row, key); break;
      case Mask::window: {
        const graph::Value near = b_.compare(graph::Comparison::lt, b_.binary(Op::subtract, row, key),
                                             b_.filled(graph::DType::s32, {c_.rows, c_.keys}, 9));
        seen = b_.binary(Op::bit_and, near, b_.compare(graph::Comparison::ge, row, key));
        break;
      }
      case Mask::lengths:
      case Mask::causal_lengths:
      case Mask::window_lengths: return shown_by_lengths(scores, row, key);
      case Mask::segments: {
        const graph::Value rows = b_.parameter(graph::DType::s32, {c_.batch[0], c_.rows});
        const graph::Value keys = b_.parameter(graph::DType::s32, {c_.batch[0], c_.keys});
        const graph::Value same =
            b_.compare(graph::Comparison::eq, b_.broadcast(rows, dims, {0, n}), b_.broadcast(keys, dims, {0, n + 1}));
        return b_.select(same, scores, b_.filled(dtype, dims, c_.hidden));
      }
      case Mask::keys:
      case Mask::empty_rows:
      case Mask::nan_rows:
      case Mask::unguarded_rows: {
        const graph::Value mask = b_.parameter(graph::DType::pred, {c_.batch[0], c_.keys});
        return b_.select(b_.broadcast(mask, dims, {0, n + 1}), scores, b_.filled(dtype, dims, least(dtype)));
      }
    }
    return b_.select(b_.broadcast(seen, dims, {n, n + 1}), scores, b_.filled(dtype, dims, least(dtype)));
  }
  /// Of [rows, keys] and the lengths of batches.
  graph::Value shown_by_lengths(graph::Value scores, graph::Value row, graph::Value key) {
    using graph::Comparison;
    const graph::Dims dims = with_batch(c_.rows, c_.keys), places = {rank(), rank() + 1};
    const graph::Value length = b_.broadcast(b_.parameter(graph::DType::s32, {c_.batch[0]}), dims, {0});
    graph::Value seen = b_.compare(Comparison::lt, b_.broadcast(key, dims, places), length);
    if (c_.mask != Mask::lengths)
      seen = b_.binary(graph::Op::bit_and, seen, b_.broadcast(b_.compare(Comparison::ge, row, key), dims, places));
    if (c_.mask == Mask::window_lengths) {
      const graph::Value near = b_.compare(Comparison::lt, b_.binary(graph::Op::subtract, row, key),
                                           b_.filled(graph::DType::s32, {c_.rows, c_.keys}, 9));
      seen = b_.binary(graph::Op::bit_and, seen, b_.broadcast(near, dims, places));
    }
    return b_.select(seen, scores, b_.filled(b_.dtype(scores), dims, c_.hidden));
  }
  [[nodiscard]] double least(graph::DType) const { return c_.mask == Mask::keys ? -1e4 : c_.hidden; }

  graph::Value softmax(graph::Value logits) {
    using graph::Op;
    const graph::Dims dims = with_batch(c_.rows, c_.keys);
    graph::Dims kept = batch_dimensions(), small = c_.batch;
    kept.push_back(rank());
    small.push_back(c_.rows);
    const graph::DType dtype = b_.dtype(logits);
    const auto repeated = [&](graph::Value value) { return b_.broadcast(value, dims, kept); };
    const graph::Value greatest = b_.reduce(graph::ReduceKind::max, logits, {rank() + 1});
    greatest_ = greatest;
    graph::Value base = greatest, empty;
    if (c_.mask == Mask::empty_rows) {
      empty = b_.compare(graph::Comparison::eq, greatest,
                         b_.filled(dtype, small, -std::numeric_limits<double>::infinity()));
      base = b_.select(empty, b_.filled(dtype, small, 0), greatest);
    }
    const graph::Value exponentials = b_.unary(Op::exp, b_.binary(Op::subtract, logits, repeated(base)));
    graph::Value sum = b_.reduce(graph::ReduceKind::sum, exponentials, {rank() + 1});
    sum_ = sum;
    if (c_.mask == Mask::empty_rows) sum = b_.select(empty, b_.filled(dtype, small, 1), sum);
    if (!c_.reciprocal) return b_.binary(Op::divide, exponentials, repeated(sum));
    const graph::Value inverse = b_.binary(Op::divide, b_.filled(dtype, small, 1), sum);
    return b_.binary(Op::multiply, exponentials, repeated(inverse));
  }

  graph::Value dropped(graph::Value weights) {
    using graph::Op;
    if (c_.dropout == Dropout::none) return weights;
    constexpr double kept = 0.75;
    const graph::Dims dims = b_.dims(weights);
    const graph::DType dtype = b_.dtype(weights);
    const graph::Value mask = random_mask(b_, b_.parameter(graph::DType::u32, {2}), dims, kept);
    if (c_.dropout == Dropout::selected) {
      const graph::Value zero = b_.filled(dtype, dims, 0);
      return b_.select(mask, b_.binary(Op::divide, weights, b_.filled(dtype, dims, kept)), zero);
    }
    const graph::Value factor = b_.binary(Op::multiply, b_.convert(mask, dtype), b_.filled(dtype, dims, 1 / kept));
    return b_.binary(Op::multiply, weights, factor);
  }

  const AttentionCase& c_;
  graph::Builder b_;
  graph::Value greatest_, sum_;  ///< of the softmax's rows
  graph::Value first_;           ///< of the new keys
  graph::Value table_;           ///< of pages
  std::vector<graph::Value> updated_;
};

inline graph::Graph attention_graph(const AttentionCase& attention) { return AttentionGraph(attention).make(); }

}  // namespace stitch::kernel::test
