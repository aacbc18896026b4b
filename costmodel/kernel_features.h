#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "costmodel/kernel_quantities.h"
#include "costmodel/machine_code.h"

namespace stitch::costmodel {

/// What the compiler said about a kernel, and what its machine code shows where it was disassembled.
struct CompiledFacts {
  int registers = 0;              ///< per thread
  std::int64_t shared_bytes = 0;  ///< of a block, static and dynamic
  std::int64_t spill_bytes = 0;   ///< stores and loads
  const MachineCodeFeatures* machine_code = nullptr;
};

/// What multiplies in a kernel, a column by which one model serves all of them.
enum class KernelClass : std::uint8_t { memory_intensive, product, convolution, attention, chain };

/// A scheduled kernel as a row of numbers for a learned model. Every field's name, kind and meaning stands in
/// feature_columns(). `missing` is NaN, which XGBoost takes as missing: so are the columns of another class of kernels
/// (costmodel/contraction/product_features.h fills those of products).
struct KernelFeatures {
  static constexpr double missing = std::numeric_limits<double>::quiet_NaN();

  // Traffic by level and direction.
  double dram_read_bytes = 0, dram_write_bytes = 0, sector_bytes = 0, l2_bytes = 0, shared_bytes = 0;
  double parameter_bytes = 0, dram_reuse = 0, l2_reuse = 0, shared_share = 0;
  // How memory is touched.
  double sector_efficiency = 0, load_width = 0, store_width = 0, dynamic_share = 0;
  double bytes_in_flight_thread = 0, bytes_in_flight_sm = 0, flight_coverage = 0;
  // Instructions.
  double instructions = 0, memory_share = 0, special_share = 0, integer_share = 0, wide_share = 0, index_share = 0;
  double exchange_share = 0;
  double instructions_per_byte = 0;
  // Occupancy.
  double registers_estimate = 0, block_shared_bytes = 0, resident_blocks = 0, resident_warps = 0;
  double register_room = 0, shared_room = 0, thread_room = 0;
  // The grid.
  double threads = 0, blocks = 0, cluster = 0, tiles = 0, waves = 0, last_wave = 0, busy_share = 0;
  // Structure.
  double phases = 0, slabs = 1, grid_barriers = 0, last_blocks = 0, groups = 0, sweeps = 0;
  double block_barriers = 0, cluster_barriers = 0, latency_cycles = 0, wave_latency = 0;
  double iterations = 0, thread_elements = 0, lane_efficiency = 0, scratch_bytes = 0;
  // Shapes and strides.
  double elements = 0, inner_extent = 0, reduced_extent = 0, vector_extent = 0, lane_extent = 0, axes = 0;
  double element_bytes = 0, inner_stride = 0;
  double reduces = 0, partials = 0, scans = 0, scatters = 0, gathers = 0, held_registers = 0, held_shared = 0;
  // Of kernels that multiply matrices: the problem.
  double kernel_class = 0;  ///< KernelClass
  double product_batch = missing, product_rows = missing, product_columns = missing, product_depth = missing;
  double product_width = missing, left_bytes = missing, right_bytes = missing, accumulator_bytes = missing;
  double left_turned = missing, right_turned = missing, windows = missing, epilogue_bytes = missing;
  double epilogue_operators = missing, row_reductions = missing, computed_operands = missing, parts = missing;
  // The schedule.
  double tile_rows = missing, tile_columns = missing, tile_depth = missing, warp_rows = missing;
  double warp_columns = missing, lane_results = missing, instruction_products = missing, warpgroup = missing;
  double stages = missing, fragment_stages = missing, split = missing, streamed = missing, raster = missing;
  double left_copy = missing, right_copy = missing, store_elements = missing, planned_blocks = missing;
  double tensor_copies = missing, persistent_blocks = missing, row_blocks = missing, overlaps = missing;
  // What follows from both, and the shares of the analytical time.
  double product_us = missing, tile_efficiency = missing, intensity = missing, product_instructions = missing;
  double turns = missing, load_per_use = missing, load_hidden = missing;
  double multiply_limit = missing, special_limit = missing, shared_limit = missing, issue_limit = missing;
  double l2_limit = missing, dram_limit = missing, loop_limit = missing;
  double fill_share = missing, epilogue_share = missing, partial_share = missing, launch_share = missing;
  // Limits by the device table alone, µs.
  double dram_us = 0, l2_us = 0, issue_us = 0;
  // The device.
  double sm_count = 0, clock_ghz = 0, dram_gbps = 0, l2_gbps = 0, l2_mbytes = 0, sm_shared_kbytes = 0;
  double dram_latency = 0, launch_us = 0, barrier_us = 0;
  // What compiling tells.
  double registers = missing, spill_bytes = missing, compiled_shared_bytes = missing, compiled_warps = missing;
  // What the machine code tells.
  double sass_instructions = missing, sass_loop_instructions = missing, sass_loop_cycles = missing;
  double sass_memory_share = missing, sass_float_share = missing, sass_integer_share = missing;
  double sass_special_share = missing, sass_load_width = missing, sass_loads_before_wait = missing;
  double sass_bytes_before_wait = missing, sass_stall_share = missing;
};

/// How a column is measured: what may be near a value, and what is beyond what a model has seen (docs/cost-model.md).
enum class FeatureKind : std::uint8_t {
  extent,    ///< ≥ 0 without bound: compared by its logarithm
  share,     ///< 0 … 1, or near it
  count,     ///< a small number, or a flag
  constant,  ///< of the device
};

struct FeatureColumn {
  std::string_view name;  ///< one whose meaning changes gets another name: rows are matched by names
  FeatureKind kind;
  bool compiled;          ///< missing before compilation
  std::string_view what;  ///< meaning and unit
  double KernelFeatures::*field;
};

/// Every column, in the order of a row.
std::span<const FeatureColumn> feature_columns();
/// Raised with every change of the columns; for people. What decides is feature_set_hash().
inline constexpr int kernel_features_version = 5;
/// Names the columns and their order.
Hash128 feature_set_hash();
std::vector<std::string> feature_names();

/// `compiled`: null before compilation; its columns are missing then.
KernelFeatures kernel_features(const graph::Graph& graph, const kernel::KernelProgram& program,
                               const DeviceSpec& device, const CompiledFacts* compiled = nullptr);
/// The same of what was counted before.
KernelFeatures kernel_features(const KernelQuantities& quantities, const graph::Graph& graph,
                               const kernel::KernelProgram& program, const DeviceSpec& device,
                               const CompiledFacts* compiled = nullptr);

/// The columns of the device, and of what the compiler reports of a kernel whose blocks have so many threads.
void set_device_columns(const DeviceSpec& device, KernelFeatures& features);
void set_compiled_columns(const CompiledFacts& compiled, int threads, const DeviceSpec& device,
                          KernelFeatures& features);

/// Single precision, as models take it; values beyond it become its largest.
void to_row(const KernelFeatures& features, std::span<float> row);
std::vector<float> to_row(const KernelFeatures& features);

/// A column that may tell a kernel's candidates apart before any is compiled: neither of the device nor of the
/// compiler.
struct SearchColumn {
  std::size_t place = 0;   ///< in rows of the names that search_columns was given
  bool is_extent = false;  ///< enters by its logarithm: sizes act by ratios
};
std::vector<SearchColumn> search_columns(std::span<const std::string> names);
/// A row as a search sees the candidate (search::CandidateSpace::from_vectors). A recorded row has −1 for what is
/// missing; here that is 0.
std::vector<double> search_vector(std::span<const double> row, std::span<const SearchColumn> columns);

/// What multiplies in the kernel of a row.
KernelClass class_of(std::span<const float> row);
std::string_view to_string(KernelClass kernel_class);

/// The row without what compiling tells: what it was before.
std::vector<float> before_compilation(std::span<const float> row);

}  // namespace stitch::costmodel
