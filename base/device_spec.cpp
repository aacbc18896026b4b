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
  d.tensor = {.f16 = 512};
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
  d.tensor = {.f16 = 512, .s8 = 1024};
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
  d.tensor = {.f16 = 1024, .s8 = 2048, .f64 = 64};
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

DeviceSpec a100_with(const char* name, const char* full_name, double dram_bandwidth) {
  DeviceSpec d = a100();
  d.name = name;
  d.full_name = full_name;
  d.dram_bandwidth = dram_bandwidth;
  d.copy_fraction = 0.855;
  d.source =
      "NVIDIA A100 data sheet (bandwidth); copy fraction: fitted to published times (bench/measured); the rest as for "
      "the A100 with 40 GB, whose SM and L2 it shares";
  return d;
}

DeviceSpec a100_80gb() { return a100_with("a100-80gb", "NVIDIA A100-SXM4-80GB", 2039e9); }
DeviceSpec a100_pcie() { return a100_with("a100-pcie", "NVIDIA A100 80GB PCIe", 1935e9); }

DeviceSpec rtx3090() {
  DeviceSpec d = a100();
  d.name = "rtx3090";
  d.full_name = "NVIDIA GeForce RTX 3090";
  d.compute_minor = 6;
  d.sm_count = 82;
  d.tensor = {.f16 = 256, .s8 = 1024};
  d.clock_hz = 1.695e9;
  d.fp32_lanes_per_sm = 128;
  d.fp64_lanes_per_sm = 2;
  d.dram_bandwidth = 936e9;
  d.copy_fraction = 0.92;
  d.l2_bandwidth = 2.4e12;
  d.l2_bytes = 6 * MiB;
  d.shared_per_sm = 100 * KiB;
  d.shared_per_block = 99 * KiB;
  d.threads_per_sm = 1536;
  d.blocks_per_sm = 16;
  d.source =
      "NVIDIA Ampere GA102 GPU architecture white paper; CUDA programming guide; the rest is a guess: latencies, "
      "launch "
      "gap and barriers as for the A100";
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
  d.tensor = {.f16 = 512, .f8 = 1024, .s8 = 1024, .sustained_share = 0.5};
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
  d.tensor = {.f16 = 256, .f8 = 512, .s8 = 1024};
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

DeviceSpec l40s() {
  DeviceSpec d = rtx4090();
  d.name = "l40s";
  d.full_name = "NVIDIA L40S";
  d.sm_count = 142;
  d.tensor = {.f16 = 512, .f8 = 1024, .s8 = 1024, .sustained_share = 0.6};
  d.dram_bandwidth = 864e9;
  d.copy_fraction = 0.88;
  d.l2_bytes = 96 * MiB;
  d.source =
      "NVIDIA L40S data sheet and Ada GPU architecture white paper; latencies: arXiv 2402.13499 table IV (RTX 4090, "
      "same "
      "SM); the rest is a guess: copy fraction as for the L4, L2 bandwidth, launch gap and barriers as for the RTX "
      "4090";
  return d;
}

DeviceSpec h100() {
  DeviceSpec d;
  d.name = "h100";
  d.full_name = "NVIDIA H100-SXM5-80GB";
  d.compute_major = 9;
  d.compute_minor = 0;
  d.sm_count = 132;
  d.clock_hz = 1.98e9;
  d.fp32_lanes_per_sm = 128;
  d.int32_lanes_per_sm = 64;
  d.fp64_lanes_per_sm = 64;
  d.special_lanes_per_sm = 16;
  d.tensor = {.f16 = 2048, .f8 = 4096, .s8 = 4096, .f64 = 128, .synchronous_share = 0.55, .sustained_share = 0.79};
  d.dram_bandwidth = 3352e9;
  d.copy_fraction = 0.91;
  d.l2_bandwidth = 6.5e12;
  d.l2_bytes = 50 * MiB;
  d.shared_per_sm = 228 * KiB;
  d.shared_per_block = 227 * KiB;
  d.shared_reserved_per_block = KiB;
  d.threads_per_sm = 2048;
  d.blocks_per_sm = 32;
  d.max_cluster_blocks = 8;
  d.shared_latency = 23;
  d.cluster_latency = 195;
  d.l2_latency = 278;
  d.dram_latency = 688;
  d.launch_us = 1.06;
  d.grid_barrier_us = 1.0;
  d.block_barrier_cycles = 19.5;
  d.source =
      "NVIDIA H100 architecture white paper; Hopper tuning guide; clock, latencies, launch and barriers: calibrated on "
      "an H100 SXM; L2 bandwidth and shares of tensor cores: fitted to products measured there (bench/results/gpu); "
      "copy fraction: fitted to published times (bench/measured); cluster latency: arXiv 2501.12084";
  return d;
}

DeviceSpec h100_pcie() {
  DeviceSpec d = h100();
  d.name = "h100-pcie";
  d.full_name = "NVIDIA H100 PCIe";
  d.sm_count = 114;
  d.clock_hz = 1.755e9;
  d.shared_latency = 30;
  d.l2_latency = 260;
  d.dram_latency = 590;
  d.dram_bandwidth = 2039e9;
  d.l2_bandwidth = 6.5e12 * 114 / 132;
  d.source =
      "NVIDIA H100 architecture white paper (PCIe variant); latencies: arXiv 2402.13499; the rest is a guess: L2 "
      "bandwidth by SMs of the H100's, launch gap and barriers as for the H100";
  return d;
}

DeviceSpec h100_nvl() {
  DeviceSpec d = h100();
  d.name = "h100-nvl";
  d.full_name = "NVIDIA H100 NVL";
  d.clock_hz = 1.785e9;
  d.dram_bandwidth = 3938e9;
  d.l2_bytes = 60 * MiB;
  d.source =
      "NVIDIA H100 NVL product brief (bandwidth, clock); the rest as for the H100, whose SM it shares; size of L2 with "
      "all six stacks of memory: guess";
  return d;
}

DeviceSpec h20() {
  DeviceSpec d = h100();
  d.name = "h20";
  d.full_name = "NVIDIA H20";
  d.sm_count = 78;
  d.tensor = {.f16 = 512, .f8 = 1024, .s8 = 1024, .f64 = 4};
  d.clock_hz = 1.98e9;
  d.fp64_lanes_per_sm = 4;
  d.dram_bandwidth = 4000e9;
  d.l2_bandwidth = 3.7e12 * 60 / 50;
  d.l2_bytes = 60 * MiB;
  d.source =
      "NVIDIA H20 data sheet (bandwidth, FP64 rate); SMs as its driver reports them; the rest as for the H100, whose "
      "SM "
      "it shares; clock and L2: guess";
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
  d.tensor = {.f16 = 4096, .f8 = 8192, .s8 = 8192, .f64 = 64, .synchronous_share = 0.3, .sustained_share = 0.85};
  d.clock_hz = 1.85e9;
  d.dram_bandwidth = 8000e9;
  d.copy_fraction = 0.90;
  d.l2_bandwidth = 9.0e12;
  d.l2_bytes = 126 * MiB;
  d.source =
      "NVIDIA Blackwell architecture technical brief and DGX B200 data sheet; latencies as for the H100; "
      "share of tensor cores: fitted to published times (bench/contractions/measured.csv); launch gap, barriers and L2 "
      "bandwidth: starting values";
  return d;
}

DeviceSpec gb200() {
  DeviceSpec d = b200();
  d.name = "gb200";
  d.full_name = "NVIDIA GB200";
  d.sm_count = 152;
  d.source = "SMs as its driver reports them; the rest as for the B200, whose SM, L2 and memory it shares: guess";
  return d;
}

DeviceSpec b300() {
  DeviceSpec d = b200();
  d.name = "b300";
  d.full_name = "NVIDIA B300 SXM6 AC";
  d.compute_minor = 3;
  d.tensor = {.f16 = 4096, .f8 = 8192, .s8 = 256, .f64 = 2, .synchronous_share = 0.3, .sustained_share = 0.85};
  d.fp64_lanes_per_sm = 2;
  d.source =
      "NVIDIA DGX B300 data sheet (bandwidth, FP64 rate); SMs, clock, L2, latencies, launch gap and barriers as for "
      "the "
      "B200: guess";
  return d;
}

DeviceSpec rtx5090() {
  DeviceSpec d = rtx4090();
  d.name = "rtx5090";
  d.full_name = "NVIDIA GeForce RTX 5090";
  d.compute_major = 12;
  d.compute_minor = 0;
  d.sm_count = 170;
  d.tensor = {.f16 = 256, .f8 = 512, .s8 = 1024};
  d.clock_hz = 2.407e9;
  d.int32_lanes_per_sm = 128;
  d.dram_bandwidth = 1792e9;
  d.l2_bandwidth = 6.5e12;
  d.l2_bytes = 96 * MiB;
  d.max_cluster_blocks = 8;
  d.cluster_latency = 195;
  d.l2_latency = 358;
  d.dram_latency = 877;
  d.source =
      "NVIDIA RTX Blackwell GPU architecture white paper; CUDA programming guide; latencies: guess, after those of the "
      "RTX 5080 in arXiv 2507.10789; the rest is a guess: L2 bandwidth by SMs of the RTX 4090's, launch gap and "
      "barriers "
      "as for it, cluster as for the H100";
  return d;
}

DeviceSpec rtx_pro_6000() {
  DeviceSpec d = rtx5090();
  d.name = "rtx-pro-6000";
  d.full_name = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition";
  d.sm_count = 188;
  d.tensor = {.f16 = 512, .f8 = 1024, .s8 = 1024};
  d.clock_hz = 2.617e9;
  d.l2_bandwidth = 7.2e12;
  d.l2_bytes = 128 * MiB;
  d.source =
      "NVIDIA RTX PRO Blackwell GPU architecture white paper; the rest as for the RTX 5090, whose SM it shares, L2 "
      "bandwidth by SMs of its: guess";
  return d;
}

}  // namespace

std::string DeviceSpec::architecture() const {
  const bool architecture_specific = compute_major >= 9;  // wgmma, clusters' extras: only in the 'a' variants
  return fmt::format("sm_{}{}{}", compute_major, compute_minor, architecture_specific ? "a" : "");
}

std::span<const DeviceSpec> known_devices() {
  static const std::vector<DeviceSpec> table = {
      v100(), t4(),  a100(),      a100_80gb(), a100_pcie(), rtx3090(), l4(),   rtx4090(), l40s(),        h100(),
      h200(), h20(), h100_pcie(), h100_nvl(),  b200(),      gb200(),   b300(), rtx5090(), rtx_pro_6000()};
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
