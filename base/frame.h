#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

// Frames: how a program and its children tell where a message ends on a pipe. A frame is 4 bytes of length,
// little-endian, and that many bytes of whatever the two speak. The parent's side of a pipe is base/subprocess.h.
namespace stitch {

/// A longer frame is an error, so that a damaged length cannot make anybody allocate what it says.
inline constexpr std::uint32_t most_frame_bytes = std::uint32_t{64} << 20;

inline constexpr std::size_t frame_prefix_bytes = 4;
/// Length and body. Error: resource_exhausted.
Result<std::string> make_frame(std::string_view body);
/// The length that the first 4 bytes of a frame announce. Errors: parse (0), resource_exhausted (over the bound).
Result<std::uint32_t> frame_length(std::string_view prefix);

/// The body of the next frame from a descriptor, for as long as it takes to come; nothing at the end of input. Errors:
/// those of frame_length; parse (input ended within a frame).
Result<std::optional<std::string>> read_frame(int input);
/// Writes all of a frame that make_frame made; false when nobody reads it any more.
bool write_frame(int output, std::string_view frame);

}  // namespace stitch
