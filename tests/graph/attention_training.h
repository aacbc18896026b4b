#pragma once

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "tests/kernel/random_mask.h"

/// Attentions with their gradients, as frameworks write them.
namespace stitch::graph::test {

enum class GradientForm : std::uint8_t {
  jax,      ///< (dP / s − Σ dP · e / s²) · e
  pytorch,  ///< P · (dP − Σ dP · P)
  aten,     ///< dP · P − P · Σ dP · P
};
/// What makes a graph another one than it looks like.
enum class LookAlike : std::uint8_t {
  none,
  other_values,     ///< the gradient of the weights is made with another V
  turned_values,    ///< with V of other heads
  varying_factor,   ///< the sum has a factor that varies along the keys
  turned_gradient,  ///< the sum has the gradient with rows and keys exchanged
  sum_of_rows,      ///< over the rows
  other_weights,    ///< the sum has another softmax's weights
  other_mask,       ///< the gradient of the weights is dropped by another key
};

struct TrainingCase {
  std::string name;
  Dims batch = {2, 3};
  std::int64_t rows = 5, keys = 7, depth = 4, width = 6;
  DType dtype = DType::f32;
  GradientForm form = GradientForm::jax;
  bool causal = false;
  double scale = 1;
  std::int64_t group = 1;      ///< heads that share keys and values
  bool weights_right = false;  ///< the second product has values on its left, and the output its width first
  bool heads_inside = false;   ///< output and its gradient as [rows, heads, width]
  bool late = false;           ///< where that is written behind the gradients
  bool reciprocal = false;     ///< the weights by the reciprocal of their sum
  bool guarded = false;        ///< rows of −∞ alone have weights of 0
  LookAlike change = LookAlike::none;
  bool keeps_weights = false;  ///< which are a result, too
  bool dropout = false;        ///< of weights and their gradient, by a key that is a parameter
  bool multiplied = false;     ///< by a factor; else by a select
};

inline void PrintTo(const TrainingCase& training, std::ostream* out) { *out << training.name; }

/// Parameters: queries, keys, values, the output's gradient, and what a look-alike has besides. Results: the output and
/// the gradients of queries, keys and values.
class TrainingGraph {
 public:
  explicit TrainingGraph(const TrainingCase& training) : c_(training) {}

  Graph make() {
    queries_ = parameter(c_.rows, c_.depth);
    keys_ = shared(c_.depth);
    values_ = shared(c_.width);
    const Value given = c_.heads_inside ? inside(c_.rows, c_.width) : parameter_of_output();
    output_gradient_ = c_.heads_inside ? b_.transpose(given, heads_order()) : given;
    forward();
    backward();
    if (c_.late) store_output();
    std::vector<Value> results = {stored_output_, queries_gradient_, ungrouped(keys_gradient_),
                                  ungrouped(values_gradient_)};
    if (c_.keeps_weights) results.push_back(narrow_weights_);
    auto graph = b_.finish(results);
    if (!graph) throw std::runtime_error(c_.name + ": " + graph.error().message);
    return *std::move(graph);
  }

 private:
  static constexpr DType wide = DType::f32;

  [[nodiscard]] std::int64_t rank() const { return std::ssize(c_.batch); }
  [[nodiscard]] Dims batch_order() const {
    Dims all;
    for (std::int64_t d = 0; d < rank(); ++d) all.push_back(d);
    return all;
  }
  [[nodiscard]] Dims with_batch(std::int64_t rows, std::int64_t columns) const {
    Dims dims = c_.batch;
    dims.insert(dims.end(), {rows, columns});
    return dims;
  }
  [[nodiscard]] Dims square() const { return with_batch(c_.rows, c_.keys); }
  [[nodiscard]] Dims swapped() const {
    Dims order = batch_order();
    order.insert(order.end(), {rank() + 1, rank()});
    return order;
  }
  [[nodiscard]] Dims heads_order() const {
    Dims order = batch_order();
    order.back() = rank();
    order.insert(order.end(), {rank() - 1, rank() + 1});
    return order;
  }

  Value parameter(std::int64_t rows, std::int64_t columns) { return b_.parameter(c_.dtype, with_batch(rows, columns)); }
  Value parameter_of_output() { return c_.weights_right ? parameter(c_.width, c_.rows) : parameter(c_.rows, c_.width); }
  Value inside(std::int64_t rows, std::int64_t columns) {
    Dims dims = with_batch(rows, columns);
    std::swap(dims[rank() - 1], dims[rank()]);
    return b_.parameter(c_.dtype, dims);
  }
  /// Keys or values, of which several heads may have the same.
  Value shared(std::int64_t columns) {
    if (c_.group == 1) return parameter(c_.keys, columns);
    Dims dims = with_batch(c_.keys, columns), repeated = dims, mapping;
    dims[rank() - 1] /= c_.group;
    repeated[rank() - 1] /= c_.group;
    repeated.insert(repeated.begin() + rank(), c_.group);
    for (std::int64_t d = 0; d < std::ssize(repeated); ++d) {
      if (d != rank()) mapping.push_back(d);
    }
    return b_.reshape(b_.broadcast(b_.parameter(c_.dtype, dims), repeated, mapping), with_batch(c_.keys, columns));
  }
  Value ungrouped(Value gradient) {
    if (c_.group == 1) return gradient;
    Dims dims = b_.dims(gradient);
    dims[rank() - 1] /= c_.group;
    dims.insert(dims.begin() + rank(), c_.group);
    return b_.reduce(ReduceKind::sum, b_.reshape(gradient, dims), {rank()});
  }

  Value dot(Value left, Value right, std::int64_t contracted_left, std::int64_t contracted_right) {
    return b_.dot(left, right,
                  {batch_order(), batch_order(), {rank() + contracted_left}, {rank() + contracted_right}, c_.dtype});
  }
  Value repeated(Value row) {
    Dims kept = batch_order();
    kept.push_back(rank());
    return b_.broadcast(row, square(), kept);
  }
  Value masked(Value logits, double hidden) {
    if (!c_.causal) return logits;
    const Value row = b_.iota(DType::s32, {c_.rows, c_.keys}, 0), key = b_.iota(DType::s32, {c_.rows, c_.keys}, 1);
    const Value seen = b_.broadcast(b_.compare(Comparison::ge, row, key), square(), {rank(), rank() + 1});
    return b_.select(seen, logits, b_.filled(wide, square(), hidden));
  }
  Value scaled(Value scores) {
    if (c_.scale == 1) return scores;
    return b_.binary(Op::multiply, scores, b_.filled(c_.dtype, square(), c_.scale));
  }

  /// By one mask, where nothing else is asked for.
  Value dropped(Value weights, LookAlike change) {
    constexpr double kept = 0.5;  // of which the reciprocal is exact
    if (!c_.dropout) return weights;
    if (mask_.node < 0 || change == LookAlike::other_mask)
      mask_ = kernel::test::random_mask(b_, b_.parameter(DType::u32, {2}), square(), kept);
    if (c_.multiplied) {
      const Value factor = b_.binary(Op::multiply, b_.convert(mask_, wide), b_.filled(wide, square(), 1 / kept));
      return b_.binary(Op::multiply, weights, factor);
    }
    const Value grown = b_.binary(Op::divide, weights, b_.filled(wide, square(), kept));
    return b_.select(mask_, grown, b_.filled(wide, square(), 0));
  }

  void store_output() { stored_output_ = c_.heads_inside ? b_.transpose(output_, heads_order()) : output_; }

  void forward() {
    const Value logits = masked(b_.convert(scaled(dot(queries_, keys_, 1, 1)), wide), -1e9);
    const Value greatest = b_.reduce(ReduceKind::max, logits, {rank() + 1});
    Dims small = c_.batch;
    small.push_back(c_.rows);
    one_ = b_.filled(wide, small, 1);
    const auto guarded = [&](Value row, double otherwise) {
      if (!c_.guarded) return row;
      const Value lowest = b_.filled(wide, small, -std::numeric_limits<double>::infinity());
      const Value empty = b_.compare(Comparison::eq, greatest, lowest);
      return b_.select(empty, b_.filled(wide, small, otherwise), row);
    };
    exponentials_ = b_.unary(Op::exp, b_.binary(Op::subtract, logits, repeated(guarded(greatest, 0))));
    sum_ = guarded(b_.reduce(ReduceKind::sum, exponentials_, {rank() + 1}), 1);
    weights_ = c_.reciprocal ? b_.binary(Op::multiply, exponentials_, repeated(b_.binary(Op::divide, one_, sum_)))
                             : b_.binary(Op::divide, exponentials_, repeated(sum_));
    narrow_weights_ = b_.convert(dropped(weights_, LookAlike::none), c_.dtype);
    output_ = c_.weights_right ? dot(values_, narrow_weights_, 0, 1) : dot(narrow_weights_, values_, 1, 0);
    if (!c_.late) store_output();
  }

  /// The values that the gradient of the weights is made with.
  Value values_of_gradient() {
    if (c_.change == LookAlike::other_values) return parameter(c_.keys, c_.width);
    if (c_.change != LookAlike::turned_values) return values_;
    Dims order = batch_order();
    std::swap(order[0], order[1]);
    order.insert(order.end(), {rank(), rank() + 1});
    return b_.transpose(values_, order);
  }

  /// What the backward pass subtracts, given what it sums.
  Value summed(Value products) {
    if (c_.change == LookAlike::varying_factor)
      products = b_.binary(Op::multiply, products, b_.parameter(wide, square()));
    return b_.reduce(ReduceKind::sum, products, {rank() + (c_.change == LookAlike::sum_of_rows ? 0 : 1)});
  }

  void backward() {
    const Value values = values_of_gradient();
    const Value narrow = c_.weights_right ? dot(output_gradient_, values, 0, 1) : dot(output_gradient_, values, 1, 1);
    const Value gradient = dropped(b_.convert(narrow, wide), c_.change);
    const Value seen = c_.change == LookAlike::turned_gradient ? b_.transpose(gradient, swapped()) : gradient;
    Value exponentials = exponentials_;
    if (c_.change == LookAlike::other_weights) exponentials = b_.unary(Op::exp, b_.parameter(wide, square()));
    Value logits;
    if (c_.form == GradientForm::jax) {
      const Value square = b_.binary(Op::multiply, sum_, sum_);
      const Value inverse = repeated(b_.binary(Op::divide, one_, square));
      // Over the rows a sum's factor would vary.
      const Value factor = c_.change == LookAlike::sum_of_rows ? seen : b_.binary(Op::multiply, seen, inverse);
      const Value sum = summed(b_.binary(Op::multiply, factor, exponentials));
      logits = b_.binary(Op::add, b_.binary(Op::divide, gradient, repeated(sum_)), repeated(b_.unary(Op::negate, sum)));
      logits = b_.binary(Op::multiply, logits, exponentials_);
    } else {
      const Value sum = summed(b_.binary(Op::multiply, seen, weights_));
      if (c_.form == GradientForm::pytorch) {
        logits = b_.binary(Op::multiply, weights_, b_.binary(Op::subtract, gradient, repeated(sum)));
      } else {
        logits = b_.binary(Op::subtract, b_.binary(Op::multiply, gradient, weights_),
                           b_.binary(Op::multiply, weights_, repeated(sum)));
      }
    }
    const Value scores = scaled(b_.convert(masked(logits, 0), c_.dtype));
    queries_gradient_ = dot(scores, keys_, 1, 0);
    keys_gradient_ = dot(scores, queries_, 0, 0);
    values_gradient_ =
        c_.weights_right ? dot(narrow_weights_, output_gradient_, 0, 1) : dot(narrow_weights_, output_gradient_, 0, 0);
  }

  const TrainingCase& c_;
  Builder b_;
  Value mask_ = {-1, 0};
  Value queries_, keys_, values_, output_gradient_, exponentials_, sum_, one_, weights_, narrow_weights_, output_,
      stored_output_;
  Value queries_gradient_, keys_gradient_, values_gradient_;
};

inline Graph training_graph(const TrainingCase& training) { return TrainingGraph(training).make(); }

/// Every way to write it that is an attention with its gradients.
inline std::vector<TrainingCase> training_cases() {
  using enum GradientForm;
  return {
      {.name = "jax"},
      {.name = "jax, by the reciprocal", .reciprocal = true},
      {.name = "pytorch", .form = pytorch},
      {.name = "pytorch, by the reciprocal", .form = pytorch, .reciprocal = true},
      {.name = "aten", .form = aten, .causal = true},
      {.name = "rows that may be empty", .form = aten, .scale = 0.5, .guarded = true},
      {.name = "bf16 with conversions", .dtype = DType::bf16, .scale = 0.5},
      {.name = "pytorch in bf16", .dtype = DType::bf16, .form = pytorch},
      {.name = "causal", .causal = true},
      {.name = "scaled", .form = pytorch, .causal = true, .scale = 0.25},
      {.name = "shared heads", .batch = {2, 4}, .causal = true, .scale = 0.5, .group = 2},
      {.name = "weights on the right", .weights_right = true},
      {.name = "heads inside", .form = pytorch, .scale = 0.5, .heads_inside = true},
      {.name = "heads inside, as it is written last", .heads_inside = true, .late = true},
      {.name = "one batch dimension", .batch = {3}},
      {.name = "jax with dropout", .dropout = true},
      {.name = "pytorch with dropout",
       .form = pytorch,
       .causal = true,
       .scale = 0.5,
       .dropout = true,
       .multiplied = true},
      {.name = "aten with dropout", .dtype = DType::bf16, .form = aten, .dropout = true, .multiplied = true},
      {.name = "dropout by the reciprocal", .form = pytorch, .reciprocal = true, .dropout = true},
      {.name = "dropout of weights on the right", .weights_right = true, .dropout = true},
      {.name = "as many rows as keys and width", .rows = 6, .keys = 6, .depth = 6, .width = 6, .heads_inside = true},
  };
}

}  // namespace stitch::graph::test
