#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "graph/dtype.h"

// The operators as data. graph/op_table.inl has a row for each; this header gives the enumeration made of it and what a
// row holds. info(Op::erf) is
//
//     {erf, "erf", elementwise, expensive, 1 operand, floating, 22 or 80 instructions, 4 ulps, "erf{f}({x})", -1 … 1}
//
// Type inference reads operands and domain, the evaluator error and sign, passes the range, codegen/ the spelling,
// costmodel/ the instructions, importers and codecs the name. What an operator computes is no data: its float64
// function stands in graph/reference/, its attributes in graph/attributes.h.

namespace stitch::graph {

/// The primitive operators (docs/ir.md describes each), as graph/op_table.inl lists them. Formats use the names of the
/// table, never these numbers.
enum class Op : std::uint8_t {
#define STITCH_OP(op, ...) op,
#include "graph/op_table.inl"
#undef STITCH_OP
};

/// What an operator does to the index space; decides how it may be stitched.
enum class OpCategory : std::uint8_t {
  source,       ///< no operands
  elementwise,  ///< all operands have the result's shape
  layout,       ///< moves, repeats or selects elements
  reduction,    ///< combines several elements into one
  contraction,  ///< compute-intensive: a fragment boundary
  boundary,     ///< opaque
  control,      ///< has regions
};

/// What computing one result element costs (FusionStitching §3.1's classes).
enum class OpCost : std::uint8_t { free, light, expensive };

/// Which element types an element-wise operator takes.
enum class OpDomain : std::uint8_t { any, number, floating, integer, bits };

/// How far a kernel's result may be from the float64 reference when the operands are exact, in ulps of the accumulator
/// dtype (1 ulp ≤ 2^-23 relative in f32): ulps + per_argument × amplification. Amplifications are those of
/// graph/reference/evaluate_error.cpp (for exp: |x|, because a kernel may compute exp2(x × log2 e)).
struct ElementError {
  double ulps = 0;
  double per_argument = 0;
};

/// Instructions per element of the code that NVRTC makes of a computation, for element types of up to 4 bytes and of 8.
struct InstructionCount {
  double narrow = 1, wide = 1;
};

struct RealInterval {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

/// When a floating result of an element-wise operator is known not to be negative, whatever errors its operands have.
enum class ResultSign : std::uint8_t {
  any,         ///< never, or a rule of its own in graph/reference/evaluate_convert.cpp
  of_operand,  ///< where operand 0 is not negative
  nonnegative,
};

/// One row of the operator table: everything about an operator that is data.
struct OpInfo {
  Op op;
  std::string_view name;
  OpCategory category;
  OpCost cost;
  int min_operands;
  int max_operands;  ///< -1: any number
  bool commutative = false;
  OpDomain domain = OpDomain::any;
  InstructionCount instructions = {};
  ElementError error = {};
  /// The CUDA expression, where one text does for all element types: {x}, {y}, {z} stand for the operands, {f} for "f"
  /// or nothing as CUDA names functions of f32 and of f64, {type} for the element type in memory. Empty: a rule of
  /// codegen/spelling.cpp.
  std::string_view spelling = {};
  /// Of one floating operand: outside of it the result is NaN.
  RealInterval defined = {};
  /// Of one floating operand: where results lie that are not NaN; nothing: not known, or a rule of
  /// graph/passes/range_analysis.cpp.
  std::optional<RealInterval> range = {};
  ResultSign sign = ResultSign::any;
};

std::span<const OpInfo> op_table();
const OpInfo& info(Op op);
inline std::string_view to_string(Op op) { return info(op).name; }
std::optional<Op> op_from_name(std::string_view name);

/// Whether an element-wise operator with this domain takes operands of this type.
bool takes(OpDomain domain, DType dtype);

inline bool is_elementwise(Op op) { return info(op).category == OpCategory::elementwise; }
/// Whether it is a product of matrices or a convolution.
inline bool is_contraction(Op op) { return info(op).category == OpCategory::contraction; }
/// Element-wise, with as many results as a block has words: all others have one.
inline bool makes_random_bits(Op op) { return op == Op::threefry2x32 || op == Op::philox4x32; }

/// Whether the operator, with this result, rounds numbers to integers, in whatever direction: a convert truncates.
inline bool rounds_to_integer(Op op, DType result) {
  return op == Op::round_even || op == Op::round_away || op == Op::floor || op == Op::ceil ||
         (op == Op::convert && is_integer(result));
}

/// How elements are combined by reduce, scan, reduce_window and scatter.
enum class ReduceKind : std::uint8_t { sum, product, max, min, bit_and, bit_or, bit_xor, replace };

std::string_view to_string(ReduceKind kind);
std::optional<ReduceKind> reduce_kind_from_name(std::string_view name);

enum class Comparison : std::uint8_t { eq, ne, lt, le, gt, ge };

std::string_view to_string(Comparison comparison);
std::optional<Comparison> comparison_from_name(std::string_view name);

}  // namespace stitch::graph
