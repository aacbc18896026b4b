#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/kernel_features.h"

// The columns of a row of features: names, kinds and meanings.
namespace stitch::costmodel {
namespace {

using F = KernelFeatures;
using enum FeatureKind;

constexpr std::array table = {
    FeatureColumn{"dram_read_bytes", extent, false, "device-memory bytes read, once per sweep", &F::dram_read_bytes},
    FeatureColumn{"dram_write_bytes", extent, false, "device-memory bytes written", &F::dram_write_bytes},
    FeatureColumn{"sector_bytes", extent, false, "bytes of the sectors of all warps' requests", &F::sector_bytes},
    FeatureColumn{"l2_passed_bytes", extent, false, "of them: what L1 passes on to L2, estimated", &F::l2_bytes},
    FeatureColumn{"shared_bytes", extent, false, "bytes through shared memory", &F::shared_bytes},
    FeatureColumn{"parameter_bytes", extent, false, "inputs and outputs, once: the least traffic", &F::parameter_bytes},
    FeatureColumn{"dram_reuse", extent, false, "device-memory bytes per byte of parameters", &F::dram_reuse},
    FeatureColumn{"l2_passed_reuse", extent, false, "L2 bytes per device-memory byte", &F::l2_reuse},
    FeatureColumn{"shared_passed_share", extent, false, "shared-memory bytes per L2 byte", &F::shared_share},
    FeatureColumn{"sector_efficiency", share, false, "bytes asked for over bytes of sectors", &F::sector_efficiency},
    FeatureColumn{"load_width", extent, false, "bytes of a lane's load, mean", &F::load_width},
    FeatureColumn{"store_width", extent, false, "bytes of a lane's store, mean", &F::store_width},
    FeatureColumn{"dynamic_share", share, false, "loads at an address that was loaded", &F::dynamic_share},
    FeatureColumn{"bytes_in_flight_thread", extent, false, "loaded by a thread before the first use",
                  &F::bytes_in_flight_thread},
    FeatureColumn{"bytes_in_flight_sm", extent, false, "the same of an SM's resident blocks", &F::bytes_in_flight_sm},
    FeatureColumn{"flight_coverage", extent, false, "of what full bandwidth needs in flight", &F::flight_coverage},
    FeatureColumn{"instructions", extent, false, "warp instructions", &F::instructions},
    FeatureColumn{"memory_share", extent, false, "of them: device memory", &F::memory_share},
    FeatureColumn{"special_share", share, false, "of them: special functions", &F::special_share},
    FeatureColumn{"integer_share", share, false, "of them: on the integer unit", &F::integer_share},
    FeatureColumn{"wide_share", share, false, "of them: 64-bit values", &F::wide_share},
    FeatureColumn{"index_share", share, false, "of them: indices and range tests", &F::index_share},
    FeatureColumn{"exchange_share", share, false, "of them: shuffles and shared memory", &F::exchange_share},
    FeatureColumn{"instructions_per_byte", extent, false, "thread instructions per device-memory byte",
                  &F::instructions_per_byte},
    FeatureColumn{"registers_estimate", extent, false, "per thread", &F::registers_estimate},
    FeatureColumn{"block_shared_bytes", extent, false, "dynamic shared memory of a block", &F::block_shared_bytes},
    FeatureColumn{"resident_blocks", count, false, "of an SM", &F::resident_blocks},
    FeatureColumn{"resident_warps", extent, false, "of an SM", &F::resident_warps},
    FeatureColumn{"register_room", extent, false, "blocks by registers over resident ones", &F::register_room},
    FeatureColumn{"shared_room", extent, false, "blocks by shared memory over resident ones", &F::shared_room},
    FeatureColumn{"thread_room", extent, false, "blocks by threads over resident ones", &F::thread_room},
    FeatureColumn{"threads", extent, false, "of a block", &F::threads},
    FeatureColumn{"blocks", extent, false, "launched", &F::blocks},
    FeatureColumn{"cluster", extent, false, "blocks of a cluster", &F::cluster},
    FeatureColumn{"tiles", extent, false, "of the largest phase", &F::tiles},
    FeatureColumn{"waves", extent, false, "tiles over blocks that run side by side", &F::waves},
    FeatureColumn{"last_wave", share, false, "mean share of the waves' slots that are filled", &F::last_wave},
    FeatureColumn{"busy_share", share, false, "of the SMs", &F::busy_share},
    FeatureColumn{"phases", count, false, "of the kernel", &F::phases},
    FeatureColumn{"slabs", extent, false, "that take the phases one after the other; tiles and waves are of one",
                  &F::slabs},
    FeatureColumn{"grid_barriers", count, false, "between phases, of all slabs", &F::grid_barriers},
    FeatureColumn{"last_blocks", count, false, "hand-overs to the block that arrives last", &F::last_blocks},
    FeatureColumn{"groups", extent, false, "of all phases", &F::groups},
    FeatureColumn{"sweeps", count, false, "of the group that has most", &F::sweeps},
    FeatureColumn{"block_barriers", extent, false, "per tile, all groups", &F::block_barriers},
    FeatureColumn{"cluster_barriers", extent, false, "per tile, all groups", &F::cluster_barriers},
    FeatureColumn{"latency_cycles", extent, false, "dependent chain of a tile, SM cycles", &F::latency_cycles},
    FeatureColumn{"wave_latency", extent, false, "the same times the waves", &F::wave_latency},
    FeatureColumn{"iterations", extent, false, "of a thread's loops in a tile", &F::iterations},
    FeatureColumn{"thread_elements", extent, false, "of a thread in a tile", &F::thread_elements},
    FeatureColumn{"lane_efficiency", share, false, "useful share of mapped elements", &F::lane_efficiency},
    FeatureColumn{"scratch_bytes", extent, false, "intermediates in device memory", &F::scratch_bytes},
    FeatureColumn{"elements", extent, false, "of all groups' iteration spaces", &F::elements},
    FeatureColumn{"inner_extent", extent, false, "of the axis along which vectors lie", &F::inner_extent},
    FeatureColumn{"reduced_extent", extent, false, "elements that a reduction combines", &F::reduced_extent},
    FeatureColumn{"vector_extent", extent, false, "elements of a vector", &F::vector_extent},
    FeatureColumn{"lane_extent", extent, false, "lanes of a warp that the axes fill", &F::lane_extent},
    FeatureColumn{"axes", count, false, "of the largest group", &F::axes},
    FeatureColumn{"element_bytes", extent, false, "of loaded elements, mean", &F::element_bytes},
    FeatureColumn{"inner_stride", extent, false, "bytes between neighbours of the inner axis, 32 at most; mean",
                  &F::inner_stride},
    FeatureColumn{"reduces", extent, false, "reductions that end in a tile", &F::reduces},
    FeatureColumn{"partials", extent, false, "reductions that leave partial results", &F::partials},
    FeatureColumn{"scans", count, false, "cumulative operators", &F::scans},
    FeatureColumn{"scatters", count, false, "scatters", &F::scatters},
    FeatureColumn{"gathers", count, false, "whether any address was loaded", &F::gathers},
    FeatureColumn{"held_registers", extent, false, "values kept in registers between sweeps", &F::held_registers},
    FeatureColumn{"held_shared", extent, false, "values kept in shared memory between sweeps", &F::held_shared},
    FeatureColumn{"kernel_class", count, false,
                  "0: memory-intensive, 1: product, 2: convolution, 3: attention, 4: chain", &F::kernel_class},
    FeatureColumn{"product_batch", extent, false, "of a product of matrices: batches", &F::product_batch},
    FeatureColumn{"product_rows", extent, false, "rows of the result", &F::product_rows},
    FeatureColumn{"product_columns", extent, false, "columns; keys of an attention", &F::product_columns},
    FeatureColumn{"product_depth", extent, false, "contracted; of an attention's scores", &F::product_depth},
    FeatureColumn{"product_width", extent, false, "columns of an attention's result", &F::product_width},
    FeatureColumn{"left_bytes", extent, false, "of an element of the left operand", &F::left_bytes},
    FeatureColumn{"right_bytes", extent, false, "of an element of the right operand", &F::right_bytes},
    FeatureColumn{"accumulator_bytes", extent, false, "of a sum", &F::accumulator_bytes},
    FeatureColumn{"left_turned", count, false, "whether neighbours in memory are rows, not depth", &F::left_turned},
    FeatureColumn{"right_turned", count, false, "whether neighbours in memory are columns", &F::right_turned},
    FeatureColumn{"windows", count, false, "dimensions that a convolution's window moves over", &F::windows},
    FeatureColumn{"epilogue_bytes", extent, false, "that fused neighbours read", &F::epilogue_bytes},
    FeatureColumn{"epilogue_operators", extent, false, "of an element of the result", &F::epilogue_operators},
    FeatureColumn{"row_reductions", count, false, "of whole rows of the result", &F::row_reductions},
    FeatureColumn{"computed_operands", count, false, "computed, or realigned, while they are loaded",
                  &F::computed_operands},
    FeatureColumn{"parts", extent, false, "products in one kernel", &F::parts},
    FeatureColumn{"tile_rows", extent, false, "of a block", &F::tile_rows},
    FeatureColumn{"tile_columns", extent, false, "of a block; keys of a turn", &F::tile_columns},
    FeatureColumn{"tile_depth", extent, false, "of a turn", &F::tile_depth},
    FeatureColumn{"warp_tile_rows", extent, false, "of a warp", &F::warp_rows},
    FeatureColumn{"warp_tile_columns", extent, false, "of a warp", &F::warp_columns},
    FeatureColumn{"lane_results", extent, false, "sums of a lane", &F::lane_results},
    FeatureColumn{"instruction_products", extent, false, "multiply-adds of one instruction", &F::instruction_products},
    FeatureColumn{"warpgroup", count, false, "whether four warps multiply together", &F::warpgroup},
    FeatureColumn{"stages", extent, false, "tiles of operands in shared memory", &F::stages},
    FeatureColumn{"fragment_stages", count, false, "steps of a tile in registers", &F::fragment_stages},
    FeatureColumn{"split", extent, false, "blocks that share a tile's depth, or keys", &F::split},
    FeatureColumn{"streamed", extent, false, "blocks that share the turns of all tiles", &F::streamed},
    FeatureColumn{"raster", extent, false, "rows of tiles that consecutive blocks walk", &F::raster},
    FeatureColumn{"left_copy", extent, false, "bytes of a copy to shared memory", &F::left_copy},
    FeatureColumn{"right_copy", extent, false, "bytes of a copy to shared memory", &F::right_copy},
    FeatureColumn{"store_elements", extent, false, "of one store", &F::store_elements},
    FeatureColumn{"planned_blocks", count, false, "of an SM that registers are kept within", &F::planned_blocks},
    FeatureColumn{"tensor_copies", count, false, "whether the copy engine brings tiles", &F::tensor_copies},
    FeatureColumn{"persistent_blocks", extent, false, "that walk all tiles; 0: one for each", &F::persistent_blocks},
    FeatureColumn{"row_blocks", extent, false, "of a cluster that has whole rows", &F::row_blocks},
    FeatureColumn{"overlaps", count, false, "whether an attention's next scores are multiplied meanwhile",
                  &F::overlaps},
    FeatureColumn{"product_us", extent, false, "by the analytical model", &F::product_us},
    FeatureColumn{"tile_efficiency", share, false, "of the tiles' products, those that are asked for",
                  &F::tile_efficiency},
    FeatureColumn{"intensity", extent, false, "multiply-adds per device-memory byte", &F::intensity},
    FeatureColumn{"product_instructions", extent, false, "that multiply, of all warps", &F::product_instructions},
    FeatureColumn{"turns", extent, false, "of a block", &F::turns},
    FeatureColumn{"load_per_use", extent, false, "of a turn, latency of loads over what uses them", &F::load_per_use},
    FeatureColumn{"load_hidden", extent, false, "the same over what stages and blocks hide", &F::load_hidden},
    FeatureColumn{"multiply_limit", extent, false, "of the analytical time: multiplying", &F::multiply_limit},
    FeatureColumn{"special_limit", extent, false, "of it: exponentials", &F::special_limit},
    FeatureColumn{"shared_limit", extent, false, "of it: shared memory", &F::shared_limit},
    FeatureColumn{"issue_limit", extent, false, "of it: issue", &F::issue_limit},
    FeatureColumn{"l2_limit", extent, false, "of it: L2", &F::l2_limit},
    FeatureColumn{"dram_limit", extent, false, "of it: device memory", &F::dram_limit},
    FeatureColumn{"loop_limit", extent, false, "of it: all turns with their waits", &F::loop_limit},
    FeatureColumn{"fill_share", share, false, "of it: filling the pipeline", &F::fill_share},
    FeatureColumn{"epilogue_share", share, false, "of it: the epilogue", &F::epilogue_share},
    FeatureColumn{"partial_share", share, false, "of it: partial sums", &F::partial_share},
    FeatureColumn{"launch_share", share, false, "of it: the launch", &F::launch_share},
    FeatureColumn{"dram_us", extent, false, "device-memory bytes at full bandwidth", &F::dram_us},
    FeatureColumn{"l2_passed_us", extent, false, "L2 bytes at full bandwidth", &F::l2_us},
    FeatureColumn{"issue_us", extent, false, "instructions at full rate of the busy SMs", &F::issue_us},
    FeatureColumn{"sm_count", constant, false, "", &F::sm_count},
    FeatureColumn{"clock_ghz", constant, false, "", &F::clock_ghz},
    FeatureColumn{"dram_gbps", constant, false, "reachable, GB/s", &F::dram_gbps},
    FeatureColumn{"l2_gbps", constant, false, "GB/s", &F::l2_gbps},
    FeatureColumn{"l2_mbytes", constant, false, "", &F::l2_mbytes},
    FeatureColumn{"sm_shared_kbytes", constant, false, "", &F::sm_shared_kbytes},
    FeatureColumn{"dram_latency", constant, false, "SM cycles", &F::dram_latency},
    FeatureColumn{"launch_us", constant, false, "", &F::launch_us},
    FeatureColumn{"barrier_us", constant, false, "of a grid barrier", &F::barrier_us},
    FeatureColumn{"registers", extent, true, "per thread, by the compiler", &F::registers},
    FeatureColumn{"spill_bytes", extent, true, "per thread", &F::spill_bytes},
    FeatureColumn{"compiled_shared_bytes", extent, true, "of a block", &F::compiled_shared_bytes},
    FeatureColumn{"compiled_warps", extent, true, "resident on an SM", &F::compiled_warps},
    FeatureColumn{"sass_instructions", extent, true, "in the machine code", &F::sass_instructions},
    FeatureColumn{"sass_loop_instructions", extent, true, "of the hottest loop's body", &F::sass_loop_instructions},
    FeatureColumn{"sass_loop_cycles", extent, true, "a warp's cycles for one iteration", &F::sass_loop_cycles},
    FeatureColumn{"sass_memory_share", share, true, "of the instructions", &F::sass_memory_share},
    FeatureColumn{"sass_float_share", share, true, "of the instructions", &F::sass_float_share},
    FeatureColumn{"sass_integer_share", share, true, "of the instructions", &F::sass_integer_share},
    FeatureColumn{"sass_special_share", share, true, "of the instructions", &F::sass_special_share},
    FeatureColumn{"sass_load_width", extent, true, "bytes, mean", &F::sass_load_width},
    FeatureColumn{"sass_loads_before_wait", extent, true, "device-memory loads before one is waited for",
                  &F::sass_loads_before_wait},
    FeatureColumn{"sass_bytes_before_wait", extent, true, "the same in bytes of a lane", &F::sass_bytes_before_wait},
    FeatureColumn{"sass_stall_share", share, true, "of the loop body's issue cycles", &F::sass_stall_share},
};
static_assert(sizeof(F) == table.size() * sizeof(double), "a column for every feature");

}  // namespace

std::span<const FeatureColumn> feature_columns() { return table; }

Hash128 feature_set_hash() {
  static const Hash128 hash = [] {
    Hasher hasher;
    hasher.integer(table.size());
    for (const FeatureColumn& column : table) hasher.text(column.name);
    return hasher.finish();
  }();
  return hash;
}

std::vector<std::string> feature_names() {
  std::vector<std::string> names;
  for (const FeatureColumn& column : table) names.emplace_back(column.name);
  return names;
}

void to_row(const KernelFeatures& features, std::span<float> row) {
  constexpr double most = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double value = features.*table[i].field;
    row[i] = std::isnan(value) ? value : std::clamp(value, -most, most);
  }
}

std::vector<float> to_row(const KernelFeatures& features) {
  std::vector<float> row(table.size());
  to_row(features, row);
  return row;
}

std::vector<SearchColumn> search_columns(std::span<const std::string> names) {
  std::vector<SearchColumn> columns;
  for (std::size_t place = 0; place < names.size(); ++place) {
    const auto column = std::ranges::find(table, names[place], &FeatureColumn::name);
    if (column == table.end() || column->compiled || column->kind == FeatureKind::constant) continue;
    columns.push_back({place, column->kind == FeatureKind::extent});
  }
  return columns;
}

std::vector<double> search_vector(std::span<const double> row, std::span<const SearchColumn> columns) {
  std::vector<double> vector;
  vector.reserve(columns.size());
  for (const SearchColumn& column : columns) {
    const double value = row[column.place];
    const double known = value > 0 ? value : 0;  // of what is missing: 0
    vector.push_back(column.is_extent ? std::log2(1 + known) : known);
  }
  return vector;
}

KernelClass class_of(std::span<const float> row) {
  static const std::size_t column = std::ranges::find(table, "kernel_class", &FeatureColumn::name) - table.begin();
  return static_cast<KernelClass>(row[column]);
}

std::string_view to_string(KernelClass kernel_class) {
  switch (kernel_class) {
    case KernelClass::memory_intensive: return "memory-intensive";
    case KernelClass::product: return "product";
    case KernelClass::convolution: return "convolution";
    case KernelClass::attention: return "attention";
    case KernelClass::chain: return "chain";
  }
  return "";
}

std::vector<float> before_compilation(std::span<const float> row) {
  std::vector<float> before(row.begin(), row.end());
  for (std::size_t i = 0; i < table.size() && i < before.size(); ++i) {
    if (table[i].compiled) before[i] = std::numeric_limits<float>::quiet_NaN();
  }
  return before;
}

}  // namespace stitch::costmodel
