#pragma once

#include <cstdint>

#include "kernel/program/program.h"

namespace stitch::kernel {

/// The list in shared memory of the updates that a block has found for its tile (kernel/index/searched_updates.h): the
/// indices are read in chunks, of which each warp reads its own part; what they find is listed in order. Of 7,168
/// updates and 256 threads
///
///     8 parts of 512: two chunks; 32,768 bytes of numbers and places, 96 of counts and of the warps' places
///
/// Follows from the number of updates and the block's threads.
struct UpdateList {
  std::int64_t parts = 0;  ///< warps of the block; 0: there is no list
  std::int64_t part = 0;   ///< updates that a warp reads of a chunk, a multiple of 32

  [[nodiscard]] std::int64_t chunk() const { return parts * part; }
  /// Updates of a place that a thread which takes `elements` of each has under way together.
  [[nodiscard]] static int in_flight(std::int64_t elements);
  /// Of a chunk's updates 8 bytes each, as all may go to the tile, then by part how many were found, then by part the
  /// first and the last place of the warp.
  [[nodiscard]] std::int64_t shared_bytes() const {
    return parts == 0 ? 0 : (chunk() * 8 + (parts + parts % 2) * 4 + parts * 8 + 15) / 16 * 16;
  }
};

/// Of a group: none, unless its anchor is a scatter that blocks search the updates of, by warps that have whole rows.
UpdateList update_list(const GroupStructure& structure, const GroupMapping& mapping, int threads);

}  // namespace stitch::kernel
