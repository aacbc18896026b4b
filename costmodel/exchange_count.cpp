#include "costmodel/exchange_count.h"

#include <algorithm>
#include <cmath>

#include "kernel/program/legality.h"

namespace stitch::costmodel {
namespace {

using kernel::Anchor;
using kernel::Level;

/// A shuffle, the combination with what it brings, and every other time a move (guess).
constexpr double instructions_of_shuffle = 2.5;
/// Cycles until what a shuffle has brought is combined (guess).
constexpr double shuffle_cycles = 30;
/// Warp instructions of an exchange through shared memory: a store and its address, then for each partial result a load
/// and its combination, of which some are one instruction (guess).
constexpr double instructions_before_exchange = 2;
constexpr double instructions_of_exchanged = 1.5;
/// Cycles that each partial result adds to the wait for the first one: a dependent combination (guess).
constexpr double cycles_of_exchanged = 4;
/// Partial results are f32, written once and read once.
constexpr int accumulator_bytes = 4;
constexpr int passes_of_exchange = 2;
/// Of a maximum with a sum of exponentials: what brings the sum to the common maximum (guess).
constexpr double instructions_of_rescaling = 5;
constexpr double rescaling_cycles = 40;
/// A barrier of a cluster is a message to the others and one back.
constexpr int crossings_of_cluster_barrier = 2;
/// Threads whose arrival doubles what a block's barrier takes (guess).
constexpr double threads_of_slow_barrier = 512;

/// Of a scatter: warp instructions of the test of one update (or 32), and of adding one that hit to a row's 32
/// elements (guess).
constexpr double instructions_of_test = 12;
constexpr double instructions_of_hit = 10;
/// Indices that a test reads are s32.
constexpr int index_bytes = 4;
/// Bytes that a thread has in flight: four indices, as one access takes (guess).
constexpr double bytes_of_indices_in_flight = 16;
/// At its end the row that was hit is read and written: two latencies of device memory.
constexpr double latencies_of_hit = 2;

/// A maximum and a sum of exponentials cross as two numbers: the maxima first, then the sums, brought to the greatest.
void count_max_exp_sum(const CountedGroup& counted, const kernel::ReductionPlan& plan, double loops,
                       GroupFeatures& features) {
  const bool partial = counted.group.structure.anchors[plan.anchor].kind == Anchor::Kind::partial;
  const double executions = counted.warps * (plan.kept_per_thread * loops);
  double cycles = 0;
  const auto count = [&](double times, double instructions, double special) {
    features.instructions += times * instructions;
    features.exchange_instructions += times * instructions;
    features.special_instructions += times * special;
  };
  const auto shuffle = [&](double times, double steps) {
    count(times, 2 * steps * instructions_of_shuffle + instructions_of_rescaling, 1);
    cycles += 2 * steps * shuffle_cycles + rescaling_cycles;
  };
  const auto combine = [&](double times, double values) {
    count(times, values * (2 * instructions_of_exchanged + instructions_of_rescaling), values);
    cycles += 2 * values * cycles_of_exchanged + rescaling_cycles;
  };
  if (!plan.shuffles.empty()) shuffle(executions, plan.shuffles.size());
  if (plan.exchange > 1) {
    // What a block leaves in memory only the warps that store it combine: the compiler moves the rest behind the test.
    const double combining = partial && !plan.lanes_exchange ? executions / plan.exchange : executions;
    const double results = plan.exchange * plan.kept_per_block;
    features.shared_bytes += 2 * results * accumulator_bytes * passes_of_exchange * counted.group.tiles * loops;
    count(executions, instructions_before_exchange, 0);
    cycles += counted.device.shared_latency + plan.kept_per_thread * plan.exchange;
    if (plan.lanes_exchange) {
      shuffle(combining, std::log2(plan.exchange));
    } else {
      combine(combining, plan.exchange);
    }
  }
  if (plan.lanes_cluster) {
    shuffle(executions, std::log2(plan.cluster));
  } else if (plan.cluster > 1) {
    combine(executions, plan.cluster);
  }
  features.latency_cycles += loops * cycles;
  features.serial_cycles += cycles;
}

void count_reduction(const CountedGroup& counted, const kernel::ReductionPlan& plan, double loops,
                     GroupFeatures& features) {
  const double executions = counted.warps * (plan.kept_per_thread * loops);
  const double steps = plan.shuffles.size();
  features.instructions += executions * steps * instructions_of_shuffle;
  features.exchange_instructions += executions * steps * instructions_of_shuffle;
  features.latency_cycles += loops * steps * shuffle_cycles;
  features.serial_cycles += steps * shuffle_cycles;
  if (plan.exchange <= 1) return;
  const double instructions = executions * (instructions_before_exchange + plan.exchange * instructions_of_exchanged);
  const double results = plan.exchange * plan.kept_per_block;
  features.instructions += instructions;
  features.exchange_instructions += instructions;
  features.shared_bytes += results * accumulator_bytes * passes_of_exchange * counted.group.tiles * loops;
  const double cycles =
      counted.device.shared_latency + plan.exchange * cycles_of_exchanged + plan.kept_per_thread * plan.exchange;
  features.latency_cycles += loops * cycles;
  features.serial_cycles += cycles;
}

}  // namespace

void count_reductions(const CountedGroup& counted, GroupFeatures& features) {
  const kernel::GroupProgram& group = counted.group;
  // The reductions at the end of one sweep share its barriers.
  std::vector<bool> exchanged(group.sweeps.size(), false);
  std::vector<bool> clustered(group.sweeps.size(), false);
  const double outer = counted.outer_iterations();
  for (const kernel::ReductionPlan& plan : group.reductions) {
    const Anchor& anchor = group.structure.anchors[plan.anchor];
    const double loops = anchor.kind == Anchor::Kind::partial ? 1 : outer;
    const bool pair = anchor.combiner == graph::Op::max_exp_sum;
    (pair ? count_max_exp_sum : count_reduction)(counted, plan, loops, features);
    if (plan.exchange > 1) {
      if (!exchanged[anchor.sweep]) features.barriers += loops;
      exchanged[anchor.sweep] = true;
    }
    if (plan.cluster > 1) {
      features.latency_cycles += loops * counted.device.cluster_latency * crossings_of_cluster_barrier;
      features.serial_cycles += counted.device.cluster_latency * crossings_of_cluster_barrier;
      if (!clustered[anchor.sweep]) features.cluster_barriers += loops;
      clustered[anchor.sweep] = true;
    }
  }
  // Behind each group: what it leaves is for all threads.
  if (counted.residence.hands_on_in_block())
    (counted.schedule.cluster > 1 ? features.cluster_barriers : features.barriers) += 1;
  const double before = features.latency_cycles;
  add_barrier_cycles(features, counted.schedule.threads, counted.device);
  features.serial_cycles += (features.latency_cycles - before) / outer;
}

void count_scatter(const CountedGroup& counted, GroupFeatures& features) {
  const kernel::GroupProgram& group = counted.group;
  const Anchor& anchor = group.structure.anchors[0];
  const AxisSet tested = counted.program.at(anchor.items[1]).axes;
  // Updates lie on the last axis.
  const int batch = std::ssize(group.extents) - 1;
  const double updates = group.extents[batch];
  double lanes = 1;
  double hit_lanes = 1;
  double rows = 1;
  double results = 1;
  for (int a = 0; a < batch; ++a) {
    lanes *= group.extent(a, Level::lane);
    results *= group.extents[a];
    if (!tested.contains(a)) continue;
    hit_lanes *= group.extent(a, Level::lane) * group.extent(a, Level::reg);
    rows *= group.extents[a];
  }
  const bool by_warp = lanes == warp_lanes && hit_lanes == 1;
  const double window = results / std::max(rows, 1.0);
  const double warps = group.tiles * kernel::warps_of(group.threads);  // that take part
  const AxisSet kept = anchor.axes - anchor.reduced;
  const double tests = by_warp ? warps * updates / warp_lanes : warps * updates * counted.per_iteration(kept);
  features.instructions +=
      tests * instructions_of_test + updates * std::max(1.0, window / warp_lanes) * instructions_of_hit;
  const double added = updates * window * graph::byte_size(anchor.dtype);
  features.l2_bytes += warps * updates * index_bytes + added;
  // A test reads the indices of 32 updates, or one that all lanes want.
  features.sector_bytes += tests * (by_warp ? warp_lanes * index_bytes : sector_bytes) + added;
  features.requested_bytes += tests * (by_warp ? warp_lanes * index_bytes : index_bytes) + added;
  features.load_requests += tests;
  features.load_lane_bytes += tests * index_bytes;
  features.latency_cycles += counted.device.l2_latency * (by_warp ? updates / warp_lanes : updates) +
                             latencies_of_hit * counted.device.dram_latency;
  features.bytes_in_flight = bytes_of_indices_in_flight;
}

void add_barrier_cycles(GroupFeatures& features, int block_threads, const DeviceSpec& device) {
  features.latency_cycles +=
      features.barriers * device.block_barrier_cycles * (1 + block_threads / threads_of_slow_barrier);
  features.latency_cycles += features.cluster_barriers * device.cluster_latency * crossings_of_cluster_barrier;
}

}  // namespace stitch::costmodel
