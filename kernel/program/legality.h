#pragma once

#include <span>
#include <string_view>

#include "base/device_spec.h"
#include "base/result.h"
#include "kernel/program/program.h"

// What must hold of a kernel so that a device can run it: threads, shared memory, registers, residency of blocks that
// wait for one another. It is a table with a row per rule, so that adding a device or a mechanism is adding a row:
//
//     if (const Status legal = check_legality(program, device); !legal) log(legal.error());
//     // constraint: shared-memory: 262176 bytes of shared memory, at most 232448
//
// The stitch explorer drops what breaks a rule. That a mapping contradicts its structure is found before, by
// derive_group (kernel/program/group_deriver.h).

namespace stitch::kernel {

/// One row of the legality table: what must hold for a kernel to run on a device.
struct LegalityRule {
  std::string_view name;
  std::string_view why;
  /// Empty when the rule holds, else what is wrong.
  std::string (*violation)(const KernelProgram& program, const DeviceSpec& device);
};

std::span<const LegalityRule> legality_table();

/// Checks every rule; the error (kind constraint) names the first that is broken.
Status check_legality(const KernelProgram& program, const DeviceSpec& device);

/// Warps of a block, the last one filled up.
constexpr int warps_of(int threads) { return (threads + 31) / 32; }

/// Blocks of this kernel that fit on one SM together, by registers, shared memory, threads and slots; 0 when none does.
int resident_blocks(const KernelProgram& program, const DeviceSpec& device);
int resident_blocks(int threads, int registers, std::int64_t shared_bytes, const DeviceSpec& device);

/// Blocks that are on the device together where an SM has room for `of_sm`, and each `cluster` of them stand in one
/// GPC. Of the GPCs of an H100, which have 16 or 18 SMs, clusters of 4 and 8 leave some over; whole 16 SMs are counted
/// (a guess; the driver knows by cuOccupancyMaxActiveClusters). One cluster more than fit begins when others have
/// ended: a product of 33 clusters of 4 that stay took twice its predicted time on an H100.
std::int64_t blocks_in_clusters(int cluster, int of_sm, const DeviceSpec& device);

/// Blocks of this kernel that fit on the device together, in its clusters. The driver refuses a cooperative launch of
/// more.
std::int64_t resident_on_device(const KernelProgram& program, const DeviceSpec& device);

}  // namespace stitch::kernel
