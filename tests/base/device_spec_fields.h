#pragma once

#include <tuple>

#include "base/device_spec.h"

namespace stitch {

/// Every member of a DeviceSpec, for comparing: one more than are bound here does not compile.
inline auto fields_of(const DeviceSpec& spec) {
  const auto& [name, full_name, major, minor, sms, clock, fp32, int32, fp64, special, tensor, dram, copies,
               l2_bandwidth, l2, shared_rate, shared_sm, shared_block, shared_reserved, registers, threads, blocks,
               block_threads, thread_registers, cluster, shared_latency, cluster_latency, l2_latency, dram_latency,
               launch, grid_barrier, block_barrier, source] = spec;
  const auto& [f16, f8, s8, f64, synchronous, sustained] = tensor;
  return std::tie(name, full_name, major, minor, sms, clock, fp32, int32, fp64, special, dram, copies, l2_bandwidth, l2,
                  shared_rate, shared_sm, shared_block, shared_reserved, registers, threads, blocks, block_threads,
                  thread_registers, cluster, shared_latency, cluster_latency, l2_latency, dram_latency, launch,
                  grid_barrier, block_barrier, source, f16, f8, s8, f64, synchronous, sustained);
}

}  // namespace stitch
