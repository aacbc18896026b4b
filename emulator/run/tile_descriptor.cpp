#include "emulator/run/tile_descriptor.h"

namespace stitch::emulator {
namespace {

TileDescriptor with_places(std::uint64_t bits) {
  TileDescriptor tile;
  tile.start = (bits & 0x3FFF) << 4;
  tile.leading = (bits >> 16 & 0x3FFF) << 4;
  tile.stride = (bits >> 32 & 0x3FFF) << 4;
  return tile;
}

}  // namespace

TileDescriptor TileDescriptor::of_warp_group(std::uint64_t bits) {
  constexpr std::uint32_t modes[] = {0, 128, 64, 32};
  TileDescriptor tile = with_places(bits);
  tile.swizzle_bytes = modes[bits >> 62];
  return tile;
}

TileDescriptor TileDescriptor::of_tensor_core(std::uint64_t bits) {
  constexpr std::uint32_t modes[] = {0, 128, 128, 0, 64, 0, 32, 0};
  const std::uint64_t mode = bits >> 61;
  TileDescriptor tile = with_places(bits);
  tile.swizzle_bytes = modes[mode];
  if (mode == 1) tile.swizzle_piece = 32;
  const std::uint64_t constant = bits >> 46 & 7;
  const bool absolute = (bits >> 52 & 1) != 0;  // the leading distance is an address
  const std::uint64_t base_offset = bits >> 49 & 7;
  tile.is_valid = constant == 1 && !absolute && base_offset == 0 && (mode == 0 || modes[mode] != 0);
  return tile;
}

std::uint32_t TileDescriptor::swizzled(std::uint32_t at) const {
  if (swizzle_piece == 32) return at ^ ((at >> 7 & 3) << 5);
  switch (swizzle_bytes) {
    case 128: return at ^ ((at >> 7 & 7) << 4);
    case 64: return at ^ ((at >> 7 & 3) << 4);
    case 32: return at ^ ((at >> 7 & 1) << 4);
    default: return at;
  }
}

std::uint32_t TileDescriptor::address(std::uint32_t row, std::uint32_t k, std::uint32_t width,
                                      bool row_contiguous) const {
  if (!row_contiguous) {
    const std::uint32_t byte = k * width / 8;
    const std::uint32_t within =
        swizzle_bytes == 0 ? row % 8 * 16 + byte / 16 * leading + byte % 16 : row % 8 * swizzle_bytes + byte;
    return swizzled(start + row / 8 * stride + within);
  }
  const std::uint32_t run = 128 / width;  // elements in 16 bytes
  const std::uint32_t unit = row / run;
  const std::uint32_t byte = row % run * width / 8;
  if (swizzle_bytes == 0) return start + unit * stride + k % 8 * 16 + k / 8 * leading + byte;
  const std::uint32_t units = swizzle_bytes / 16;
  const std::uint32_t depth = swizzle_piece == 32 ? 4 : 8;  // of K in an atom
  return swizzled(start + unit / units * leading + unit % units * 16 + k % depth * swizzle_bytes + k / depth * stride +
                  byte);
}

}  // namespace stitch::emulator
