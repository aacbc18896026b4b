#pragma once

#include <string>

#include "import/hlo/syntax.h"

namespace stitch::import::hlo {

/// An instruction's attributes as text that says all about what it computes and nothing else: metadata, sharding and
/// the like are left out, computations that it calls are written out with numbered instead of named instructions.
/// Part of an opaque node's identity.
std::string describe_attributes(const Module& module, const Instruction& instruction);

}  // namespace stitch::import::hlo
