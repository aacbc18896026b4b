#pragma once

#include <string_view>

#include "base/result.h"
#include "emulator/ptx/ptx_syntax.h"

namespace stitch::emulator::ptx {

/// Parses a PTX module. Expects the text to outlive the result. Checks syntax only: opcodes, types of operands and
/// names are left to the decoder. Error kind: parse, with line and text.
Result<Module> parse(std::string_view source);

}  // namespace stitch::emulator::ptx
