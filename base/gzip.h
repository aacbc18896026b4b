#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stitch {

/// Whether the bytes begin like a gzip file (RFC 1952).
bool is_gzip(std::string_view bytes);

/// The contents of a gzip file, all members joined. Errors: corrupt (damaged or cut off), resource_exhausted (more
/// than `most_bytes` come out).
Result<std::string> gunzip(std::string_view bytes, std::int64_t most_bytes);

}  // namespace stitch
