#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "emulator/decode/code.h"
#include "emulator/decode/instruction.h"

/// Instructions between decoding and assembly: operands are virtual registers or constant rows, targets are labels.
/// Views point into the PTX text.
namespace stitch::emulator {

/// An operand before register allocation: nothing, a virtual register, or a constant row.
struct Ref {
  enum class Kind : std::uint8_t { none, reg, constant } kind = Kind::none;
  std::uint32_t index = 0;  ///< virtual register, or offset of the constant row

  [[nodiscard]] bool exists() const { return kind != Kind::none; }
};

/// An instruction whose operands are not yet placed.
struct InstructionDraft {
  Instruction instruction;
  Ref guard, d, d2, a, b, c, e;
  std::vector<Ref> list;
  std::size_t list_defines = 0;         ///< the first so many of `list` are written …
  bool list_reads_definitions = false;  ///< … and read as well (accumulators)
  std::string_view label;               ///< branch target, resolved at the end of the function
  std::vector<std::string_view> table;  ///< targets of branch_indexed
  std::string_view callee;
  std::uint32_t scope = 0;
  Origin origin;
};

/// The operands of an instruction of the usual shape: a destination, perhaps a predicate after '|', and sources.
struct OperandRefs {
  Ref d, d2, a, b, c, e;
};

struct VirtualRegister {
  Width width = Width::none;
  std::string_view name;  ///< empty for temporaries
};

/// The drafts of one function, and what register allocation needs.
struct FunctionDraft {
  std::string_view name;
  bool is_entry = false;
  std::vector<VirtualRegister> registers;
  std::vector<InstructionDraft> drafts;
  Ref return_address;
};

}  // namespace stitch::emulator
