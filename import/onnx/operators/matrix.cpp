// Matrix products.
#include "import/onnx/operators/matrix.h"

#include <algorithm>

#include "import/emit.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// `value` in the type in which an integer product accumulates, less its zero point (a scalar, or one per row or
/// column: `axis` of the matrix it belongs to).
Result<Value> shifted_operand(Call& c, Value value, std::size_t zero_point, std::int64_t axis) {
  const Value wide = c.b.convert(value, DType::s32);
  if (!c.has(zero_point)) return wide;
  const Value zero = c.b.convert(c.in(zero_point), DType::s32);
  const Dims& dims = c.dims(zero);
  if (graph::element_count(dims) == 1) return sub(c.b, wide, c.b.reshape(zero, {}));
  if (dims.size() != 1) return sub(c.b, wide, zero);
  if (axis < 0 || c.rank(wide) < 1) return Call::wrong("input {} does not fit", zero_point);
  const Value spread_zero = spread(c.b, zero, c.dims(wide), {axis});
  return c.b.binary(Op::subtract, wide, spread_zero);
}

}  // namespace

Value matmul_of(graph::Builder& b, Value x, Value y) {
  if (b.failed()) return x;
  Dims left = b.dims(x), right = b.dims(y);
  if (left.empty() || right.empty()) {
    b.fail(Call::wrong("a scalar has no matrix product"));
    return x;
  }
  const bool row = left.size() == 1, column = right.size() == 1;
  if (row) x = b.reshape(x, left = {1, left[0]});
  if (column) y = b.reshape(y, right = {right[0], 1});
  graph::DotAttributes a;
  a.result = b.dtype(x);
  a.lhs_contracting = {static_cast<std::int64_t>(left.size()) - 1};
  a.rhs_contracting = {0};
  if (right.size() > 2) {
    Dims left_batch(left.begin(), left.end() - 2), right_batch(right.begin(), right.end() - 2);
    Result<Dims> batch = graph::broadcast_shape(left_batch, right_batch);
    if (!batch) {
      b.fail(batch.error());
      return x;
    }
    const auto with = [&](const Dims& tail) {
      Dims dims = *batch;
      dims.insert(dims.end(), tail.end() - 2, tail.end());
      return dims;
    };
    x = b.broadcast_to(x, with(left));
    y = b.broadcast_to(y, with(right));
    const std::int64_t count = batch->size();
    a.lhs_batch = a.rhs_batch = first_axes(count);
    a.lhs_contracting = {count + 1};
    a.rhs_contracting = {count};
  }
  const Value product = b.dot(x, y, std::move(a));
  if (b.failed() || (!row && !column)) return product;
  Dims dims = b.dims(product);
  if (column) dims.pop_back();
  if (row) dims.erase(dims.end() - (column ? 1 : 2));
  return b.reshape(product, dims);
}

Result<Values> matmul(Call& c) { return Values{matmul_of(c.b, c.in(0), c.in(1))}; }

/// com.microsoft: with transposes and a factor.
Result<Values> fused_matmul(Call& c) {
  STITCH_TRY(c.need_rank(0, 2));
  STITCH_TRY(c.need_rank(1, 2));
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 1.0));
  Value operands[2];
  for (const std::size_t i : {0U, 1U}) {
    STITCH_ASSIGN(const std::int64_t batched, c.node.integer(i == 0 ? "transBatchA" : "transBatchB", 0));
    if (batched != 0) return Call::unsupported("transposed batches");
    STITCH_ASSIGN(const std::int64_t swapped, c.node.integer(i == 0 ? "transA" : "transB", 0));
    const std::int64_t rank = c.rank(c.in(i));
    operands[i] = swapped != 0 ? swap_axes(c.b, c.in(i), rank - 2, rank - 1) : c.in(i);
  }
  return Values{mul(c.b, matmul_of(c.b, operands[0], operands[1]), alpha)};
}

Result<Values> matmul_integer(Call& c) {
  const std::int64_t rank = c.rank(c.in(0));
  STITCH_ASSIGN(const Value x, shifted_operand(c, c.in(0), 2, rank - 2));
  STITCH_ASSIGN(const Value y, shifted_operand(c, c.in(1), 3, c.rank(c.in(1)) - 1));
  return Values{matmul_of(c.b, x, y)};
}

/// Inputs: a, its scale and zero point, b, its scale and zero point, the result's scale and zero point.
Result<Values> qlinear_matmul(Call& c) {
  STITCH_ASSIGN(const Value x, shifted_operand(c, c.in(0), 2, c.rank(c.in(0)) - 2));
  STITCH_ASSIGN(const Value y, shifted_operand(c, c.in(3), 5, c.rank(c.in(3)) - 1));
  const Value product = c.b.convert(matmul_of(c.b, x, y), DType::f32);
  const auto scale = [&](std::size_t i) {
    const Value value = c.b.convert(c.in(i), DType::f32);
    return graph::element_count(c.dims(value)) == 1 ? c.b.reshape(value, {}) : value;
  };
  const Value factor = div(c.b, mul(c.b, scale(1), scale(4)), scale(6));
  return Values{saturate_quantised(c.b, mul(c.b, product, factor), c.b.reshape(c.in(7), {}))};
}

Result<Values> gemm(Call& c) {
  STITCH_TRY(c.need_rank(0, 2, 2));
  STITCH_TRY(c.need_rank(1, 2, 2));
  STITCH_ASSIGN(const double alpha, c.node.number("alpha", 1.0));
  STITCH_ASSIGN(const double beta, c.node.number("beta", 1.0));
  STITCH_ASSIGN(const std::int64_t trans_a, c.node.integer("transA", 0));
  STITCH_ASSIGN(const std::int64_t trans_b, c.node.integer("transB", 0));
  if (!graph::is_floating(c.dtype(c.in(0))) && (alpha != 1.0 || beta != 1.0)) {
    return Call::unsupported("fractional factors of integers");
  }
  graph::DotAttributes a;
  a.result = c.dtype(c.in(0));
  a.lhs_contracting = {trans_a != 0 ? 0 : 1};
  a.rhs_contracting = {trans_b != 0 ? 1 : 0};
  Value y = mul(c.b, c.b.dot(c.in(0), c.in(1), std::move(a)), alpha);
  if (c.has(2) && beta != 0.0) y = add(c.b, y, mul(c.b, c.in(2), beta));
  return Values{y};
}

}  // namespace stitch::import::onnx
