#include <string>

#include "profiler/runner/protocol.h"
#include "tests/fuzz/fuzz_target.h"

namespace stitch::fuzz {
namespace {

/// What one side reads of the other is a message that can be sent again as it is, or an error with a reason.
template <class Decode>
void check_message(std::string_view bytes, Decode decode) {
  const auto message = decode(bytes);
  if (!message) {
    promise(!message.error().message.empty(), "a refusal says why");
    return;
  }
  const std::string sent = profiler::encode(*message);
  const auto again = decode(sent);
  promise(again.ok(), "a message that was read can be sent");
  promise(profiler::encode(*again) == sent, "and stays the same");
}

}  // namespace

void fuzz_one(std::string_view bytes) {
  check_message(bytes, profiler::decode_request);
  check_message(bytes, profiler::decode_reply);
  if (bytes.size() >= profiler::frame_prefix_bytes) {
    const Result<std::uint32_t> length = profiler::frame_length(bytes.substr(0, profiler::frame_prefix_bytes));
    promise(!length || *length <= profiler::most_frame_bytes, "a frame's length is bounded");
  }
}

}  // namespace stitch::fuzz
