#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "graph/graph.h"
#include "graph/reference/evaluate_error.h"

namespace stitch::graph::reference {

// Element-wise operators run on chunks: short arrays that stay in the first-level cache, one kernel call per operator
// and chunk.

inline constexpr std::size_t chunk_size = 1024;

/// The error model's constants for results of one floating dtype.
struct Rounding {
  Rounding() = default;
  Rounding(DType dtype, const ErrorModel& model);

  DType dtype = DType::f32;
  double ulp = 0;             ///< 2u of the accumulator; twice that for f64, because the reference rounds as well
  double narrow = 0;          ///< u of a dtype below its accumulator (a kernel may round to it), else 0
  double floor = 0;           ///< absolute error near zero: half the smallest subnormals
  double largest = 0;         ///< finite value of the dtype
  double overflow = 0;        ///< finite value of the accumulator: what is certainly above is infinite
  double normal = 0;          ///< smallest normal number of the dtype
  double split = 0;           ///< multiplier of Veltkamp's splitting (Dekker 1971) for the dtype's precision; 0: f64
  double exact_integers = 0;  ///< all integers up to here are representable

  /// Relative: what is this close to the largest number may fall on either side of it by an operator's own error.
  [[nodiscard]] double margin() const { return 512 * ulp; }
  /// A contracted a·b + c does not round its product. Where that is certainly beyond the accumulator's range, an
  /// addend of the other sign and this magnitude may bring it back (how far beyond an infinity was is not kept).
  [[nodiscard]] double least_return() const { return 0.5 * margin() * overflow; }
  /// Error of a result of magnitude up to `magnitude` from an operator of that many ulps.
  [[nodiscard]] double error(double magnitude, double ulps) const {
    return magnitude > 0 ? (ulps * ulp + narrow) * magnitude + floor : 0;
  }
  /// Whether the dtype holds `value`, a result of rounding to double; for f64, whether it is certain that nothing was
  /// rounded.
  [[nodiscard]] bool representable(double value) const {
    const double magnitude = std::fabs(value);
    if (split == 0) return magnitude <= exact_integers && std::nearbyint(value) == value;
    const double scaled = value * split;
    return scaled - (scaled - value) == value && (magnitude >= normal || magnitude == 0);
  }
};

/// One operand's elements. `bounds` is never null where a kernel computes bounds.
struct ChunkOperand {
  const double* floats = nullptr;
  const std::int64_t* integers = nullptr;
  const double* bounds = nullptr;
  bool nonnegative = false;
};

/// One operator application on `count` ≤ chunk_size elements.
struct Chunk {
  const Node* node = nullptr;
  DType operand_dtype = DType::f32;  ///< of the data operands
  DType dtype = DType::f32;          ///< of the result
  const Rounding* rounding = nullptr;
  ChunkOperand in[3];
  double* floats = nullptr;
  std::int64_t* integers = nullptr;
  double* bounds = nullptr;       ///< null: not wanted, or known to be zero
  bool may_be_one_sided = false;  ///< the bounds: evaluate_functions.h
  std::size_t count = 0;
};

using Kernel = void (*)(const Chunk&);

/// The kernel of an element-wise operator on operands of `operand_dtype`; null for operators it does not know. The
/// families: floats to floats, integers to integers, and everything between dtype classes.
Kernel float_kernel(Op op);
Kernel integer_kernel(Op op, DType dtype);
Kernel mixed_kernel(Op op, DType operand_dtype, DType result_dtype);
Kernel find_kernel(const Node& node, DType operand_dtype);

/// Whether a correct kernel gives exact results on exact operands (moves, comparisons, minima; not sums).
bool is_exact_on_exact(const Node& node, DType operand_dtype);

/// Whether the result is ≥ 0 in every correct kernel, given which operands are.
bool is_nonnegative(const Node& node, DType operand_dtype, const ChunkOperand* operands);

/// Rounds values to a floating dtype as round_to does; bounds, where given, grow by what that changes.
void round_values(DType dtype, double* values, double* bounds, std::size_t count);

/// An infinity among f8e4m3 values stands for what is certainly beyond the dtype's range: NaN in memory, but a kernel
/// may have kept it in the accumulator. What reads it is not checked.
void doubt_infinities(const double* values, double* bounds, std::size_t count);

/// Bound of v where the formulas do not hold (infinite or huge values): corner by corner. `value` may become infinite.
/// `formula` is what the formula gave, `corners` the operator's values at the ends of the operands' intervals.
struct Settled {
  double value, bound;
};
Settled settle(const Rounding& rounding, double value, double formula, const double* corners, std::size_t count);

}  // namespace stitch::graph::reference
