#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "base/result.h"

namespace stitch::costmodel {

/// What the analytical model does not take from the device table. The defaults are starting values; costmodel/
/// constants/constant_fit.h fits them to measurements.
struct AnalyticalConstants {
  double overlap = 0.02;        ///< share of the limits that do not bind which shows in a phase's time; fitted
  double duty_alone = 0.8;      ///< share of the time with loads outstanding where an SM has room for one block; guess
  double duty_further = 0.2;    ///< room for each further block adds; guess
  double loaded_latency = 1.8;  ///< latency of device memory at full bandwidth over the idle one; guess: 900 to 1,300
                                ///< cycles on an H100 whose idle latency is 590
  double flight_knee = 2.5;  ///< how sharply bandwidth bends where bytes in flight suffice; fitted, beside a guess of
                             ///< half of it at 8 KB on an H100's SM, three quarters at 16, nine tenths at 32
  double sm_dram_bytes_per_clock = 52;  ///< that an SM takes from device memory; guess: 80 to 90 GB/s read on an H100
  double serial = 1;        ///< of what stands between loads and stores of a tile: shown once, since blocks begin
                            ///< together
  double warp_issue = 0.4;  ///< instructions a cycle of a scheduler with one warp; guess: 0.2 to 0.35 along a chain,
                            ///< and by machine code 0.6 where loops are unrolled
  double cooperative_launch_us = 0.5;  ///< of a launch whose blocks wait for one another; guess: 0.5 to 1.5
  double cluster_launch_us = 0.3;      ///< of a launch in clusters; guess: 0.3 to 0.5
  double barrier_of_block = 0.1;       ///< of a grid barrier: each further block of an SM; guess: 0.5 to 1.2 us at six
  double cluster_idle = 0.03;  ///< SMs that clusters leave idle: 4 of 132 with clusters of 8 (GPCs of 16 or 18 SMs)
  double last_block = 0.6;     ///< of a grid barrier: the hand-over to the block that arrives last
  double alone_bytes_per_clock = 64;  ///< that an SM takes from L2: its port (NVIDIA A100 white paper)
  double most_stretch = 2.0;          ///< of throughput limits by a last wave that is not full
  double most_dram_stretch = 1.5;     ///< of device memory by it
  double ramp_latencies = 2.0;        ///< device-memory latencies of ramp-up and drain
  double l2_kept = 0.5;  ///< of L2: what the next phase finds there. A half: both of its parts may hold the same line
  double row_bytes =
      24;  ///< of slabs: what opening a DRAM row takes from each run of bytes; by HBM3's timing, unmeasured
  // The limits of a phase, each against what the device table says.
  double dram = 1, l2 = 1, shared = 1, issue = 1, integer = 1, f64 = 1, special = 1, latency = 1;
  double launch = 1;   ///< of the device's launch gap
  double barrier = 1;  ///< of the device's grid barrier

  bool operator==(const AnalyticalConstants&) const = default;
};

/// One constant: its name in records, where it is, and within which bounds a fit may move it.
struct ConstantRow {
  std::string_view name;
  double AnalyticalConstants::*field;
  double low, high;
};
std::span<const ConstantRow> constant_table();

nlohmann::json to_document(const AnalyticalConstants& constants);
/// Absent names keep their default. Errors: parse (not an object, a name that there is not, not a number, out of its
/// bounds).
Result<AnalyticalConstants> constants_from(const nlohmann::json& document);

}  // namespace stitch::costmodel
