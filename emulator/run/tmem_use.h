#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "emulator/memory/tensor_memory.h"
#include "emulator/run/interpreter.h"

namespace stitch::emulator {

/// What one instruction does to tensor memory, and the first thing of each sort that is wrong with it: one instruction
/// touches thousands of words.
struct Interpreter::TmemUse {
  TmemUse(TensorAccess how, std::string_view instruction, std::uint32_t now)
      : access(how), what(instruction), time(now) {}

  TensorAccess access;
  std::string_view what;  ///< the instruction, for messages
  std::uint32_t time;

  std::optional<TmemPlace> outside;
  std::optional<TmemPlace> unwritten;
  struct Conflict {
    TmemPlace at;
    TensorStamp earlier;
  };
  std::optional<Conflict> unfenced;
  std::optional<Conflict> incomplete;
  std::optional<Conflict> unordered;
};

}  // namespace stitch::emulator
