#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

/// Errors that quote the PTX text.
namespace stitch::emulator::ptx {

/// "PTX line 12: message: `that line`".
Error error_at(ErrorKind kind, std::string_view source, std::uint32_t line, std::string_view message);

/// The text of a 1-based line, trimmed.
std::string_view line_text(std::string_view source, std::uint32_t line);

}  // namespace stitch::emulator::ptx
