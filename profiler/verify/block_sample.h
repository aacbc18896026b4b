#pragma once

#include <cstdint>
#include <vector>

#include "codegen/kernel.h"
#include "graph/graph.h"
#include "graph/reference/evaluate.h"
#include "kernel/program/program.h"

namespace stitch::profiler {

/// Work of a kernel, in scalar operations: elements × items over all groups. What bounds a verification's cost.
std::int64_t kernel_work(const kernel::KernelProgram& program);

/// Some blocks of a kernel, and what makes their results predictable although the other blocks never run.
struct BlockSample {
  /// `count` elements of `size` bytes that a scratch buffer holds before the launch, each with these little-endian
  /// bits.
  struct Preset {
    int scratch = 0;  ///< number of the scratch buffer (codegen::GeneratedKernel::scratch)
    std::int64_t offset = 0;
    int size = 4;
    std::int64_t count = 1;
    std::uint64_t bits = 0;
    bool operator==(const Preset&) const = default;
  };
  std::vector<std::uint64_t> blocks;  ///< ascending, complete clusters; empty: all
  std::int64_t grid = 0;              ///< blocks of the launch that they are numbers of; 0: as the kernel is launched
  std::vector<graph::ReduceRestriction> restrictions;  ///< what the reductions of such a launch combine
  std::vector<Preset> presets;                         ///< to be written before every launch

  /// Elements of all results that such a launch writes, where that is known; 0: it is not.
  std::int64_t writes = 0;

  [[nodiscard]] bool whole() const { return blocks.empty(); }
};

/// Blocks to run so that their work stays near `budget`. First and last tile of every group (which hold the tails) are
/// always among them, the rest is drawn by `seed`.
///
/// Blocks that hand partial results to a later phase are chosen so that along one grid axis some digits are run with
/// all digits of the other axes: then every reduction combines the same part of its operand (`restrictions`). The
/// partials of what does not run are the reduction's identity, and the arrival counters start at the number of blocks
/// that never arrive (`presets`). Tiles that store what a later phase reads all run. A kernel runs whole when its work
/// is within the budget, when no axis gives such parts, or when what must run comes to most of it.
BlockSample sample_blocks(const graph::Graph& graph, const kernel::KernelProgram& program,
                          const codegen::GeneratedKernel& kernel, std::int64_t budget, std::uint64_t seed);

/// First tile of every group of a phase, in tiles of the phase; empty when the kernel's arguments do not tell.
std::vector<std::int64_t> first_tiles(const kernel::KernelProgram& program, const codegen::GeneratedKernel& kernel,
                                      std::size_t phase);

}  // namespace stitch::profiler
