#pragma once

#include <string_view>

#include "base/result.h"
#include "emulator/ptx/ptx_syntax.h"

namespace stitch::emulator::ptx {

/// Parses a PTX module. Expects the text to outlive the result. Checks syntax only: opcodes, types of operands and
/// names are left to the decoder. Error kind: parse, with line and text.
Result<Module> parse(std::string_view source);

/// "PTX line 12: message: `that line`".
Error error_at(ErrorKind kind, std::string_view source, std::uint32_t line, std::string_view message);

/// The text of a 1-based line, trimmed.
std::string_view line_text(std::string_view source, std::uint32_t line);

}  // namespace stitch::emulator::ptx
