#include "base/gzip.h"

#include <zlib.h>
#include <algorithm>
#include <array>

namespace stitch {
namespace {

/// An inflating stream that is released whatever happens.
class Inflater {
 public:
  explicit Inflater(std::string_view bytes) {
    // zlib's interface predates const; it does not write to its input.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = bytes.size();
    ready_ = inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK;  // 16: a gzip header and checksum
  }
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  [[nodiscard]] bool ready() const { return ready_; }
  [[nodiscard]] std::size_t unread() const { return stream_.avail_in; }
  [[nodiscard]] std::string_view complaint() const {
    return stream_.msg == nullptr ? "the stream is cut off" : stream_.msg;
  }
  /// Appends what comes next; returns zlib's status.
  int read(std::string& into) {
    std::array<char, 1 << 16> buffer;
    stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_.avail_out = buffer.size();
    const int status = inflate(&stream_, Z_NO_FLUSH);
    into.append(buffer.data(), buffer.size() - stream_.avail_out);
    return status;
  }
  bool next_member() { return inflateReset(&stream_) == Z_OK; }

 private:
  z_stream stream_{};
  bool ready_ = false;
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

Result<std::string> gunzip(std::string_view bytes, std::int64_t most_bytes) {
  if (bytes.size() > (std::size_t{1} << 31)) {
    return make_error(ErrorKind::resource_exhausted, "gzip: {} bytes are too many", bytes.size());
  }
  Inflater inflater(bytes);
  if (!inflater.ready()) return make_error(ErrorKind::resource_exhausted, "gzip: no memory for the decompressor");
  std::string contents;
  for (;;) {
    const int status = inflater.read(contents);
    if (std::ssize(contents) > most_bytes) {
      return make_error(ErrorKind::resource_exhausted, "gzip: more than {} bytes after decompression", most_bytes);
    }
    if (status == Z_OK) continue;
    if (status != Z_STREAM_END) {
      return make_error(ErrorKind::corrupt, "gzip: {} (byte {} of {})", inflater.complaint(),
                        bytes.size() - inflater.unread(), bytes.size());
    }
    const std::size_t rest = inflater.unread();
    if (rest == 0 || !is_gzip(bytes.substr(bytes.size() - rest)) || !inflater.next_member()) return contents;
  }
}

}  // namespace stitch
