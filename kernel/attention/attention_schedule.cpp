#include "kernel/attention/attention_schedule.h"

#include <algorithm>
#include <bit>

#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/strips.h"

namespace stitch::kernel {
namespace {

using enum ContractionInstruction;

/// Addresses, bounds, maxima and sums beside what is multiplied.
constexpr int registers_beside = 64, registers_beside_cores = 80;
/// Lanes of a warp of CUDA cores, down and across.
constexpr int lanes_down = 4, lanes_across = 8;
constexpr int least_extent = 16;

/// The extent of a tile that covers a whole dimension.
int covering(std::int64_t extent) {
  return std::max<int>(least_extent, static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(extent))));
}

ContractionSchedule part_of(const AttentionSchedule& s, int columns, int depth) {
  ContractionSchedule part;
  part.instruction = s.instruction;
  part.block_rows = s.block_rows;
  part.block_columns = part.warp_columns = columns;
  part.block_depth = depth;
  part.warp_rows = s.warp_rows;
  if (s.instruction == cuda_core) {
    part.thread_rows = s.warp_rows / lanes_down;
    part.thread_columns = columns / lanes_across;
  } else {
    part.thread_rows = part.thread_columns = 0;
  }
  part.stages = 1;
  part.blocks_per_sm = s.blocks_per_sm;
  return part;
}

std::string wrong_tiles(const AttentionProblem& problem, const AttentionSchedule& s) {
  constexpr std::int64_t deepest = 256;
  if (problem.depth() > deepest || problem.width() > deepest)
    return fmt::format("depth {} and width {}, at most {}", problem.depth(), problem.width(), deepest);
  for (const int value : {s.block_rows, s.block_keys, s.warp_rows}) {
    if (value < least_extent || !std::has_single_bit(static_cast<unsigned>(value)))
      return fmt::format("tiles of {}", value);
  }
  return s.block_rows % s.warp_rows == 0 ? "" : fmt::format("warps of {} of {} rows", s.warp_rows, s.block_rows);
}

}  // namespace

std::string to_string(const AttentionSchedule& s) {
  return fmt::format("{} rows {} keys {} warp {} stages {} split {} copy {}/{}/{} store {} blocks {}{}",
                     to_string(s.instruction), s.block_rows, s.block_keys, s.warp_rows, s.stages, s.split, s.query_copy,
                     s.key_copy, s.value_copy, s.store, s.blocks_per_sm, s.skips ? "" : " all keys");
}

Hash128 schedule_hash(const AttentionSchedule& schedule) {
  Hasher hasher;
  hasher.text("stitch-attention-schedule-1").text(to_string(schedule));
  return hasher.finish();
}

AttentionShape shape_of(const AttentionProblem& problem, const AttentionSchedule& s) {
  AttentionShape shape;
  const int depth = covering(problem.depth()), width = covering(problem.width());
  shape.scores = part_of(s, s.block_keys, depth);
  shape.scores.left_copy = s.query_copy;
  shape.scores.right_copy = s.key_copy;
  shape.product = part_of(s, width, s.block_keys);
  shape.product.left_copy = graph::byte_size(problem.product.left.dtype);
  shape.product.right_copy = s.value_copy;
  shape.product.store = s.store;
  shape.warps = s.block_rows / s.warp_rows;
  shape.threads = 32 * shape.warps;
  shape.row_tiles = divided_up(problem.rows(), s.block_rows);
  shape.key_tiles = divided_up(divided_up(problem.keys(), s.block_keys), s.split);
  shape.tiles = problem.batch() * shape.row_tiles;
  shape.blocks = std::max<std::int64_t>(1, shape.tiles * s.split);
  const auto bytes = [](std::int64_t elements, const ContractionOperand& operand) {
    return elements * graph::byte_size(operand.dtype);
  };
  shape.query_bytes = bytes(std::int64_t{s.block_rows} * depth, problem.scores.left);
  shape.key_bytes = bytes(std::int64_t{s.block_keys} * depth, problem.scores.right);
  shape.value_bytes = bytes(std::int64_t{s.block_keys} * width, problem.product.right);
  if (s.instruction == cuda_core)
    shape.weight_bytes = bytes(std::int64_t{s.block_rows} * s.block_keys, problem.product.left);
  const std::int64_t tiles = shape.query_bytes + s.stages * (shape.key_bytes + shape.value_bytes) + shape.weight_bytes;
  shape.shared_bytes = std::max(tiles, shape.warps * strips_of(problem.product, shape.product).bytes);
  const int sums = s.warp_rows * (s.block_keys + width) / 32;
  const int rows = s.instruction == cuda_core ? shape.scores.thread_rows : s.warp_rows / 8;  // that a lane has
  if (s.split > 1) shape.part_bytes = shape.blocks * shape.threads * (s.warp_rows * width / 32 + 2 * rows) * 4;
  int fragments = std::max(kernel::shape_of(problem.scores, shape.scores).fragments,
                           kernel::shape_of(problem.product, shape.product).fragments);
  // Loads of fragments and products of mma are straight code, of which the compiler keeps few alive.
  if (s.instruction != cuda_core) fragments = std::min(fragments, 32);
  shape.registers =
      sums + fragments + 3 * rows + (s.instruction == cuda_core ? registers_beside_cores : registers_beside);
  return shape;
}

void fit_accesses(const AttentionProblem& problem, AttentionSchedule& s) {
  AttentionShape shape = shape_of(problem, s);
  fit_accesses(problem.scores, shape.scores);
  fit_accesses(problem.product, shape.product);
  s.query_copy = shape.scores.left_copy;
  s.key_copy = shape.scores.right_copy;
  s.value_copy = shape.product.right_copy;
  s.store = shape.product.store;
}

Status check_legality(const AttentionProblem& problem, const AttentionSchedule& s, const DeviceSpec& device) {
  if (const std::string wrong = wrong_tiles(problem, s); !wrong.empty())
    return make_error(ErrorKind::constraint, "attention: {}", wrong);
  const AttentionShape shape = shape_of(problem, s);
  STITCH_TRY(check_legality(problem.scores, shape.scores, device));
  STITCH_TRY(check_legality(problem.product, shape.product, device));
  if (s.stages < 1 || s.stages > shape.key_tiles)
    return make_error(ErrorKind::constraint, "attention: {} stages of a loop of {} turns", s.stages, shape.key_tiles);
  if (s.split < 1 || (s.split > 1 && (s.split - 1) * shape.key_tiles * s.block_keys >= problem.keys()))
    return make_error(ErrorKind::constraint, "attention: {} keys split {} times", problem.keys(), s.split);
  const std::int64_t bytes = shape.shared_bytes + arrival_shared;
  if (bytes > device.shared_per_block ||
      s.blocks_per_sm * (bytes + device.shared_reserved_per_block) > device.shared_per_sm)
    return make_error(ErrorKind::constraint, "attention: {} bytes of shared memory", bytes);
  const std::int64_t most = std::min<std::int64_t>(device.max_registers_per_thread,
                                                   device.registers_per_sm / (shape.threads * s.blocks_per_sm));
  if (shape.registers > most)
    return make_error(ErrorKind::constraint, "attention: about {} registers a thread, at most {}", shape.registers,
                      most);
  return {};
}

Result<ContractionInstruction> instruction_for(const AttentionProblem& problem, const DeviceSpec& device) {
  const ContractionInstruction scores = instruction_for(problem.scores, device);
  const ContractionInstruction product = instruction_for(problem.product, device);
  // Weights are operands of the second product where results of the first one lie, which 16-bit types alone have.
  if (scores == product && (scores == cuda_core || scores == mma_m16n8k16)) return scores;
  return make_error(ErrorKind::unsupported, "the dots of an attention multiply by {} and {}", to_string(scores),
                    to_string(product));
}

Result<AttentionSchedule> default_schedule(const AttentionProblem& problem, const DeviceSpec& device) {
  AttentionSchedule s;
  STITCH_ASSIGN(s.instruction, instruction_for(problem, device));
  s.stages = 1;
  Status legal;
  for (const int rows : {64, 32, 16}) {
    for (const int keys : {64, 32, 16}) {
      s.block_rows = std::min(rows, covering(problem.rows()));
      s.block_keys = std::min(keys, covering(problem.keys()));
      fit_accesses(problem, s);
      legal = check_legality(problem, s, device);
      if (!legal) continue;
      AttentionSchedule deeper = s;
      deeper.stages = 2;
      return check_legality(problem, deeper, device) ? deeper : s;
    }
  }
  return legal.error();
}

}  // namespace stitch::kernel
