#include "profiler/runner/protocol.h"

// Frames. What is in them is in profiler/runner/messages.cpp.
namespace stitch::profiler {

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

}  // namespace stitch::profiler
