#include <bit>
#include <limits>
#include <type_traits>

#include "graph/reference/evaluate_chunk.h"
#include "graph/reference/evaluate_functions.h"

// Element-wise operators from integers to integers: exact, modulo 2^bits. Elements are kept as std::int64_t, extended
// from their dtype T; u64 as its two's complement bits.

namespace stitch::graph::reference {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

/// Arithmetic in the unsigned type wraps without undefined behaviour; for types below int it is widened first.
template <class T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), std::uint32_t, Unsigned<T>>;

template <class T>
constexpr int width = sizeof(T) * 8;

template <class T>
constexpr T divide(T x, T y) {
  if (y == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>) {
    if (y == T{-1}) return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(x));
  }
  return static_cast<T>(x / y);
}

template <class T>
constexpr T remainder(T x, T y) {
  if (y == 0) return x;
  if constexpr (std::is_signed_v<T>) {
    if (y == T{-1}) return 0;
  }
  return static_cast<T>(x % y);
}

template <class T>
constexpr T power(T x, T y) {
  if constexpr (std::is_signed_v<T>) {
    if (y < 0) return x == 1 ? T{1} : x == T{-1} ? static_cast<T>(y % 2 == 0 ? 1 : -1) : T{0};
  }
  Wrapping<T> result = 1, square = static_cast<Wrapping<T>>(x);
  for (auto rest = static_cast<Unsigned<T>>(y); rest != 0; rest = static_cast<Unsigned<T>>(rest >> 1)) {
    if ((rest & 1) != 0) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}

template <class T>
constexpr T shift_left(T x, T y) {
  const auto by = static_cast<Unsigned<T>>(y);
  return by < width<T> ? static_cast<T>(static_cast<Wrapping<T>>(static_cast<Unsigned<T>>(x)) << by) : T{0};
}

template <class T>
constexpr T shift_right_logical(T x, T y) {
  const auto by = static_cast<Unsigned<T>>(y);
  return by < width<T> ? static_cast<T>(static_cast<Unsigned<T>>(x) >> by) : T{0};
}

template <class T>
constexpr T shift_right_arithmetic(T x, T y) {
  const auto by = std::min<std::uint64_t>(static_cast<Unsigned<T>>(y), width<T> - 1);
  return static_cast<T>(static_cast<std::make_signed_t<T>>(x) >> by);
}

/// Bounds only where some operand is uncertain: how far the result can be, infinite for operators that scramble bits.
double uncertain(Op op, const double* x, const double* e) {
  switch (op) {
    case Op::negate:
    case Op::abs: return e[0];
    case Op::add:
    case Op::subtract: return e[0] + e[1];
    case Op::multiply: return std::fabs(x[0]) * e[1] + (std::fabs(x[1]) + e[1]) * e[0];
    case Op::maximum:
    case Op::minimum: return std::max(e[0], e[1]);
    case Op::clamp: return std::max({e[0], e[1], e[2]});
    default: return unchecked;
  }
}

template <class T>
void bound_elements(const Chunk& c) {
  const int operands = c.node->operands.size();
  const double most = std::ldexp(1.0, std::numeric_limits<T>::digits) - 1;
  for (std::size_t i = 0; i < c.count; ++i) {
    double x[3] = {}, e[3] = {}, reach = 0;
    for (int k = 0; k < operands; ++k) {
      x[k] = static_cast<double>(static_cast<T>(c.in[k].integers[i]));
      e[k] = c.in[k].bounds[i];
      reach = std::max(reach, e[k]);
    }
    double bound = 0;
    if (reach > 0) bound = reach == unchecked ? unchecked : uncertain(c.node->op, x, e);
    // A value that may wrap around may be anything.
    const double value = static_cast<T>(c.integers[i]);
    const double least = std::is_signed_v<T> ? -most - 1 : 0;
    if (bound > 0 && (value + bound > most || value - bound < least)) bound = unchecked;
    c.bounds[i] = bound;
  }
}

template <class T, class F>
void unary(const Chunk& c, F f) {
  for (std::size_t i = 0; i < c.count; ++i) {
    c.integers[i] = static_cast<T>(f(static_cast<T>(c.in[0].integers[i])));
  }
}

template <class T, class F>
void binary(const Chunk& c, F f) {
  const std::int64_t *x = c.in[0].integers, *y = c.in[1].integers;
  for (std::size_t i = 0; i < c.count; ++i) {
    c.integers[i] = static_cast<T>(f(static_cast<T>(x[i]), static_cast<T>(y[i])));
  }
}

template <class T>
bool compute_unary(const Chunk& c) {
  using W = Wrapping<T>;
  switch (c.node->op) {
    case Op::negate: return unary<T>(c, [](T x) { return W{0} - static_cast<W>(x); }), true;
    case Op::abs: return unary<T>(c, [](T x) { return x < 0 ? W{0} - static_cast<W>(x) : static_cast<W>(x); }), true;
    case Op::sign: return unary<T>(c, [](T x) { return (x > 0) - (x < 0); }), true;
    case Op::bit_not: return unary<T>(c, [](T x) { return ~static_cast<W>(x); }), true;
    case Op::popcount: return unary<T>(c, [](T x) { return std::popcount(static_cast<Unsigned<T>>(x)); }), true;
    default: return false;
  }
}

template <class T>
bool compute_binary(const Chunk& c) {
  using W = Wrapping<T>;
  const auto wrap = [](T x) { return static_cast<W>(x); };
  switch (c.node->op) {
    case Op::add: return binary<T>(c, [=](T x, T y) { return wrap(x) + wrap(y); }), true;
    case Op::subtract: return binary<T>(c, [=](T x, T y) { return wrap(x) - wrap(y); }), true;
    case Op::multiply: return binary<T>(c, [=](T x, T y) { return wrap(x) * wrap(y); }), true;
    case Op::divide: return binary<T>(c, divide<T>), true;
    case Op::remainder: return binary<T>(c, remainder<T>), true;
    case Op::power: return binary<T>(c, power<T>), true;
    case Op::maximum: return binary<T>(c, [](T x, T y) { return x > y ? x : y; }), true;
    case Op::minimum: return binary<T>(c, [](T x, T y) { return x < y ? x : y; }), true;
    case Op::bit_and: return binary<T>(c, [](T x, T y) { return x & y; }), true;
    case Op::bit_or: return binary<T>(c, [](T x, T y) { return x | y; }), true;
    case Op::bit_xor: return binary<T>(c, [](T x, T y) { return x ^ y; }), true;
    case Op::shift_left: return binary<T>(c, shift_left<T>), true;
    case Op::shift_right_logical: return binary<T>(c, shift_right_logical<T>), true;
    case Op::shift_right_arithmetic: return binary<T>(c, shift_right_arithmetic<T>), true;
    default: return false;
  }
}

template <class T>
void compute(const Chunk& c) {
  if (c.node->op == Op::clamp) {
    for (std::size_t i = 0; i < c.count; ++i) {
      const T low = static_cast<T>(c.in[0].integers[i]), x = static_cast<T>(c.in[1].integers[i]);
      const T high = static_cast<T>(c.in[2].integers[i]), raised = x > low ? x : low;
      c.integers[i] = raised < high ? raised : high;
    }
  } else if (!compute_unary<T>(c)) {
    compute_binary<T>(c);
  }
  if (c.bounds != nullptr) bound_elements<T>(c);
}

/// pred: logic on 0 and 1.
void compute_pred(const Chunk& c) {
  const std::int64_t *x = c.in[0].integers, *y = c.in[1].integers;
  for (std::size_t i = 0; i < c.count; ++i) {
    switch (c.node->op) {
      case Op::bit_not: c.integers[i] = x[i] ^ 1; break;
      case Op::maximum:
      case Op::bit_or: c.integers[i] = x[i] | y[i]; break;
      case Op::minimum:
      case Op::bit_and: c.integers[i] = x[i] & y[i]; break;
      default: c.integers[i] = x[i] ^ y[i]; break;
    }
  }
  if (c.bounds == nullptr) return;
  const double* ex = c.in[0].bounds;
  const double* ey = c.in[1].bounds;
  const Op op = c.node->op;
  for (std::size_t i = 0; i < c.count; ++i) {
    if (op == Op::bit_not) {
      c.bounds[i] = ex[i];
      continue;
    }
    // A certain operand can decide alone: false and anything, true or anything.
    const std::int64_t decides = op == Op::bit_and || op == Op::minimum  ? 0
                                 : op == Op::bit_or || op == Op::maximum ? 1
                                                                         : -1;
    const bool decided = (ex[i] == 0 && x[i] == decides) || (ey[i] == 0 && y[i] == decides);
    c.bounds[i] = decided ? 0 : std::min(1.0, ex[i] + ey[i]);
  }
}

}  // namespace

Kernel integer_kernel(Op op, DType dtype) {
  const OpInfo& row = info(op);
  if (row.category != OpCategory::elementwise || row.domain == OpDomain::floating) return nullptr;
  switch (dtype) {
    case DType::pred: return compute_pred;
    case DType::s8: return compute<std::int8_t>;
    case DType::u8: return compute<std::uint8_t>;
    case DType::s16: return compute<std::int16_t>;
    case DType::u16: return compute<std::uint16_t>;
    case DType::s32: return compute<std::int32_t>;
    case DType::u32: return compute<std::uint32_t>;
    case DType::s64: return compute<std::int64_t>;
    case DType::u64: return compute<std::uint64_t>;
    default: return nullptr;
  }
}

}  // namespace stitch::graph::reference
