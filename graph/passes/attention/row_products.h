#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace stitch::graph {

/// A value that does not vary along one dimension of a tensor (the keys of a row, say). Dimension i of the value is
/// dimension along[i] of the tensor without that one; -1 where its extent is 1.
struct RowFactor {
  Value value;
  Dims along;
  auto operator<=>(const RowFactor&) const = default;
};

/// A tensor as a product: scale · numerators / denominators · leaves, where only the leaves vary along the dimension.
struct RowProduct {
  /// Dimension d of the value is dimension along[d] of the tensor.
  struct Leaf {
    Value value;
    Dims along;
    bool operator==(const Leaf&) const = default;
  };
  double scale = 1;
  std::vector<RowFactor> numerators, denominators;
  std::vector<Leaf> leaves;
};

/// Takes `value` apart, through products, quotients, negations, conversions of floats, transposes and, of factors,
/// extents of 1. What else there is is a leaf; a truth value is a factor of 0 or 1, as is the condition of a select
/// that has 0 otherwise. Nothing: a divisor varies along `dimension`, or there are too many.
std::optional<RowProduct> row_product(const Graph& graph, Value value, std::int64_t dimension);

/// Drops factors that stand on both sides, as often as they do.
void cancel(RowProduct& product);

}  // namespace stitch::graph
