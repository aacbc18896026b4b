#include "emulator/decode/operation_name.h"

namespace stitch::emulator {

std::string join(std::initializer_list<std::string_view> parts) {
  std::string name;
  for (const std::string_view part : parts) {
    if (part.empty()) continue;
    if (!name.empty()) name += '.';
    name += part;
  }
  return name;
}

std::string_view integer_name(Type type) {
  switch (type) {
    case Type::b16: return "u16";
    case Type::b32: return "u32";
    case Type::b64: return "u64";
    default: return to_string(type);
  }
}

std::string_view bit_name(Type type) {
  switch (bits(type)) {
    case 16: return "b16";
    case 32: return "b32";
    case 64: return "b64";
    default: return "b128";
  }
}

}  // namespace stitch::emulator
