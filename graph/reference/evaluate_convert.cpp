#include <bit>
#include <limits>
#include <type_traits>

#include "graph/literal.h"
#include "graph/reference/evaluate_chunk.h"
#include "graph/reference/evaluate_functions.h"

// Element-wise operators between dtype classes: convert, bitcast-convert, compare, classification, select.

namespace stitch::graph::reference {
namespace {

/// An integer element as a double; u64 from its two's complement bits.
double as_double(DType dtype, std::int64_t value) {
  return dtype == DType::u64 ? static_cast<double>(static_cast<std::uint64_t>(value)) : static_cast<double>(value);
}

/// Truncates and saturates into the range of T; NaN gives 0.
template <class T>
std::int64_t saturate(double x) {
  const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (std::isnan(x)) return 0;
  if (x >= above) return std::numeric_limits<T>::max();
  if (x <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  return static_cast<T>(x);
}

/// Half a step of the result's dtype where the conversion narrows; `corners`: what may overflow.
void float_to_float(const Chunk& c) {
  std::copy_n(c.in[0].floats, c.count, c.floats);
  if (c.bounds == nullptr) return;
  // What is not exact may have been kept in the accumulator's type.
  const bool narrows = info(info(c.operand_dtype).accumulator).mantissa_bits > info(c.dtype).mantissa_bits ||
                       largest_finite(c.operand_dtype) > largest_finite(c.dtype);
  const Rounding& r = *c.rounding;
  // From f64 the accumulator changes, which rounds too.
  const double ulps = info(c.operand_dtype).accumulator != info(c.dtype).accumulator ? 0.5 : 0;
  for (std::size_t i = 0; i < c.count; ++i) {
    const double x = c.in[0].floats[i], e = c.in[0].bounds[i], magnitude = std::fabs(x) + e;
    if (e < 0) {
      c.bounds[i] = bound_of_overflow(-e, r.error(-e, 0.5), c.may_be_one_sided);
      continue;
    }
    const bool rounded = narrows && !(e == 0 && r.representable(x));
    double bound = e + (rounded ? r.error(magnitude, ulps) : 0);
    if (!(std::fabs(x) + bound < r.largest)) {
      const double corners[] = {x, x - e, x + e};
      Settled s = e == unchecked ? Settled{x, unchecked} : settle(r, x, bound, corners, 3);
      if (e != unchecked && s.bound == unchecked) s.bound = bound_of_overflow(s.value, bound, c.may_be_one_sided);
      c.floats[i] = s.value;
      bound = s.bound;
    }
    c.bounds[i] = bound;
  }
}

template <class T>
void float_to_integer(const Chunk& c) {
  const double *x = c.in[0].floats, *e = c.in[0].bounds;
  for (std::size_t i = 0; i < c.count; ++i) c.integers[i] = saturate<T>(x[i]);
  if (c.bounds == nullptr) return;
  for (std::size_t i = 0; i < c.count; ++i) {
    if (e[i] <= 0 || e[i] == unchecked) {
      c.bounds[i] = e[i] < 0 ? unchecked : e[i];
      continue;
    }
    const auto value = [&](double v) { return as_double(c.dtype, saturate<T>(v)); };
    c.bounds[i] = std::max(value(x[i] + e[i]) - value(x[i]), value(x[i]) - value(x[i] - e[i]));
  }
}

void float_to_pred(const Chunk& c) {
  const double *x = c.in[0].floats, *e = c.in[0].bounds;
  for (std::size_t i = 0; i < c.count; ++i) c.integers[i] = x[i] != 0;
  if (c.bounds == nullptr) return;
  for (std::size_t i = 0; i < c.count; ++i) c.bounds[i] = e[i] > 0 && !(std::fabs(x[i]) > e[i]) ? 1 : 0;
}

void integer_to_float(const Chunk& c) {
  const std::int64_t* x = c.in[0].integers;
  for (std::size_t i = 0; i < c.count; ++i) c.floats[i] = as_double(c.operand_dtype, x[i]);
  if (c.bounds == nullptr) return;
  const Rounding& r = *c.rounding;
  for (std::size_t i = 0; i < c.count; ++i) {
    const double y = c.floats[i], e = c.in[0].bounds[i], magnitude = std::fabs(y) + e;
    const double bound =
        e + (magnitude <= r.exact_integers || (e == 0 && r.representable(y)) ? 0 : r.error(magnitude, 0.5));
    c.bounds[i] = std::fabs(y) + bound < r.largest ? bound : unchecked;
  }
}

template <class T>
void integer_to_integer(const Chunk& c) {
  const std::int64_t* x = c.in[0].integers;
  for (std::size_t i = 0; i < c.count; ++i) c.integers[i] = static_cast<T>(x[i]);
  if (c.bounds == nullptr) return;
  // A value that may wrap around may be anything; one that keeps its value keeps its bound.
  for (std::size_t i = 0; i < c.count; ++i) {
    const double e = c.in[0].bounds[i], value = as_double(c.operand_dtype, x[i]);
    const double most = std::ldexp(1.0, std::numeric_limits<T>::digits) - 1;
    const double least = std::numeric_limits<T>::is_signed ? -most - 1 : 0;
    c.bounds[i] = e > 0 && (value + e > most || value - e < least) ? unchecked : e;
  }
}

void integer_to_pred(const Chunk& c) {
  const std::int64_t* x = c.in[0].integers;
  for (std::size_t i = 0; i < c.count; ++i) c.integers[i] = x[i] != 0;
  if (c.bounds == nullptr) return;
  for (std::size_t i = 0; i < c.count; ++i) {
    const double e = c.in[0].bounds[i];
    c.bounds[i] = e > 0 && !(std::fabs(as_double(c.operand_dtype, x[i])) > e) ? 1 : 0;
  }
}

Kernel to_integer_kernel(bool from_float, DType dtype) {
  switch (dtype) {
    case DType::pred: return from_float ? float_to_pred : integer_to_pred;
    case DType::s8: return from_float ? float_to_integer<std::int8_t> : integer_to_integer<std::int8_t>;
    case DType::u8: return from_float ? float_to_integer<std::uint8_t> : integer_to_integer<std::uint8_t>;
    case DType::s16: return from_float ? float_to_integer<std::int16_t> : integer_to_integer<std::int16_t>;
    case DType::u16: return from_float ? float_to_integer<std::uint16_t> : integer_to_integer<std::uint16_t>;
    case DType::s32: return from_float ? float_to_integer<std::int32_t> : integer_to_integer<std::int32_t>;
    case DType::u32: return from_float ? float_to_integer<std::uint32_t> : integer_to_integer<std::uint32_t>;
    case DType::s64: return from_float ? float_to_integer<std::int64_t> : integer_to_integer<std::int64_t>;
    case DType::u64: return from_float ? float_to_integer<std::uint64_t> : integer_to_integer<std::uint64_t>;
    default: return nullptr;
  }
}

/// Through memory. What is not exact has bits that cannot be told, and so has a NaN, of which there are many, and a
/// zero, whose sign no operator promises: a sum of zeros has either, and so has the larger, smaller or clamped one of
/// two.
void bitcast(const Chunk& c) {
  const bool from_float = is_floating(c.operand_dtype), to_float = is_floating(c.dtype);
  for (std::size_t i = 0; i < c.count; ++i) {
    std::byte memory[8];
    if (from_float) {
      store_element(c.operand_dtype, c.in[0].floats[i], memory);
    } else {
      store_integer(c.operand_dtype, c.in[0].integers[i], memory);
    }
    if (to_float) {
      c.floats[i] = load_element(c.dtype, memory);
    } else {
      c.integers[i] = load_integer(c.dtype, memory);
    }
    const bool has_others = from_float && (std::isnan(c.in[0].floats[i]) || c.in[0].floats[i] == 0);
    if (c.bounds != nullptr) c.bounds[i] = has_others || c.in[0].bounds[i] != 0 ? unchecked : 0;
  }
}

/// One loop per direction, so that the comparison is not decided per element.
template <class T, class Load>
void compare_elements(const Chunk& c, Load load) {
  const Comparison direction = c.node->as<CompareAttributes>().direction;
  const auto loop = [&](auto holds_for) {
    for (std::size_t i = 0; i < c.count; ++i) c.integers[i] = holds_for(load(0, i), load(1, i));
  };
  switch (direction) {
    case Comparison::eq: loop([](T x, T y) { return x == y; }); break;
    case Comparison::ne: loop([](T x, T y) { return x != y; }); break;
    case Comparison::lt: loop([](T x, T y) { return x < y; }); break;
    case Comparison::le: loop([](T x, T y) { return x <= y; }); break;
    case Comparison::gt: loop([](T x, T y) { return x > y; }); break;
    case Comparison::ge: loop([](T x, T y) { return x >= y; }); break;
  }
  if (c.bounds == nullptr) return;
  for (std::size_t i = 0; i < c.count; ++i) {
    if (c.in[0].bounds[i] < 0 || c.in[1].bounds[i] < 0) {
      c.bounds[i] = 1;
      continue;
    }
    const double reach = c.in[0].bounds[i] + c.in[1].bounds[i];
    // Equal infinities differ by NaN, which is "not apart": exact operands are certain all the same.
    const double apart = std::fabs(static_cast<double>(load(0, i)) - static_cast<double>(load(1, i)));
    c.bounds[i] = reach == 0 || apart > reach || (std::isnan(apart) && reach < unchecked) ? 0 : 1;
  }
}

void compare(const Chunk& c) {
  if (is_floating(c.operand_dtype)) {
    compare_elements<double>(c, [&](int k, std::size_t i) { return c.in[k].floats[i]; });
  } else if (c.operand_dtype == DType::u64) {
    compare_elements<std::uint64_t>(
        c, [&](int k, std::size_t i) { return static_cast<std::uint64_t>(c.in[k].integers[i]); });
  } else {
    compare_elements<std::int64_t>(c, [&](int k, std::size_t i) { return c.in[k].integers[i]; });
  }
}

/// is_finite, is_nan, is_inf. A finite bound says that the kernel's value is of the same class.
void classify(const Chunk& c) {
  for (std::size_t i = 0; i < c.count; ++i) {
    const double x = c.in[0].floats[i];
    c.integers[i] = c.node->op == Op::is_nan   ? std::isnan(x)
                    : c.node->op == Op::is_inf ? std::isinf(x)
                                               : std::isfinite(x);
    if (c.bounds == nullptr) continue;
    const double e = c.in[0].bounds[i];
    c.bounds[i] = e == unchecked || (e < 0 && c.node->op != Op::is_nan) ? 1 : 0;
  }
}

template <class T>
void select_elements(const Chunk& c, const T* yes, const T* no, T* to) {
  const std::int64_t* condition = c.in[0].integers;
  for (std::size_t i = 0; i < c.count; ++i) to[i] = condition[i] != 0 ? yes[i] : no[i];
  if (c.bounds == nullptr) return;
  for (std::size_t i = 0; i < c.count; ++i) {
    const double e = c.in[condition[i] != 0 ? 1 : 2].bounds[i];
    if (c.in[0].bounds[i] == 0) {
      c.bounds[i] = e < 0 && !c.may_be_one_sided ? unchecked : e;
      continue;
    }
    const double other = c.in[condition[i] != 0 ? 2 : 1].bounds[i];
    if (e < 0 || other < 0) {
      c.bounds[i] = unchecked;
      continue;
    }
    double apart = std::fabs(static_cast<double>(yes[i]) - static_cast<double>(no[i]));
    if constexpr (std::is_same_v<T, double>) apart *= 1 + 0x1p-51;  // the difference was rounded
    const bool same = yes[i] == no[i] || (yes[i] != yes[i] && no[i] != no[i]);
    c.bounds[i] = std::max(e, same ? other : std::isfinite(apart) ? apart + other : unchecked);
  }
}

void select(const Chunk& c) {
  if (is_floating(c.dtype)) {
    select_elements(c, c.in[1].floats, c.in[2].floats, c.floats);
  } else {
    select_elements(c, c.in[1].integers, c.in[2].integers, c.integers);
  }
}

}  // namespace

Kernel mixed_kernel(Op op, DType operand_dtype, DType result_dtype) {
  const bool from_float = is_floating(operand_dtype);
  switch (op) {
    case Op::convert:
      if (is_floating(result_dtype)) return from_float ? float_to_float : integer_to_float;
      return to_integer_kernel(from_float, result_dtype);
    case Op::bitcast_convert: return bitcast;
    case Op::compare: return compare;
    case Op::is_finite:
    case Op::is_nan:
    case Op::is_inf: return classify;
    case Op::select: return select;
    default: return nullptr;
  }
}

Kernel find_kernel(const Node& node, DType operand_dtype) {
  if (const Kernel kernel = mixed_kernel(node.op, operand_dtype, node.type().dtype)) return kernel;
  return is_floating(operand_dtype) ? float_kernel(node.op) : integer_kernel(node.op, operand_dtype);
}

bool is_exact_on_exact(const Node& node, DType operand_dtype) {
  if (node.op == Op::convert && is_floating(node.type().dtype)) {
    // Widening floats; integers whose every value the dtype holds.
    const DTypeInfo &from = info(operand_dtype), &to = info(node.type().dtype);
    if (from.kind == DTypeClass::floating) {
      return from.mantissa_bits <= to.mantissa_bits && largest_finite(operand_dtype) <= largest_finite(to.dtype);
    }
    return from.bytes * 8 <= to.mantissa_bits + 1 && largest_finite(to.dtype) > std::ldexp(1.0, from.bytes * 8);
  }
  if (node.op == Op::bitcast_convert)
    return !is_floating(operand_dtype);  // of the bits that a NaN may have, see bitcast
  if (!is_floating(operand_dtype) || !is_floating(node.type().dtype)) return true;
  return element_error(node.op).ulps == 0;
}

bool is_nonnegative(const Node& node, DType operand_dtype, const ChunkOperand* operands) {
  switch (node.op) {
    case Op::multiply:
      if (node.operands[0] == node.operands[1]) return is_floating(node.type().dtype);
      [[fallthrough]];
    case Op::add:
    case Op::divide:
    case Op::minimum: return operands[0].nonnegative && operands[1].nonnegative;
    case Op::maximum: return operands[0].nonnegative || operands[1].nonnegative;
    case Op::convert:
      return operands[0].nonnegative || is_unsigned_integer(operand_dtype) || operand_dtype == DType::pred;
    case Op::select: return operands[1].nonnegative && operands[2].nonnegative;
    case Op::clamp: return operands[0].nonnegative && operands[2].nonnegative;
    default: break;
  }
  switch (info(node.op).sign) {
    case ResultSign::any: return false;
    case ResultSign::of_operand: return operands[0].nonnegative;
    case ResultSign::nonnegative: return is_floating(node.type().dtype);
  }
  return false;
}

void doubt_infinities(const double* values, double* bounds, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isinf(values[i])) bounds[i] = unchecked;
  }
}

void round_values(DType dtype, double* values, double* bounds, std::size_t count) {
  if (dtype == DType::f64) return;
  const int dropped = 52 - info(dtype).mantissa_bits;
  const std::uint64_t half = (std::uint64_t{1} << (dropped - 1)) - 1, mask = ~((std::uint64_t{1} << dropped) - 1);
  const double lowest = smallest_normal(dtype), highest = largest_finite(dtype);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = values[i], magnitude = std::fabs(value);
    if (magnitude >= lowest && magnitude < highest) {
      // To nearest even on the bits of the mantissa; a carry into the exponent is the next binade, as it should be.
      const auto bits = std::bit_cast<std::uint64_t>(value);
      values[i] = std::bit_cast<double>((bits + half + ((bits >> dropped) & 1)) & mask);
    } else if (magnitude != 0) {
      values[i] = round_to(dtype, value);
    }
    if (bounds != nullptr && values[i] != value && std::isfinite(value)) bounds[i] += std::fabs(values[i] - value);
  }
}

}  // namespace stitch::graph::reference
