// Window functions and the mel filter bank; Fourier transforms stay boundaries.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "import/emit.h"
#include "import/onnx/families.h"
#include "import/onnx/tensor.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

constexpr std::int64_t most_signal_elements = std::int64_t{1} << 22;

Result<DType> stated_dtype(Call& c) {
  STITCH_ASSIGN(const std::int64_t code, c.node.integer("output_datatype", 1));
  const std::optional<DType> dtype = dtype_of(code);
  if (!dtype) return Call::unsupported("element type {}", type_name(code));
  return *dtype;
}

/// a0 - a1 cos(2πn/N) + a2 cos(4πn/N)
Result<Values> cosine_window(Call& c, double a0, double a1, double a2) {
  STITCH_ASSIGN(const std::int64_t size, c.need_integer(0));
  STITCH_ASSIGN(const std::int64_t periodic, c.node.integer("periodic", 1));
  STITCH_ASSIGN(const DType dtype, stated_dtype(c));
  if (size < 0 || size > (1LL << 40)) return Call::wrong("a window of {}", size);
  const double period = periodic != 0 ? size : std::max<std::int64_t>(size - 1, 1);
  const DType compute = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Value angle = mul(c.b, c.b.iota(compute, {size}, 0), 2 * std::numbers::pi / period);
  Value y = sub(c.b, like(c.b, angle, a0), mul(c.b, c.b.unary(Op::cos, angle), a1));
  if (a2 != 0.0) y = add(c.b, y, mul(c.b, c.b.unary(Op::cos, mul(c.b, angle, 2.0)), a2));
  return Values{c.b.convert(y, dtype)};
}

double hertz_to_mel(double hertz) { return 2595.0 * std::log10(1.0 + hertz / 700.0); }
double mel_to_hertz(double mel) { return 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0); }

}  // namespace

Result<Values> hann_window(Call& c) { return cosine_window(c, 0.5, 0.5, 0.0); }
Result<Values> hamming_window(Call& c) { return cosine_window(c, 25.0 / 46.0, 21.0 / 46.0, 0.0); }
Result<Values> blackman_window(Call& c) { return cosine_window(c, 0.42, 0.5, 0.08); }

/// Triangular filters on the mel scale. All inputs must be known; the matrix is a constant.
Result<Values> mel_weight_matrix(Call& c) {
  STITCH_ASSIGN(const std::int64_t bins, c.need_integer(0));
  STITCH_ASSIGN(const std::int64_t length, c.need_integer(1));
  STITCH_ASSIGN(const std::int64_t rate, c.need_integer(2));
  STITCH_ASSIGN(const std::vector<double> low, c.need_numbers(3));
  STITCH_ASSIGN(const std::vector<double> high, c.need_numbers(4));
  STITCH_ASSIGN(const DType dtype, stated_dtype(c));
  if (bins < 1 || bins > most_signal_elements || length < 1 || length > most_signal_elements || rate < 1 ||
      low.size() != 1 || high.size() != 1 || bins * (length / 2 + 1) > most_signal_elements) {
    return Call::wrong("{} bins of a transform of {}", bins, length);
  }
  const std::int64_t rows = length / 2 + 1;
  const double low_mel = hertz_to_mel(low[0]);
  const double step = (hertz_to_mel(high[0]) - low_mel) / (bins + 2);
  std::vector<std::int64_t> edges;  // in rows of the spectrum
  for (std::int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = mel_to_hertz(i * step + low_mel);
    const double row = std::floor((length + 1) * hertz / rate);
    edges.push_back(std::clamp(row, 0.0, static_cast<double>(rows)));
  }
  std::vector<double> matrix(rows * bins, 0.0);
  const auto cell = [&](std::int64_t row, std::int64_t bin) -> double& { return matrix[row * bins + bin]; };
  for (std::int64_t i = 0; i < bins; ++i) {
    const std::int64_t left = edges[i], centre = edges[i + 1], right = edges[i + 2];
    if (left == centre && centre < rows) cell(centre, i) = 1.0;
    for (std::int64_t k = left; k <= std::min(centre, rows - 1); ++k) {
      if (centre > left) cell(k, i) = static_cast<double>(k - left) / (centre - left);
    }
    for (std::int64_t k = centre; k < std::min(right, rows); ++k) {
      if (right > centre) cell(k, i) = static_cast<double>(right - k) / (right - centre);
    }
  }
  return Values{numbers(c.b, dtype, {rows, bins}, matrix)};
}

}  // namespace stitch::import::onnx
