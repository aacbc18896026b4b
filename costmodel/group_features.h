#pragma once

#include <cstdint>

namespace stitch::costmodel {

/// What one group does in total, all tiles together, counted statically from its program: nothing runs, and no constant
/// of a model is in it. Bytes are device-memory bytes and instructions are warp instructions unless said otherwise.
/// The one group of y = a + b over 2^20 f32 has
///
///     dram_read_bytes 2 * 2^22, dram_write_bytes 2^22, load_requests 2 * 2^20 / (32 lanes * 4 elements), barriers 0
///
/// group_features makes it of a scheduled group (load_traffic, store_traffic, sweep_count and exchange_count each count
/// their part), kernel_quantities gathers those of a kernel, and from there the analytical model turns them into µs and
/// kernel_features into a row for trained models.
struct GroupFeatures {
  double dram_read_bytes = 0;  ///< distinct bytes, once per sweep that loads them
  double dram_write_bytes = 0;
  double sector_bytes = 0;          ///< of the sectors of all warps' requests: what L1 is asked for
  double l2_bytes = 0;              ///< of them: what L1 passes on, by an estimate of what it catches
  double shared_bytes = 0;          ///< moved to and from shared memory
  double instructions = 0;          ///< warp instructions, all pipes
  double special_instructions = 0;  ///< warp instructions of the special-function unit
  double integer_instructions = 0;  ///< of instructions: on the integer unit
  double f64_instructions = 0;      ///< of instructions: on the unit for f64
  double tensor_multiply_adds = 0;  ///< of 16-bit floats, by tensor cores
  double bytes_in_flight = 0;       ///< requested by one thread before its first use of them
  double ahead_share = 0;           ///< of bytes_in_flight: asked for a turn ahead, and so at any time
  double latency_cycles = 0;        ///< dependent chain of one tile: loads, exchanges, barriers
  /// Of latency_cycles: what stands between the first loads of one turn of the tile's rows and its last stores. While
  /// all blocks are at it together device memory idles.
  double serial_cycles = 0;
  double barriers = 0;          ///< block barriers per tile
  double cluster_barriers = 0;  ///< per tile
  std::int64_t tiles = 0;
  int threads = 0;
  int sweeps = 1;
  double lane_efficiency = 1;  ///< useful share of the mapped elements (tails, idle threads)

  // Not of the analytical model: what the learned one reads besides (costmodel/kernel_features.h).
  double requested_bytes = 0;        ///< of sector_bytes: what lanes ask for; the rest is wasted
  double load_requests = 0;          ///< warp instructions that load from device memory
  double load_lane_bytes = 0;        ///< Σ over those of the bytes that one lane asks for
  double store_requests = 0;         ///< warp instructions that store to it
  double store_lane_bytes = 0;       ///< Σ over those of the bytes that one lane writes
  double dynamic_requests = 0;       ///< of load_requests: whose address was itself loaded
  double wide_instructions = 0;      ///< of instructions: on 64-bit values
  double index_instructions = 0;     ///< of instructions: index arithmetic that became values, range tests
  double exchange_instructions = 0;  ///< of instructions: shuffles, and passes through shared memory
  double iterations = 1;             ///< of the loops of one thread in a tile
  double thread_elements = 1;        ///< that a thread handles in a tile: vector × register × loop of all axes
};

}  // namespace stitch::costmodel
