#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/reference/evaluate.h"
#include "profiler/device/device.h"

namespace stitch::profiler {

/// What random inputs look like. Integers are drawn from the range that the graph needs of them (ranges_drawn) and
/// otherwise from small numbers of both signs.
enum class Distribution : std::uint8_t {
  mixed,          ///< sign-mixed around ±1
  small,          ///< sign-mixed, around 1e-3
  large,          ///< sign-mixed, up to some hundreds
  denormal,       ///< a quarter of the elements are denormals of the dtype
  constant_rows,  ///< the same number along the last dimension: variances are zero
  offset,         ///< 100 + small noise: cancelling formulas lose their digits
};
std::string_view to_string(Distribution distribution);
std::vector<Distribution> default_distributions();

/// Values of one parameter as a pure function of seed and index, for the device and for the reference alike.
class InputSource {
 public:
  struct Range {
    std::int64_t low = 0, high = 0;  ///< both included
  };
  /// Of `range` what the dtype holds: a byte that places something in a long row.
  InputSource(graph::TensorType type, Distribution distribution, std::uint64_t seed, std::optional<Range> range);

  /// Bytes as they lie in device memory. Such a filler tells what it was made of (Filler::target<InputSource>), so that
  /// a device in another process can make the same bytes itself.
  [[nodiscard]] Filler filler() const { return *this; }
  void operator()(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// The same values for graph::evaluate_parts. Error of the input, when the token fires: cancelled.
  [[nodiscard]] graph::Input input(const std::stop_token& stop = {}) const;

  [[nodiscard]] const graph::TensorType& type() const { return type_; }
  [[nodiscard]] Distribution distribution() const { return distribution_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] const std::optional<Range>& range() const { return range_; }

 private:
  /// Elements `first` and following, before they are rounded to the dtype.
  void floats(std::int64_t first, std::span<double> values) const;
  void rounded_floats(std::int64_t first, std::span<double> values) const;
  void integers(std::int64_t first, std::span<std::int64_t> values) const;

  graph::TensorType type_;
  Distribution distribution_;
  std::uint64_t seed_;
  std::optional<Range> range_;
};

/// For each parameter the range that its integers must keep to, from how the graph uses them: indices of gathers,
/// scatters and dynamic slices stay inside, divisors are not zero.
std::vector<std::optional<InputSource::Range>> integer_ranges(const graph::Graph& graph);

/// The ranges that a kernel's inputs are drawn from: of `mixed`, which is what kernels are measured with, those of
/// integer_ranges; of the others a fifth of all indices lies outside, on either side. What an operator does with those
/// is as much its meaning as what it does with the rest, and guards are seen nowhere else.
std::vector<std::optional<InputSource::Range>> ranges_drawn(const graph::Graph& graph, Distribution distribution);

}  // namespace stitch::profiler
