#include "costmodel/constants/constant_origins.h"

#include <array>

namespace stitch::costmodel {
namespace {

/// A function, as the names in it are short.
constexpr auto origin_rows() {
  using enum ConstantOrigin;
  using Row = ConstantOriginRow;

  constexpr std::string_view liger = "times that Liger-Kernel published (bench/measured)";
  constexpr std::string_view own = "schedules measured on an H100 (bench/results/gpu)";
  constexpr std::string_view ours = "our kernels' sources";
  constexpr std::string_view neutral = "1: as the device table has it";

  return std::array{
      Row{"analytical_constants.h", "overlap", fitted, liger},
      Row{"analytical_constants.h", "duty_alone", guess, ""},
      Row{"analytical_constants.h", "duty_further", guess, ""},
      Row{"analytical_constants.h", "loaded_latency", guess,
          "900 to 1,300 cycles on an H100 whose idle latency is 590"},
      Row{"analytical_constants.h", "flight_knee", fitted, liger},
      Row{"analytical_constants.h", "sm_dram_bytes_per_clock", guess, "80 to 90 GB/s of an H100's SM"},
      Row{"analytical_constants.h", "serial", rule, "1: what stands between loads and stores shows once"},
      Row{"analytical_constants.h", "warp_issue", guess,
          "0.2 to 0.35 along a chain, 0.6 by machine code where unrolled"},
      Row{"analytical_constants.h", "cooperative_launch_us", guess, "0.5 to 1.5"},
      Row{"analytical_constants.h", "cluster_launch_us", guess, "0.3 to 0.5"},
      Row{"analytical_constants.h", "barrier_of_block", guess, "0.5 to 1.2 us at six blocks an SM"},
      Row{"analytical_constants.h", "cluster_idle", sheet, "GPCs of 16 or 18 SMs: 4 of 132 are left by clusters of 8"},
      Row{"analytical_constants.h", "last_block", guess, "a counter's way there and back, less than all blocks'"},
      Row{"analytical_constants.h", "alone_bytes_per_clock", sheet, "NVIDIA A100 white paper: an SM's port to L2"},
      Row{"analytical_constants.h", "most_stretch", guess, ""},
      Row{"analytical_constants.h", "most_dram_stretch", guess, ""},
      Row{"analytical_constants.h", "ramp_latencies", guess, "one to begin, one to drain"},
      Row{"analytical_constants.h", "l2_kept", guess, "half: both parts of L2 may hold the same line"},
      Row{"analytical_constants.h", "row_bytes", guess, "by HBM3's timing"},
      Row{"analytical_constants.h", "dram", rule, neutral},
      Row{"analytical_constants.h", "l2", rule, neutral},
      Row{"analytical_constants.h", "shared", rule, neutral},
      Row{"analytical_constants.h", "issue", rule, neutral},
      Row{"analytical_constants.h", "integer", rule, neutral},
      Row{"analytical_constants.h", "f64", rule, neutral},
      Row{"analytical_constants.h", "special", rule, neutral},
      Row{"analytical_constants.h", "latency", rule, neutral},
      Row{"analytical_constants.h", "launch", rule, neutral},
      Row{"analytical_constants.h", "barrier", rule, neutral},

      Row{"compiled_estimate.cpp", "most_apart", rule, "beyond it code and schedule speak of different work"},
      Row{"compiled_estimate.cpp", "most_loads", rule, "beyond it there are two ways to load the same"},

      Row{"counted_group.h", "warp_lanes", sheet, "CUDA C++ programming guide"},
      Row{"counted_group.h", "sector_bytes", sheet, "CUDA C++ programming guide"},

      Row{"cubin_kernel.cpp", "volta", sheet, "CUDA C++ programming guide, compute capabilities"},

      Row{"exchange_count.cpp", "instructions_of_shuffle", guess, ""},
      Row{"exchange_count.cpp", "shuffle_cycles", guess, "23 to 30 of a shuffle in papers, and what combines"},
      Row{"exchange_count.cpp", "instructions_before_exchange", guess, ours},
      Row{"exchange_count.cpp", "instructions_of_exchanged", guess, ours},
      Row{"exchange_count.cpp", "cycles_of_exchanged", guess, "a dependent instruction takes 4 (arXiv 1804.06826)"},
      Row{"exchange_count.cpp", "accumulator_bytes", rule, ours},
      Row{"exchange_count.cpp", "passes_of_exchange", rule, ours},
      Row{"exchange_count.cpp", "instructions_of_rescaling", guess, ours},
      Row{"exchange_count.cpp", "rescaling_cycles", guess, ""},
      Row{"exchange_count.cpp", "crossings_of_cluster_barrier", rule, "a message to the others and one back"},
      Row{"exchange_count.cpp", "threads_of_slow_barrier", guess, ""},
      Row{"exchange_count.cpp", "instructions_of_test", guess, ours},
      Row{"exchange_count.cpp", "instructions_of_hit", guess, ours},
      Row{"exchange_count.cpp", "index_bytes", rule, ours},
      Row{"exchange_count.cpp", "bytes_of_indices_in_flight", guess, "four indices, as one access takes"},
      Row{"exchange_count.cpp", "latencies_of_hit", rule, "a row is read, then written"},
      Row{"exchange_count.cpp", "instructions_of_telling", counted, "near what the emulated device counts"},
      Row{"exchange_count.cpp", "instructions_of_listing", counted, "near what the emulated device counts"},
      Row{"exchange_count.cpp", "instructions_of_entries", counted, "near what the emulated device counts"},
      Row{"exchange_count.cpp", "instructions_of_own", counted, ours},
      Row{"exchange_count.cpp", "instructions_of_taken", counted, ours},
      Row{"exchange_count.cpp", "entry_bytes", rule, ours},
      Row{"exchange_count.cpp", "listings_in_flight", rule, ours},
      Row{"exchange_count.cpp", "barriers_of_chunk", rule, ours},
      Row{"exchange_count.cpp", "instructions_of_step", counted, "near what the emulated device counts"},
      Row{"exchange_count.cpp", "instructions_of_line", counted, "near what the emulated device counts"},
      Row{"exchange_count.cpp", "instructions_of_update", counted, "near what the emulated device counts"},
      Row{"exchange_count.cpp", "instructions_of_handed", counted, ours},
      Row{"exchange_count.cpp", "instructions_of_element", counted, ours},
      Row{"exchange_count.cpp", "l1_step_cycles", guess, ""},
      Row{"exchange_count.cpp", "handed_cycles", guess, ""},
      Row{"exchange_count.cpp", "l1_share_of_keys", guess, ""},
      Row{"exchange_count.cpp", "loads_of_update", rule, ours},

      Row{"load_traffic.cpp", "instructions_of_bulk_copy", counted, "machine code by CUDA 13.0 for sm_90a"},
      Row{"load_traffic.cpp", "instructions_of_load", guess, "itself and one for its address"},
      Row{"load_traffic.cpp", "instructions_of_retaining", guess, "itself and one for its address"},
      Row{"load_traffic.cpp", "l1_slack", guess, ""},
      Row{"load_traffic.cpp", "exchange_buffers", rule, ours},
      Row{"load_traffic.cpp", "small_share_of_l2", guess, ""},

      Row{"machine_instruction.cpp", "instruction_bytes", counted, "the encoding since Volta"},
      Row{"machine_instruction.cpp", "blackwell", sheet, "CUDA C++ programming guide, compute capabilities"},
      Row{"machine_instruction.cpp", "hopper", sheet, "CUDA C++ programming guide, compute capabilities"},
      Row{"machine_instruction.h", "scoreboards", counted, "the encoding since Volta"},
      Row{"machine_instruction.h", "no_scoreboard", counted, "the encoding since Volta"},

      Row{"operation_cost.cpp", "addition", counted, "half of the additions are multiply-adds in machine code"},
      Row{"operation_cost.cpp", "wide_division", counted, "machine code by ptxas of CUDA 13.0"},
      Row{"operation_cost.cpp", "division", counted, "machine code by ptxas of CUDA 13.0"},
      Row{"operation_cost.cpp", "remainder", counted, "machine code by ptxas of CUDA 13.0"},
      Row{"operation_cost.cpp", "threefry_integer", counted, "of its 69 instructions, in machine code"},
      Row{"operation_cost.cpp", "philox_integer", counted, "of its 42 instructions, in machine code"},

      Row{"phase_time.cpp", "schedulers_of_sm", sheet, "NVIDIA's architecture white papers since Volta"},
      Row{"phase_time.cpp", "bend", guess, ""},

      Row{"scan_count.cpp", "scan_shuffle_cycles", guess, "as for reductions"},
      Row{"scan_count.cpp", "dependent_cycles", paper, "arXiv 1804.06826, table 4.1"},
      Row{"scan_count.cpp", "shuffle_steps", rule, "doubling distances of 32 lanes"},
      Row{"scan_count.cpp", "shuffles_besides", rule, ours},
      Row{"scan_count.cpp", "instructions_of_scan_shuffle", guess, "the shuffle, and a move or predicate"},
      Row{"scan_count.cpp", "instructions_of_exchange", guess, ours},
      Row{"scan_count.cpp", "instructions_of_turn", guess, ours},
      Row{"scan_count.cpp", "instructions_of_word", guess, ours},
      Row{"scan_count.cpp", "instructions_of_value", guess, ours},
      Row{"scan_count.cpp", "instructions_of_move", guess, ours},

      Row{"sector_waste.cpp", "half_a_byte", rule, "compares whole bytes"},

      Row{"store_traffic.cpp", "instructions_of_slow_atomic", guess, "load, add, compare and swap, some three turns"},
      Row{"store_traffic.cpp", "instructions_of_store", guess, "itself and, every other time, one for its address"},
      Row{"store_traffic.cpp", "l2_passes_of_atomic", rule, "read, combined and written in L2"},
      Row{"store_traffic.cpp", "l2_slices", guess,
          "by A100's white paper, 5,120 bytes a cycle by 64 of a slice; that a line has one"},
      Row{"store_traffic.cpp", "line_bytes", rule, "of L2"},
      Row{"store_traffic.cpp", "partial_bytes", rule, ours},
      Row{"store_traffic.cpp", "passes_of_shared_atomic", guess, "half of a warp's places differ"},
      Row{"store_traffic.cpp", "passes_of_slow_atomic", guess, "load, compare and swap, some three turns"},

      Row{"sweep_count.cpp", "cycles_alone", guess, "4 along a chain (arXiv 1804.06826), 1.4 to 1.8 by stall counts"},
      Row{"sweep_count.cpp", "cycles_of_each_warp", guess, "one, and a tenth"},
      Row{"sweep_count.cpp", "schedulers_per_sm", sheet, "NVIDIA's architecture white papers since Volta"},
      Row{"sweep_count.cpp", "latency_shown_per_iteration", guess, ""},
      Row{"sweep_count.cpp", "instructions_of_range_test", guess, "a comparison and a selection"},
      Row{"sweep_count.cpp", "held_elements_per_access", rule, "16 bytes of f32"},
      Row{"sweep_count.cpp", "instructions_of_held_access", guess, "itself and one for its address"},
      Row{"sweep_count.cpp", "wide_bytes", rule, "of what takes two registers"},
      Row{"sweep_count.cpp", "passes_of_stage", rule, "a copy writes it, a turn reads it"},
      Row{"sweep_count.cpp", "instructions_of_bulk_turn", counted, "machine code by CUDA 13.0 for sm_90a"},
      Row{"sweep_count.cpp", "cycles_of_phase", guess, "a test of a barrier that has just completed"},
      Row{"sweep_count.cpp", "of_vector_element", counted, "codegen/device/max_exp_sum.cuh"},
      Row{"sweep_count.cpp", "of_vector", counted, "codegen/device/max_exp_sum.cuh"},
      Row{"sweep_count.cpp", "of_element", counted, "codegen/device/max_exp_sum.cuh"},
      Row{"sweep_count.cpp", "of_partial", counted, "codegen/device/max_exp_sum.cuh"},

      Row{"uncertainty.cpp", "floor_us", fitted, liger},
      Row{"uncertainty.cpp", "streaming", fitted, liger},
      Row{"uncertainty.cpp", "row reduction", fitted, liger},
      Row{"uncertainty.cpp", "partial reduction", guess, "published are large sums only, which are within 2 %"},
      Row{"uncertainty.cpp", "several phases", guess, "barriers were never compared"},
      Row{"uncertainty.cpp", "scan", guess, ""},
      Row{"uncertainty.cpp", "sort", guess, ""},
      Row{"uncertainty.cpp", "scatter", guess, ""},
      Row{"uncertainty.cpp", "recurrent", guess, ""},
      Row{"uncertainty.cpp", "contraction", fitted, own},
      Row{"uncertainty.cpp", "convolution_share", fitted, own},
      Row{"uncertainty.cpp", "multiply_adds_share", fitted, own},
      Row{"uncertainty.cpp", "tensor_share_at_1us", fitted, own},
      Row{"uncertainty.cpp", "tensor_share_power", fitted, own},
      Row{"uncertainty.cpp", "most_tensor_share", fitted, own},
      Row{"uncertainty.cpp", "least_tensor_share", fitted, own},

      Row{"contraction/attention_time.cpp", "score_instructions", fitted, own},
      Row{"contraction/attention_time.cpp", "scale_instructions", counted, ours},
      Row{"contraction/attention_time.cpp", "walk_instructions", fitted, own},
      Row{"contraction/attention_time.cpp", "warpgroup_score_instructions", fitted, own},
      Row{"contraction/attention_time.cpp", "warpgroup_walk_instructions", guess, ""},
      Row{"contraction/attention_time.cpp", "warpgroup_turn_cycles", fitted, own},
      Row{"contraction/attention_time.cpp", "shuffle_cycles", guess, ""},
      Row{"contraction/attention_time.cpp", "fragment_run", rule, "the results of mma and wgmma, PTX ISA"},
      Row{"contraction/attention_time.cpp", "words_of_philox", rule, "philox-4x32"},
      Row{"contraction/attention_time.cpp", "busy_share", rule, "from here on a loop is said to be bound by a unit"},

      Row{"contraction/chain_time.cpp", "weight_operator", counted, "SASS of CUDA 13.0"},
      Row{"contraction/chain_time.cpp", "weight_exponential", counted, "SASS of CUDA 13.0"},
      Row{"contraction/chain_time.cpp", "weight_conversion", counted, "SASS of CUDA 13.0"},
      Row{"contraction/chain_time.cpp", "turn_walk", counted, "SASS of CUDA 13.0"},
      Row{"contraction/chain_time.cpp", "column_value", counted, "SASS of CUDA 13.0"},
      Row{"contraction/chain_time.cpp", "together_share", guess, "attention's, which is fitted"},
      Row{"contraction/chain_time.cpp", "together_turn_cycles", guess, "attention's, which is fitted"},
      Row{"contraction/chain_time.cpp", "column_lanes", rule, "how mma.sync lays its results over lanes (PTX ISA)"},
      Row{"contraction/chain_time.cpp", "column_lanes_of_cores", rule, ours},

      Row{"contraction/contraction_time.cpp", "step_instructions", guess, ""},
      Row{"contraction/contraction_time.cpp", "turn_instructions", guess, ""},
      Row{"contraction/contraction_time.cpp", "copies_alone", fitted, own},
      Row{"contraction/contraction_time.cpp", "copies_beside_wgmma", fitted, own},
      Row{"contraction/contraction_time.cpp", "turn_drain_cycles", fitted, own},
      Row{"contraction/contraction_time.cpp", "map_cycles", guess, "to make the maps takes 3,000 to 4,500"},
      Row{"contraction/contraction_time.cpp", "cluster_turn_cycles", fitted, own},
      Row{"contraction/contraction_time.cpp", "most_promoted", rule, "registers of 128 × 192 results, twice"},
      Row{"contraction/contraction_time.cpp", "promoting_groups", rule, "CUTLASS's cooperative kernels, DeepGEMM's"},
      Row{"contraction/contraction_time.cpp", "loads_through_registers", rule, "codegen/device/contraction.cuh"},
      Row{"contraction/contraction_time.cpp", "few_warps", fitted, own},
      Row{"contraction/contraction_time.cpp", "most_unrolled", fitted, own},
      Row{"contraction/contraction_time.cpp", "long_code", fitted, own},
      Row{"contraction/contraction_time.cpp", "row_instructions", guess, ""},
      Row{"contraction/contraction_time.cpp", "column_instructions", guess, ""},
      Row{"contraction/contraction_time.cpp", "row_alone_instructions", counted, "SASS of CUDA 13.0"},
      Row{"contraction/contraction_time.cpp", "scaled_instructions", counted, "SASS of CUDA 13.0"},
      Row{"contraction/contraction_time.cpp", "factor_instructions", guess, ""},
      Row{"contraction/contraction_time.cpp", "product_instructions", counted, "SASS of CUDA 13.0 for sm_100a"},
      Row{"contraction/contraction_time.cpp", "column_cycles", guess, "32 lanes of 32 bits a cycle for each warp"},
      Row{"contraction/contraction_time.cpp", "most_without_pairs", rule, "cuBLAS' largest tiles on an H100"},
      Row{"contraction/contraction_time.cpp", "unit_share", rule, "from here on a loop is said to be bound by a unit"},

      Row{"contraction/power_clock.cpp", "secants", rule, "how near the solution of an equation is"},

      Row{"contraction/product_rates.cpp", "fma_share", guess, ""},
      Row{"contraction/product_rates.cpp", "ada_core_share", fitted,
          "published times of f32 on an L4, L40S and RTX 4090 (bench/contractions/measured.csv)"},
      Row{"contraction/product_rates.cpp", "order", guess, "two equal limits take a tenth more than one"},
      Row{"contraction/product_rates.cpp", "row_share", rule, "16 bytes of 16-bit results"},
      Row{"contraction/product_rates.cpp", "tf32_share", sheet, "data sheets of all GPUs since the A100"},
      Row{"contraction/product_rates.cpp", "tf32_rounding", counted, "SASS of CUDA 13.0"},
      Row{"contraction/product_rates.cpp", "tf32_splitting", counted, "SASS of CUDA 13.0"},
      Row{"contraction/product_rates.cpp", "bf16_splitting", counted, "SASS of CUDA 13.0"},
      Row{"contraction/product_rates.cpp", "hopper", fitted, "4096³ by the copy engine on an H100 (bench/results/gpu)"},
      Row{"contraction/product_rates.h", "tensor_share", guess, ""},
      Row{"contraction/product_rates.cpp", "more_of_place", counted, "SASS of CUDA 13.0"},
      Row{"contraction/product_rates.cpp", "widening", counted, "SASS of CUDA 13.0"},
      Row{"contraction/product_rates.h", "result_instructions", guess, ""},
      Row{"contraction/product_rates.h", "operator_instructions", guess, ""},
      Row{"contraction/product_rates.h", "busy_latency", fitted, own},
      Row{"contraction/product_rates.h", "cold_code_us", fitted, own},
      Row{"contraction/product_rates.h", "copy_instructions", fitted, own},
      Row{"contraction/product_rates.h", "window_instructions", fitted, own},
      Row{"contraction/product_rates.h", "schedulers", sheet, "NVIDIA's architecture white papers since Volta"},

      Row{"contraction/realigned_cost.cpp", "held_instructions", counted, "SASS of CUDA 13.0"},
      Row{"contraction/realigned_cost.cpp", "shift_selects", counted, "codegen/device/realigned_tile.cuh"},
      Row{"contraction/realigned_cost.cpp", "shift_selects_by_word", counted, "codegen/device/realigned_tile.cuh"},
      Row{"contraction/realigned_cost.cpp", "funnel_shifts", counted, "codegen/device/realigned_tile.cuh"},
      Row{"contraction/realigned_cost.cpp", "line_edges", counted, "SASS of CUDA 13.0"},
      Row{"contraction/realigned_cost.cpp", "sector", sheet, "NVIDIA's profiling guides: 32 bytes"},

      Row{"contraction/state_product_count.cpp", "multiply_adds", sheet, "PTX ISA: mma.sync m16n8k16"},
      Row{"contraction/state_product_count.cpp", "cycles_between_sums", guess, "25 to 33 on an A100"},
      Row{"contraction/state_product_count.cpp", "bytes_of_lane", rule, "codegen/device/state_product.cuh"},
      Row{"contraction/state_product_count.cpp", "instructions_of_read", guess, ""},
      Row{"contraction/state_product_count.cpp", "exchanged_words", counted, "codegen/device/state_product.cuh"},
      Row{"contraction/state_product_count.cpp", "sums_of_lane", sheet, "PTX ISA: mma.sync m16n8k16"},
      Row{"contraction/state_product_count.cpp", "instructions_of_sums", guess, ""},
      Row{"contraction/state_product_count.cpp", "instructions_of_address", guess, ""},
      Row{"contraction/state_product_count.cpp", "bytes_of_sum", rule, "f32"},
  };
}

constexpr std::array origin_table = origin_rows();

}  // namespace

std::string_view to_string(ConstantOrigin origin) {
  using enum ConstantOrigin;
  switch (origin) {
    case sheet: return "sheet";
    case paper: return "paper";
    case counted: return "counted";
    case fitted: return "fitted";
    case guess: return "guess";
    case rule: return "rule";
  }
  return "?";
}

std::span<const ConstantOriginRow> constant_origins() { return origin_table; }

}  // namespace stitch::costmodel
