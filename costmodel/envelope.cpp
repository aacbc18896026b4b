#include "costmodel/envelope.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/hash.h"

namespace stitch::costmodel {
namespace {

static_assert(std::endian::native == std::endian::little, "the container is little-endian");

struct Header {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t reserved = 0;
  Hash128 checksum;
};
static_assert(sizeof(Header) == 32);

}  // namespace

std::string seal_envelope(const EnvelopeKind& kind, std::string_view payload) {
  Header header;
  std::memcpy(header.magic.data(), kind.magic.data(), header.magic.size());
  header.version = kind.version;
  header.checksum = hash_bytes(payload);
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  bytes += payload;
  return bytes;
}

Result<std::string_view> open_envelope(const EnvelopeKind& kind, std::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof header || !bytes.starts_with(kind.magic))
    return make_error(ErrorKind::corrupt, "these {} bytes are no {}", bytes.size(), kind.what);
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version > kind.version)
    return make_error(ErrorKind::version_mismatch, "{} of version {}; this program reads up to {}", kind.what,
                      header.version, kind.version);
  const std::string_view payload = bytes.substr(sizeof header);
  if (header.version == 0 || hash_bytes(payload) != header.checksum)
    return make_error(ErrorKind::corrupt, "{}: the bytes do not match their checksum", kind.what);
  return payload;
}

}  // namespace stitch::costmodel
