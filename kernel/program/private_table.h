#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "graph/graph.h"
#include "kernel/program/program.h"

namespace stitch::kernel {

/// A small table that many updates are combined into: a bincount, segment sums over few segments, the gradient of a
/// table of positions. By atomics on device memory alone all of them meet in the few slices of L2 that the table lies
/// in. Instead each block keeps a table of its own in shared memory, which it fills with the combiner's identity,
/// combines the updates of all its tiles into, and then once, element by element, into device memory.
struct PrivateTable {
  std::int64_t elements = 0;
  graph::DType dtype = graph::DType::f32;  ///< of the elements, an accumulator's
  graph::ReduceKind combiner = graph::ReduceKind::sum;
  Buffer buffer;  ///< where the whole lies

  [[nodiscard]] std::int64_t bytes() const { return elements * graph::byte_size(dtype); }
  /// Whether an SM combines in shared memory by one instruction: 32-bit integers, and floats' extremes by way of them.
  /// Else it tries again until nobody came between (ATOMS.CAST.SPIN in the machine code).
  [[nodiscard]] bool is_native() const;
};

/// Of a phase that updates by atomics and nothing else, where it pays: the table is small beside the block (64 bytes a
/// thread, so that a full SM has room for its blocks'), every block has several updates for each element, and the
/// table is so small that L2 would be the slower place. Follows from the schedule: emitter and cost model ask here.
std::optional<PrivateTable> private_table(const graph::Graph& graph, const KernelProgram& program, std::size_t phase);

}  // namespace stitch::kernel
