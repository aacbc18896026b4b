#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stitch::costmodel {

/// What a sequence of bytes says of itself at its beginning: eight characters, and the version of its contents.
struct EnvelopeKind {
  std::string_view magic;  ///< eight characters
  std::string_view what;   ///< for people: "boosted trees"
  std::uint32_t version = 1;
};

/// Magic, version (4 bytes, little-endian), 4 of zero, XXH3-128 of the payload (high word first), payload.
std::string seal_envelope(const EnvelopeKind& kind, std::string_view payload);

/// The payload, in the bytes given. Errors: corrupt (another magic, truncated, a checksum that does not match),
/// version_mismatch (a newer version).
Result<std::string_view> open_envelope(const EnvelopeKind& kind, std::string_view bytes);

}  // namespace stitch::costmodel
