#include "kernel/program/legality.h"

#include <algorithm>
#include <array>

namespace stitch::kernel {
namespace {

/// Static shared memory of device/grid.cuh's arrives_last and alignment.
constexpr std::int64_t static_shared = 32;
/// CUDA 12.1 and later pass up to 32,764 bytes of parameters from sm_70 on; counted in 8-byte words with room to spare.
constexpr std::size_t max_table_words = 4000;

std::string threads(const KernelProgram& p, const DeviceSpec& d) {
  if (p.schedule.threads >= 1 && p.schedule.threads <= d.max_threads_per_block) return {};
  return fmt::format("{} threads per block, at most {}", p.schedule.threads, d.max_threads_per_block);
}

std::string whole_warps(const KernelProgram& p, const DeviceSpec&) {
  return p.schedule.threads % 32 == 0 ? "" : fmt::format("{} threads are not whole warps", p.schedule.threads);
}

std::string shared_memory(const KernelProgram& p, const DeviceSpec& d) {
  const std::int64_t bytes = p.shared_bytes + static_shared;
  return bytes <= d.shared_per_block ? ""
                                     : fmt::format("{} bytes of shared memory, at most {}", bytes, d.shared_per_block);
}

std::string registers(const KernelProgram& p, const DeviceSpec& d) {
  const std::int64_t limit =
      std::min<std::int64_t>(d.max_registers_per_thread, d.registers_per_sm / p.schedule.threads);
  return p.registers <= limit ? "" : fmt::format("about {} registers a thread, at most {}", p.registers, limit);
}

std::string clusters(const KernelProgram& p, const DeviceSpec& d) {
  if (p.schedule.cluster <= d.max_cluster_blocks) return {};
  return d.has_clusters() ? fmt::format("clusters of {} blocks, at most {}", p.schedule.cluster, d.max_cluster_blocks)
                          : fmt::format("{} has no clusters", d.name);
}

std::string grid(const KernelProgram& p, const DeviceSpec&) {
  return p.blocks >= 1 && p.blocks < (std::int64_t{1} << 31) ? "" : fmt::format("{} blocks", p.blocks);
}

std::string resident_for_barrier(const KernelProgram& p, const DeviceSpec& d) {
  if (p.phases.size() < 2 || !p.blocks_wait()) return {};
  const std::int64_t resident = resident_on_device(p, d);
  return p.blocks <= resident
             ? ""
             : fmt::format("a grid barrier over {} blocks, of which {} are resident", p.blocks, resident);
}

std::string parameters(const KernelProgram& p, const DeviceSpec&) {
  std::size_t words = 1;
  for (const PhaseProgram& phase : p.phases) {
    for (const GroupProgram& group : phase.groups) {
      std::vector<Buffer> buffers;
      for (const Item& item : group.structure.program->items()) {
        if (item.kind == Item::Kind::load && item.buffer.kind != Buffer::Kind::table) buffers.push_back(item.buffer);
      }
      for (const Anchor& anchor : group.structure.anchors)
        buffers.insert(buffers.end(), anchor.buffers.begin(), anchor.buffers.end());
      std::ranges::sort(buffers);
      buffers.erase(std::ranges::unique(buffers).begin(), buffers.end());
      words += buffers.size() + 2;
    }
  }
  return words <= max_table_words ? "" : fmt::format("{} parameter words, at most {}", words, max_table_words);
}

std::string all_blocks_stay(const KernelProgram& p, const DeviceSpec&) {
  if (p.schedule.slabs.count == 1 || std::ranges::count(p.schedule.syncs, Sync::last_block) == 0) return {};
  return fmt::format("only the last block would go on to the next of {} slabs", p.schedule.slabs.count);
}

/// A sum of floats that atomics add to.
bool sums_in_any_order(const Anchor& anchor, const graph::Graph& graph) {
  if (anchor.kind != Anchor::Kind::atomic || !graph::is_floating(anchor.dtype)) return false;
  return graph.node(anchor.node).as<graph::ScatterAttributes>().combiner == graph::ReduceKind::sum;
}

std::string fixed_order(const KernelProgram& p, const DeviceSpec&) {
  for (const PhaseProgram& phase : p.phases) {
    for (const GroupProgram& group : phase.groups) {
      const graph::Graph& graph = group.structure.program->graph();
      if (!graph.constraints.fixes_order()) continue;
      for (const Anchor& anchor : group.structure.anchors) {
        if (sums_in_any_order(anchor, graph))
          return fmt::format("%{} adds floats by atomics, in the order in which they arrive", anchor.node);
      }
    }
  }
  return {};
}

std::string asynchronous_copies(const KernelProgram& p, const DeviceSpec& d) {
  constexpr int least = 8;
  if (d.compute_major >= least) return {};
  for (const PhaseProgram& phase : p.phases) {
    for (const GroupProgram& group : phase.groups) {
      if (group.mapping.shared_stages) return fmt::format("{} copies nothing to shared memory by itself", d.name);
    }
  }
  return {};
}

std::string bulk_copies(const KernelProgram& p, const DeviceSpec& d) {
  constexpr int least = 9;
  if (d.compute_major >= least) return {};
  for (const PhaseProgram& phase : p.phases) {
    for (const GroupProgram& group : phase.groups) {
      if (group.mapping.bulk_stages) return fmt::format("{} has no bulk copies that a barrier counts", d.name);
    }
  }
  return {};
}

std::string tensor_cores(const KernelProgram& p, const DeviceSpec& d) {
  constexpr int least = 8;
  if (d.compute_major >= least && d.tensor.f16 > 0) return {};
  for (const PhaseProgram& phase : p.phases) {
    for (const GroupProgram& group : phase.groups) {
      if (group.mapping.tensor_cores) return fmt::format("{} has no mma.sync of 16 columns and 8 rows", d.name);
    }
  }
  return {};
}

constexpr std::array<LegalityRule, 13> table = {{
    {"threads", "a block has at most 1,024 threads", threads},
    {"whole-warps", "shuffles name all 32 lanes of a warp", whole_warps},
    {"shared-memory", "what a block keeps must fit its shared memory", shared_memory},
    {"registers", "what a thread keeps must fit its registers, or it spills to device memory", registers},
    {"clusters", "distributed shared memory needs a cluster that the device can schedule", clusters},
    {"grid", "the launch must be expressible", grid},
    {"barrier-residency", "a grid barrier waits for blocks that must all be running", resident_for_barrier},
    {"slabs", "all blocks go on to the next slab", all_blocks_stay},
    {"fixed-order", "what is asked to be deterministic must not depend on who comes first", fixed_order},
    {"stages", "stages in shared memory are filled while threads compute", asynchronous_copies},
    {"bulk-stages", "the copy engine brings whole runs to stages", bulk_copies},
    {"tensor-cores", "a turn's products take instructions of sm_80 and later", tensor_cores},
    {"parameters", "a packed kernel's table travels in the parameter block", parameters},
}};

}  // namespace

std::span<const LegalityRule> legality_table() { return table; }

Status check_legality(const KernelProgram& program, const DeviceSpec& device) {
  for (const LegalityRule& rule : table) {
    if (std::string text = rule.violation(program, device); !text.empty()) {
      return make_error(ErrorKind::constraint, "{}: {}", rule.name, text);
    }
  }
  return {};
}

int resident_blocks(int block_threads, int block_registers, std::int64_t shared_bytes, const DeviceSpec& device) {
  // Registers are allocated per warp in units of 256, shared memory in units of 128 bytes with 1 KB reserved a block
  // from sm_80 on (CUDA C++ Programming Guide, technical specifications; cuda_occupancy.h).
  const int warps = warps_of(block_threads);
  const std::int64_t per_warp = (static_cast<std::int64_t>(std::max(block_registers, 16)) * 32 + 255) / 256 * 256;
  const std::int64_t by_registers = device.registers_per_sm / (per_warp * warps);
  const std::int64_t shared = (shared_bytes + 127) / 128 * 128 + device.shared_reserved_per_block;
  const std::int64_t by_shared = shared == 0 ? device.blocks_per_sm : device.shared_per_sm / shared;
  const std::int64_t by_threads = device.threads_per_sm / (warps * 32);
  return std::min({by_registers, by_shared, by_threads, static_cast<std::int64_t>(device.blocks_per_sm)});
}

std::int64_t blocks_in_clusters(int cluster, int of_sm, const DeviceSpec& device) {
  constexpr int pair = 2, of_gpc = 16;  // SMs come in pairs
  const std::int64_t all = std::int64_t{device.sm_count} * of_sm;
  if (cluster <= pair) return all / cluster * cluster;
  const std::int64_t gpcs = std::max(1, device.sm_count / of_gpc), sms = std::min(of_gpc, device.sm_count);
  return gpcs * (sms * of_sm / cluster * cluster);
}

std::int64_t resident_on_device(const KernelProgram& program, const DeviceSpec& device) {
  return blocks_in_clusters(program.schedule.cluster, resident_blocks(program, device), device);
}

int resident_blocks(const KernelProgram& program, const DeviceSpec& device) {
  return resident_blocks(program.schedule.threads, program.registers, program.shared_bytes + static_shared, device);
}

}  // namespace stitch::kernel
