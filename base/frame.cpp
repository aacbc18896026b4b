#include "base/frame.h"

#include <unistd.h>

#include <cerrno>

namespace stitch {
namespace {

/// Reads until `size` bytes are there or the other side has closed; returns how many came.
std::size_t read_bytes(int input, char* into, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(input, into + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += got;
  }
  return done;
}

}  // namespace

Result<std::string> make_frame(std::string_view body) {
  if (body.size() > most_frame_bytes) {
    return make_error(ErrorKind::resource_exhausted, "a message of {} bytes, at most {} are sent", body.size(),
                      most_frame_bytes);
  }
  std::string frame;
  frame.reserve(frame_prefix_bytes + body.size());
  for (std::size_t i = 0; i < frame_prefix_bytes; ++i) frame += static_cast<char>(body.size() >> (8 * i) & 0xFF);
  return frame += body;
}

Result<std::uint32_t> frame_length(std::string_view prefix) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < frame_prefix_bytes; ++i) {
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(prefix[i])) << (8 * i);
  }
  if (length == 0) return make_error(ErrorKind::parse, "a frame of no bytes");
  if (length > most_frame_bytes) {
    return make_error(ErrorKind::resource_exhausted, "a frame of {} bytes, at most {} are read", length,
                      most_frame_bytes);
  }
  return length;
}

Result<std::optional<std::string>> read_frame(int input) {
  char prefix[frame_prefix_bytes];
  const std::size_t got = read_bytes(input, prefix, sizeof prefix);
  if (got == 0) return std::optional<std::string>();
  if (got < sizeof prefix) return make_error(ErrorKind::parse, "input ended after {} bytes of a frame's length", got);
  STITCH_ASSIGN(const std::uint32_t length, frame_length({prefix, sizeof prefix}));
  std::string body(length, '\0');
  const std::size_t came = read_bytes(input, body.data(), body.size());
  if (came < body.size()) {
    return make_error(ErrorKind::parse, "input ended after {} of a frame's {} bytes", came, body.size());
  }
  return std::optional(std::move(body));
}

bool write_frame(int output, std::string_view frame) {
  while (!frame.empty()) {
    const ssize_t put = ::write(output, frame.data(), frame.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    frame.remove_prefix(put);
  }
  return true;
}

}  // namespace stitch
