#include "base/sha256.h"

#include <openssl/sha.h>

#include <algorithm>

namespace stitch {
namespace {

static_assert(Sha256::size == SHA256_DIGEST_LENGTH);

constexpr std::string_view digits = "0123456789abcdef";

/// The value of a hexadecimal digit; -1 for any other character.
int value_of(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

std::string Sha256::hex() const {
  std::string text;
  text.reserve(2 * size);
  for (const std::uint8_t octet : octets) {
    text += digits[octet >> 4];
    text += digits[octet & 15];
  }
  return text;
}

std::optional<Sha256> Sha256::from_hex(std::string_view text) {
  if (text.size() != 2 * size) return std::nullopt;
  Sha256 name;
  for (std::size_t i = 0; i < size; ++i) {
    const int high = value_of(text[2 * i]), low = value_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    name.octets[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return name;
}

std::optional<Sha256> Sha256::from_bytes(std::string_view bytes) {
  if (bytes.size() != size) return std::nullopt;
  Sha256 name;
  std::ranges::copy(bytes, name.octets.begin());
  return name;
}

Sha256 sha256(std::span<const std::byte> bytes) {
  Sha256 name;
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), name.octets.data());
  return name;
}

Sha256 sha256(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

}  // namespace stitch
