#include "kernel/contraction/contraction_rules.h"

#include <algorithm>
#include <array>
#include <bit>

#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/gated_contraction.h"
#include "kernel/contraction/realigned_copy.h"
#include "kernel/contraction/shown_depth.h"
#include "kernel/contraction/strips.h"
#include "kernel/contraction/tensor_box.h"
#include "kernel/contraction/window_walk.h"

namespace stitch::kernel {
namespace {

using Problem = ContractionProblem;
using Schedule = ContractionSchedule;

constexpr std::int64_t int_limit = std::int64_t{1} << 31;
/// Of pairs columns come in so many (CUTLASS's SM100_MMA_*_2x1SM_SS; of integers the ISA says so).
constexpr int paired_columns = 32;

bool power_of_two(std::int64_t value) { return value > 0 && std::has_single_bit(static_cast<std::uint64_t>(value)); }

std::string types(const Problem& p, const Schedule& s, const DeviceSpec&) {
  const InstructionInfo& instruction = info(s.instruction);
  if (instruction.takes(types_of(p))) return {};
  return fmt::format("{} does not multiply {} by {} in {}", instruction.name, to_string(p.left.dtype),
                     to_string(p.right.dtype), to_string(p.accumulator));
}

std::string device(const Problem&, const Schedule& s, const DeviceSpec& d) {
  const InstructionInfo& instruction = info(s.instruction);
  const int capability = 10 * d.compute_major + d.compute_minor;
  return capability >= std::max(80, instruction.since) && capability <= instruction.until
             ? ""
             : fmt::format("{} on {}", instruction.name, d.architecture());
}

std::string powers(const Problem&, const Schedule& s, const DeviceSpec&) {
  for (const int value : {s.block_depth, s.left_copy, s.right_copy, s.store}) {
    if (!power_of_two(value)) return fmt::format("{} is no power of two", value);
  }
  // The copy engine places whole boxes.
  for (const int value : {s.block_rows, s.block_columns, s.warp_rows, s.warp_columns}) {
    if (value < 1 || (!s.tensor_copies && !power_of_two(value))) return fmt::format("{} is no power of two", value);
  }
  return {};
}

std::string warp_tile(const Problem&, const Schedule& s, const DeviceSpec&) {
  const InstructionInfo& instruction = info(s.instruction);
  if (s.block_rows % s.warp_rows != 0 || s.block_columns % s.warp_columns != 0)
    return fmt::format("warps of {}×{} in a block of {}×{}", s.warp_rows, s.warp_columns, s.block_rows,
                       s.block_columns);
  // ldmatrix brings the right operand of two instructions at once, and strips are stored by 16 columns.
  const int columns = s.instruction == ContractionInstruction::cuda_core ? 1 : 2 * instruction.columns;
  if (s.warp_rows % instruction.rows == 0 && s.warp_columns % columns == 0) return {};
  return fmt::format("{} in warps of {}×{}", instruction.name, s.warp_rows, s.warp_columns);
}

/// How an operand's tile lies for wgmma and tcgen05: lines along the depth of 32, 64 or 128 bytes, or panels of 64
/// elements of 16 bits along the free dimension; matrices begin at multiples of what the swizzle covers.
std::string warpgroup_tile(const ContractionOperand& operand, int free, int step, int depth) {
  const int size = graph::byte_size(operand.dtype);
  if (contiguity(operand) == Contiguity::free) {
    if (size == 2 && free % 64 == 0 && step % 64 == 0 && depth % 16 == 0) return {};
    return fmt::format("panels of {} elements of {} bytes", step, size);
  }
  const int line = depth * size;
  const bool whole = (line == 32 || line == 64 || line == 128) && free * line % 1024 == 0;
  return whole ? "" : fmt::format("{} lines of {} bytes", free, line);
}

std::string warpgroups(const Problem& p, const Schedule& s, const DeviceSpec&) {
  if (!is_warpgroup(s.instruction)) return {};
  if (s.block_rows / s.warp_rows % warpgroup_warps != 0)
    return fmt::format("{} warps below one another are no warpgroups", s.block_rows / s.warp_rows);
  if (s.warp_columns > 256) return fmt::format("{} columns", s.warp_columns);
  if (s.stages < 3) return fmt::format("{} stages: one is multiplied, one still read, one on its way", s.stages);
  if (s.fragment_stages != 1 || !s.swizzle) return "operands are read from shared memory, swizzled";
  std::string left = warpgroup_tile(p.left, s.block_rows, warpgroup_warps * info(s.instruction).rows, s.block_depth);
  return left.empty() ? warpgroup_tile(p.right, s.block_columns, s.warp_columns, s.block_depth) : left;
}

/// Sums of fewer bits than f32 has, which the reference grants for parts of the depth as the graph has it.
std::string promoted(const Problem& p, const Schedule& s, const DeviceSpec&) {
  if (!promotes(s.instruction)) return {};
  if (p.graph->constraints.rounds_each())
    return "sums of fewer bits than f32 has, where each operator is held to its type";
  if (s.block_depth != promoted_depth) return fmt::format("sums of {} of depth, not {}", s.block_depth, promoted_depth);
  const graph::Node& root = p.graph->node(p.root);
  if (root.op != graph::Op::dot) return "a convolution, whose depth has another order in the graph";
  const bool one = p.scales.has_value() || root.as<graph::DotAttributes>().lhs_contracting.size() == 1;
  return one ? "" : "a depth of several dimensions, of which the kernel may have another order";
}

/// What tcgen05 multiplies: 128 rows by up to 256 columns, whose sums have a column of tensor memory each. The fourth
/// of warps that follow one another have a fourth of its lanes.
std::string tensor_memory(const Problem& p, const Schedule& s, const DeviceSpec& d) {
  if (!in_tensor_memory(s.instruction)) return s.paired ? "pairs that multiply by something else" : "";
  if (!s.tensor_copies) return "operands that the copy engine does not bring";
  if (s.block_rows % (warpgroup_warps * s.warp_rows) != 0)
    return fmt::format("{} rows by warps of {}", s.block_rows, s.warp_rows);
  if (s.block_columns > 256) return fmt::format("{} columns", s.block_columns);
  if (taken_columns(s) != s.warp_columns && !p.row_reductions.empty())
    return fmt::format("rows of {} columns in registers", s.warp_columns);
  if (s.stages < 2) return "a stage that is multiplied, and none on its way";
  if (s.fragment_stages != 1 || !s.swizzle) return "operands are read from shared memory, swizzled";
  if (s.paired && s.cluster % 2 != 0) return fmt::format("pairs in clusters of {}", s.cluster);
  if (s.paired && s.block_columns % paired_columns != 0) return fmt::format("{} columns of pairs", s.block_columns);
  const ContractionShape shape = shape_of(p, s);
  // Whoever finds no columns waits until another block ends; of a cluster, which may wait for a block that waits
  // itself, all that may stand on an SM have room.
  const std::int64_t together = std::min<std::int64_t>(
      d.threads_per_sm / shape.threads, d.shared_per_sm / (shape.shared_bytes + d.shared_reserved_per_block));
  const std::int64_t room =
      s.cluster * s.row_blocks == 1 ? s.blocks_per_sm : std::max<std::int64_t>(s.blocks_per_sm, together);
  if (room * shape.tensor_columns > tensor_memory_columns)
    return fmt::format("{} blocks of {} columns of tensor memory on an SM", room, shape.tensor_columns);
  std::string left = warpgroup_tile(p.left, s.block_rows, tensor_memory_lanes, s.block_depth);
  return left.empty() ? warpgroup_tile(p.right, right_columns(s), right_columns(s), s.block_depth) : left;
}

/// What is in the way of copies that are the same whichever of the operands a tile is of; empty: nothing.
std::string unlike_boxes(const Result<std::vector<TensorBox>>& boxes) {
  if (!boxes) return boxes.error().message;
  const auto is_unlike = [&](const TensorBox& box) { return box.dimensions.size() != (*boxes)[0].dimensions.size(); };
  return std::ranges::any_of(*boxes, is_unlike) ? "maps of unlike dimensions" : "";
}

std::string tensor_copies(const Problem& p, const Schedule& s, const DeviceSpec& d) {
  if (!s.tensor_copies) return s.cluster == 1 && s.resident == 0 ? "" : "clusters and blocks that stay without them";
  if (!reads_tiles(s.instruction)) return fmt::format("{} does not read what they bring", to_string(s.instruction));
  if (s.split != 1 || p.contracted == 0) return fmt::format("a depth of {} split {} times", p.contracted, s.split);
  std::int64_t rows = divided_up(p.rows, s.block_rows);
  if (walks_windows(p, s)) {
    const Result<WindowWalk> walk = window_walk(p, s.block_rows);
    if (!walk) return walk.error().message;
    if (s.row_blocks > 1 || widest_access(p).along_rows) return "boxes of rows that are combined, or stored together";
    rows = walk->row_tiles();
  }
  if (s.cluster < 1 || s.cluster > std::min<std::int64_t>(d.max_cluster_blocks, std::max<std::int64_t>(1, rows)))
    return fmt::format("clusters of {} of {} tiles", s.cluster, rows);
  const int together = s.cluster * s.row_blocks;
  if (s.resident < together || s.resident % together != 0)
    return fmt::format("{} blocks in clusters of {}", s.resident, together);
  std::string left = unlike_boxes(left_boxes(p, s));
  if (!left.empty()) return "left: " + left;
  std::string right = unlike_boxes(right_boxes(p, s));
  return right.empty() ? "" : "right: " + right;
}

std::string computed(const Problem& p, const Schedule& s, const DeviceSpec&) {
  return p.computed.empty() || !s.tensor_copies ? "" : "an operand that is computed, by the copy engine";
}

std::string thread_tile(const Problem& p, const Schedule& s, const DeviceSpec&) {
  if (s.instruction != ContractionInstruction::cuda_core) return {};
  const bool whole = power_of_two(s.thread_rows) && power_of_two(s.thread_columns) &&
                     s.warp_rows % s.thread_rows == 0 && s.warp_columns % s.thread_columns == 0 &&
                     s.warp_rows / s.thread_rows * (s.warp_columns / s.thread_columns) == 32;
  if (!whole) {
    return fmt::format("threads of {}×{} do not make a warp of {}×{}", s.thread_rows, s.thread_columns, s.warp_rows,
                       s.warp_columns);
  }
  return s.thread_rows % core_run(p.left, s.thread_rows) == 0 ? "" : "rows of a thread are no whole runs";
}

std::string depth(const Problem& p, const Schedule& s, const DeviceSpec&) {
  const ContractionShape shape = shape_of(p, s);
  if (s.block_depth % shape.fragment_depth != 0 || shape.depth_steps < 1)
    return fmt::format("depth {} of steps of {}", s.block_depth, shape.fragment_depth);
  const int smallest = std::min(graph::byte_size(p.left.dtype), graph::byte_size(p.right.dtype));
  return s.block_depth * smallest >= 16 ? "" : fmt::format("rows of {} bytes", s.block_depth * smallest);
}

std::string threads(const Problem& p, const Schedule& s, const DeviceSpec& d) {
  const int threads = shape_of(p, s).threads;
  return threads <= d.max_threads_per_block && threads * s.blocks_per_sm <= d.threads_per_sm && s.blocks_per_sm >= 1
             ? ""
             : fmt::format("{} blocks of {} threads", s.blocks_per_sm, threads);
}

std::string stages(const Problem& p, const Schedule& s, const DeviceSpec&) {
  // Tiles of blocks that stay follow one another through the stages.
  const std::int64_t most = s.tensor_copies ? 16 : std::max<std::int64_t>(1, shape_of(p, s).depth_tiles);
  return s.stages >= 1 && s.stages <= most ? "" : fmt::format("{} stages of a loop of {} turns", s.stages, most);
}

std::string fragment_stages(const Problem& p, const Schedule& s, const DeviceSpec&) {
  const int steps = shape_of(p, s).depth_steps;
  const bool known = s.fragment_stages == 1 || s.fragment_stages == 2;
  return known && steps % s.fragment_stages == 0 ? "" : fmt::format("{} stages of {} steps", s.fragment_stages, steps);
}

std::string copy_of(const std::vector<const ContractionOperand*>& operands, int bytes, int free, int depth) {
  const int size = graph::byte_size(operands[0]->dtype);
  const int run = (contiguity(*operands[0]) == Contiguity::free ? free : depth) * size;
  const int most = std::min(run, widest_access(operands));
  if (bytes >= size && bytes <= most) return {};
  return fmt::format("copies of {} bytes, at least {} and at most {}", bytes, size, most);
}

std::string copies(const Problem& p, const Schedule& s, const DeviceSpec&) {
  if (!s.left_realigned) {
    std::string wrong = copy_of(left_operands(p), s.left_copy, s.block_rows, s.block_depth);
    if (!wrong.empty()) return wrong;
  }
  return s.right_realigned ? "" : copy_of(right_operands(p), s.right_copy, right_columns(s), s.block_depth);
}

std::string realigned(const Problem& p, const Schedule& s, const DeviceSpec&) {
  if (s.tensor_copies && holds_realigned(s)) return "words that threads take apart, by the copy engine";
  std::string left = s.left_realigned ? unlike_realigned(p, s, true) : "";
  return left.empty() && s.right_realigned ? unlike_realigned(p, s, false) : left;
}

std::string stores(const Problem& p, const Schedule& s, const DeviceSpec&) {
  int most = 1;
  for (const Problem& part : parts_of(p)) most = std::max(most, widest_store(part, s));
  return s.store <= most ? "" : fmt::format("stores of {} elements, at most {}", s.store, most);
}

std::string split(const Problem& p, const Schedule& s, const DeviceSpec&) {
  const std::int64_t tiles = depth_tiles(p, s.block_depth);
  return s.split >= 1 && s.split <= std::max<std::int64_t>(1, tiles)
             ? ""
             : fmt::format("{} tiles split {} times", tiles, s.split);
}

std::string streamed(const Problem& p, const Schedule& s, const DeviceSpec&) {
  if (s.streamed == 0) return {};
  if (s.split != 1) return fmt::format("turns of tiles that are split {} times", s.split);
  if (s.tensor_copies) return "turns of blocks that stay";
  if (shown_side(p) != nullptr) return "turns of which only data say how many there are";
  if (s.stages == 1 && s.fragment_stages > 1) return "fragments ahead of turns that are copied one by one";
  const ContractionShape shape = shape_of(p, s);
  const std::int64_t turns = shape.tiles * std::max<std::int64_t>(1, shape.depth_tiles);
  return s.streamed > 0 && s.streamed <= turns ? "" : fmt::format("{} turns for {} blocks", turns, s.streamed);
}

std::string rows(const Problem& p, const Schedule& s, const DeviceSpec& d) {
  if (p.row_reductions.empty()) return s.row_blocks == 1 ? "" : "blocks share rows of which nothing is combined";
  const std::int64_t tiles = divided_up(p.columns, s.block_columns);
  if (s.row_blocks != tiles) return fmt::format("{} of {} tiles of a row", s.row_blocks, tiles);
  if (tiles > std::max(1, d.max_cluster_blocks)) return fmt::format("rows of {} tiles", tiles);
  if (s.group != 1 || s.split != 1 || s.streamed != 0)
    return "tiles of a row are walked one after another, and not split";
  return s.cluster == 1 ? "" : "clusters of rows as well";
}

std::string columns(const Problem& p, const Schedule& s, const DeviceSpec&) {
  if (p.column_sums.empty()) return "";
  if (s.streamed != 0 || s.split != 1) return "sums of columns of what is a part of a sum";
  if (widest_access(p).along_rows) return "sums of columns of results that lie along rows";
  if (walks_windows(p, s)) return "sums of rows that are boxes of positions";
  if (taken_columns(s) != s.warp_columns) return "sums of columns that are in registers one part after another";
  const int part = column_part_rows(p, s);
  for (const ColumnSum& sum : p.column_sums) {
    const int group = results_of(p)[sum.result].summed;
    if (s.block_rows % group != 0 || group % part != 0 || part % strips_of(p, s).rows != 0)
      return fmt::format("groups of {} rows in tiles of {}, {} of a warp", group, s.block_rows, part);
  }
  return "";
}

std::string gates(const Problem& p, const Schedule& s, const DeviceSpec&) {
  if (p.gates == 1) return "";
  if (s.tensor_copies) return "gates by the copy engine";
  const int columns = strips_of(p, s).columns;
  return columns % (p.gates * gate_run) == 0
             ? ""
             : fmt::format("{} columns of a strip, no runs of {} of {} gates", columns, gate_run, p.gates);
}

std::string scales(const Problem& p, const Schedule& s, const DeviceSpec&) {
  if (!p.scales) return "";
  if (s.tensor_copies && !promotes(s.instruction)) return "sums that are scaled, by blocks that stay";
  if (s.streamed != 0) return "parts that are scaled as a whole, by blocks that share turns";
  if (p.scales->depth % s.block_depth != 0)
    return fmt::format("tiles of {} in parts of {}", s.block_depth, p.scales->depth);
  const std::int64_t of_block = shape_of(p, s).depth_tiles * s.block_depth;
  return s.split == 1 || of_block % p.scales->depth == 0
             ? ""
             : fmt::format("a depth of {} for a block in parts of {}", of_block, p.scales->depth);
}

std::string shared_memory(const Problem& p, const Schedule& s, const DeviceSpec& d) {
  const std::int64_t bytes = shape_of(p, s).shared_bytes + arrival_shared;
  const std::int64_t together = s.blocks_per_sm * (bytes + d.shared_reserved_per_block);
  return bytes <= d.shared_per_block && together <= d.shared_per_sm
             ? ""
             : fmt::format("{} bytes of shared memory, at most {} and {} an SM", bytes, d.shared_per_block,
                           d.shared_per_sm);
}

/// Hopper's mma.sync of f8 is that of f16, for which ptxas 13.0 converts all operands of a tile's unrolled steps ahead:
/// warps of 64 × 32 took 150 registers for sm_89, 248 in tiles of 64 of depth for sm_90a, and spilled in those of 128.
int converted_registers(const ContractionShape& shape, const Schedule& s, const DeviceSpec& d) {
  if (s.instruction != ContractionInstruction::mma_m16n8k32_f8 || d.compute_major != 9) return 0;
  return 2 * shape.fragments / s.fragment_stages * shape.depth_steps;
}

std::string registers(const Problem& p, const Schedule& s, const DeviceSpec& d) {
  const ContractionShape shape = shape_of(p, s);
  const int registers = shape.registers + converted_registers(shape, s, d);
  // A scheduler of an SM has a quarter of the registers, and every fourth warp.
  const std::int64_t warps = divided_up(shape.threads / 32 * s.blocks_per_sm, 4) * 4;
  const std::int64_t most = std::min<std::int64_t>(d.max_registers_per_thread, d.registers_per_sm / (32 * warps));
  return registers <= most ? "" : fmt::format("about {} registers a thread, at most {}", registers, most);
}

std::string extents(const Problem& p, const Schedule& s, const DeviceSpec&) {
  const ContractionShape shape = shape_of(p, s);
  const std::int64_t turns = s.streamed == 0 ? 0 : shape.tiles * shape.depth_tiles;  // are numbered
  const std::int64_t most = std::max({p.batch, p.rows + s.block_rows, p.columns + s.block_columns,
                                      (depth_tiles(p, s.block_depth) + s.split) * s.block_depth, shape.blocks, turns});
  return most < int_limit && s.group >= 1 ? "" : fmt::format("extents of {}", most);
}

/// In this order: what is divided by is seen to be whole first.
constexpr std::array<ContractionRule, 26> rules = {{
    {"powers", "places in shared memory are found by shifts and exclusive-or", powers},
    {"warp-tile", "warps divide a block's tile, instructions a warp's", warp_tile},
    {"thread-tile", "32 lanes of cuda_core share a warp's tile evenly", thread_tile},
    {"types", "an instruction multiplies certain types", types},
    {"device", "instructions and asynchronous copies came with certain devices", device},
    {"depth", "a tile's depth is whole steps, and a row of it whole 16-byte places", depth},
    {"threads", "blocks of a size that an SM takes", threads},
    {"stages", "a buffer has no more stages than its loop has turns", stages},
    {"fragment-stages", "registers cannot be indexed: the stage of a step must not depend on the tile",
     fragment_stages},
    {"warpgroups", "wgmma reads tiles in its own layouts, while others are read and copied", warpgroups},
    {"promoted", "sums of few bits are those of one tile", promoted},
    {"tensor-memory", "tcgen05 reads tiles likewise, and has 512 columns of an SM for its sums", tensor_memory},
    {"tensor-copies", "the copy engine knows dimensions, and boxes of them", tensor_copies},
    {"computed", "what computes an operand's elements are threads", computed},
    {"scales", "what has a scale of its own is summed up by itself", scales},
    {"copies", "a copy is aligned and within a row, whatever row it is of", copies},
    {"realigned", "a copy that is none is made of words of a line, through registers", realigned},
    {"stores", "a store is aligned and within a row, too", stores},
    {"split", "every block of a tile has something to add", split},
    {"streamed", "turns that blocks share are known, and each has some", streamed},
    {"rows", "what is combined of a row is known to all of its blocks", rows},
    {"columns", "a tile has whole groups of rows that are added", columns},
    {"gates", "a warp has all sums that its results are made of", gates},
    {"shared-memory", "stages and strips fit", shared_memory},
    {"registers", "results and fragments stay in registers", registers},
    {"extents", "rows, columns and blocks are counted in 32 bits", extents},
}};

/// The last of the table's for these types on this device, among such as `is_such`.
std::optional<ContractionInstruction> instruction_of(bool (*is_such)(ContractionInstruction), const Problem& problem,
                                                     const DeviceSpec& device) {
  const int capability = 10 * device.compute_major + device.compute_minor;
  const ProductTypes types = types_of(problem);
  std::optional<ContractionInstruction> found;
  for (const InstructionInfo& row : instruction_table()) {
    if (!is_such(row.instruction) || capability < row.since || capability > row.until) continue;
    if (row.instruction == ContractionInstruction::mma_m16n8k4_f64 && !device.has_fast_f64_tensor_cores()) continue;
    if (row.promotes && problem.graph->constraints.rounds_each()) continue;
    if (row.takes(types)) found = row.instruction;
  }
  return found;
}

/// Blocks that share a row, and a walk on which they follow one another.
void fit_rows(const Problem& p, Schedule& s) {
  s.row_blocks = p.row_reductions.empty() ? 1 : static_cast<int>(divided_up(p.columns, s.block_columns));
  if (!p.row_reductions.empty()) s.group = 1;
}

/// Tiles as large as the extents, and not so large that most SMs have none.
void fit_block(const Problem& p, const DeviceSpec& d, Schedule& s) {
  const auto blocks = [&] {
    return p.batch * ((p.rows + s.block_rows - 1) / s.block_rows) *
           ((p.columns + s.block_columns - 1) / s.block_columns);
  };
  const std::int64_t columns = most_columns(p);
  if (!p.row_reductions.empty()) {
    const int most = std::max(1, d.max_cluster_blocks);
    s.block_rows = std::max(32, column_group_rows(p));
    s.block_columns = 32;
    while (divided_up(columns, s.block_columns) > most && s.block_columns < 256) s.block_columns *= 2;
    return;
  }
  const int group = column_group_rows(p);
  while (s.block_rows > std::max(32, group) && s.block_rows / 2 >= p.rows) s.block_rows /= 2;
  while (s.block_columns > 32 && s.block_columns / 2 >= columns) s.block_columns /= 2;
  while (blocks() < d.sm_count && s.block_rows * s.block_columns > 64 * 64) {
    (s.block_rows >= s.block_columns && s.block_rows > group ? s.block_rows : s.block_columns) /= 2;
  }
}

/// `least_columns`: of a warp that has all gates of a result.
void fit_warps(Schedule& s, int most_columns, int most_rows, int least_columns) {
  const bool cores = s.instruction == ContractionInstruction::cuda_core;
  s.warp_rows = std::min(cores ? 32 : most_rows, std::max(s.block_rows / 2, 16));
  // Where rounded values and their rests lie beside the fragments, or results have 8 bytes, fewer fit.
  const bool few = s.instruction == ContractionInstruction::mma_m16n8k8_tf32x3 ||
                   s.instruction == ContractionInstruction::mma_m16n8k16_bf16x3 ||
                   s.instruction == ContractionInstruction::mma_m16n8k4_f64;
  const int widest = few ? 32 : most_columns;
  s.warp_columns = std::min(widest, std::max(s.block_columns / 2, least_columns));
  s.thread_rows = s.thread_columns = 0;
  if (!cores) return;
  // 4 × 8 lanes.
  s.thread_rows = s.warp_rows / 4;
  s.thread_columns = s.warp_columns / 8;
}

}  // namespace

std::span<const ContractionRule> contraction_rules() { return rules; }

Status check_legality(const Problem& problem, const Schedule& schedule, const DeviceSpec& device) {
  for (const ContractionRule& rule : rules) {
    if (const std::string wrong = rule.violation(problem, schedule, device); !wrong.empty())
      return make_error(ErrorKind::constraint, "{}: {}", rule.name, wrong);
  }
  return {};
}

ContractionInstruction instruction_for(const Problem& problem, const DeviceSpec& device) {
  const auto by_itself = [](ContractionInstruction each) { return !reads_tiles(each); };
  return instruction_of(by_itself, problem, device).value_or(ContractionInstruction::cuda_core);
}

std::optional<ContractionInstruction> warpgroup_instruction_for(const Problem& problem, const DeviceSpec& device) {
  return instruction_of(is_warpgroup, problem, device);
}

std::optional<ContractionInstruction> tensor_memory_instruction_for(const Problem& problem, const DeviceSpec& device) {
  return instruction_of(in_tensor_memory, problem, device);
}

void fit_accesses(const Problem& problem, Schedule& s) {
  const auto widest = [&](const std::vector<const ContractionOperand*>& operands, int free) {
    const int run = contiguity(*operands[0]) == Contiguity::free ? free : s.block_depth;
    return std::min(widest_access(operands), run * graph::byte_size(operands[0]->dtype));
  };
  s.left_copy = widest(left_operands(problem), s.block_rows);
  s.right_copy = widest(right_operands(problem), right_columns(s));
  int store = 1;
  s.store = widest_bytes;  // elements, of one byte at the least: what store_of takes for no limit
  for (const Problem& part : parts_of(problem)) store = std::max(store, store_of(part, s));
  s.store = store;
  fit_rows(problem, s);
}

Result<Schedule> default_schedule(const Problem& problem, const DeviceSpec& device) {
  Schedule s;
  s.instruction = instruction_for(problem, device);
  const int size = std::max(graph::byte_size(problem.left.dtype), graph::byte_size(problem.right.dtype));
  const int smallest = std::min(graph::byte_size(problem.left.dtype), graph::byte_size(problem.right.dtype));
  s.block_rows = 128;
  // Beside what is converted (converted_registers) fewer fit registers, as of 8 bytes, and fewer yet beside scaled
  // sums.
  const bool converts = s.instruction == ContractionInstruction::mma_m16n8k32_f8 && device.compute_major == 9;
  const bool few = graph::byte_size(problem.accumulator) == 8 || (converts && problem.scales);
  s.block_columns = few ? 64 : 128;
  s.block_depth = std::max(64 / size, 16 / smallest);
  while (problem.scales && problem.scales->depth % s.block_depth != 0) s.block_depth /= 2;
  fit_block(problem, device, s);
  fit_warps(s, problem.scales ? 32 : 64, converts ? 32 : 64,
            std::max(16, problem.gates > 1 ? problem.gates * gate_run : 0));
  s.group = 8;
  fit_accesses(problem, s);
  s.stages = 1;
  s.fragment_stages = 1;
  STITCH_TRY(check_legality(problem, s, device));
  for (int stages = 2; stages <= 4; ++stages) {
    Schedule next = s;
    next.stages = stages;
    if (check_legality(problem, next, device)) s = next;
  }
  Schedule next = s;
  next.fragment_stages = 2;
  if (check_legality(problem, next, device)) s = next;
  return s;
}

}  // namespace stitch::kernel
