#include "base/device_spec.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace stitch {
namespace {

constexpr std::int64_t KiB = 1024;
constexpr std::int64_t MiB = 1024 * KiB;

DeviceSpec v100() {
  DeviceSpec d;
  d.name = "v100";
  d.full_name = "NVIDIA V100-SXM2-16GB";
  d.compute_major = 7;
  d.compute_minor = 0;
  d.sm_count = 80;
  d.clock_hz = 1.53e9;
  d.fp32_lanes_per_sm = 64;
  d.int32_lanes_per_sm = 64;
  d.fp64_lanes_per_sm = 32;
  d.special_lanes_per_sm = 16;
  d.dram_bandwidth = 900e9;
  d.copy_fraction = 0.90;
  d.l2_bandwidth = 2.155e12;
  d.l2_bytes = 6 * MiB;
  d.shared_per_sm = 96 * KiB;
  d.shared_per_block = 96 * KiB;
  d.threads_per_sm = 2048;
  d.blocks_per_sm = 32;
  d.shared_latency = 19;
  d.l2_latency = 193;
  d.dram_latency = 425;
  d.launch_us = 1.5;
  d.grid_barrier_us = 2.6;
  d.block_barrier_cycles = 22;
  d.source =
      "NVIDIA V100 data sheet; latencies and L2 bandwidth: Jia et al. arXiv 1804.06826 tables 3.1, 3.4; "
      "grid barrier: AStitch (ASPLOS'22) 2.5-2.7 us; launch gap and copy fraction: starting values";
  return d;
}

DeviceSpec t4() {
  DeviceSpec d;
  d.name = "t4";
  d.full_name = "NVIDIA T4";
  d.compute_major = 7;
  d.compute_minor = 5;
  d.sm_count = 40;
  d.clock_hz = 1.59e9;
  d.fp32_lanes_per_sm = 64;
  d.int32_lanes_per_sm = 64;
  d.fp64_lanes_per_sm = 2;
  d.special_lanes_per_sm = 16;
  d.dram_bandwidth = 320e9;
  d.copy_fraction = 0.80;
  d.l2_bandwidth = 1.27e12;
  d.l2_bytes = 4 * MiB;
  d.shared_per_sm = 64 * KiB;
  d.shared_per_block = 64 * KiB;
  d.threads_per_sm = 1024;
  d.blocks_per_sm = 16;
  d.shared_latency = 19;
  d.l2_latency = 188;
  d.dram_latency = 434;
  d.launch_us = 1.7;
  d.grid_barrier_us = 2.2;
  d.block_barrier_cycles = 22;
  d.source =
      "NVIDIA T4 data sheet; Turing tuning guide; latencies, L2 bandwidth, achieved DRAM share: Jia et al. "
      "arXiv 1903.07486; launch gap and grid barrier: starting values";
  return d;
}

DeviceSpec a100() {
  DeviceSpec d;
  d.name = "a100";
  d.full_name = "NVIDIA A100-SXM4-40GB";
  d.compute_major = 8;
  d.compute_minor = 0;
  d.sm_count = 108;
  d.clock_hz = 1.41e9;
  d.fp32_lanes_per_sm = 64;
  d.int32_lanes_per_sm = 64;
  d.fp64_lanes_per_sm = 32;
  d.special_lanes_per_sm = 16;
  d.dram_bandwidth = 1555e9;
  d.copy_fraction = 0.90;
  d.l2_bandwidth = 4.0e12;
  d.l2_bytes = 40 * MiB;
  d.shared_per_sm = 164 * KiB;
  d.shared_per_block = 163 * KiB;
  d.shared_reserved_per_block = KiB;
  d.threads_per_sm = 2048;
  d.blocks_per_sm = 32;
  d.shared_latency = 29;
  d.l2_latency = 261;
  d.dram_latency = 466;
  d.launch_us = 1.3;
  d.grid_barrier_us = 1.8;
  d.block_barrier_cycles = 24;
  d.source =
      "NVIDIA A100 architecture white paper; Ampere tuning guide; latencies: arXiv 2402.13499 table IV; "
      "launch gap, barriers and L2 bandwidth: starting values";
  return d;
}

DeviceSpec l4() {
  DeviceSpec d;
  d.name = "l4";
  d.full_name = "NVIDIA L4";
  d.compute_major = 8;
  d.compute_minor = 9;
  d.sm_count = 58;
  d.clock_hz = 2.04e9;
  d.fp32_lanes_per_sm = 128;
  d.int32_lanes_per_sm = 64;
  d.fp64_lanes_per_sm = 2;
  d.special_lanes_per_sm = 16;
  d.dram_bandwidth = 300e9;
  d.copy_fraction = 0.88;
  d.l2_bandwidth = 1.8e12;
  d.l2_bytes = 48 * MiB;
  d.shared_per_sm = 100 * KiB;
  d.shared_per_block = 99 * KiB;
  d.shared_reserved_per_block = KiB;
  d.threads_per_sm = 1536;
  d.blocks_per_sm = 24;
  d.shared_latency = 30;
  d.l2_latency = 273;
  d.dram_latency = 541;
  d.launch_us = 1.4;
  d.grid_barrier_us = 1.6;
  d.block_barrier_cycles = 24;
  d.source =
      "NVIDIA L4 data sheet; Ada tuning guide; latencies: arXiv 2402.13499 table IV (RTX 4090, same SM); "
      "launch gap, barriers and L2 bandwidth: starting values";
  return d;
}

DeviceSpec rtx4090() {
  DeviceSpec d = l4();
  d.name = "rtx4090";
  d.full_name = "NVIDIA GeForce RTX 4090";
  d.sm_count = 128;
  d.clock_hz = 2.52e9;
  d.dram_bandwidth = 1008e9;
  d.copy_fraction = 0.92;
  d.l2_bandwidth = 5.0e12;
  d.l2_bytes = 72 * MiB;
  d.source =
      "NVIDIA Ada GPU architecture white paper; Ada tuning guide; latencies: arXiv 2402.13499 table IV; "
      "launch gap, barriers and L2 bandwidth: starting values";
  return d;
}

DeviceSpec h100() {
  DeviceSpec d;
  d.name = "h100";
  d.full_name = "NVIDIA H100-SXM5-80GB";
  d.compute_major = 9;
  d.compute_minor = 0;
  d.sm_count = 132;
  d.clock_hz = 1.755e9;
  d.fp32_lanes_per_sm = 128;
  d.int32_lanes_per_sm = 64;
  d.fp64_lanes_per_sm = 64;
  d.special_lanes_per_sm = 16;
  d.dram_bandwidth = 3352e9;
  d.copy_fraction = 0.90;
  d.l2_bandwidth = 5.6e12;
  d.l2_bytes = 50 * MiB;
  d.shared_per_sm = 228 * KiB;
  d.shared_per_block = 227 * KiB;
  d.shared_reserved_per_block = KiB;
  d.threads_per_sm = 2048;
  d.blocks_per_sm = 32;
  d.max_cluster_blocks = 8;
  d.shared_latency = 30;
  d.cluster_latency = 195;
  d.l2_latency = 260;
  d.dram_latency = 590;
  d.launch_us = 1.2;
  d.grid_barrier_us = 1.7;
  d.block_barrier_cycles = 26;
  d.source =
      "NVIDIA H100 architecture white paper; Hopper tuning guide; latencies: arXiv 2402.13499, 2501.12084; "
      "launch gap, barriers and L2 bandwidth: starting values, replaced by calibration";
  return d;
}

DeviceSpec h200() {
  DeviceSpec d = h100();
  d.name = "h200";
  d.full_name = "NVIDIA H200-SXM5-141GB";
  d.dram_bandwidth = 4800e9;
  d.source = "NVIDIA H200 data sheet (bandwidth, capacity); the rest as for the H100, whose SM and L2 it shares";
  return d;
}

DeviceSpec b200() {
  DeviceSpec d = h100();
  d.name = "b200";
  d.full_name = "NVIDIA B200-SXM-180GB";
  d.compute_major = 10;
  d.compute_minor = 0;
  d.sm_count = 148;
  d.clock_hz = 1.85e9;
  d.dram_bandwidth = 8000e9;
  d.copy_fraction = 0.90;
  d.l2_bandwidth = 9.0e12;
  d.l2_bytes = 126 * MiB;
  d.source =
      "NVIDIA Blackwell architecture technical brief and DGX B200 data sheet; latencies as for the H100; "
      "launch gap, barriers and L2 bandwidth: starting values";
  return d;
}

}  // namespace

std::string DeviceSpec::architecture() const {
  const bool architecture_specific = compute_major >= 9;  // wgmma, clusters' extras: only in the 'a' variants
  return fmt::format("sm_{}{}{}", compute_major, compute_minor, architecture_specific ? "a" : "");
}

std::span<const DeviceSpec> known_devices() {
  static const std::vector<DeviceSpec> table = {v100(), t4(), a100(), l4(), rtx4090(), h100(), h200(), b200()};
  return table;
}

Result<DeviceSpec> find_device(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string names;
  for (const DeviceSpec& device : known_devices()) {
    if (device.name == lower) return device;
    names += (names.empty() ? "" : ", ") + device.name;
  }
  return make_error(ErrorKind::invalid_argument, "unknown GPU '{}'; known: {}", name, names);
}

}  // namespace stitch
