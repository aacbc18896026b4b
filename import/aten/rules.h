#pragma once

#include <span>
#include <string_view>

#include "import/aten/call.h"

namespace stitch::import::aten {

/// One row of the rule table: how an operator of core ATen is lowered. Errors go to the call's builder.
struct Rule {
  std::string_view op;  ///< as FX prints it: "aten.add.Tensor"
  Values (*lower)(Call&);
};

std::span<const Rule> rule_table();
/// The operator's row; null when there is none.
const Rule* find_rule(std::string_view op);

template <Op op>
Values unary(Call& c) {
  return {c.b.unary(op, c.operand("self", c.result().dtype))};
}
Values test(Call& c, Op op);  ///< of a float, giving pred
template <Op op>
Values test_rule(Call& c) {
  return test(c, op);
}
Values binary(Call& c, Op op, Op of_truth_values);
template <Op op, Op of_truth_values = op>
Values binary_rule(Call& c) {
  return binary(c, op, of_truth_values);
}
Values compare(Call& c, graph::Comparison direction);
template <graph::Comparison direction>
Values compare_rule(Call& c) {
  return compare(c, direction);
}
Values reduce(Call& c, ReduceKind kind);
template <ReduceKind kind>
Values reduce_rule(Call& c) {
  return reduce(c, kind);
}
Values arg_reduce(Call& c, ReduceKind kind, bool with_values);
template <ReduceKind kind, bool with_values>
Values arg_reduce_rule(Call& c) {
  return arg_reduce(c, kind, with_values);
}
Values scan(Call& c, ReduceKind kind);
Values scan_log_sum_exp(Call& c);
template <ReduceKind kind>
Values scan_rule(Call& c) {
  return scan(c, kind);
}
Values sort(Call& c);
Values top_k(Call& c);
Values arg_sort(Call& c);
Values kth_value(Call& c);
Values median(Call& c);
Values extreme_number(Call& c, Op op);  ///< fmax and fmin
template <Op op>
Values extreme_number_rule(Call& c) {
  return extreme_number(c, op);
}
Values logical(Call& c, Op op);
template <Op op>
Values logical_rule(Call& c) {
  return logical(c, op);
}

// operators/elementwise.cpp
Values add(Call& c);
Values subtract(Call& c);
Values reversed_subtract(Call& c);
Values divide(Call& c);
Values floor_divide(Call& c);
Values remainder(Call& c);
Values power(Call& c);
Values reciprocal(Call& c);
Values log2(Call& c);
Values log10(Call& c);
Values exp2(Call& c);
Values truncate(Call& c);
Values logical_not(Call& c);
Values where(Call& c);
Values clamp(Call& c);
Values shift_right(Call& c);
Values copy_sign(Call& c);
Values sign_bit(Call& c);
Values hypotenuse(Call& c);
Values round_decimals(Call& c);
Values add_product(Call& c);
Values add_quotient(Call& c);
Values multiply_add(Call& c);

// operators/activation.cpp
Values relu(Call& c);
Values gelu(Call& c);
Values leaky_relu(Call& c);
Values elu(Call& c);
Values hard_tanh(Call& c);

// operators/conversion.cpp
Values same(Call& c);  ///< clone, alias, detach: what changes no element, whatever strides it asks for
Values convert(Call& c);
Values copied(Call& c);  ///< what is written over a tensor, in its shape and type

// operators/layout.cpp
Values reshape(Call& c);
Values expand(Call& c);
Values permute(Call& c);
Values transpose(Call& c);
Values slice(Call& c);
Values select(Call& c);
Values concatenate(Call& c);
Values split(Call& c);
Values unbind(Call& c);
Values flip(Call& c);
Values pad(Call& c);
Values repeat(Call& c);
Values slice_scatter(Call& c);
Values select_scatter(Call& c);

// operators/creation.cpp
Values full(Call& c);
Values zeros(Call& c);
Values ones(Call& c);
Values arange(Call& c);
Values iota(Call& c);

// operators/random.cpp
Values random_bits(Call& c);

// operators/reduction.cpp
Values sum(Call& c);
Values mean(Call& c);
Values any(Call& c);
Values all(Call& c);
Values variance(Call& c);
Values variance_and_mean(Call& c);

// operators/normalization.cpp
Values softmax(Call& c);
Values log_softmax(Call& c);
Values layer_norm(Call& c);

// operators/pooling.cpp
Values max_pool(Call& c);
Values max_pool_backward(Call& c);
Values average_pool(Call& c, std::int64_t dimensions);
template <std::int64_t dimensions>
Values average_pool_rule(Call& c) {
  return average_pool(c, dimensions);
}
Values average_pool_backward(Call& c, std::int64_t dimensions);
template <std::int64_t dimensions>
Values average_pool_backward_rule(Call& c) {
  return average_pool_backward(c, dimensions);
}

// operators/product.cpp
Values matmul(Call& c);
Values batched_matmul(Call& c);
Values grouped_matmul(Call& c);
Values matrix_vector(Call& c);
Values inner_product(Call& c);
Values add_matmul(Call& c);
Values add_batched_matmul(Call& c);
Values add_matrix_vector(Call& c);

// operators/convolution.cpp
Values convolution(Call& c);
Values convolution_backward(Call& c);

// operators/attention.cpp
Values attention(Call& c);
Values attention_backward(Call& c);

// operators/indexing.cpp
Values embedding(Call& c);
Values index_select(Call& c);
Values gather(Call& c);
Values index(Call& c);
Values index_put(Call& c);
Values scatter(Call& c);
Values scatter_add(Call& c);
Values scatter_reduce(Call& c);

}  // namespace stitch::import::aten
