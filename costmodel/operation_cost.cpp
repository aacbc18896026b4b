#include "costmodel/operation_cost.h"

namespace stitch::costmodel {

using graph::Op;
using kernel::Item;

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
  switch (item.op) {
    // Instructions of the f32 code that NVRTC makes of them (counted in PTX/SASS); f64 takes several times as many.
    case Op::exp: return wide ? 30 : 2;
    case Op::logistic: return wide ? 45 : 6;
    case Op::log: return wide ? 40 : 12;
    case Op::expm1: return wide ? 45 : 16;
    case Op::log1p: return wide ? 50 : 18;
    case Op::sqrt: return wide ? 20 : 2;
    case Op::rsqrt: return wide ? 20 : 1;
    case Op::divide: return graph::is_integer(item.dtype) ? (wide ? 60 : 25) : (wide ? 20 : 6);
    case Op::remainder: return graph::is_integer(item.dtype) ? (wide ? 60 : 27) : 40;
    case Op::tanh: return wide ? 60 : 14;
    case Op::erf: return wide ? 80 : 22;
    case Op::erfc: return wide ? 120 : 20;
    case Op::sin:
    case Op::cos: return wide ? 80 : 25;
    case Op::tan: return wide ? 100 : 40;
    case Op::power: return wide ? 150 : 45;
    case Op::cbrt: return wide ? 60 : 20;
    case Op::threefry2x32: return 75;
    case Op::bitcast_convert: return 0;
    default: break;
  }
  if (graph::info(item.op).cost == graph::OpCost::expensive) return wide ? 100 : 35;
  return wide && graph::is_integer(item.dtype) ? 2 : 1;
}

double integer_cost(const Item& item) {
  // ptxas has a part of the additions done by multiply-add, on the f32 unit: half of them, by what it makes of ours.
  constexpr double addition = 0.5;
  if (item.kind == Item::Kind::index) return addition;
  if (item.kind == Item::Kind::in_range) return 1;
  if (item.kind != Item::Kind::compute) return 0;
  const double words = graph::byte_size(item.dtype) == 8 ? 2 : 1;
  switch (item.op) {
    case Op::threefry2x32: return 51;  // of its 69 instructions; the other 18 are additions by multiply-add
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
