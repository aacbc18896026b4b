#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace stitch::db {

/// The text of each value of an enumeration, in order; what the database and the portable file hold.
template <class Enum, std::size_t N>
struct Words {
  std::array<std::string_view, N> texts;

  [[nodiscard]] std::string_view of(Enum value) const {
    const auto index = static_cast<std::size_t>(value);
    return index < N ? texts[index] : "invalid";
  }
  [[nodiscard]] std::optional<Enum> find(std::string_view text) const {
    for (std::size_t i = 0; i < N; ++i) {
      if (texts[i] == text) return static_cast<Enum>(i);
    }
    return std::nullopt;
  }
};

}  // namespace stitch::db
