#include "base/hash.h"

#include <xxhash.h>

#include <fmt/format.h>
#include <charconv>

namespace stitch {

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

std::optional<Hash128> Hash128::from_hex(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  Hash128 hash;
  const auto parse = [](std::string_view part, std::uint64_t& word) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), word, 16);
    return error == std::errc{} && end == part.data() + part.size();
  };
  if (!parse(text.substr(0, 16), hash.high) || !parse(text.substr(16), hash.low)) return std::nullopt;
  return hash;
}

Hash128 hash_bytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

Hash128 hash_bytes(std::string_view text) { return hash_bytes(std::as_bytes(std::span(text))); }

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh); }
Hasher::~Hasher() { XXH3_freeState(state_->xxh); }

Hasher& Hasher::bytes(std::span<const std::byte> data) {
  integer(data.size());
  XXH3_128bits_update(state_->xxh, data.data(), data.size());
  return *this;
}

Hasher& Hasher::text(std::string_view data) { return bytes(std::as_bytes(std::span(data))); }

Hasher& Hasher::integer(std::uint64_t value) {
  XXH3_128bits_update(state_->xxh, &value, sizeof value);
  return *this;
}

Hasher& Hasher::hash(const Hash128& value) { return integer(value.high).integer(value.low); }

Hash128 Hasher::finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

}  // namespace stitch
