#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "emulator/ptx/ptx_cursor.h"
#include "emulator/ptx/ptx_syntax.h"

/// Declarations of variables, registers and parameters, read behind their state space (".shared", ".reg", …).
namespace stitch::emulator::ptx {

/// A type in a declaration: ".b32", ".align 16", ".v4" collected in front of a name.
struct DeclaredType {
  Type type = Type::b8;
  std::uint32_t vector = 1;
  std::uint32_t alignment = 0;
};

Result<DeclaredType> declared_type(Cursor& in);

/// A type, a name, dimensions and an initialiser; up to the semicolon or comma that follows.
Result<Variable> declared_variable(Cursor& in, StateSpace space, bool is_extern, std::uint32_t scope);

/// "(.param .u64 a, …)", or nothing.
Result<std::vector<Variable>> parameter_list(Cursor& in);

}  // namespace stitch::emulator::ptx
