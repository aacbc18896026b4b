#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace stitch {

/// 128 bits of hash; names fragments, plans, kernels and schedules. Not cryptographic: whoever chooses the bytes can
/// make two runs of them of one name. It guards against accidents; where somebody else's bytes are found by it, the
/// contents are compared, too. Contents are named by base/sha256.h.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  auto operator<=>(const Hash128&) const = default;

  /// 32 lower-case hexadecimal digits.
  [[nodiscard]] std::string hex() const;
  static std::optional<Hash128> from_hex(std::string_view text);
};

/// XXH3-128 of a run of bytes.
Hash128 hash_bytes(std::span<const std::byte> bytes);
Hash128 hash_bytes(std::string_view text);

/// Streams values into a Hash128. Lengths are hashed before sequences, so that ("ab","c") and ("a","bc") differ.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  Hasher& bytes(std::span<const std::byte> data);
  Hasher& text(std::string_view data);
  Hasher& integer(std::uint64_t value);
  Hasher& hash(const Hash128& value);

  [[nodiscard]] Hash128 finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Mixes two 64-bit words; for hash tables, not for names.
constexpr std::uint64_t mix(std::uint64_t seed, std::uint64_t value) {
  std::uint64_t x = seed + 0x9e3779b97f4a7c15ULL + value;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace stitch

template <>
struct std::hash<stitch::Hash128> {
  std::size_t operator()(const stitch::Hash128& value) const noexcept { return value.low; }
};
