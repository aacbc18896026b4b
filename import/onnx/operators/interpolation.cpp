#include "import/onnx/operators/interpolation.h"

#include <algorithm>
#include <cmath>

namespace stitch::import::onnx {
namespace {

constexpr std::int64_t most_taps = 256;
constexpr std::int64_t most_weights = std::int64_t{1} << 20;

/// Where element i of the result lies in the input (ONNX operator Resize, coordinate_transformation_mode).
Result<double> source_position(const std::string& mode, const ResizedAxis& axis, std::int64_t i) {
  const double x = i, input = static_cast<double>(axis.input);
  const double output = axis.scale * input;
  if (mode == "half_pixel") return (x + 0.5) / axis.scale - 0.5;
  if (mode == "asymmetric") return x / axis.scale;
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  // The specification has 0 for a single element (ONNX's reference implementation -0.5, which only cubic weights tell).
  if (mode == "pytorch_half_pixel") return axis.output == 1 ? 0.0 : (x + 0.5) / axis.scale - 0.5;
  if (mode == "align_corners") return axis.output == 1 ? 0.0 : x * (input - 1) / (output - 1);
  if (mode == "half_pixel_symmetric") {
    const double adjustment = axis.output / output;
    return input / 2 * (1 - adjustment) + (x + 0.5) / axis.scale - 0.5;
  }
  if (mode == "tf_crop_and_resize") {
    const double span = (axis.roi_end - axis.roi_start) * (input - 1);
    const double inside = axis.output == 1 ? span / 2 : x * span / (output - 1);
    return inside + axis.roi_start * (input - 1);
  }
  return make_error(ErrorKind::invalid_argument, "coordinate_transformation_mode is '{}'", mode);
}

Result<std::int64_t> nearest_index(const std::string& mode, double x) {
  if (mode == "round_prefer_floor") return static_cast<std::int64_t>(std::ceil(x - 0.5));
  if (mode == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(x + 0.5));
  if (mode == "floor") return static_cast<std::int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  return make_error(ErrorKind::invalid_argument, "nearest_mode is '{}'", mode);
}

/// Weight of an element at that distance: the tent, or Keys' cubic kernel.
double kernel(const Interpolation& how, double distance) {
  const double d = std::abs(distance), a = how.cubic_a;
  if (how.mode == "linear") return std::max(0.0, 1 - d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0.0;
}

}  // namespace

Result<Taps> interpolation_taps(const Interpolation& how, const ResizedAxis& axis) {
  if (axis.output > most_weights) {
    return make_error(ErrorKind::unsupported, "interpolation to an extent of {}", axis.output);
  }
  const bool nearest = how.mode == "nearest";
  if (!nearest && how.mode != "linear" && how.mode != "cubic") {
    return make_error(ErrorKind::invalid_argument, "mode is '{}'", how.mode);
  }
  // Shrinking with antialias stretches the kernel over as many elements as fall together.
  const double stretch = how.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double reach = (how.mode == "linear" ? 1.0 : 2.0) / stretch;
  if (!(reach < most_taps)) return make_error(ErrorKind::unsupported, "{} taps", reach);
  const std::int64_t first = nearest ? 0 : static_cast<std::int64_t>(std::floor(-reach)) + 1;
  const std::int64_t count = nearest ? 1 : 2 - 2 * first;
  Taps taps;
  taps.indices.resize(count);
  taps.weights.resize(count);
  for (std::int64_t i = 0; i < axis.output; ++i) {
    STITCH_ASSIGN(const double x, source_position(how.coordinates, axis, i));
    if (!(std::abs(x) < 1e15)) return make_error(ErrorKind::invalid_argument, "the scale is {}", axis.scale);
    taps.outside.push_back(how.coordinates == "tf_crop_and_resize" && (x < 0 || x > axis.input - 1));
    STITCH_ASSIGN(const std::int64_t base, nearest_index(nearest ? how.nearest : "floor", x));
    double total = 0.0;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t index = base + first + k;
      double weight = nearest ? 1.0 : kernel(how, (index - x) * stretch);
      if (how.exclude_outside && (index < 0 || index >= axis.input)) weight = 0.0;
      total += weight;
      taps.indices[k].push_back(std::clamp<std::int64_t>(index, 0, axis.input - 1));
      taps.weights[k].push_back(weight);
    }
    if (!how.antialias && !how.exclude_outside) continue;
    for (auto& row : taps.weights) row.back() /= total;
  }
  return taps;
}

}  // namespace stitch::import::onnx
