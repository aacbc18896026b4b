#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/attributes.h"
#include "graph/reference/tensor.h"

namespace stitch::lab {

/// How the results of two implementations differ, element by element.
struct ResultComparison {
  std::int64_t elements = 0;
  std::int64_t equal = 0;      ///< the reference's value, rounded to the type
  std::int64_t within = 0;     ///< not that, but as near as the error model lets a kernel be
  std::int64_t unchecked = 0;  ///< the error model says nothing of it (graph/reference/evaluate_error.h)
  // What is neither:
  std::int64_t nan = 0;        ///< NaN on one side only
  std::int64_t infinite = 0;   ///< an infinity on one side only, or of the other sign
  std::int64_t zero_sign = 0;  ///< an exact zero of the other sign
  std::int64_t number = 0;     ///< two numbers, further apart than the bound
  /// Of those: the largest distance in units in the last place of the type at the reference's value (for integers:
  /// the distance itself).
  double most_ulps = 0;
  /// Largest distance of two numbers, checked or not, over the largest magnitude among the reference's finite values.
  double most_relative = 0;
  std::string first_wrong;  ///< "result 0 [1,2]: 0.5, reference 0.25 ± 1e-09"

  [[nodiscard]] std::int64_t wrong() const { return nan + infinite + zero_sign + number; }
  bool operator==(const ResultComparison&) const = default;
};

/// `reference` is not rounded and has bounds, as evaluate gives it for a graph. A result of another type than expected
/// is told by `first_wrong` and counts all its elements as `number`.
ResultComparison compare_with_reference(const std::vector<graph::Tensor>& reference,
                                        const std::vector<graph::ConstantAttributes>& results);

}  // namespace stitch::lab
