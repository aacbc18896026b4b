#pragma once

#include <vector>

#include "emulator/decode/code.h"
#include "emulator/decode/instruction_draft.h"

namespace stitch::emulator {

/// Places a kernel's instructions: lays the functions' drafts out one after the other in `code`, allocates their
/// registers and replaces virtual registers by rows. Expects callees before callers and the kernel last, as
/// Decoder::functions() gives them; afterwards `code` has instructions, origins, functions, lists, tracked registers
/// and the size of the register file.
void assemble(const std::vector<FunctionDraft>& functions, Code& code);

}  // namespace stitch::emulator
