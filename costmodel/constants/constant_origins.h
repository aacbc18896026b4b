#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace stitch::costmodel {

/// Where a constant of a cost model comes from.
enum class ConstantOrigin : std::uint8_t {
  sheet,    ///< A data sheet, white paper or programming guide of the GPU's maker.
  paper,    ///< Measured and published by others.
  counted,  ///< Counted in machine code, in our sources, or by the emulated device.
  fitted,   ///< To measured or published times.
  guess,    ///< Nobody measured it: a starting value.
  rule,     ///< No figure of a GPU: how a computation of ours goes, 1 by default, a bound that only says when to doubt.
};
std::string_view to_string(ConstantOrigin origin);

struct ConstantOriginRow {
  std::string_view file;  ///< below costmodel/; constants of AnalyticalConstants have that header
  std::string_view name;
  ConstantOrigin origin;
  std::string_view source;  ///< which sheet, paper or times; what a guess lies between
};

/// Every number of the cost models that is no figure of the device table (base/device_sources.h has those), by file.
/// `stitch cost-model constants` prints it; a test holds it against the sources.
std::span<const ConstantOriginRow> constant_origins();

}  // namespace stitch::costmodel
