#include "emulator/decode/modifiers.h"

#include <algorithm>

namespace stitch::emulator {

Modifiers::Modifiers(std::string_view opcode) {
  while (!opcode.empty()) {
    const std::size_t dot = opcode.find('.');
    const std::string_view part = opcode.substr(0, dot);
    if (root_.empty()) {
      root_ = part;
    } else {
      parts_.push_back(part);
    }
    opcode = dot == std::string_view::npos ? std::string_view() : opcode.substr(dot + 1);
  }
}

bool Modifiers::take(std::string_view name) {
  const auto found = std::ranges::find(parts_, name);
  if (found == parts_.end()) return false;
  parts_.erase(found);
  return true;
}

std::string_view Modifiers::take_any(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (take(name)) return name;
  }
  return {};
}

std::optional<Type> Modifiers::take_type() {
  for (auto part = parts_.begin(); part != parts_.end(); ++part) {
    if (const auto type = type_from_name(*part)) {
      parts_.erase(part);
      return type;
    }
  }
  return std::nullopt;
}

std::optional<Type> Modifiers::take_last_type() {
  for (std::size_t i = parts_.size(); i-- > 0;) {
    if (const auto type = type_from_name(parts_[i])) {
      parts_.erase(parts_.begin() + i);
      return type;
    }
  }
  return std::nullopt;
}

std::string_view Modifiers::take_front() {
  if (parts_.empty()) return {};
  const std::string_view part = parts_.front();
  parts_.erase(parts_.begin());
  return part;
}

bool Modifiers::drop_prefix(std::string_view prefix) {
  return std::erase_if(parts_, [&](std::string_view part) { return part.starts_with(prefix); }) > 0;
}

}  // namespace stitch::emulator
