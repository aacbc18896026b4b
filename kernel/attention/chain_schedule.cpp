#include "kernel/attention/chain_schedule.h"

#include <algorithm>

#include "kernel/attention/turn_part.h"
#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/strips.h"

namespace stitch::kernel {
namespace {

using enum ContractionInstruction;

/// Addresses and bounds beside what is multiplied, and what a lane keeps of its rows.
constexpr int chain_registers = 56, chain_registers_of_cores = 84;
/// Beside sums and weights of wgmma.
constexpr int chain_registers_together = 44;
constexpr int deepest_chain = 256;
/// Of wgmma: elements of a panel, and of a line that one swizzle covers; rows of four warps; most rows.
constexpr int panel_of_chain = 64, rows_together = 64, warp_rows_together = 16, most_rows_together = 192;

ContractionSchedule part_of(const ContractionProblem& problem, const ChainSchedule& s, int columns, int depth) {
  ContractionSchedule part = turn_part({s.instruction, s.block_rows, s.warp_rows, s.blocks_per_sm}, columns, depth);
  fit_accesses(problem, part);
  return part;
}

/// By columns of a result, which panels have 64 of.
int width_tile(const ContractionProblem& product, const ChainSchedule& s) {
  const int width = covering(product.columns);
  const bool panels = is_warpgroup(s.instruction) && contiguity(product.right) == Contiguity::free;
  return panels ? std::max(panel_of_chain, width) : width;
}

std::string wrong_panels(const ContractionOperand& operand, int free) {
  const bool panels = contiguity(operand) == Contiguity::free;
  return panels && free % panel_of_chain != 0 ? fmt::format("panels of {} elements", free) : "";
}

std::string wrong_warpgroups(const ProductChain& chain, const ChainSchedule& s) {
  if (s.warp_rows != warp_rows_together || s.block_rows % rows_together != 0 || s.block_rows > most_rows_together)
    return fmt::format("{} rows of wgmma, {} of a warp", s.block_rows, s.warp_rows);
  if (s.block_columns < 2 * least_tile || s.block_columns > 256)
    return fmt::format("{} columns by wgmma", s.block_columns);
  if (s.stages < 2) return "1 stage: one is multiplied, one on its way";
  std::string wrong;
  for (const ContractionProblem& score : chain.scores) {
    if (wrong.empty()) wrong = wrong_panels(score.left, s.block_rows);
    if (wrong.empty()) wrong = wrong_panels(score.right, s.block_columns);
  }
  for (std::size_t r = 0; r < chain.products.size(); ++r) {
    if (wrong.empty()) wrong = wrong_panels(chain.products[r].right, width_tile(chain.products[r], s));
    const int score = chain.shared_operand(r);
    if (!wrong.empty() || score < 0) continue;
    // Lines of one score's depth, of 64 elements or parts of such, are the other product's panels.
    const bool lines = contiguity(chain.scores[score].right) == Contiguity::contracted;
    if (!lines || covering(chain.scores[score].contracted) < panel_of_chain)
      wrong = fmt::format("a depth of {}, of which both products take a tile", chain.scores[score].contracted);
  }
  return wrong;
}

std::string wrong_tiles(const ProductChain& chain, const ChainSchedule& s) {
  for (const ContractionProblem& score : chain.scores) {
    if (score.contracted > deepest_chain || score.contracted == 0)
      return fmt::format("a depth of {}", score.contracted);
  }
  for (const ContractionProblem& product : chain.products) {
    if (product.columns > deepest_chain || product.columns == 0) return fmt::format("a width of {}", product.columns);
  }
  for (const int value : {s.block_columns, s.warp_rows}) {
    if (!is_tile_extent(value)) return fmt::format("tiles of {}", value);
  }
  if (is_warpgroup(s.instruction)) return wrong_warpgroups(chain, s);
  if (!is_tile_extent(s.block_rows)) return fmt::format("tiles of {}", s.block_rows);
  return s.block_rows % s.warp_rows == 0 ? "" : fmt::format("warps of {} of {} rows", s.warp_rows, s.block_rows);
}

std::int64_t tile_bytes(const ContractionOperand& operand, std::int64_t rows, std::int64_t depth) {
  return rows * depth * graph::byte_size(operand.dtype);
}

AttentionSchedule as_attention(const ChainSchedule& s) {
  AttentionSchedule same;
  same.block_rows = s.block_rows;
  same.block_keys = s.block_columns;
  return same;
}

}  // namespace

std::string to_string(const ChainSchedule& s) {
  return fmt::format("{} rows {} columns {} warp {} stages {} blocks {}", to_string(s.instruction), s.block_rows,
                     s.block_columns, s.warp_rows, s.stages, s.blocks_per_sm);
}

Hash128 schedule_hash(const ChainSchedule& schedule) {
  Hasher hasher;
  hasher.text("stitch-chain-schedule-1").text(to_string(schedule));
  return hasher.finish();
}

ChainShape shape_of(const ProductChain& chain, const ChainSchedule& s) {
  ChainShape shape;
  shape.warps = s.block_rows / s.warp_rows;
  shape.threads = 32 * shape.warps;
  shape.row_tiles = divided_up(chain.rows(), s.block_rows);
  shape.column_tiles = divided_up(chain.columns(), s.block_columns);
  shape.tiles = chain.batch() * shape.row_tiles;
  shape.blocks = std::max<std::int64_t>(1, shape.tiles);
  const bool cores = s.instruction == cuda_core;
  int sums = 0, fragments = 0;
  std::int64_t strips = 0, rows = 0;
  for (const ContractionProblem& score : chain.scores) {
    const int depth = covering(score.contracted);
    const ContractionSchedule& part = shape.scores.emplace_back(part_of(score, s, s.block_columns, depth));
    shape.row_bytes.push_back(tile_bytes(score.left, s.block_rows, depth));
    shape.walked_bytes.push_back(tile_bytes(score.right, s.block_columns, depth));
    rows += shape.row_bytes.back();
    shape.stage_bytes += shape.walked_bytes.back();
    sums += s.warp_rows * s.block_columns / 32;
    fragments = std::max(fragments, shape_of(score, part).fragments);
  }
  for (std::size_t r = 0; r < chain.products.size(); ++r) {
    const ContractionProblem& product = chain.products[r];
    const int width = width_tile(product, s);
    const ContractionSchedule& part = shape.products.emplace_back(part_of(product, s, width, s.block_columns));
    shape.other_bytes.push_back(chain.shared_operand(r) >= 0 ? 0 : tile_bytes(product.right, width, s.block_columns));
    shape.stage_bytes += shape.other_bytes.back();
    strips = std::max(strips, shape.warps * strips_of(product, part).bytes);
    sums += s.warp_rows * width / 32;
    fragments = std::max(fragments, shape_of(product, part).fragments);
    if (cores) {
      shape.weight_bytes = std::max(shape.weight_bytes, tile_bytes(product.left, s.block_rows, s.block_columns));
    }
  }
  shape.shared_bytes = std::max(rows + s.stages * shape.stage_bytes + shape.weight_bytes, strips);
  // Loads of fragments and products of mma are straight code, of which the compiler keeps few alive; of wgmma weights
  // are operands in registers.
  if (is_warpgroup(s.instruction)) {
    fragments = static_cast<int>(chain.products.size()) * s.warp_rows * s.block_columns / 64;
  } else if (!cores) {
    fragments = std::min(fragments, 32);
  }
  shape.registers = sums + fragments +
                    (cores                         ? chain_registers_of_cores
                     : is_warpgroup(s.instruction) ? chain_registers_together
                                                   : chain_registers);
  return shape;
}

KeyWalk chain_walk(const ProductChain& chain, const ChainSchedule& schedule) {
  return chain.mask ? key_walk(*chain.mask, as_attention(schedule)) : KeyWalk{};
}

KeyTiles tiles_of(const KeyWalk& walk, std::int64_t row_tile, const ChainSchedule& schedule, std::int64_t tiles) {
  return walk.of(row_tile, as_attention(schedule), tiles);
}

Status check_legality(const ProductChain& chain, const ChainSchedule& s, const DeviceSpec& device) {
  if (const std::string wrong = wrong_tiles(chain, s); !wrong.empty())
    return make_error(ErrorKind::constraint, "chain: {}", wrong);
  const ChainShape shape = shape_of(chain, s);
  for (std::size_t i = 0; i < chain.scores.size(); ++i)
    STITCH_TRY(check_turn_part(chain.scores[i], shape.scores[i], device));
  for (std::size_t r = 0; r < chain.products.size(); ++r)
    STITCH_TRY(check_turn_part(chain.products[r], shape.products[r], device));
  const std::int64_t most_stages = std::max<std::int64_t>(is_warpgroup(s.instruction) ? 2 : 1, shape.column_tiles);
  if (s.stages < 1 || s.stages > most_stages)
    return make_error(ErrorKind::constraint, "chain: {} stages of a loop of {} turns", s.stages, shape.column_tiles);
  if (shape.threads > device.max_threads_per_block || shape.threads * s.blocks_per_sm > device.threads_per_sm)
    return make_error(ErrorKind::constraint, "chain: {} blocks of {} threads", s.blocks_per_sm, shape.threads);
  if (shape.shared_bytes > device.shared_per_block ||
      s.blocks_per_sm * (shape.shared_bytes + device.shared_reserved_per_block) > device.shared_per_sm)
    return make_error(ErrorKind::constraint, "chain: {} bytes of shared memory", shape.shared_bytes);
  const std::int64_t most = std::min<std::int64_t>(device.max_registers_per_thread,
                                                   device.registers_per_sm / (shape.threads * s.blocks_per_sm));
  if (shape.registers > most)
    return make_error(ErrorKind::constraint, "chain: about {} registers a thread, at most {}", shape.registers, most);
  return {};
}

Result<ContractionInstruction> instruction_for(const ProductChain& chain, const DeviceSpec& device) {
  std::optional<ContractionInstruction> common;
  bool same = true, splits = true;
  const auto look = [&](const ContractionProblem& part) {
    const ContractionInstruction each = instruction_for(part, device);
    same = same && (!common || *common == each);
    splits = splits && types_of(part).f32 != graph::F32Arithmetic::f32;
    common = each;
  };
  std::ranges::for_each(chain.scores, look);
  std::ranges::for_each(chain.products, look);
  // Weights are left operands where results of scores lie, which 16-bit types alone have.
  if (same && (*common == cuda_core || *common == mma_m16n8k16)) return *common;
  if (splits) return cuda_core;
  return make_error(ErrorKind::unsupported, "the dots of a chain multiply by different instructions");
}

std::optional<ContractionInstruction> warpgroup_instruction_for(const ProductChain& chain, const DeviceSpec& device) {
  const auto is_together = [&](const ContractionProblem& part) {
    return warpgroup_instruction_for(part, device) == wgmma_m64k16;
  };
  const bool all = std::ranges::all_of(chain.scores, is_together) && std::ranges::all_of(chain.products, is_together);
  return all ? std::optional(wgmma_m64k16) : std::nullopt;
}

Result<ChainSchedule> default_schedule(const ProductChain& chain, const DeviceSpec& device) {
  ChainSchedule s;
  STITCH_ASSIGN(s.instruction, instruction_for(chain, device));
  s.stages = 1;
  Status legal;
  for (const int rows : {64, 32, 16}) {
    for (const int columns : {64, 32, 16}) {
      s.block_rows = std::min(rows, covering(chain.rows()));
      s.block_columns = std::min(columns, covering(chain.columns()));
      legal = check_legality(chain, s, device);
      if (!legal) continue;
      ChainSchedule deeper = s;
      deeper.stages = 2;
      return check_legality(chain, deeper, device) ? deeper : s;
    }
  }
  return legal.error();
}

}  // namespace stitch::kernel
