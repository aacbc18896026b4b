#include "costmodel/operation_cost.h"

namespace stitch::costmodel {

using graph::Op;
using kernel::Item;

namespace {

// Instructions of what has none of its own, as ptxas of CUDA 13.0 writes it out.
constexpr double wide_division = 60, division = 25, remainder = 27;
// Of random bits: those on the integer unit. The others, of 69 and of 42, are multiply-adds.
constexpr double threefry_integer = 51, philox_integer = 20;

}  // namespace

double operation_cost(const Item& item) {
  switch (item.kind) {
    case Item::Kind::literal:
    case Item::Kind::reduced: return 0;
    case Item::Kind::index:
    case Item::Kind::in_range:
    case Item::Kind::load:
    case Item::Kind::combine: return 1;
    case Item::Kind::compute: break;
  }
  const bool wide = graph::byte_size(item.dtype) == 8;
  const bool integer = graph::is_integer(item.dtype);
  if (integer && (item.op == Op::divide || item.op == Op::remainder)) {
    return wide ? wide_division : item.op == Op::divide ? division : remainder;
  }
  const graph::OpInfo& row = graph::info(item.op);
  if (row.cost == graph::OpCost::light && integer && wide) return 2;
  return wide ? row.instructions.wide : row.instructions.narrow;
}

double integer_cost(const Item& item) {
  // ptxas has a part of the additions done by multiply-add, on the f32 unit: half of them, by what it makes of ours.
  constexpr double addition = 0.5;
  if (item.kind == Item::Kind::index) return addition;
  if (item.kind == Item::Kind::in_range) return 1;
  if (item.kind != Item::Kind::compute) return 0;
  const double words = graph::byte_size(item.dtype) == 8 ? 2 : 1;
  switch (item.op) {
    case Op::threefry2x32: return threefry_integer;
    case Op::philox4x32: return philox_integer;
    case Op::bit_not:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::shift_left:
    case Op::shift_right_logical:
    case Op::shift_right_arithmetic:
    case Op::compare:
    case Op::select:
    case Op::maximum:
    case Op::minimum: return words;
    case Op::clamp: return 2 * words;
    case Op::convert: return addition;  // two to 16 bits in one instruction; from bf16 by a multiplication or a shift
    case Op::add:
    case Op::subtract: return graph::is_integer(item.dtype) ? addition * words : 0;
    case Op::divide:
    case Op::remainder: return graph::is_integer(item.dtype) ? operation_cost(item) / 2 : 0;
    default: return 0;
  }
}

}  // namespace stitch::costmodel
