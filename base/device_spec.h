#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stitch {

/// Dense multiply-adds that the tensor cores of an SM make in a clock; 0: none of the kind.
struct TensorRates {
  int f16 = 0;  ///< of f16 or bf16 with sums in f32
  int f8 = 0;   ///< of either f8 with sums in f32
  int s8 = 0;   ///< of s8 or u8 with sums in s32
  int f64 = 0;
  /// Share of them that mma.sync reaches, where an asynchronous instruction (wgmma, tcgen05) is made for more.
  double synchronous_share = 1;
  /// Share of them that the board's power lets it keep: clocks fall while all tensor cores multiply.
  double sustained_share = 1;
};

/// What a GPU is, as far as planning, legality and the cost model need to know.
///
/// Figures of the embedded table are the vendor's or published measurements (see `source`); a device that was
/// calibrated carries its own. Bandwidths are bytes/s, latencies SM cycles, times µs, capacities bytes.
struct DeviceSpec {
  std::string name;  ///< short name used by --target: "h100"
  std::string full_name;
  int compute_major = 0;
  int compute_minor = 0;

  int sm_count = 0;
  double clock_hz = 0;  ///< boost clock of an SM
  int fp32_lanes_per_sm = 0;
  int int32_lanes_per_sm = 0;
  int fp64_lanes_per_sm = 0;
  int special_lanes_per_sm = 0;  ///< MUFU results per cycle (ex2, rsqrt, …)
  TensorRates tensor;

  double dram_bandwidth = 0;  ///< peak, by the data sheet
  double copy_fraction = 0;   ///< share of it that a plain copy, which writes as much as it reads, reaches
  double l2_bandwidth = 0;
  std::int64_t l2_bytes = 0;
  int shared_bytes_per_clock = 128;  ///< per SM

  std::int64_t shared_per_sm = 0;
  std::int64_t shared_per_block = 0;  ///< opt-in maximum
  std::int64_t shared_reserved_per_block = 0;
  std::int64_t registers_per_sm = 65536;
  int threads_per_sm = 0;
  int blocks_per_sm = 0;
  int max_threads_per_block = 1024;
  int max_registers_per_thread = 255;
  int max_cluster_blocks = 1;  ///< portable cluster size; 1 = no clusters

  double shared_latency = 0;
  double cluster_latency = 0;  ///< another block's shared memory
  double l2_latency = 0;
  double dram_latency = 0;

  double launch_us = 0;        ///< gap between dependent kernels inside a CUDA graph
  double grid_barrier_us = 0;  ///< one grid-wide barrier
  double block_barrier_cycles = 0;

  std::string source;  ///< where the figures come from

  [[nodiscard]] bool has_clusters() const { return max_cluster_blocks > 1; }
  /// "sm_90a" for compute capability 9.0, "sm_80" for 8.0, …
  [[nodiscard]] std::string architecture() const;
  /// Device-memory bandwidth of a plain copy, bytes/s.
  [[nodiscard]] double copy_bandwidth() const { return dram_bandwidth * copy_fraction; }
  /// Device-memory bandwidth that a kernel can reach, bytes/s: one that only reads. Memory that turns from reading to
  /// writing and back loses time, so that the bytes of a copy take longer by `write_turnaround`, those of one that
  /// writes only by twice as much.
  [[nodiscard]] double reachable_bandwidth() const {
    return std::min(dram_bandwidth, copy_bandwidth() / (1 - write_turnaround));
  }
  /// Fitted (bench/measured): on an H100 kernels that read twice as much as they write reach 3.10 TB/s, copies 3.03;
  /// one that only reads reaches 0.974 of the peak of an H100 PCIe, by which it was held against, not fitted.
  static constexpr double write_turnaround = 0.063;
  /// Whether tensor cores multiply f64 faster than multiply-adds do: some GPUs have some that do not.
  [[nodiscard]] bool has_fast_f64_tensor_cores() const { return tensor.f64 > fp64_lanes_per_sm; }
  /// What of the launch gap a kernel does not show that begins while its predecessor still runs (programmatic dependent
  /// launch), us; 0 where the device has no such launches.
  [[nodiscard]] double dependent_saving_us() const { return compute_major >= 9 ? dependent_share * launch_us : 0; }
  /// Guess: blocks are there, with their indices and shared memory; the predecessor's end, and the word of it, are
  /// left.
  static constexpr double dependent_share = 0.5;
};

/// The embedded table, docs/devices.md. Where each figure comes from: base/device_sources.h; what their drivers report:
/// base/device_traits.h.
std::span<const DeviceSpec> known_devices();

/// Looks a device up by short name, ignoring case; the error lists the names there are. Names of classes that the table
/// does not have are understood by find_device_class (base/device_class.h).
Result<DeviceSpec> find_device(std::string_view name);

}  // namespace stitch
