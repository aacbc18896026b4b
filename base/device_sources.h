#pragma once

#include <string_view>
#include <vector>

#include "base/device_spec.h"
#include "base/result.h"

namespace stitch {

/// Where a figure of the device table comes from.
struct FigureSource {
  std::string_view field;   ///< of DeviceSpec
  std::string_view source;  ///< a publication, or begins with "guess"
};

/// The source of every figure of an entry of the device table, in the order of DeviceSpec's members; docs/devices.md is
/// printed from it. Error: invalid_argument (no such entry).
Result<std::vector<FigureSource>> figure_sources(std::string_view device);

}  // namespace stitch
