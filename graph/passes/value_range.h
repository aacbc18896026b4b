#pragma once

#include <limits>

namespace stitch::graph {

/// A closed interval that holds every element of a value. Integers are exact: bounds beyond ±2^53 are infinite.
struct ValueRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool may_be_nan = true;  ///< floating values only

  /// Whether the value is known to lie in [from, to].
  [[nodiscard]] bool within(double from, double to) const { return low >= from && high <= to && !may_be_nan; }

  bool operator==(const ValueRange&) const = default;
};

}  // namespace stitch::graph
