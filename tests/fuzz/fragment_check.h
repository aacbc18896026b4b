#pragma once

#include <string_view>

#include "graph/codec/encoding.h"

namespace stitch::fuzz {

/// A fragment's document is refused with a message, or it is a graph that verifies, has a canonical form, and comes
/// back the same from both encodings.
void check_fragment(std::string_view bytes, graph::Encoding encoding);

}  // namespace stitch::fuzz
