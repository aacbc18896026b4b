#include "costmodel/contraction/pruning_bound.h"

#include <algorithm>

#include "costmodel/contraction/product_rates.h"
#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/program/legality.h"

namespace stitch::costmodel {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::ContractionShape;

/// Multiply-adds for each byte.
double intensity(const ContractionProblem& problem, const ContractionSchedule& s, const ContractionShape& shape) {
  const double depth = static_cast<double>(shape.depth_tiles) * s.block_depth;
  const double loaded = depth * (s.block_rows * static_cast<double>(graph::byte_size(problem.left.dtype)) +
                                 s.block_columns * static_cast<double>(graph::byte_size(problem.right.dtype)));
  const double results = static_cast<double>(s.block_rows) * s.block_columns;
  const double bytes = loaded + results * graph::byte_size(problem.result.dtype);
  return bytes == 0 ? 0 : results * depth / bytes;
}

}  // namespace

PruningBound pruning_bound(const ContractionProblem& problem, const ContractionSchedule& s, const DeviceSpec& device) {
  PruningBound bound;
  const ContractionShape shape = kernel::shape_of(problem, s);
  const double of_sm = multiply_rate(problem, s.instruction, device);
  if (shape.tiles == 0 || of_sm == 0) return bound;
  const double rate = of_sm * device.clock_hz * device.sm_count;
  bound.global = std::min(1.0, intensity(problem, s, shape) * tile_bandwidth(device) / rate);
  if (!reads_tiles(s.instruction) && shape.depth_steps > 0) {
    const int room =
        std::max(s.blocks_per_sm, kernel::resident_blocks(shape.threads, shape.registers, shape.shared_bytes, device));
    const auto resident =
        std::min<double>(room, static_cast<double>(kernel::divided_up(shape.blocks, device.sm_count)));
    const double block = static_cast<double>(s.block_rows) * s.block_columns * s.block_depth / of_sm;
    bound.shared = std::min(1.0, resident * block / shape.depth_steps / device.shared_latency);
  }
  const std::int64_t rounds = kernel::divided_up(shape.blocks, device.sm_count);
  if (s.streamed == 0)
    bound.last_wave = static_cast<double>(shape.blocks) / static_cast<double>(device.sm_count * rounds);
  return bound;
}

}  // namespace stitch::costmodel
