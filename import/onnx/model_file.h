#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace onnx {
class ModelProto;
}

namespace stitch::import::onnx {

/// An ONNX file as a message that has a graph. Errors: resource_exhausted (more than `max_bytes`), parse (names the
/// byte).
Result<::onnx::ModelProto> parse_model(std::string_view bytes, std::int64_t max_bytes);

}  // namespace stitch::import::onnx
