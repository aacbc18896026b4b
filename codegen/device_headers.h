#pragma once

#include <span>
#include <string_view>

#include "base/hash.h"

namespace stitch::codegen {

/// One header of codegen/device/, embedded when the library was built.
struct DeviceHeader {
  std::string_view name;      ///< as generated code includes it: "stitch/version.cuh"
  std::string_view contents;  ///< followed by a zero byte, so that data() is a C string
};

/// All of them, by name. They include one another by these names, too.
std::span<const DeviceHeader> device_headers();

/// Hash of all names and contents: part of every artifact's key.
Hash128 device_headers_hash();

}  // namespace stitch::codegen
