#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stitch {

/// SHA-256 of a run of bytes (FIPS 180-4): the name of contents that somebody else may have made. Unlike a Hash128 it
/// holds against an adversary: nobody can find other bytes of the same name. What `sha256sum` prints is its hex().
struct Sha256 {
  static constexpr std::size_t size = 32;
  std::array<std::uint8_t, size> octets{};  ///< in the order in which they are printed

  auto operator<=>(const Sha256&) const = default;

  [[nodiscard]] std::span<const std::byte> bytes() const { return std::as_bytes(std::span(octets)); }
  /// 64 lower-case hexadecimal digits.
  [[nodiscard]] std::string hex() const;
  /// Of 64 hexadecimal digits of either case; nothing for any other text.
  static std::optional<Sha256> from_hex(std::string_view text);
  /// Of 32 bytes; nothing for any other number of them.
  static std::optional<Sha256> from_bytes(std::string_view bytes);
};

/// By OpenSSL's libcrypto, which uses the processor's SHA instructions where it has them.
Sha256 sha256(std::span<const std::byte> bytes);
Sha256 sha256(std::string_view text);

}  // namespace stitch

template <>
struct std::hash<stitch::Sha256> {
  std::size_t operator()(const stitch::Sha256& value) const noexcept {
    std::size_t word = 0;
    std::memcpy(&word, value.octets.data(), sizeof word);
    return word;
  }
};
