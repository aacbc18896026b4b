// Pad in all its modes, and the crops and paddings built on it.
#include <algorithm>

#include "import/emit.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// `count` elements beside one end of an axis, as reflection, edge or wrap-around (with that period) gives them; in
/// memory order.
Value side(graph::Builder& b, Value x, std::int64_t axis, std::int64_t count, bool low, std::string_view mode,
           std::int64_t period) {
  const std::int64_t extent = b.dims(x)[axis];
  if (mode == "edge") {
    const Value edge = slice_axis(b, x, axis, low ? 0 : extent - 1, low ? 1 : extent);
    Dims dims = b.dims(x);
    dims[axis] = count;
    return b.broadcast_to(edge, dims);
  }
  if (mode == "wrap") {
    const std::int64_t start = low ? period - count : extent - period;
    return slice_axis(b, x, axis, start, start + count);
  }
  const Value mirrored =
      low ? slice_axis(b, x, axis, 1, 1 + count) : slice_axis(b, x, axis, extent - 1 - count, extent - 1);
  return b.reverse(mirrored, {axis});
}

/// How many elements one step can take from the tensor itself.
std::int64_t reach(std::string_view mode, std::int64_t extent, std::int64_t wanted) {
  if (mode == "edge") return wanted;
  return std::min(wanted, mode == "wrap" ? extent : extent - 1);
}

Result<Value> pad_axis(graph::Builder& b, Value x, std::int64_t axis, std::int64_t low, std::int64_t high,
                       const std::string& mode) {
  const std::int64_t extent = b.dims(x)[axis];
  const std::int64_t crop_low = std::max<std::int64_t>(-low, 0), crop_high = std::max<std::int64_t>(-high, 0);
  if (crop_low + crop_high > extent) return Call::wrong("axis {} of extent {} is cropped away", axis, extent);
  x = slice_axis(b, x, axis, crop_low, extent - crop_high);
  low = std::max<std::int64_t>(low, 0);
  high = std::max<std::int64_t>(high, 0);
  const std::int64_t inner = b.dims(x)[axis];
  // Reflections farther than the tensor is long bounce back and forth. They are built outwards from the tensor.
  while (low > 0 || high > 0) {
    const std::int64_t low_part = reach(mode, mode == "wrap" ? inner : b.dims(x)[axis], low);
    const std::int64_t high_part = reach(mode, mode == "wrap" ? inner : b.dims(x)[axis], high);
    if (low_part + high_part <= 0) return Call::wrong("mode '{}' needs elements along axis {}", mode, axis);
    Values parts;
    if (low_part > 0) parts.push_back(side(b, x, axis, low_part, true, mode, inner));
    parts.push_back(x);
    if (high_part > 0) parts.push_back(side(b, x, axis, high_part, false, mode, inner));
    x = b.concatenate(std::move(parts), axis);
    if (b.failed()) return x;
    low -= low_part;
    high -= high_part;
  }
  return x;
}

}  // namespace

Result<Values> pad(Call& c) {
  STITCH_ASSIGN(const std::string mode, c.node.text("mode", "constant"));
  STITCH_ASSIGN(const std::optional<Dims> pads,
                c.version < 2 ? c.node.integers("paddings") : c.integers_from(1, "pads"));
  if (!pads) return Call::wrong("there are no pads");
  const std::int64_t rank = c.rank(c.in(0));
  Dims axes = first_axes(rank);
  if (c.has(3)) {
    STITCH_ASSIGN(const Dims given, c.need_integers(3));
    axes.clear();
    for (const std::int64_t axis : given) {
      STITCH_ASSIGN(const std::int64_t normal, Call::normal_axis(axis, rank));
      axes.push_back(normal);
    }
  }
  if (pads->size() != 2 * axes.size()) return Call::wrong("{} pads for {} axes", pads->size(), axes.size());
  Dims low(rank, 0), high(rank, 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    low[axes[i]] = (*pads)[i];
    high[axes[i]] = (*pads)[i + axes.size()];
  }
  for (const Dims* list : {&low, &high}) {
    for (const std::int64_t extent : *list) {
      if (extent > (1LL << 40) || extent < -(1LL << 40)) return Call::wrong("pads {}", graph::to_string(*pads));
    }
  }
  if (mode != "constant") {
    if (mode != "reflect" && mode != "edge" && mode != "wrap") return Call::wrong("attribute 'mode' is '{}'", mode);
    Value y = c.in(0);
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      STITCH_ASSIGN(y, pad_axis(c.b, y, axis, low[axis], high[axis], mode));
      if (c.b.failed()) break;
    }
    return Values{y};
  }
  Value fill = c.b.scalar(c.dtype(c.in(0)), 0.0);
  if (c.has(2)) {
    fill = c.b.reshape(c.in(2), {});
  } else if (c.node.has("value")) {
    STITCH_ASSIGN(const double value, c.node.number("value", 0.0));
    fill = c.b.scalar(c.dtype(c.in(0)), value);
  }
  return Values{c.b.pad(c.in(0), fill, low, high)};
}

/// Pads with zeros or crops around the centre to the given extents.
Result<Values> center_crop_pad(Call& c) {
  STITCH_ASSIGN(const Dims shape, c.need_integers(1));
  const std::int64_t rank = c.rank(c.in(0));
  STITCH_ASSIGN(const Dims given, c.node.integers("axes", first_axes(rank)));
  if (given.size() != shape.size()) return Call::wrong("{} extents for {} axes", shape.size(), given.size());
  Dims low(rank, 0), high(rank, 0);
  for (std::size_t i = 0; i < given.size(); ++i) {
    STITCH_ASSIGN(const std::int64_t axis, Call::normal_axis(given[i], rank));
    if (shape[i] < 0 || shape[i] > (1LL << 40)) return Call::wrong("extent {}", shape[i]);
    const std::int64_t extent = c.dims(c.in(0))[axis];
    // Both the crop and the padding put the smaller half in front.
    const std::int64_t before = shape[i] >= extent ? (shape[i] - extent) / 2 : -((extent - shape[i]) / 2);
    low[axis] = before;
    high[axis] = shape[i] - extent - before;
  }
  return Values{c.b.pad(c.in(0), c.b.scalar(c.dtype(c.in(0)), 0.0), low, high)};
}

}  // namespace stitch::import::onnx
