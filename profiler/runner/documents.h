#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "profiler/device/device.h"

// What the two halves of the runner's protocol share. Readers throw Json::exception, which decode_request and
// decode_reply turn into errors.
namespace stitch::profiler::documents {

using Json = nlohmann::json;

std::string cbor_of(const Json& document);
/// A message: an object, bounded in size and nesting. Errors: parse (with the byte), resource_exhausted.
Result<Json> parse(std::string_view bytes);

Json binary_of(std::string_view bytes);
std::string bytes_from(const Json& document);

Json document_of(const BufferHandle& buffer);
BufferHandle buffer_from(const Json& document);

}  // namespace stitch::profiler::documents
