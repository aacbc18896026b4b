#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "graph/reference/evaluate_ops.h"

namespace stitch::graph::reference {

// Operators whose elements' places depend on data: index operands are evaluated before demand is known.

/// An index element; one beyond the range of s64 (u64) is simply the largest.
inline std::int64_t index_value(const Block& block, std::int64_t offset) {
  const std::int64_t value = block.data->integers[block.uniform ? 0 : offset];
  return block.dtype == DType::u64 && value < 0 ? std::numeric_limits<std::int64_t>::max() : value;
}

inline bool index_uncertain(const Block& block, std::int64_t offset) {
  return !block.exact() && block.data->bounds[block.uniform ? 0 : offset] > 0;
}

/// Index into the indices operand of component `component` of the index vector at `batch`.
inline Dims index_position(const Dims& batch, std::int64_t vector_dim, std::size_t rank, std::int64_t component) {
  Dims position = batch;
  if (vector_dim < static_cast<std::int64_t>(rank)) position.insert(position.begin() + vector_dim, component);
  return position;
}

/// Coordinate along dimension d of the indices operand that belongs to `batch`.
inline std::int64_t batch_coordinate(const Dims& batch, std::int64_t vector_dim, std::int64_t d) {
  return batch[d < vector_dim ? d : d - 1];
}

/// Which updates land in `out`, and the operand itself.
void scatter_demand(const OpContext& context, const Box& out, std::span<Region> regions);
Result<Block> evaluate_scatter(const OpContext& context, const Box& out);

}  // namespace stitch::graph::reference
