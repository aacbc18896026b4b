#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/dtype.h"

namespace stitch::graph {

/// Extents of a tensor, outermost first; memory is dense and row-major. Empty for a scalar.
using Dims = std::vector<std::int64_t>;

/// Whether a list of dimensions (or their numbers) holds this one.
inline bool contains(const Dims& list, std::int64_t value) { return std::ranges::find(list, value) != list.end(); }

/// Product of the extents: 1 for a scalar, 0 when an extent is 0.
std::int64_t element_count(const Dims& dims);

/// Extents, paddings, strides and dilations stay below this, and so does a tensor's element count: beyond any device,
/// and products of two of them do not overflow index arithmetic.
inline constexpr std::int64_t most_elements = std::int64_t{1} << 40;

/// Multiplies `count` (1 to begin with) by an extent. An empty one counts as one, so that products of some of the
/// extents do not overflow either. False, and `count` as it was, when the product would be above most_elements.
bool multiply_extent(std::int64_t& count, std::int64_t extent);

/// Distance in elements between neighbours along each dimension of a dense row-major tensor.
Dims row_major_strides(const Dims& dims);

/// "[4,8]"
std::string to_string(const Dims& dims);

/// Shape and element type of a value.
struct TensorType {
  DType dtype = DType::f32;
  Dims dims;

  [[nodiscard]] int rank() const { return dims.size(); }
  [[nodiscard]] std::int64_t elements() const { return element_count(dims); }
  [[nodiscard]] std::int64_t bytes() const { return elements() * byte_size(dtype); }

  auto operator<=>(const TensorType&) const = default;
};

/// "f32[4,8]"
std::string to_string(const TensorType& type);

/// Reads what to_string printed.
Result<TensorType> parse_tensor_type(std::string_view text);

}  // namespace stitch::graph
