#pragma once

#include <string_view>

#include "emulator/decode/instruction.h"

namespace stitch::emulator {

/// How PTX calls a special register, and how wide it is.
struct SpecialName {
  std::string_view name;
  SpecialRegister reg;
  Width width;
};

/// The register that PTX calls `name` ("%tid.x"); null when it has none.
const SpecialName* find_special_register(std::string_view name);

}  // namespace stitch::emulator
