#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "graph/dtype.h"

namespace stitch::graph {

/// The primitive operators (docs/ir.md describes each). Formats use the names of the table, never these numbers.
enum class Op : std::uint8_t {
  // sources
  parameter,
  constant,
  iota,
  // element-wise, one operand
  negate,
  abs,
  sign,
  floor,
  ceil,
  round_even,
  round_away,
  exp,
  expm1,
  log,
  log1p,
  sqrt,
  rsqrt,
  cbrt,
  logistic,
  erf,
  erfc,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  is_finite,
  is_nan,
  is_inf,
  bit_not,
  popcount,
  convert,
  bitcast_convert,
  // element-wise, two operands
  add,
  subtract,
  multiply,
  divide,
  remainder,
  power,
  maximum,
  minimum,
  atan2,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right_logical,
  shift_right_arithmetic,
  compare,
  // element-wise, more operands
  select,
  clamp,
  threefry2x32,
  // layout: where elements go
  broadcast,
  reshape,
  transpose,
  slice,
  dynamic_slice,
  dynamic_update_slice,
  concatenate,
  pad,
  reverse,
  gather,
  scatter,
  // reductions
  reduce,
  arg_reduce,
  reduce_window,
  select_and_scatter,
  scan,
  // contractions and boundaries
  dot,
  convolution,
  opaque,
  // control flow; the bodies are regions of the node
  loop,
  conditional,
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

/// One row of the operator table.
struct OpInfo {
  Op op;
  std::string_view name;
  OpCategory category;
  OpCost cost;
  int min_operands;
  int max_operands;  ///< -1: any number
  bool commutative;
  OpDomain domain;
};

std::span<const OpInfo> op_table();
const OpInfo& info(Op op);
inline std::string_view to_string(Op op) { return info(op).name; }
std::optional<Op> op_from_name(std::string_view name);

inline bool is_elementwise(Op op) { return info(op).category == OpCategory::elementwise; }

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
