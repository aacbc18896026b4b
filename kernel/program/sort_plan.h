#pragma once

#include <cstdint>

#include "kernel/program/program.h"

namespace stitch::kernel {

/// How a group sorts its lines: each by `threads` threads that have `elements` of it in registers, by a bitonic network
/// over words of a key and its place (codegen/device/sort.cuh). Of f32[1024,4096] with 256 threads a block
///
///     length 4096; 256 threads with 16 elements each; 8 bytes a word: 34,816 bytes of shared memory
///
/// Follows from the group's mapping, whose lanes and warps along the innermost of the sorted axes are the threads.
struct SortPlan {
  /// What is compared, by the bytes of a key: keys of up to 16 bits with 15 bits for the place, of 32 bits with 31 bits
  /// for it, or of 64 bits and a place beside it.
  enum class Word : std::uint8_t { u32, u64, pair };
  std::int64_t length = 1;  ///< elements of a line
  std::int64_t threads = 1, elements = 1;
  std::int64_t lines = 1;  ///< that a block sorts side by side
  Word word = Word::u64;
  /// Words of a line in shared memory, those that keep banks apart included; 0: none is needed.
  std::int64_t pitch = 0;

  [[nodiscard]] int word_bytes() const { return word == Word::u32 ? 4 : word == Word::u64 ? 8 : 16; }
  /// A power of two, not below the length.
  [[nodiscard]] std::int64_t padded() const { return threads * elements; }
  [[nodiscard]] std::int64_t shared_bytes() const { return lines * pitch * word_bytes(); }
};

/// Of a group whose first anchor is a sort. `threads`: of the block.
SortPlan sort_plan(const GroupStructure& structure, const GroupMapping& mapping, int threads);

}  // namespace stitch::kernel
