#include "costmodel/kernel_features.h"

#include <algorithm>
#include <cmath>

#include "graph/traffic.h"
#include "kernel/program/legality.h"

namespace stitch::costmodel {
namespace {

using kernel::Anchor;
using kernel::GroupProgram;
using kernel::Level;

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

/// Sums over the groups; what is a property of one of them is weighted by the device-memory bytes that it moves.
void count_groups(const KernelQuantities& kernel, KernelFeatures& f) {
  double requested = 0, load_requests = 0, load_bytes = 0, store_requests = 0, store_bytes = 0, dynamic = 0;
  double special = 0, integer = 0, wide = 0, index = 0, exchange = 0, flight = 0, threads_flight = 0, weight = 0;
  for (const PhaseQuantities& phase : kernel.phases) {
    for (const GroupFeatures& group : phase.groups) {
      f.dram_read_bytes += group.dram_read_bytes;
      f.dram_write_bytes += group.dram_write_bytes;
      f.sector_bytes += group.sector_bytes;
      f.l2_bytes += group.l2_bytes;
      f.shared_bytes += group.shared_bytes;
      f.instructions += group.instructions;
      requested += group.requested_bytes;
      load_requests += group.load_requests;
      load_bytes += group.load_lane_bytes;
      store_requests += group.store_requests;
      store_bytes += group.store_lane_bytes;
      dynamic += group.dynamic_requests;
      special += group.special_instructions;
      integer += group.integer_instructions;
      wide += group.wide_instructions;
      index += group.index_instructions;
      exchange += group.exchange_instructions;
      f.block_barriers += group.barriers;
      f.cluster_barriers += group.cluster_barriers;
      f.sweeps = std::max<double>(f.sweeps, group.sweeps);
      ++f.groups;
      const double bytes = group.dram_read_bytes + group.dram_write_bytes + 1;
      flight += group.bytes_in_flight * bytes;
      threads_flight += group.bytes_in_flight * group.threads * bytes;
      f.iterations += group.iterations * bytes;
      f.thread_elements += group.thread_elements * bytes;
      f.lane_efficiency += group.lane_efficiency * bytes;
      weight += bytes;
    }
  }
  f.iterations /= weight;
  f.thread_elements /= weight;
  f.lane_efficiency /= weight;
  f.sector_efficiency = ratio(requested, f.sector_bytes);
  f.load_width = ratio(load_bytes, load_requests);
  f.store_width = ratio(store_bytes, store_requests);
  f.dynamic_share = ratio(dynamic, load_requests);
  f.bytes_in_flight_thread = flight / weight;
  f.bytes_in_flight_sm = threads_flight / weight * kernel.resident;
  f.memory_share = ratio(2 * load_requests + 1.5 * store_requests, f.instructions);
  f.special_share = ratio(special, f.instructions);
  f.integer_share = ratio(integer, f.instructions);
  f.wide_share = ratio(wide, f.instructions);
  f.index_share = ratio(index, f.instructions);
  f.exchange_share = ratio(exchange, f.instructions);
  f.slabs = kernel.slabs;
  for (double* amount : {&f.dram_read_bytes, &f.dram_write_bytes, &f.sector_bytes, &f.l2_bytes, &f.shared_bytes,
                         &f.instructions, &f.block_barriers, &f.cluster_barriers})
    *amount *= kernel.slabs;
}

void count_grid(const KernelQuantities& kernel, const kernel::KernelProgram& program, const DeviceSpec& device,
                KernelFeatures& f) {
  f.threads = program.schedule.threads;
  f.blocks = program.blocks;
  f.cluster = kernel.cluster;
  const double slots = device.sm_count * kernel.resident;
  const double concurrent = std::max(1.0, std::min(f.blocks, slots));
  f.busy_share = std::min<double>(device.sm_count, f.blocks) / device.sm_count;
  for (const PhaseQuantities& phase : kernel.phases) {
    f.phases += 1;
    f.grid_barriers += phase.entry == PhaseEntry::barrier || phase.entry == PhaseEntry::open ? 1 : 0;
    f.last_blocks += phase.entry == PhaseEntry::last_block || phase.entry == PhaseEntry::gate ? 1 : 0;
    const double tiles = phase.tiles * kernel.cluster;
    f.tiles = std::max(f.tiles, tiles);
    const double waves = std::ceil(tiles / (phase.alone() ? 1 : concurrent));
    double latency = 0;
    for (const GroupFeatures& group : phase.groups)
      latency += group.latency_cycles * group.tiles / std::max(1.0, tiles / kernel.cluster);
    f.latency_cycles += latency;
    f.wave_latency += latency * waves;
  }
  for (double* amount : {&f.grid_barriers, &f.last_blocks, &f.latency_cycles, &f.wave_latency}) *amount *= kernel.slabs;
  f.waves = f.tiles / concurrent;
  // How full the last wave is: 1 when the tiles come out even.
  f.last_wave = f.waves / std::max(1.0, std::ceil(f.waves));
  f.registers_estimate = program.registers;
  f.block_shared_bytes = program.shared_bytes;
  f.resident_blocks = kernel.resident;
  f.resident_warps = kernel.resident * std::ceil(f.threads / 32);
  // Blocks that each resource alone leaves room for, over those that are resident: 1 for the one that limits.
  const double resident = kernel.resident;
  f.register_room = device.registers_per_sm / std::max(1.0, f.registers_estimate * f.threads) / resident;
  f.shared_room =
      device.shared_per_sm / std::max(1.0, f.block_shared_bytes + device.shared_reserved_per_block) / resident;
  f.thread_room = device.threads_per_sm / std::max(1.0, f.threads) / resident;
  // More room than the hardware has slots makes no difference.
  const double most = device.blocks_per_sm / resident;
  for (double* room : {&f.register_room, &f.shared_room, &f.thread_room}) *room = std::min(*room, most);
  const bool in_memory = program.recurrent == nullptr;  // a recurrent kernel's phases hand on in shared memory
  for (std::size_t i = 0; in_memory && i < program.scratch.size(); ++i) f.scratch_bytes += program.scratch_bytes(i);
}

/// Of the group that touches most elements: what its innermost axis looks like.
void count_shape(const kernel::KernelProgram& program, KernelFeatures& f) {
  double most = -1;
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const GroupProgram& group : phase.groups) {
      double elements = 1, reduced = 1, lanes = 1;
      kernel::AxisSet reduced_axes;
      for (const Anchor& anchor : group.structure.anchors) {
        reduced_axes |= anchor.reduced;
        f.reduces += anchor.kind == Anchor::Kind::reduce ? 1 : 0;
        f.partials += anchor.kind == Anchor::Kind::partial ? 1 : 0;
        f.scans += anchor.kind == Anchor::Kind::scan ? 1 : 0;
        f.scatters += anchor.kind == Anchor::Kind::scatter || anchor.kind == Anchor::Kind::atomic ? 1 : 0;
      }
      for (int a = 0; a < std::ssize(group.extents); ++a) {
        elements *= group.extents[a];
        lanes *= group.extent(a, Level::lane);
        if (reduced_axes.contains(a)) reduced *= group.extents[a];
      }
      for (const kernel::HeldItem& held : group.held)
        (held.place == kernel::Hold::shared ? f.held_shared : f.held_registers) += 1;
      f.elements += elements * program.schedule.slabs.count;
      if (elements <= most) continue;
      most = elements;
      f.axes = group.extents.size();
      f.reduced_extent = reduced;
      f.lane_extent = lanes;
      const int inner =
          group.mapping.vector_axis >= 0 ? group.mapping.vector_axis : static_cast<int>(group.extents.size()) - 1;
      if (inner < 0) continue;
      const std::size_t axis = inner;
      f.inner_extent = group.extents[axis];
      f.vector_extent = group.extent(axis, Level::vector);
      // Mean over the loads of how far neighbours on that axis are apart; a step that differs counts as a sector.
      const kernel::ScalarProgram& items = *group.structure.program;
      double loads = 0, stride = 0, bytes = 0;
      for (const kernel::Item& item : items.items()) {
        if (item.kind != kernel::Item::Kind::load) continue;
        const auto run = items.pool().run(item.index, items.axes().variables[axis], 1);
        const double size = graph::byte_size(item.dtype);
        loads += 1;
        bytes += size;
        stride += run.regular ? std::min(32.0, std::fabs(run.step) * size) : 32;
      }
      f.inner_stride = ratio(stride, loads);
      f.element_bytes = ratio(bytes, loads);
    }
  }
}

}  // namespace

void set_device_columns(const DeviceSpec& device, KernelFeatures& f) {
  f.sm_count = device.sm_count;
  f.clock_ghz = device.clock_hz * 1e-9;
  f.dram_gbps = device.copy_bandwidth() * 1e-9;
  f.l2_gbps = device.l2_bandwidth * 1e-9;
  f.l2_mbytes = device.l2_bytes / 1e6;
  f.sm_shared_kbytes = device.shared_per_sm / 1024.0;
  f.dram_latency = device.dram_latency;
  f.launch_us = device.launch_us;
  f.barrier_us = device.grid_barrier_us;
}

void set_compiled_columns(const CompiledFacts& compiled, int threads, const DeviceSpec& device, KernelFeatures& f) {
  f.registers = compiled.registers;
  f.spill_bytes = compiled.spill_bytes;
  f.compiled_shared_bytes = compiled.shared_bytes;
  f.compiled_warps =
      kernel::resident_blocks(threads, compiled.registers, compiled.shared_bytes, device) * kernel::warps_of(threads);
  if (compiled.machine_code == nullptr) return;
  const MachineCodeFeatures& code = *compiled.machine_code;
  const auto share = [&](int part) { return ratio(part, code.instructions); };
  f.sass_instructions = code.instructions;
  f.sass_loop_instructions = code.loop.instructions;
  f.sass_loop_cycles = warp_cycles(code);
  f.sass_memory_share = share(code.by_pipe[Pipe::memory] + code.by_pipe[Pipe::shared]);
  f.sass_float_share = share(code.by_pipe[Pipe::floating] + code.by_pipe[Pipe::half]);
  f.sass_integer_share = share(code.by_pipe[Pipe::integer]);
  f.sass_special_share = share(code.by_pipe[Pipe::special]);
  f.sass_load_width = ratio(code.load_bytes, code.loads);
  f.sass_loads_before_wait = code.loads_before_wait;
  f.sass_bytes_before_wait = code.bytes_before_wait;
  f.sass_stall_share = ratio(code.loop.stall_cycles - code.loop.instructions, code.loop.stall_cycles);
}

KernelFeatures kernel_features(const KernelQuantities& quantities, const graph::Graph& graph,
                               const kernel::KernelProgram& program, const DeviceSpec& device,
                               const CompiledFacts* compiled) {
  KernelFeatures f;
  set_device_columns(device, f);
  count_groups(quantities, f);
  count_grid(quantities, program, device, f);
  count_shape(program, f);
  f.parameter_bytes = graph::interface_bytes(graph);
  const double dram = f.dram_read_bytes + f.dram_write_bytes;
  f.gathers = f.dynamic_share > 0 ? 1 : 0;
  f.dram_reuse = ratio(dram, f.parameter_bytes);
  f.l2_reuse = ratio(f.l2_bytes, dram);
  f.shared_share = ratio(f.shared_bytes, f.l2_bytes);
  f.instructions_per_byte = ratio(f.instructions * 32, dram);
  f.dram_us = dram / device.copy_bandwidth() * 1e6;
  f.l2_us = f.l2_bytes / device.l2_bandwidth * 1e6;
  f.issue_us = f.instructions / (4.0 * device.sm_count * f.busy_share) / device.clock_hz * 1e6;
  // Little's law: what an SM has in flight over what it would have to have for its share of the bandwidth.
  f.flight_coverage =
      ratio(f.bytes_in_flight_sm * device.clock_hz * device.sm_count, device.dram_latency * device.copy_bandwidth());
  if (compiled != nullptr) set_compiled_columns(*compiled, program.schedule.threads, device, f);
  return f;
}

KernelFeatures kernel_features(const graph::Graph& graph, const kernel::KernelProgram& program,
                               const DeviceSpec& device, const CompiledFacts* compiled) {
  return kernel_features(kernel_quantities(graph, program, device), graph, program, device, compiled);
}

}  // namespace stitch::costmodel
