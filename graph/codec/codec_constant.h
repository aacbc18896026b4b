#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/attributes.h"
#include "graph/codec/encoding.h"

namespace stitch::graph {

/// A constant's data as a document value; docs/fragment-format.md, "Constants". Exact to the bit.
nlohmann::json encode_data(const ConstantAttributes& constant, Encoding encoding);

/// Fills constant.data for constant.type, which the caller has checked. Errors name the place below `path`.
Status decode_data(const nlohmann::json& value, const std::string& path, ConstantAttributes& constant);

/// The text of a value that is one.
std::string_view text_of(const nlohmann::json& value);

std::string base64(std::string_view bytes);
/// Nothing for text that is not canonical base64 with padding.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace stitch::graph
