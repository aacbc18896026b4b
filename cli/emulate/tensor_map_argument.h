#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "emulator/tensor_map.h"

namespace stitch::cli {

/// A place in a value's bytes that only buffers' addresses fill: the address itself (8 bytes), or a tensor map over
/// what lies there (128 bytes, as CUtensorMap).
struct ArgumentPatch {
  std::uint64_t at = 0;      ///< byte of the value
  std::string base;          ///< the buffer …
  std::uint64_t offset = 0;  ///< … and how far into it
  std::optional<emulator::TensorMap> map;

  [[nodiscard]] std::uint64_t bytes() const { return map ? emulator::TensorMap::bytes : 8; }
};

/// "NAME+BYTES" into base and offset. Error: invalid_argument.
Status parse_buffer_address(std::string_view text, ArgumentPatch& patch);

/// What follows "map:", in cuTensorMapEncodeTiled's terms, the contiguous dimension first:
///
///   TYPE[SIZES]:at=NAME+BYTES:box=SIZES[:strides=BYTES][:element_strides=N][:swizzle=32|64|128][:fill=nan]
///
/// TYPE is one of tensorMapDataType's (f16, tf32, f32_ftz, …); strides are those of all dimensions but the first, by
/// default a dense tensor's. Errors: invalid_argument, unsupported; those of emulator::check.
Result<ArgumentPatch> parse_tensor_map(std::string_view text);

}  // namespace stitch::cli
