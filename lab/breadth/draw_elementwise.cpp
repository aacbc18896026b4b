#include "graph/attributes.h"
#include "graph/op.h"
#include "lab/breadth/draw_steps.h"

namespace stitch::lab {
namespace {

using graph::DType;
using graph::Op;
using graph::Value;

/// Element-wise operators of so many operands that take this type and need no attributes.
std::vector<Op> operators_on(int operands, DType dtype) {
  std::vector<Op> list;
  for (const graph::OpInfo& row : graph::op_table()) {
    const bool plain = std::holds_alternative<graph::NoAttributes>(graph::default_attributes(row.op));
    if (graph::is_elementwise(row.op) && plain && row.max_operands == operands && graph::takes(row.domain, dtype))
      list.push_back(row.op);
  }
  return list;
}

/// An operand for arithmetic: 8-bit floats are mostly there to be converted.
Value operand(GraphDraft& draft) {
  const Value x = draft.any();
  const DType dtype = draft.type(x).dtype;
  const bool tiny = dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
  return tiny && !draft.one_in(6) ? draft.as(x, draft.one_in(2) ? DType::f32 : DType::bf16) : x;
}

/// Keeps an argument of a function mostly where it is defined, so that there is something to compare.
Value inside(GraphDraft& draft, const graph::OpInfo& row, Value x) {
  constexpr double huge = 1e30;
  if (row.defined.low < -huge || draft.one_in(4)) return x;
  graph::Builder& b = draft.builder();
  const graph::TensorType type = draft.type(x);
  if (row.defined.high < huge)
    return b.binary(Op::multiply, b.unary(Op::tanh, x), b.filled(type.dtype, type.dims, 0.875));
  return b.binary(Op::add, b.unary(Op::abs, x), b.filled(type.dtype, type.dims, row.defined.low + 0.5));
}

}  // namespace

void draw_unary(GraphDraft& draft) {
  const Value x = operand(draft);
  const graph::OpInfo& row = graph::info(draft.of(operators_on(1, draft.type(x).dtype)));
  const bool floating = graph::is_floating(draft.type(x).dtype);
  draft.note(draft.builder().unary(row.op, floating ? inside(draft, row, x) : x));
}

void draw_binary(GraphDraft& draft) {
  const Value x = operand(draft), y = draft.partner(x);
  const std::vector<Op> usual = {Op::add, Op::subtract, Op::multiply, Op::maximum, Op::minimum};
  const bool number = !draft.is_pred(x);
  const Op op = number && draft.one_in(2) ? draft.of(usual) : draft.of(operators_on(2, draft.type(x).dtype));
  const bool exchanged = draft.one_in(2);
  draft.note(draft.builder().binary(op, exchanged ? y : x, exchanged ? x : y));
}

void draw_compare(GraphDraft& draft) {
  const Value x = draft.any(), y = draft.partner(x);
  const auto direction = static_cast<graph::Comparison>(draft.below(6));
  draft.note(draft.builder().compare(direction, x, y));
}

void draw_select(GraphDraft& draft) {
  const Value x = draft.any(), y = draft.partner(x);
  const Value condition = draft.of_type({DType::pred, draft.type(x).dims});
  draft.note(draft.builder().select(condition, x, y));
}

void draw_clamp(GraphDraft& draft) {
  const auto x = draft.find([&](Value v) { return !draft.is_pred(v); });
  if (!x) return;
  const Value low = draft.partner(*x), high = draft.partner(*x);
  draft.note(draft.builder().add(Op::clamp, {low, *x, high}));
}

void draw_convert(GraphDraft& draft) { draft.note(draft.as(draft.any(), draft.any_dtype())); }

void draw_bitcast(GraphDraft& draft) {
  const Value x = draft.any();
  const DType from = draft.type(x).dtype, to = draft.any_dtype();
  if (from == to || graph::byte_size(from) != graph::byte_size(to)) return;
  draft.note(draft.builder().bitcast(x, to));
}

void draw_random_bits(GraphDraft& draft) {
  const Value counter = draft.as(draft.any(), DType::u32);
  const Op op = draft.one_in(2) ? Op::threefry2x32 : Op::philox4x32;
  std::vector<Value> operands;
  for (int i = 1; i < graph::info(op).min_operands; ++i) operands.push_back(draft.partner(counter));
  operands.push_back(counter);
  const Value bits = draft.builder().add(op, operands);
  draft.note(bits);
  if (!draft.failed()) draft.note({bits.node, op == Op::threefry2x32 ? 1 : 3});
}

}  // namespace stitch::lab
