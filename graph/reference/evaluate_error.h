#pragma once

#include <cstdint>

#include "graph/dtype.h"
#include "graph/op.h"

namespace stitch::graph {

// The error model: how far a correct kernel may be from the float64 reference.
//
// A correct kernel computes every operator in the accumulator dtype of its type (f32 for types of at most 32 bits, f64
// for f64), each with the error of its row in graph/op_table.inl; adds in any order whose longest chain of dependent
// additions is `sum_depth`, products that are added to one another in one sum (added_products.h); may contract a*b+c;
// and may or may not round 16-bit and 8-bit values to their dtype after any operator. Every floating element carries an
// absolute bound on |kernel - reference|: errors of the operands times a bound on the operator's slope over [x - e, x +
// e], plus the operator's own error, plus half an ulp of a narrow dtype.
//
//  - A bound of 0 is exact: the kernel's value is the reference's, infinities and NaN included. Additions and
//    multiplications of exact operands whose result is representable are exact, and so are sums of exact integers.
//  - An infinite bound means "not checked": the reference's value says nothing. It comes from a quotient whose divisor
//    may be zero, a logarithm whose argument may be negative, a value that may or may not overflow, a sum of an
//    infinity and the other one, or what is large enough to bring it back (it may be a product that overflowed, which a
//    contraction does not round), and the like. It may be NaN, and so may what is computed from it.
//  - Before that, what may have overflowed is known to be far from zero and on which side (a mask of the lowest number
//    with a score added). It stays so when something smaller is added, a larger element of a maximum hides it, and its
//    exponential is zero: a masked softmax is checked wherever something is left of a row. As a result, and in all
//    else that is computed from it, it is not checked. evaluate_functions.h: one-sided bounds.
//  - Discontinuities are honest: a comparison of values closer than their bounds is uncertain (pred with bound 1), a
//    select on it covers both sides, floor and rounding cover the steps within reach, the index of an arg_reduce
//    covers all positions tied within the bounds.
//  - Values certainly beyond the accumulator's largest number are infinities; values within their bound of the largest
//    number of their dtype are not checked. f8e4m3 has no infinities: what is certainly beyond its range is NaN in a
//    result, and not checked in what is computed from it, because a kernel may have kept it in the accumulator.
//
// Sums of n terms: depth × u × Σ|x| with depth = min(n - 1, 2·⌈log2 n⌉ + serial_additions) and u the accumulator's unit
// roundoff (Higham, Accuracy and Stability of Numerical Algorithms, §4.2: the constant is the longest chain of
// additions that an element passes through). 2·log2 n covers the tree over lanes, warps and blocks, serial_additions
// what a thread adds one after the other. A kernel with longer serial chains needs a larger serial_additions.

/// What the model lets a kernel do.
struct ErrorModel {
  std::int64_t serial_additions = 32;
  bool flush_denormals = false;  ///< results below the smallest normal number may be flushed to zero
  /// Products of f8 whose sums have few bits, which are added to others in f32 (narrow_sums.h); 0: sums are f32.
  std::int64_t narrow_part = 0;
};

/// 0 for operators that move or select values and for integer operators; for sum-like operators the error of one
/// addition.
ElementError element_error(Op op);

/// Longest chain of additions allowed when `count` terms are summed.
std::int64_t sum_depth(std::int64_t count, const ErrorModel& model = {});

/// Half the distance from 1 to the next number: 2^-24 for f32.
double unit_roundoff(DType floating);
/// Largest finite value.
double largest_finite(DType floating);
/// Smallest positive value (subnormal) and smallest normal value.
double smallest_subnormal(DType floating);
double smallest_normal(DType floating);

/// Whether a kernel's `value` is right given the reference and its bound: not checked, or equal (NaN equals NaN,
/// infinities by sign), or within the bound.
bool accepts(double reference, double bound, double value);

}  // namespace stitch::graph
