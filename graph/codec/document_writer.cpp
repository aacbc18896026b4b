#include "graph/codec/document_writer.h"

namespace stitch::graph::fields {

nlohmann::json binary_of(std::string_view bytes) { return nlohmann::json::binary({bytes.begin(), bytes.end()}); }

nlohmann::json binary_of(const Hash128& hash) {
  nlohmann::json::binary_t bytes;
  for (const std::uint64_t word : {hash.high, hash.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  return bytes;
}

nlohmann::json binary_of(const Sha256& name) {
  return nlohmann::json::binary({name.octets.begin(), name.octets.end()});
}

}  // namespace stitch::graph::fields
