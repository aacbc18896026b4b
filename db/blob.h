#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stitch::db {

/// No blob is larger than this, compressed or not.
inline constexpr std::int64_t most_blob_bytes = std::int64_t{256} << 20;

/// One zstd frame with content size. resource_exhausted beyond most_blob_bytes.
Result<std::string> compress(std::string_view bytes);

/// The bytes of one frame, which must be `raw_bytes` of them. Never allocates more than that. Error: corrupt.
Result<std::string> decompress(std::string_view frame, std::int64_t raw_bytes);

}  // namespace stitch::db
