#include "costmodel/contraction/product_features.h"

#include <algorithm>
#include <cmath>

#include "costmodel/contraction/product_rates.h"
#include "graph/traffic.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/program/legality.h"

namespace stitch::costmodel {
namespace {

using kernel::ContractionInstruction;
using kernel::ContractionOperand;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

/// Nothing is known of it but the device.
KernelFeatures blank_features(const DeviceSpec& device, KernelClass kernel_class) {
  KernelFeatures f;
  for (const FeatureColumn& column : feature_columns()) f.*column.field = KernelFeatures::missing;
  set_device_columns(device, f);
  f.kernel_class = static_cast<double>(kernel_class);
  return f;
}

/// Whether the contracted dimension is not the one along which neighbours lie in memory.
double is_turned(const ContractionOperand& operand) {
  return operand.contracted.empty() || operand.contracted.back().stride == 1 ? 0 : 1;
}

/// Blocks of an SM and their resources; `resident`: as the analytical model has it.
struct LaunchFigures {
  double threads = 0, blocks = 0, cluster = 1, registers = 0, shared_bytes = 0, resident = 1;
};

void set_launch(const LaunchFigures& launch, const DeviceSpec& device, KernelFeatures& f) {
  const double resident = std::max(1.0, launch.resident);
  f.threads = launch.threads;
  f.blocks = launch.blocks;
  f.cluster = launch.cluster;
  f.registers_estimate = launch.registers;
  f.block_shared_bytes = launch.shared_bytes;
  f.resident_blocks = resident;
  f.resident_warps = resident * std::ceil(launch.threads / 32);
  f.busy_share = std::min<double>(device.sm_count, launch.blocks) / device.sm_count;
  f.register_room = device.registers_per_sm / std::max(1.0, launch.registers * launch.threads) / resident;
  f.shared_room = device.shared_per_sm / (launch.shared_bytes + device.shared_reserved_per_block) / resident;
  f.thread_room = device.threads_per_sm / std::max(1.0, launch.threads) / resident;
}

/// Rounds, traffic, the loop's turns and the parts of the time, which both kinds of times have alike.
template <class Time>
void set_time(const Time& time, const DeviceSpec& device, KernelFeatures& f) {
  f.waves = time.rounds;
  f.last_wave = share_of(time.rounds, std::ceil(time.rounds));
  f.l2_bytes = time.l2_bytes;
  f.dram_read_bytes = std::max(0.0, time.dram_bytes - f.dram_write_bytes);
  f.dram_reuse = share_of(time.dram_bytes, f.parameter_bytes);
  f.l2_reuse = share_of(time.l2_bytes, time.dram_bytes);
  f.dram_us = time.dram_bytes / device.copy_bandwidth() * 1e6;
  f.l2_us = time.l2_bytes / device.l2_bandwidth * 1e6;
  f.issue_us = time.issue;
  f.product_us = time.total;
  f.multiply_limit = share_of(time.multiply, time.total);
  f.shared_limit = share_of(time.shared, time.total);
  f.issue_limit = share_of(time.issue, time.total);
  f.l2_limit = share_of(time.l2, time.total);
  f.dram_limit = share_of(time.dram, time.total);
  f.loop_limit = share_of(time.loop, time.total);
  f.fill_share = share_of(time.fill, time.total);
  f.epilogue_share = share_of(time.epilogue, time.total);
  f.partial_share = share_of(time.partial, time.total);
  f.launch_share = share_of(time.launch, time.total);
  const PipelineTurn& turn = time.turn;
  f.turns = static_cast<double>(turn.turns);
  f.load_per_use = share_of(turn.load_us, turn.use_us);
  // ALCOP's condition for loads that cost nothing: at most 1.
  f.load_hidden = share_of(turn.load_us, std::max(1, turn.stages * turn.blocks - 1) * turn.use_us);
}

/// `multiplications`: those that are asked for; `tiles`: those of whole tiles.
void set_work(double multiplications, double tiles, double dram_bytes, ContractionInstruction instruction,
              KernelFeatures& f) {
  const kernel::InstructionInfo& each = kernel::info(instruction);
  // What all warps of an instruction multiply; of CUDA cores a lane's multiply-add.
  const double products = static_cast<double>(each.rows) * each.columns * each.depth * each.warps;
  f.instruction_products = products;
  f.warpgroup = kernel::is_warpgroup(instruction) ? 1 : 0;
  f.tile_efficiency = std::min(1.0, share_of(multiplications, tiles));
  f.intensity = share_of(multiplications, dram_bytes);
  f.product_instructions =
      tiles / (instruction == ContractionInstruction::cuda_core ? 32 : products) * split_work(instruction).products;
}

/// The launch and the time of blocks that walk keys or columns.
template <class Shape>
void set_walk(const Shape& shape, const AttentionTime& time, const DeviceSpec& device, KernelFeatures& f) {
  f.tiles = static_cast<double>(shape.tiles);
  f.iterations = time.turns;
  set_launch(
      {static_cast<double>(shape.threads), static_cast<double>(shape.blocks), 1, static_cast<double>(shape.registers),
       static_cast<double>(shape.shared_bytes), static_cast<double>(time.turn.blocks)},
      device, f);
  set_time(time, device, f);
  f.special_limit = share_of(time.special, time.total);
}

void set_problem(const ContractionProblem& problem, KernelFeatures& f) {
  f.product_batch = static_cast<double>(problem.batch);
  f.product_rows = static_cast<double>(problem.rows);
  f.product_columns = static_cast<double>(problem.columns);
  f.product_depth = static_cast<double>(problem.contracted);
  f.left_bytes = graph::byte_size(problem.left.dtype);
  f.right_bytes = graph::byte_size(problem.right.dtype);
  f.accumulator_bytes = graph::byte_size(problem.accumulator);
  f.left_turned = is_turned(problem.left);
  f.right_turned = is_turned(problem.right);
  f.windows = static_cast<double>(problem.left.windows.size() + problem.right.windows.size());
}

/// What is fused behind the product that makes the results.
void set_fused(const ContractionProblem& problem, KernelFeatures& f) {
  f.epilogue_bytes = epilogue_reads(problem);
  f.epilogue_operators = epilogue_operators(problem);
  f.row_reductions = static_cast<double>(problem.row_reductions.size());
  f.computed_operands = static_cast<double>(problem.computed.size());
}

}  // namespace

KernelFeatures product_features(const ContractionProblem& problem, const ContractionSchedule& s,
                                const ContractionTime& time, const DeviceSpec& device, const CompiledFacts* compiled) {
  KernelFeatures f = blank_features(device, problem.is_convolution() ? KernelClass::convolution : KernelClass::product);
  const kernel::ContractionShape shape = kernel::shape_of(problem, s);
  set_problem(problem, f);
  set_fused(problem, f);
  f.parts = static_cast<double>(kernel::parts_of(problem).size() + problem.terms.size());
  f.parameter_bytes = static_cast<double>(graph::interface_bytes(*problem.whole()));
  f.dram_write_bytes = result_bytes(problem);
  f.tile_rows = s.block_rows;
  f.tile_columns = s.block_columns;
  f.tile_depth = s.block_depth;
  f.warp_rows = s.warp_rows;
  f.warp_columns = s.warp_columns;
  f.lane_results = static_cast<double>(s.warp_rows) * s.warp_columns / 32;
  f.stages = s.stages;
  f.fragment_stages = s.fragment_stages;
  f.split = s.split;
  f.streamed = s.streamed;
  f.raster = s.group;
  f.left_copy = s.left_copy;
  f.right_copy = s.right_copy;
  f.computed_operands += (s.left_realigned ? 1 : 0) + (s.right_realigned ? 1 : 0);
  f.store_elements = s.store;
  f.planned_blocks = s.blocks_per_sm;
  f.tensor_copies = s.tensor_copies ? 1 : 0;
  f.persistent_blocks = s.resident;
  f.row_blocks = s.row_blocks;
  f.tiles = static_cast<double>(shape.tiles);
  f.iterations = static_cast<double>(shape.depth_tiles);
  f.scratch_bytes = static_cast<double>(shape.scratch_bytes);
  set_launch({static_cast<double>(shape.threads), static_cast<double>(shape.grid),
              static_cast<double>(std::max(s.cluster, s.row_blocks)), static_cast<double>(shape.registers),
              static_cast<double>(shape.shared_bytes), static_cast<double>(time.resident)},
             device, f);
  set_time(time, device, f);
  const double tile = static_cast<double>(s.block_rows) * s.block_columns * s.block_depth;
  const double depth = static_cast<double>(kernel::depth_tiles(problem, s.block_depth));
  set_work(problem.products(), static_cast<double>(shape.tiles) * depth * tile, time.dram_bytes, s.instruction, f);
  if (compiled != nullptr) set_compiled_columns(*compiled, shape.threads, device, f);
  return f;
}

KernelFeatures product_features(const kernel::AttentionProblem& problem, const kernel::AttentionSchedule& s,
                                const AttentionTime& time, const DeviceSpec& device, const CompiledFacts* compiled) {
  KernelFeatures f = blank_features(device, KernelClass::attention);
  const kernel::AttentionShape shape = kernel::shape_of(problem, s);
  set_problem(problem.scores, f);
  set_fused(problem.product, f);
  f.epilogue_bytes += epilogue_reads(problem.scores);
  f.epilogue_operators += epilogue_operators(problem.scores);
  f.product_width = static_cast<double>(problem.product.columns);
  f.parts = 2;
  f.parameter_bytes = static_cast<double>(graph::interface_bytes(*problem.graph));
  f.dram_write_bytes = result_bytes(problem.product);
  f.tile_rows = s.block_rows;
  f.tile_columns = s.block_keys;
  f.tile_depth = shape.scores.block_depth;
  f.warp_rows = s.warp_rows;
  f.warp_columns = s.block_keys;
  f.lane_results = static_cast<double>(s.warp_rows) * (s.block_keys + shape.product.block_columns) / 32;
  f.stages = s.stages;
  f.fragment_stages = 1;
  f.split = s.split;
  f.left_copy = s.query_copy;
  f.right_copy = std::min(s.key_copy, s.value_copy);
  f.store_elements = s.store;
  f.planned_blocks = s.blocks_per_sm;
  f.overlaps = s.overlaps ? 1 : 0;
  f.scratch_bytes = static_cast<double>(shape.part_bytes);
  set_walk(shape, time, device, f);
  const double walked = time.turns * static_cast<double>(shape.blocks) * s.block_rows * s.block_keys;
  const double width = shape.scores.block_depth + shape.product.block_columns;
  const double asked = static_cast<double>(problem.scores.contracted + problem.product.columns);
  set_work(walked * asked, walked * width, time.dram_bytes, s.instruction, f);
  if (compiled != nullptr) set_compiled_columns(*compiled, shape.threads, device, f);
  return f;
}

KernelFeatures product_features(const kernel::ProductChain& chain, const kernel::ChainSchedule& s,
                                const AttentionTime& time, const DeviceSpec& device, const CompiledFacts* compiled) {
  KernelFeatures f = blank_features(device, KernelClass::chain);
  const kernel::ChainShape shape = kernel::shape_of(chain, s);
  set_problem(chain.scores.front(), f);
  f.product_depth = f.product_width = f.epilogue_bytes = f.epilogue_operators = 0;
  f.row_reductions = f.computed_operands = f.dram_write_bytes = 0;
  for (const std::vector<ContractionProblem>* all : {&chain.scores, &chain.products}) {
    for (const ContractionProblem& each : *all) {
      f.epilogue_bytes += epilogue_reads(each);
      f.epilogue_operators += epilogue_operators(each);
    }
  }
  double lane_columns = 0, width = 0;
  for (std::size_t i = 0; i < chain.scores.size(); ++i) {
    f.product_depth += static_cast<double>(chain.scores[i].contracted);
    width += shape.scores[i].block_depth;
    lane_columns += s.block_columns;
  }
  for (std::size_t i = 0; i < chain.products.size(); ++i) {
    f.product_width += static_cast<double>(chain.products[i].columns);
    f.dram_write_bytes += result_bytes(chain.products[i]);
    width += shape.products[i].block_columns;
    lane_columns += shape.products[i].block_columns;
  }
  f.parts = static_cast<double>(chain.scores.size() + chain.products.size());
  f.parameter_bytes = static_cast<double>(graph::interface_bytes(*chain.graph));
  f.tile_rows = s.block_rows;
  f.tile_columns = s.block_columns;
  f.tile_depth = shape.scores.front().block_depth;
  f.warp_rows = s.warp_rows;
  f.warp_columns = s.block_columns;
  f.lane_results = s.warp_rows * lane_columns / 32;
  f.stages = s.stages;
  f.fragment_stages = f.split = 1;
  f.planned_blocks = s.blocks_per_sm;
  set_walk(shape, time, device, f);
  const double walked = time.turns * static_cast<double>(shape.blocks) * s.block_rows * s.block_columns;
  set_work(walked * (f.product_depth + f.product_width), walked * width, time.dram_bytes, s.instruction, f);
  if (compiled != nullptr) set_compiled_columns(*compiled, shape.threads, device, f);
  return f;
}

}  // namespace stitch::costmodel
