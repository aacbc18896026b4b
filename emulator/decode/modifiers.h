#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "emulator/ptx/scalar_type.h"

namespace stitch::emulator {

/// An opcode's dot-separated parts after the first, consumed one by one; what nobody consumed is an error.
class Modifiers {
 public:
  explicit Modifiers(std::string_view opcode);

  [[nodiscard]] std::string_view root() const { return root_; }
  /// Removes `name` when present.
  bool take(std::string_view name);
  /// Removes the first of `names` that is present and returns it; empty when none is.
  std::string_view take_any(std::initializer_list<std::string_view> names);
  /// Removes and returns the first (last) type among the parts.
  std::optional<Type> take_type();
  std::optional<Type> take_last_type();
  /// Removes and returns the foremost part, or an empty view.
  std::string_view take_front();
  /// Removes every part that starts with `prefix`; whether there was one.
  bool drop_prefix(std::string_view prefix);
  [[nodiscard]] const std::vector<std::string_view>& rest() const { return parts_; }

 private:
  std::string_view root_;
  std::vector<std::string_view> parts_;
};

}  // namespace stitch::emulator
