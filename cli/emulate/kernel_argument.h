#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "cli/emulate/tensor_map_argument.h"
#include "graph/dtype.h"

namespace stitch::cli {

/// What stands in a kernel's parameter, as `stitch emulate --arg` and a corpus of kernels write it:
///
///   x.npy                              a buffer with the array's contents
///   random:f32[64,128]:seed=1          … with values that anybody can make again (random_contents)
///   data:s32[3]:AAAAAAEAAAACAAAA       … with these bytes (base64)
///   zero:f32[64]   out:f32[64]         … of zeros; … that nobody has written yet
///   &x+256                             the address 256 bytes into the buffer `x` of another argument
///   map:f16[64,128]:at=x:box=64,64     a tensor map of that buffer (parse_tensor_map), as a __grid_constant__
///   null                               a null pointer
///   i32=5   f32=0.5   pred=1           a value of that type
///   bytes=00ff12…[;@8=&x][;@64=map:…]  a structure, byte by byte; from byte 8 on an address, from 64 on a tensor map
///
/// NAME= before any of them names it; without, its name is its position, or the file's stem.
struct KernelArgument {
  enum class Kind : std::uint8_t { buffer, value };

  std::string name;
  std::string text;  ///< as given, for messages
  Kind kind = Kind::value;
  /// A buffer's initial contents (empty and not `initialised`: nobody wrote it), or a value's bytes.
  std::vector<std::byte> bytes;
  std::uint64_t buffer_bytes = 0;
  bool initialised = false;
  graph::DType dtype = graph::DType::u8;
  std::vector<std::int64_t> shape;
  std::vector<ArgumentPatch> patches;  ///< of a value: addresses and tensor maps that it holds

  /// Bytes that it takes in the parameter block.
  [[nodiscard]] std::uint64_t parameter_bytes() const { return kind == Kind::value ? bytes.size() : 8; }
};

/// The `position`-th argument of a kernel. Errors name the argument and say what was expected; files' are of the kind
/// that reading or parsing them gives.
Result<KernelArgument> parse_argument(std::string_view text, std::size_t position, const FileSystem& files);

/// `count` elements of `dtype`: element i is low + (high - low) × u(i), computed in double and rounded to f32 and then
/// to the type, where u(i) = (mix(seed, i) >> 40) / 2^24 lies in [0, 1) and mix is base/hash.h's; of integers it is low
/// + mix(seed, i) mod (high - low), of pred the lowest bit of mix(seed, i) >> 40.
std::vector<std::byte> random_contents(graph::DType dtype, std::int64_t count, std::uint64_t seed, double low,
                                       double high);

/// The element type of a .npy file's ("f4", "V2" is bf16), and back. Error: unsupported.
Result<graph::DType> dtype_of_npy(std::string_view type);
std::string npy_type_of(graph::DType dtype);

}  // namespace stitch::cli
