#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/dim3.h"
#include "emulator/ptx/scalar_type.h"

/// What the PTX parser makes of a module: its declarations and statements as written, names not yet resolved. All
/// string views point into the text that was parsed.
namespace stitch::emulator::ptx {

struct Operand {
  enum class Kind : std::uint8_t {
    name,     ///< register, special register, variable, label, function, "_"
    integer,  ///< `bits`, two's complement
    real32,   ///< `bits` of an f32 (0f…)
    real64,   ///< `bits` of an f64 (0d…, or a decimal fraction)
    address,  ///< [name + offset], or [offset] with an empty name
    vector,   ///< {elements}
    list,     ///< (elements) of a call
  };
  Kind kind = Kind::name;
  bool inverted = false;  ///< written with '!'
  std::string_view name;
  std::string_view second;  ///< after '|': the other destination of setp and shfl
  std::uint64_t bits = 0;
  std::int64_t offset = 0;
  std::vector<Operand> elements;
};

enum class StateSpace : std::uint8_t { generic, global, constant, shared, local, param };

/// A variable: `.global .align 4 .b8 name[24] = {…}`. A relocation puts the address of a symbol into the initialiser.
struct Variable {
  std::string_view name;
  StateSpace space = StateSpace::global;
  Type type = Type::b8;
  std::uint32_t vector = 1;  ///< 2 for .v2, …
  std::uint32_t alignment = 1;
  std::uint64_t bytes = 0;
  bool is_array = false;
  bool is_extern = false;
  std::uint32_t scope = 0;
  std::uint32_t line = 0;
  std::vector<std::uint8_t> initial;  ///< shorter than `bytes`: the rest is zero; empty: all zero
  struct Relocation {
    std::uint64_t at = 0;
    std::string_view symbol;
    std::int64_t addend = 0;
  };
  std::vector<Relocation> relocations;
};

/// `.reg .b32 %r<7>` (count 7) or `.reg .pred p` (count 0: just the name).
struct RegisterDeclaration {
  std::string_view name;
  Type type = Type::b32;
  std::uint32_t count = 0;
  std::uint32_t scope = 0;
};

struct Statement {
  std::uint32_t line = 0;
  std::uint32_t scope = 0;
  std::uint32_t source_file = 0;  ///< of the .loc in force; 0 = none
  std::uint32_t source_line = 0;
  std::string_view guard;  ///< predicate register, or empty
  bool guard_inverted = false;
  std::string_view opcode;  ///< with its modifiers
  std::vector<Operand> operands;
};

/// A label stands before the statement with this index. `targets` is set for .branchtargets lists.
struct Label {
  std::string_view name;
  std::uint32_t scope = 0;
  std::size_t statement = 0;
  std::vector<std::string_view> targets;
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  bool has_body = false;
  std::uint32_t line = 0;
  std::vector<Variable> returns;
  std::vector<Variable> parameters;
  std::vector<std::uint32_t> scope_parent;  ///< scope 0 is the function's own and its own parent
  std::vector<RegisterDeclaration> registers;
  std::vector<Variable> variables;  ///< .shared, .local, .param and nested .global of the body
  std::vector<Statement> statements;
  std::vector<Label> labels;
  Dim3 required_block{0, 0, 0};    ///< .reqntid; x = 0: none
  Dim3 maximum_block{0, 0, 0};     ///< .maxntid
  Dim3 required_cluster{0, 0, 0};  ///< .reqnctapercluster
};

struct Module {
  std::string_view version;
  std::string_view target;
  std::uint32_t address_bits = 64;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::map<std::uint32_t, std::string> files;  ///< .file
};

}  // namespace stitch::emulator::ptx
