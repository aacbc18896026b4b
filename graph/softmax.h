#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph.h"

namespace stitch::graph {

/// A sum of exponentials relative to the maximum of their row, as every softmax, log-softmax and cross entropy has it:
///
///     m = max x,  s = Σ exp(x − m)   of the same x along the same dimensions
///
/// or, as libraries write it where a row may be all −∞, relative to 0 where m is not finite, or where it is −∞.
struct ExpSum {
  enum class Base : std::uint8_t { maximum, finite, not_empty };
  NodeId maximum = -1, exponential = -1;
  Value of;    ///< x
  Dims along;  ///< dimensions of x
  Base base = Base::maximum;
};

/// What the reduction `sum` sums, if it is such a sum.
std::optional<ExpSum> match_exp_sum(const Graph& graph, NodeId sum);

/// exp(x − m) ÷ s, times a constant.
struct Softmax {
  ExpSum sum;
  double scale = 1;  ///< what simplification put into the factor of a row
  /// Rows of −∞ alone give 0: their sum is taken for 1. Else they give NaN.
  bool empty_is_zero = false;
};
/// Whether `value` is one.
std::optional<Softmax> match_softmax(const Graph& graph, Value value);

}  // namespace stitch::graph
