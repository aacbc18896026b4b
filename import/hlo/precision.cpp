#include <array>

#include "graph/literal.h"
#include "import/hlo/attribute.h"
#include "import/hlo/rules.h"

namespace stitch::import::hlo {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::Value;

/// Bits of a floating type's exponent; 0 for other types.
int exponent_bits(DType dtype) {
  if (!graph::is_floating(dtype)) return 0;
  return graph::byte_size(dtype) * 8 - 1 - graph::info(dtype).mantissa_bits;
}

/// Rounding to fewer bits of exponent and mantissa, on the bit pattern as XLA does it: conversions to a narrower type
/// and back would not do, because the IR lets kernels keep excess precision.
class PrecisionReducer {
 public:
  PrecisionReducer(Builder& builder, Value x)
      : builder_(builder),
        type_(builder.type(x)),
        bits_(unsigned_of_size(graph::byte_size(type_.dtype))),
        mantissa_(graph::info(type_.dtype).mantissa_bits),
        exponent_(exponent_bits(type_.dtype)),
        word_(builder.bitcast(x, bits_)) {}

  /// To nearest, ties to even: adding just less than half of the last kept bit, plus that bit.
  void round_mantissa(int kept) {
    const int dropped = mantissa_ - kept;
    // One by one: compilers evaluate arguments in orders of their own, and equal models shall give equal graphs.
    const Value one = all(1);
    const Value last = builder_.binary(Op::bit_and, shifted_right(word_, dropped), one);
    const Value bias = builder_.binary(Op::add, last, all((std::uint64_t{1} << (dropped - 1)) - 1));
    const Value mask = all(~((std::uint64_t{1} << dropped) - 1));
    word_ = builder_.binary(Op::bit_and, builder_.binary(Op::add, word_, bias), mask);
  }

  /// Beyond the largest exponent lies infinity, below the smallest zero.
  void limit_exponent(int kept) {
    const std::uint64_t bias = (std::uint64_t{1} << (exponent_ - 1)) - 1;
    const std::uint64_t kept_bias = (std::uint64_t{1} << (kept - 1)) - 1;
    const std::uint64_t mask = ((std::uint64_t{1} << exponent_) - 1) << mantissa_;
    const Value exponent = builder_.binary(Op::bit_and, word_, all(mask));
    const Value over = builder_.compare(graph::Comparison::gt, exponent, all((bias + kept_bias) << mantissa_));
    const Value under = builder_.compare(graph::Comparison::le, exponent, all((bias - kept_bias) << mantissa_));
    const Value zero = builder_.binary(Op::bit_and, word_, all(std::uint64_t{1} << (exponent_ + mantissa_)));
    const Value infinity = builder_.binary(Op::bit_or, zero, all(mask));
    word_ = builder_.select(under, zero, builder_.select(over, infinity, word_));
  }

  Value result(Value x) {
    const Value reduced = builder_.bitcast(word_, type_.dtype);
    return builder_.select(builder_.unary(Op::is_nan, x), x, reduced);
  }

 private:
  static DType unsigned_of_size(int bytes) {
    return bytes == 1 ? DType::u8 : bytes == 2 ? DType::u16 : bytes == 4 ? DType::u32 : DType::u64;
  }
  Value all(std::uint64_t word) {
    const std::array<std::int64_t, 1> one = {static_cast<std::int64_t>(word)};
    const Value scalar = builder_.constant(graph::dense_integers({bits_, {}}, one));
    return type_.dims.empty() ? scalar : builder_.broadcast(scalar, type_.dims, {});
  }
  Value shifted_right(Value x, int by) { return builder_.binary(Op::shift_right_logical, x, all(by)); }

  Builder& builder_;
  graph::TensorType type_;
  DType bits_;
  int mantissa_, exponent_;
  Value word_;
};

}  // namespace

Result<Values> lower_reduce_precision(const Site& site) {
  STITCH_ASSIGN(const std::int64_t exponent, integer_attribute(site.instruction, "exponent_bits"));
  STITCH_ASSIGN(const std::int64_t mantissa, integer_attribute(site.instruction, "mantissa_bits"));
  const Value x = site.operand(0);
  const DType dtype = site.builder.dtype(x);
  const std::int64_t own_mantissa = graph::info(dtype).mantissa_bits, own_exponent = exponent_bits(dtype);
  if (own_exponent == 0 || exponent < 1 || mantissa < 0) return site.error("there is no such precision");
  if (exponent >= own_exponent && mantissa >= own_mantissa) return Values{x};
  PrecisionReducer reducer(site.builder, x);
  if (mantissa < own_mantissa) reducer.round_mantissa(mantissa);
  if (exponent < own_exponent) reducer.limit_exponent(exponent);
  return Values{reducer.result(x)};
}

}  // namespace stitch::import::hlo
