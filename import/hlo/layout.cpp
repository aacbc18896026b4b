#include <algorithm>
#include <array>
#include <numeric>

#include "graph/literal.h"
#include "import/hlo/attribute.h"
#include "import/hlo/constant.h"
#include "import/hlo/lowering.h"
#include "import/hlo/rules.h"

namespace stitch::import::hlo {
namespace {

using graph::Dims;
using graph::Value;

/// Dimensions from the outermost in memory to the innermost; nothing when the layout is no permutation of them.
std::optional<Dims> memory_order(const Shape& shape) {
  Dims order(shape.dims.size());
  std::iota(order.begin(), order.end(), 0);
  if (shape.minor_to_major.empty()) return order;
  const Dims printed(shape.minor_to_major.rbegin(), shape.minor_to_major.rend());
  if (!std::is_permutation(printed.begin(), printed.end(), order.begin(), order.end())) return std::nullopt;
  return printed;
}

/// A transpose, unless it changes nothing.
Value reordered(graph::Builder& builder, Value x, const Dims& permutation) {
  return std::is_sorted(permutation.begin(), permutation.end()) ? x : builder.transpose(x, permutation);
}

}  // namespace

Result<Values> lower_constant(const Site& site) {
  if (is_elided(site.instruction)) return site.lowering.absent_constant(site);
  STITCH_ASSIGN(graph::ConstantAttributes constant, parse_constant(site.instruction));
  // One element stands for many: a graph of constants should not weigh what its tensors do.
  if (constant.type.elements() > 1 && graph::is_splat(constant)) {
    constant.data.resize(graph::byte_size(constant.type.dtype));
    const Value one = site.builder.constant({{constant.type.dtype, {}}, std::move(constant.data)});
    return Values{site.builder.broadcast(one, constant.type.dims, {})};
  }
  return Values{site.builder.constant(std::move(constant))};
}

Result<Values> lower_iota(const Site& site) {
  STITCH_ASSIGN(const std::int64_t dimension, integer_attribute(site.instruction, "iota_dimension"));
  return Values{site.builder.iota(site.type().dtype, site.type().dims, dimension)};
}

Result<Values> lower_broadcast(const Site& site) {
  STITCH_ASSIGN(const Dims mapping, list_attribute(site.instruction, "dimensions"));
  Value x = site.operand(0);
  if (std::is_sorted(mapping.begin(), mapping.end())) {
    return Values{site.builder.broadcast(x, site.type().dims, mapping)};
  }
  // The IR's mapping is increasing: put the operand's dimensions into the result's order first.
  if (mapping.size() != site.operand_type(0).dims.size()) return site.error("attribute 'dimensions' does not fit");
  Dims order(mapping.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return mapping[a] < mapping[b]; });
  Dims sorted = mapping;
  std::sort(sorted.begin(), sorted.end());
  x = site.builder.transpose(x, order);
  return Values{site.builder.broadcast(x, site.type().dims, sorted)};
}

Result<Values> lower_reshape(const Site& site) {
  return Values{site.builder.reshape(site.operand(0), site.type().dims)};
}

Result<Values> lower_bitcast(const Site& site) {
  const Shape& from = site.operand_shape(0);
  const Shape& to = site.instruction.shape;
  const graph::TensorType& type = site.type();
  const graph::DType operand_dtype = site.operand_type(0).dtype;
  if (from.tiled || to.tiled) return site.lowering.opaque(site, "bitcast", "depends on a tiled layout in memory");
  if (graph::byte_size(operand_dtype) != graph::byte_size(type.dtype)) {
    return site.lowering.opaque(site, "bitcast", "changes the size of its elements");
  }
  const std::optional<Dims> order_from = memory_order(from), order_to = memory_order(to);
  if (!order_from || !order_to) return site.error("the layout does not fit the shape");
  // Memory stays as it is: bring the operand into the order of its memory, split that anew, and read it as declared.
  Dims extents;
  for (const std::int64_t d : *order_to) extents.push_back(type.dims[d]);
  Dims back(order_to->size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    back[(*order_to)[i]] = i;
  }
  Value x = reordered(site.builder, site.operand(0), *order_from);
  x = reordered(site.builder, site.builder.reshape(x, extents), back);
  return Values{operand_dtype == type.dtype ? x : site.builder.bitcast(x, type.dtype)};
}

Result<Values> lower_transpose(const Site& site) {
  STITCH_ASSIGN(Dims permutation, list_attribute(site.instruction, "dimensions"));
  return Values{site.builder.transpose(site.operand(0), std::move(permutation))};
}

Result<Values> lower_slice(const Site& site) {
  STITCH_ASSIGN(SliceText slice, slice_attribute(site.instruction));
  return Values{
      site.builder.slice(site.operand(0), std::move(slice.starts), std::move(slice.limits), std::move(slice.strides))};
}

Result<Values> lower_concatenate(const Site& site) {
  STITCH_ASSIGN(const Dims dimensions, list_attribute(site.instruction, "dimensions"));
  if (dimensions.size() != 1) return site.error("attribute 'dimensions' names no single dimension");
  std::vector<Value> parts;
  for (std::size_t i = 0; i < site.operands.size(); ++i) parts.push_back(site.operand(i));
  return Values{site.builder.concatenate(std::move(parts), dimensions[0])};
}

Result<Values> lower_pad(const Site& site) {
  STITCH_ASSIGN(PaddingText padding, padding_attribute(site.instruction));
  const Dims& dims = site.operand_type(0).dims;
  if (padding.interior.size() != dims.size()) return site.error("attribute 'padding' does not fit the operand");
  for (std::size_t d = 0; d < dims.size(); ++d) {
    // Inference multiplies the two; the declared extents bound what can be meant.
    const std::int64_t bound = std::max<std::int64_t>(site.type().elements(), 1) + (std::int64_t{1} << 32);
    if (dims[d] > 1 && padding.interior[d] > bound / (dims[d] - 1)) return site.error("the padding is out of range");
  }
  return Values{site.builder.pad(site.operand(0), site.operand(1), std::move(padding.low), std::move(padding.high),
                                 std::move(padding.interior))};
}

Result<Values> lower_reverse(const Site& site) {
  STITCH_ASSIGN(Dims dimensions, list_attribute(site.instruction, "dimensions"));
  return Values{site.builder.reverse(site.operand(0), std::move(dimensions))};
}

Result<Values> lower_dimension_size(const Site& site) {
  STITCH_ASSIGN(const Dims dimensions, list_attribute(site.instruction, "dimensions"));
  const Dims& dims = site.operand_type(0).dims;
  if (dimensions.size() != 1 || dimensions[0] < 0 || dimensions[0] >= std::ssize(dims)) {
    return site.error("attribute 'dimensions' names no single dimension");
  }
  const std::array<std::int64_t, 1> extent = {dims[dimensions[0]]};
  return Values{site.builder.constant(graph::dense_integers({site.type().dtype, {}}, extent))};
}

}  // namespace stitch::import::hlo
