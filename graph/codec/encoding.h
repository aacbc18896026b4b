#pragma once

#include <cstdint>

namespace stitch::graph {

/// The two encodings of one document structure (docs/fragment-format.md). Keys are sorted, so equal graphs give equal
/// bytes.
enum class Encoding : std::uint8_t { json, cbor };

}  // namespace stitch::graph
