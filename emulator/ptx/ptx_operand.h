#pragma once

#include "base/result.h"
#include "emulator/ptx/ptx_cursor.h"
#include "emulator/ptx/ptx_syntax.h"

namespace stitch::emulator::ptx {

/// Reads one operand of an instruction: a name, a constant, `[address]`, `{vector}` or `(list)`, up to the comma or
/// semicolon that follows.
Result<Operand> read_operand(Cursor& in);

}  // namespace stitch::emulator::ptx
