#include "graph/reduce_kind.h"

#include <cstring>
#include <limits>

#include "graph/literal.h"

namespace stitch::graph {
namespace {

std::uint64_t bits_of(DType dtype, double value) {
  std::byte bytes[8] = {};
  store_element(dtype, value, bytes);
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

/// Largest (or smallest) element of a type without infinities.
std::uint64_t extreme_bits(DType dtype, bool largest) {
  const int width = byte_size(dtype) * 8;
  const std::uint64_t all = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  if (dtype == DType::pred) return largest ? 1 : 0;
  if (is_unsigned_integer(dtype)) return largest ? all : 0;
  const std::uint64_t smallest = std::uint64_t{1} << (width - 1);
  return largest ? all & ~smallest : smallest;
}

}  // namespace

std::uint64_t identity_bits(ReduceKind kind, DType dtype) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::bit_or:
    case ReduceKind::bit_xor:
    case ReduceKind::replace: return 0;
    case ReduceKind::product: return bits_of(dtype, 1);
    case ReduceKind::bit_and: return dtype == DType::pred ? 1 : ~std::uint64_t{0} >> (64 - 8 * byte_size(dtype));
    case ReduceKind::max:
      if (dtype == DType::f8e4m3) return bits_of(dtype, -448);
      return is_floating(dtype) ? bits_of(dtype, -infinity) : extreme_bits(dtype, false);
    case ReduceKind::min:
      if (dtype == DType::f8e4m3) return bits_of(dtype, 448);
      return is_floating(dtype) ? bits_of(dtype, infinity) : extreme_bits(dtype, true);
  }
  return 0;
}

Op combining_op(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::sum: return Op::add;
    case ReduceKind::product: return Op::multiply;
    case ReduceKind::max: return Op::maximum;
    case ReduceKind::min: return Op::minimum;
    case ReduceKind::bit_and: return Op::bit_and;
    case ReduceKind::bit_or: return Op::bit_or;
    case ReduceKind::bit_xor: return Op::bit_xor;
    case ReduceKind::replace: return Op::select;
  }
  return Op::add;
}

}  // namespace stitch::graph
