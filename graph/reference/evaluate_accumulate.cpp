#include "graph/reference/evaluate_accumulate.h"

#include <cstring>

#include "graph/literal.h"
#include "graph/reduce_kind.h"

namespace stitch::graph::reference {

Accumulation::Accumulation(DType type, const ErrorModel& error_model) : dtype(type), model(error_model) {
  if (is_floating(type)) rounding = Rounding(type, error_model);
}

Accumulated<double> finish_sum(double value, const SumTotals& t, const Accumulation& a) {
  const Rounding& r = a.rounding;
  if (t.error == unchecked) return {value, unchecked};
  // An infinite or NaN element: so is the sum, in any order. Opposite infinities may be products that overflowed, which
  // a contracted addition does not round; so may one that finite elements bring back into the range.
  if (t.special) {
    const bool opposite = std::isnan(value) || t.magnitude + t.error >= r.least_return();
    return {value, opposite && !t.nan ? unchecked : 0};
  }
  const double accumulator_integers = 1 / unit_roundoff(info(a.dtype).accumulator);
  const bool in_type = std::fabs(value) <= r.largest;  // or else infinite where it is stored, and only there
  const bool fits = in_type && (std::fabs(value) <= r.exact_integers || r.representable(value));
  if (t.count <= 1 || (t.error == 0 && t.integers && t.magnitude <= accumulator_integers && fits && !a.rounds_each)) {
    return {value, t.error};
  }
  const double reach = t.magnitude + t.error;
  if (reach == 0) return {value, 0};
  double bound = t.error + sum_depth(t.count, a.model) * 0.5 * r.ulp * reach + r.floor;
  bound += a.rounds_each ? t.count * (r.narrow * reach + r.floor) : r.narrow * (std::fabs(value) + bound);
  // No partial sum leaves the range of what it is kept in.
  const double margin = r.margin();
  if (reach + bound < (a.rounds_each ? r.largest : r.overflow) * (1 - margin)) {
    return {value, std::fabs(value) + bound < r.largest ? bound : unchecked};
  }
  const bool one_sign = std::fabs(value) >= t.magnitude * (1 - margin);
  if (one_sign && std::fabs(value) - bound > r.overflow * (1 + margin)) return {std::copysign(unchecked, value), 0};
  return {value, unchecked};
}

Accumulated<double> finish_product(double value, const ProductTotals& t, const Accumulation& a) {
  const Rounding& r = a.rounding;
  if (t.unchecked) return {value, unchecked};
  if (t.count <= 1) return {value, std::isfinite(value) ? t.reach - std::fabs(value) : 0};
  if (!std::isfinite(value)) {
    // A factor that is NaN makes NaN, and an infinite one times zero does; an infinite factor among exact ones stays,
    // unless the others may underflow to zero first. Where no factor is infinite or NaN the product overflowed (in
    // f64: this computes in nothing wider), and another order may not.
    const bool certain = std::isnan(value) ? t.nan || (t.infinite && t.zero) : t.infinite && t.below >= r.normal;
    return {value, t.exact && certain ? 0 : unchecked};
  }
  // Otherwise partial products may leave the accumulator's range in some orders and not in others.
  // What is far below the smallest normal number comes out as next to nothing in all of them.
  const bool vanishes = t.log2 < std::log2(r.normal) - 1;
  const bool in_range = t.above < r.overflow * 0.999 && (t.zero || t.below > r.normal || vanishes);
  if (!in_range) return {value, unchecked};
  const double steps = t.count - 1;
  double bound = (t.reach - std::fabs(value)) + steps * 0.5 * r.ulp * t.reach + r.narrow * t.reach;
  if (a.rounds_each) bound += steps * r.narrow * t.reach;
  // Each partial product may lose what is too small, whether or not the reach is lost in this order.
  if (t.log2 > -unchecked) bound += steps * r.floor * t.above;
  return {value, std::fabs(value) + bound < r.largest ? bound : unchecked};
}

namespace {

void identity_bytes(ReduceKind kind, DType dtype, std::byte (&memory)[8]) {
  const std::uint64_t bits = identity_bits(kind, dtype);
  std::memcpy(memory, &bits, sizeof bits);
}

}  // namespace

double float_identity(ReduceKind kind, DType dtype) {
  std::byte memory[8];
  identity_bytes(kind, dtype, memory);
  return load_element(dtype, memory);
}

std::int64_t integer_identity(ReduceKind kind, DType dtype) {
  std::byte memory[8];
  identity_bytes(kind, dtype, memory);
  return load_integer(dtype, memory);
}

std::int64_t wrap_integer(DType dtype, std::int64_t value) {
  std::byte memory[8] = {};
  store_integer(dtype, value, memory);
  return load_integer(dtype, memory);
}

bool may_wrap(DType dtype, std::int64_t value, double bound) {
  if (!is_integer(dtype)) return false;
  const bool negative = is_signed_integer(dtype);
  const double most = std::ldexp(1.0, 8 * byte_size(dtype) - (negative ? 1 : 0)) - 1, least = negative ? -most - 1 : 0;
  const double at = negative ? static_cast<double>(value) : static_cast<double>(static_cast<std::uint64_t>(value));
  return at + bound > most || at - bound < least;
}

}  // namespace stitch::graph::reference
