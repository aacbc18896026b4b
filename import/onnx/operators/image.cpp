// Resize and Upsample, one axis after the other, by positions and weights computed at import.
#include <algorithm>
#include <cmath>

#include "import/emit.h"
#include "import/onnx/families.h"
#include "import/onnx/operators/interpolation.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// Every element `times` times in a row, if that is what the list says.
std::optional<std::int64_t> repeats(const Dims& list, std::int64_t extent) {
  const std::int64_t count = list.size();
  if (extent == 0 || count % extent != 0) return std::nullopt;
  const std::int64_t times = count / extent;
  for (std::int64_t i = 0; i < count; ++i) {
    if (list[i] != i / times) return std::nullopt;
  }
  return times;
}

/// The elements of `axis` that a list names: a repetition or a strided slice where it is one, else a gather.
Value take(graph::Builder& b, Value x, std::int64_t axis, const Dims& list) {
  const Dims dims = b.dims(x);
  if (b.failed()) return x;
  const std::int64_t extent = dims[axis];
  if (const std::optional<std::int64_t> times = repeats(list, extent)) {
    if (*times == 1) return x;
    Dims wide = dims, joined = dims;
    wide.insert(wide.begin() + axis + 1, *times);
    joined[axis] *= *times;
    return b.reshape(spread(b, x, wide, other_axes(wide.size(), {axis + 1})), joined);
  }
  const std::int64_t stride = list.size() > 1 ? list[1] - list[0] : 1;
  bool regular = stride >= 1;
  for (std::size_t i = 1; i < list.size(); ++i) regular &= list[i] - list[i - 1] == stride;
  if (regular && !list.empty()) return slice_axis(b, x, axis, list.front(), list.back() + 1, stride);
  graph::GatherAttributes a;
  a.collapsed_slice_dims = a.start_index_map = {axis};
  a.index_vector_dim = 1;
  a.slice_sizes = dims;
  a.slice_sizes[axis] = 1;
  a.offset_dims = other_axes(dims.size(), {axis});
  const Value indices = integers(b, DType::s64, {static_cast<std::int64_t>(list.size())}, list);
  return b.add(Op::gather, {x, indices}, std::move(a));
}

Value mix(graph::Builder& b, Value x, std::int64_t axis, const Taps& taps) {
  if (taps.indices.size() == 1) return take(b, x, axis, taps.indices[0]);
  Value sum;
  for (std::size_t k = 0; k < taps.indices.size() && !b.failed(); ++k) {
    const std::vector<double>& weights = taps.weights[k];
    if (std::all_of(weights.begin(), weights.end(), [](double w) { return w == 0.0; })) continue;
    const Value part = take(b, x, axis, taps.indices[k]);
    const Value row = numbers(b, b.dtype(x), {static_cast<std::int64_t>(weights.size())}, weights);
    const Value scaled = b.binary(Op::multiply, part, spread(b, row, b.dims(part), {axis}));
    sum = sum.node < 0 ? scaled : b.binary(Op::add, sum, scaled);
  }
  if (b.failed()) return x;
  if (sum.node >= 0) return sum;
  // Every weight is 0, or there is no element.
  Dims dims = b.dims(x);
  dims[axis] = taps.indices.empty() ? 0 : static_cast<std::int64_t>(taps.indices[0].size());
  return b.filled(b.dtype(x), dims, 0.0);
}

/// The whole operator for axes whose extents and scales are settled.
Result<Values> resize_axes(Call& c, const Interpolation& how, const std::vector<ResizedAxis>& axes) {
  STITCH_ASSIGN(const double extrapolation, c.node.number("extrapolation_value", 0.0));
  const bool nearest = how.mode == "nearest";
  if (!nearest && !graph::is_floating(c.dtype(c.in(0)))) return Call::unsupported("interpolation of integers");
  Value y = nearest ? c.in(0) : widen(c.b, c.in(0));
  std::vector<std::pair<std::int64_t, std::vector<bool>>> outside;
  for (std::int64_t axis = 0; axis < std::ssize(axes); ++axis) {
    const ResizedAxis& a = axes[axis];
    const bool whole = a.roi_start == 0.0 && a.roi_end == 1.0;
    if (a.input == a.output && a.scale == 1.0 && whole) continue;
    if (a.input < 1 || a.output < 0 || !(a.scale > 0))
      return Call::wrong("an extent of {} resized to {}", a.input, a.output);
    STITCH_ASSIGN(const Taps taps, interpolation_taps(how, a));
    y = mix(c.b, y, axis, taps);
    if (std::find(taps.outside.begin(), taps.outside.end(), true) != taps.outside.end()) {
      outside.emplace_back(axis, taps.outside);
    }
  }
  for (const auto& [axis, flags] : outside) {
    const Dims list(flags.begin(), flags.end());
    const Value row = integers(c.b, DType::pred, {static_cast<std::int64_t>(list.size())}, list);
    const Value mask = spread(c.b, row, c.dims(y), {axis});
    y = c.b.select(mask, like(c.b, y, extrapolation), y);
  }
  return Values{c.b.convert(y, c.dtype(c.in(0)))};
}

Result<Interpolation> read_interpolation(Call& c) {
  Interpolation how;
  STITCH_ASSIGN(how.mode, c.node.text("mode", "nearest"));
  if (how.mode == "bilinear") how.mode = "linear";
  // Before opset 11 there was one way, which later got this name; it took the element to the left.
  const bool early = c.version < 11;
  STITCH_ASSIGN(how.coordinates, c.node.text("coordinate_transformation_mode", early ? "asymmetric" : "half_pixel"));
  STITCH_ASSIGN(how.nearest, c.node.text("nearest_mode", early ? "floor" : "round_prefer_floor"));
  STITCH_ASSIGN(how.cubic_a, c.node.number("cubic_coeff_a", -0.75));
  STITCH_ASSIGN(const std::int64_t exclude, c.node.integer("exclude_outside", 0));
  STITCH_ASSIGN(const std::int64_t antialias, c.node.integer("antialias", 0));
  how.exclude_outside = exclude != 0;
  how.antialias = antialias != 0 && how.mode != "nearest";
  return how;
}

/// Extents from scales: the floor, with a hair of tolerance for scales that are rounded quotients.
std::int64_t scaled_extent(std::int64_t extent, double scale) {
  const double exact = extent * scale;
  return exact >= 0 && exact < 1e12 ? static_cast<std::int64_t>(std::floor(exact + 1e-6)) : -1;
}

/// Output extents and scales of the listed axes from `sizes`, keeping the aspect ratio if asked to.
Status axes_from_sizes(Call& c, const Dims& sizes, const Dims& listed, std::vector<ResizedAxis>& axes) {
  STITCH_ASSIGN(const std::string policy, c.node.text("keep_aspect_ratio_policy", "stretch"));
  if (sizes.size() != listed.size()) return Call::wrong("{} sizes for {} axes", sizes.size(), listed.size());
  std::vector<double> scales;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ResizedAxis& a = axes[listed[i]];
    if (a.input < 1 || sizes[i] < 0) return Call::wrong("an extent of {} resized to {}", a.input, sizes[i]);
    a.output = sizes[i];
    a.scale = static_cast<double>(sizes[i]) / a.input;
    scales.push_back(a.scale);
  }
  if (policy == "stretch" || scales.empty()) return {};
  if (policy != "not_larger" && policy != "not_smaller")
    return Call::wrong("attribute 'keep_aspect_ratio_policy' is '{}'", policy);
  const double scale = policy == "not_larger" ? *std::min_element(scales.begin(), scales.end())
                                              : *std::max_element(scales.begin(), scales.end());
  for (const std::int64_t axis : listed) {
    ResizedAxis& a = axes[axis];
    a.scale = scale;
    a.output = std::floor(scale * a.input + 0.5);
  }
  return {};
}

Status axes_from_scales(const std::vector<double>& scales, const Dims& listed, std::vector<ResizedAxis>& axes) {
  if (scales.size() != listed.size()) return Call::wrong("{} scales for {} axes", scales.size(), listed.size());
  for (std::size_t i = 0; i < scales.size(); ++i) {
    ResizedAxis& a = axes[listed[i]];
    a.scale = scales[i];
    a.output = scaled_extent(a.input, scales[i]);
  }
  return {};
}

std::vector<ResizedAxis> unchanged_axes(const Dims& dims) {
  std::vector<ResizedAxis> axes;
  for (const std::int64_t extent : dims) axes.push_back({extent, extent, 1.0, 0.0, 1.0});
  return axes;
}

}  // namespace

/// Upsample, and Resize of opset 10: scales only, from an input or (up to opset 8) an attribute.
Result<Values> upsample(Call& c) {
  STITCH_ASSIGN(const Interpolation how, read_interpolation(c));
  std::vector<double> scales;
  if (c.has(1)) {
    STITCH_ASSIGN(scales, c.need_numbers(1));
  } else {
    STITCH_ASSIGN(scales, c.node.numbers("scales", {}));
  }
  std::vector<ResizedAxis> axes = unchanged_axes(c.dims(c.in(0)));
  STITCH_TRY(axes_from_scales(scales, first_axes(c.rank(c.in(0))), axes));
  return resize_axes(c, how, axes);
}

/// Inputs: x, region of interest, scales, sizes.
Result<Values> resize(Call& c) {
  const std::int64_t rank = c.rank(c.in(0));
  STITCH_ASSIGN(const Interpolation how, read_interpolation(c));
  STITCH_ASSIGN(const Dims given, c.node.integers("axes", first_axes(rank)));
  Dims listed;
  for (const std::int64_t axis : given) {
    STITCH_ASSIGN(const std::int64_t normal, Call::normal_axis(axis, rank));
    listed.push_back(normal);
  }
  std::vector<ResizedAxis> axes = unchanged_axes(c.dims(c.in(0)));
  const auto given_list = [&](std::size_t i) { return c.has(i) && graph::element_count(c.dims(c.in(i))) > 0; };
  if (given_list(3)) {
    STITCH_ASSIGN(const Dims sizes, c.need_integers(3));
    STITCH_TRY(axes_from_sizes(c, sizes, listed, axes));
  } else if (given_list(2)) {
    STITCH_ASSIGN(const std::vector<double> scales, c.need_numbers(2));
    STITCH_TRY(axes_from_scales(scales, listed, axes));
  } else {
    return Call::wrong("neither scales nor sizes are given");
  }
  if (how.coordinates == "tf_crop_and_resize") {
    if (!given_list(1)) return Call::wrong("there is no region of interest");
    STITCH_ASSIGN(const std::vector<double> roi, c.need_numbers(1));
    if (roi.size() != 2 * listed.size()) return Call::wrong("{} entries in the region of interest", roi.size());
    for (std::size_t i = 0; i < listed.size(); ++i) {
      axes[listed[i]].roi_start = roi[i];
      axes[listed[i]].roi_end = roi[i + listed.size()];
    }
  }
  return resize_axes(c, how, axes);
}

}  // namespace stitch::import::onnx
