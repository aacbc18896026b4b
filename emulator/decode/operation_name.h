#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "emulator/ptx/scalar_type.h"

/// Names of rows of the lane table, as decoding puts them together.
namespace stitch::emulator {

/// The parts joined by dots, empty ones left out.
std::string join(std::initializer_list<std::string_view> parts);

/// add.s32 and add.b32 differ in nothing; bit types take the unsigned row.
std::string_view integer_name(Type type);

/// "b16", "b32", "b64" or "b128", for operations that look at bits only.
std::string_view bit_name(Type type);

}  // namespace stitch::emulator
