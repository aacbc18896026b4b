#include "profiler/runner/documents.h"

#include "graph/codec/codec.h"
#include "profiler/runner/protocol.h"

namespace stitch::profiler::documents {

std::string cbor_of(const Json& document) {
  std::string bytes;
  Json::to_cbor(document, bytes);
  return bytes;
}

Result<Json> parse(std::string_view bytes) {
  auto document = graph::parse_document(bytes, graph::Encoding::cbor, most_frame_bytes);
  if (!document) return document.error().within("message");
  if (!document->is_object()) return make_error(ErrorKind::parse, "message: not an object");
  return document;
}

Json binary_of(std::string_view bytes) { return Json::binary(std::vector<std::uint8_t>(bytes.begin(), bytes.end())); }

std::string bytes_from(const Json& document) {
  const Json::binary_t& bytes = document.get_binary();
  return {bytes.begin(), bytes.end()};
}

Json document_of(const BufferHandle& buffer) {
  return {{"buffer", buffer.id}, {"bytes", buffer.bytes}, {"address", buffer.address}};
}

BufferHandle buffer_from(const Json& document) {
  return {document.at("buffer").get<int>(), document.at("bytes").get<std::int64_t>(),
          document.at("address").get<std::uint64_t>()};
}

}  // namespace stitch::profiler::documents
