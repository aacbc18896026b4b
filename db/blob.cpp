#include "db/blob.h"

#include <zstd.h>

#include <memory>

namespace stitch::db {
namespace {

// Fast enough for the path of a commit; cubins shrink to about 40 %.
constexpr int compression_level = 3;

}  // namespace

Result<std::string> compress(std::string_view bytes) {
  if (std::ssize(bytes) > most_blob_bytes)
    return make_error(ErrorKind::resource_exhausted, "{} bytes are too many for one blob (at most {})", bytes.size(),
                      most_blob_bytes);
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size = ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), compression_level);
  if (ZSTD_isError(size)) return make_error(ErrorKind::internal, "zstd: {}", ZSTD_getErrorName(size));
  frame.resize(size);
  return frame;
}

Result<std::string> decompress(std::string_view frame, std::int64_t raw_bytes) {
  if (raw_bytes < 0 || raw_bytes > most_blob_bytes)
    return make_error(ErrorKind::corrupt, "a blob of {} bytes is impossible", raw_bytes);
  const std::size_t expected = raw_bytes;
  // Asked first: a damaged length must not cost an allocation.
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != expected)
    return make_error(ErrorKind::corrupt, "its compressed frame does not hold {} bytes", raw_bytes);
  std::string bytes(expected, '\0');
  const std::size_t size = ZSTD_decompress(bytes.data(), bytes.size(), frame.data(), frame.size());
  if (ZSTD_isError(size)) return make_error(ErrorKind::corrupt, "zstd: {}", ZSTD_getErrorName(size));
  if (size != expected) return make_error(ErrorKind::corrupt, "zstd: {} bytes instead of {}", size, raw_bytes);
  return bytes;
}

}  // namespace stitch::db
