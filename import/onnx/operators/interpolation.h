#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace stitch::import::onnx {

/// How Resize maps one axis: where a result's element lies in the input, and which elements it is mixed from.
struct Interpolation {
  std::string mode = "nearest";            ///< nearest, linear, cubic
  std::string coordinates = "half_pixel";  ///< coordinate_transformation_mode
  std::string nearest = "round_prefer_floor";
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
};

/// One axis: its extents, the scale between them, and the region of interest in [0, 1].
struct ResizedAxis {
  std::int64_t input = 1, output = 1;
  double scale = 1.0;
  double roi_start = 0.0, roi_end = 1.0;
};

/// Result element i is the sum over taps k of weights[k][i] · input[indices[k][i]].
struct Taps {
  std::vector<std::vector<std::int64_t>> indices;
  std::vector<std::vector<double>> weights;
  std::vector<bool> outside;  ///< elements that tf_crop_and_resize extrapolates
};

/// Errors: invalid_argument (an unknown mode), unsupported (more than a few hundred taps).
Result<Taps> interpolation_taps(const Interpolation& how, const ResizedAxis& axis);

}  // namespace stitch::import::onnx
