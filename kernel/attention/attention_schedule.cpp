#include "kernel/attention/attention_schedule.h"

#include <algorithm>

#include "kernel/attention/turn_part.h"
#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/strips.h"

namespace stitch::kernel {
namespace {

using enum ContractionInstruction;

/// Addresses and bounds beside what is multiplied, and what a lane has of each of its rows: maxima, sums, scales. Those
/// of wgmma are what ptxas needs: 128 rows of a warpgroup at depth 128 spill.
constexpr int registers_beside = 64, registers_beside_cores = 80, registers_beside_warpgroups = 4;
/// Of wgmma: elements of a panel, or of the longest line that a swizzle covers; keys of the smallest tile whose lines
/// of any length end where a swizzle does.
constexpr int panel = 64, least_keys = 32, most_rows = 256;

ContractionSchedule part_of(const AttentionSchedule& s, int columns, int depth) {
  return turn_part({s.instruction, s.block_rows, s.warp_rows, s.blocks_per_sm}, columns, depth);
}

/// What tiles of wgmma are aligned to: dynamic shared memory begins there behind what arrives_last has.
constexpr std::int64_t swizzle_bytes = 1024;

/// By columns of the result, which panels of values have 64 of.
int width_tile(const AttentionProblem& problem, const AttentionSchedule& s) {
  const int width = covering(problem.width());
  const bool panels = is_warpgroup(s.instruction) && contiguity(problem.product.right) == Contiguity::free;
  return panels ? std::max(panel, width) : width;
}

int beside(ContractionInstruction instruction) {
  if (instruction == cuda_core) return registers_beside_cores;
  return is_warpgroup(instruction) ? registers_beside_warpgroups : registers_beside;
}

std::string wrong_tiles(const AttentionProblem& problem, const AttentionSchedule& s) {
  constexpr std::int64_t deepest = 256;
  if (problem.depth() > deepest || problem.width() > deepest)
    return fmt::format("depth {} and width {}, at most {}", problem.depth(), problem.width(), deepest);
  for (const int value : {s.block_keys, s.warp_rows}) {
    if (!is_tile_extent(value)) return fmt::format("tiles of {}", value);
  }
  if (is_warpgroup(s.instruction)) {
    const int group = warpgroup_warps * s.warp_rows;
    if (s.block_rows < group || s.block_rows % group != 0)
      return fmt::format("{} rows of warpgroups that have {}", s.block_rows, group);
  } else if (!is_tile_extent(s.block_rows)) {
    return fmt::format("tiles of {}", s.block_rows);
  }
  return s.block_rows % s.warp_rows == 0 ? "" : fmt::format("warps of {} of {} rows", s.warp_rows, s.block_rows);
}

/// How a tile lies for wgmma: lines along the depth of 32 or 64 bytes or parts of 128, or panels of 64 elements along
/// the free dimension.
std::string wrong_matrix(const ContractionOperand& operand, int free) {
  const bool panels = contiguity(operand) == Contiguity::free;
  if (!panels || free % panel == 0) return {};
  return fmt::format("panels of {} elements", free);
}

std::string wrong_warpgroups(const AttentionProblem& problem, const AttentionSchedule& s) {
  if (!is_warpgroup(s.instruction)) return s.overlaps ? "scores of the next keys are multiplied by wgmma alone" : "";
  if (s.block_rows > most_rows) return fmt::format("{} rows, at most {}", s.block_rows, most_rows);
  if (s.block_keys < least_keys || s.block_keys > 256) return fmt::format("{} keys by wgmma", s.block_keys);
  if (s.stages < 2) return "1 stage: one is multiplied, one on its way";
  std::string wrong = wrong_matrix(problem.scores.left, s.block_rows);
  if (wrong.empty()) wrong = wrong_matrix(problem.scores.right, s.block_keys);
  return wrong.empty() ? wrong_matrix(problem.product.right, width_tile(problem, s)) : wrong;
}

/// What is new of keys and values is taken over in shared memory by the copies' own runs.
std::string wrong_updates(const AttentionProblem& problem, const AttentionSchedule& s) {
  if (!problem.updated_keys && !problem.updated_values) return {};
  if (is_warpgroup(s.instruction)) return "updated keys or values by wgmma";
  for (const auto& [updated, copy] :
       {std::pair{&problem.updated_keys, s.key_copy}, std::pair{&problem.updated_values, s.value_copy}}) {
    if (*updated && copy > widest_access((*updated)->update))
      return fmt::format("copies of {} bytes of keys or values that are updated by {}", copy,
                         widest_access((*updated)->update));
  }
  return {};
}

}  // namespace

std::string to_string(const AttentionSchedule& s) {
  return fmt::format("{} rows {} keys {} warp {} stages {} split {} copy {}/{}/{} store {} blocks {}{}{}",
                     to_string(s.instruction), s.block_rows, s.block_keys, s.warp_rows, s.stages, s.split, s.query_copy,
                     s.key_copy, s.value_copy, s.store, s.blocks_per_sm, s.overlaps ? " overlapped" : "",
                     s.skips ? "" : " all keys");
}

Hash128 schedule_hash(const AttentionSchedule& schedule) {
  Hasher hasher;
  hasher.text("stitch-attention-schedule-1").text(to_string(schedule));
  return hasher.finish();
}

AttentionShape shape_of(const AttentionProblem& problem, const AttentionSchedule& s) {
  AttentionShape shape;
  const int depth = covering(problem.depth()), width = width_tile(problem, s);
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
  // Of each of its rows a lane has what weights are relative to and their sum, and for statistics its own greatest
  // logit.
  const int of_row = problem.statistics.empty() ? 2 : 3;
  if (s.split > 1) shape.part_bytes = shape.blocks * shape.threads * (s.warp_rows * width / 32 + of_row * rows) * 4;
  int fragments = std::max(kernel::shape_of(problem.scores, shape.scores).fragments,
                           kernel::shape_of(problem.product, shape.product).fragments);
  // Weights as operands of wgmma lie beside the scores that follow; of others:
  if (is_warpgroup(s.instruction)) fragments = s.overlaps ? s.warp_rows * s.block_keys / 64 : 0;
  // Loads of fragments and products of mma are straight code, of which the compiler keeps few alive.
  if (s.instruction != cuda_core && !is_warpgroup(s.instruction)) fragments = std::min(fragments, 32);
  shape.registers = sums + fragments + ((is_warpgroup(s.instruction) ? 14 : 1) + of_row) * rows + beside(s.instruction);
  return shape;
}

void fit_accesses(const AttentionProblem& problem, AttentionSchedule& s) {
  AttentionShape shape = shape_of(problem, s);
  fit_accesses(problem.scores, shape.scores);
  fit_accesses(problem.product, shape.product);
  s.query_copy = shape.scores.left_copy;
  s.key_copy = shape.scores.right_copy;
  s.value_copy = shape.product.right_copy;
  if (problem.updated_keys) s.key_copy = std::min(s.key_copy, widest_access(problem.updated_keys->update));
  if (problem.updated_values) s.value_copy = std::min(s.value_copy, widest_access(problem.updated_values->update));
  s.store = shape.product.store;
}

Status check_legality(const AttentionProblem& problem, const AttentionSchedule& s, const DeviceSpec& device) {
  std::string wrong = wrong_tiles(problem, s);
  if (wrong.empty()) wrong = wrong_warpgroups(problem, s);
  if (wrong.empty()) wrong = wrong_updates(problem, s);
  if (!wrong.empty()) return make_error(ErrorKind::constraint, "attention: {}", wrong);
  const AttentionShape shape = shape_of(problem, s);
  STITCH_TRY(check_turn_part(problem.scores, shape.scores, device));
  STITCH_TRY(check_turn_part(problem.product, shape.product, device));
  const bool together = is_warpgroup(s.instruction);
  const std::int64_t most_stages = std::max<std::int64_t>(together ? 2 : 1, shape.key_tiles);
  if (s.stages < 1 || s.stages > most_stages)
    return make_error(ErrorKind::constraint, "attention: {} stages of a loop of {} turns", s.stages, shape.key_tiles);
  if (shape.threads > device.max_threads_per_block || shape.threads * s.blocks_per_sm > device.threads_per_sm)
    return make_error(ErrorKind::constraint, "attention: {} blocks of {} threads", s.blocks_per_sm, shape.threads);
  if (s.split < 1 || (s.split > 1 && (s.split - 1) * shape.key_tiles * s.block_keys >= problem.keys()))
    return make_error(ErrorKind::constraint, "attention: {} keys split {} times", problem.keys(), s.split);
  const std::int64_t bytes = shape.shared_bytes + (together && s.split > 1 ? swizzle_bytes : arrival_shared);
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
  const auto splits = [](const ContractionProblem& part) { return types_of(part).f32 != graph::F32Arithmetic::f32; };
  if (splits(problem.scores) && splits(problem.product)) return cuda_core;
  return make_error(ErrorKind::unsupported, "the dots of an attention multiply by {} and {}", to_string(scores),
                    to_string(product));
}

std::optional<ContractionInstruction> warpgroup_instruction_for(const AttentionProblem& problem,
                                                                const DeviceSpec& device) {
  if (problem.updated_keys || problem.updated_values) return std::nullopt;
  const auto scores = warpgroup_instruction_for(problem.scores, device);
  const auto product = warpgroup_instruction_for(problem.product, device);
  return scores == product && scores == wgmma_m64k16 ? scores : std::nullopt;
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
