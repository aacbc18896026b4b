#pragma once

#include <cstdint>

namespace stitch::emulator {

/// Windows of the generic 64-bit address space; global buffers lie from `global_base` on. Shared addresses are 32-bit
/// offsets: `shared_base` up to its size for the block's own memory, (rank + 1) << shared_rank_shift above that for
/// the memory of a block of the cluster. The first kilobyte is not used, as on the hardware, so that null is invalid.
inline constexpr std::uint64_t shared_window = std::uint64_t{1} << 44;
inline constexpr std::uint64_t local_window = std::uint64_t{2} << 44;
inline constexpr std::uint64_t parameter_window = std::uint64_t{3} << 44;
inline constexpr std::uint64_t window_bytes = std::uint64_t{1} << 32;
inline constexpr std::uint64_t global_base = std::uint64_t{1} << 48;
inline constexpr std::uint32_t shared_base = 1024;
inline constexpr int shared_rank_shift = 24;
/// What the addresses of a block's shared memory have above their offset, seen from its cluster.
constexpr std::uint64_t shared_tag(std::uint64_t rank) { return (rank + 1) << shared_rank_shift; }

}  // namespace stitch::emulator
