#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/codec/encoding.h"

namespace stitch::fuzz {

/// A program's document is read, or refused with a reason; what is read is written the same again, opens on the
/// emulated device or is refused there, and runs, if it is small, within its memory.
void check_program_bytes(std::string_view bytes, graph::Encoding encoding);

/// The document as somebody would send it who makes programs: its hashes are those of what it has, whatever that is.
/// Without them nearly every changed byte is found by a hash, and nothing behind that is tried. None: it is no object.
std::optional<std::string> with_its_hashes(std::string_view bytes, graph::Encoding encoding);

}  // namespace stitch::fuzz
