#include "kernel/program/reduction_plan.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace stitch::kernel {
namespace {

constexpr std::int64_t most_accumulators = 256;

std::int64_t aligned(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

constexpr int warp_lanes = 32;

/// Bytes of an accumulator.
int accumulator_bytes(const ScalarProgram& program, const Anchor& anchor) {
  const int value = graph::byte_size(graph::info(program.at(anchor.items[0]).dtype).accumulator);
  switch (anchor.combiner) {
    // A value and a 64-bit position (struct Indexed in codegen/device/reduce.cuh).
    case graph::Op::arg_reduce: return 16;
    case graph::Op::max_exp_sum: return 2 * value;
    default: return value;
  }
}

/// Whether the lanes of every warp can read so many partial results of a block's only result, one each.
bool lanes_can_combine(const GroupProgram& group, const ReductionPlan& plan, std::int64_t count) {
  return plan.kept_per_block == 1 && group.threads % warp_lanes == 0 && count > 1 && count <= warp_lanes &&
         std::has_single_bit(static_cast<std::uint64_t>(count));
}

/// Lanes can be combined by shuffles when the lane digits of all axes are powers of two within one warp.
bool can_shuffle(const GroupProgram& group) {
  std::int64_t lanes = 1;
  for (const int a : group.thread_order) {
    const std::uint64_t extent = group.extent(a, Level::lane);
    if (!std::has_single_bit(extent)) return false;
    lanes *= group.extent(a, Level::lane);
  }
  return lanes <= 32;
}

Result<ReductionPlan> plan_reduction(const ScalarProgram& program, const GroupProgram& group, const Anchor& anchor) {
  ReductionPlan plan;
  const bool shuffles = can_shuffle(group);
  int distance = 1;
  for (const int a : group.thread_order) {
    const int extent = group.extent(a, Level::lane);
    if (anchor.reduced.contains(a)) {
      if (shuffles) {
        for (int d = distance; d < distance * extent; d *= 2) plan.shuffles.push_back(d);
      } else {
        plan.exchange *= extent;
      }
    }
    distance *= extent;
  }
  for (int a = 0; a < std::ssize(group.mapping.axes); ++a) {
    const AxisMapping& axis = group.mapping.axes[a];
    if (anchor.reduced.contains(a)) {
      plan.exchange *= axis.at(Level::warp);
      plan.cluster *= axis.at(Level::cluster);
      plan.partials *= axis.at(Level::grid);
    } else if (anchor.axes.contains(a)) {
      plan.kept_per_thread *= axis.at(Level::vector) * axis.at(Level::reg);
      plan.kept_per_block *= axis.at(Level::vector) * axis.at(Level::reg) * axis.threads();
    }
  }
  if (plan.kept_per_thread > most_accumulators)
    return make_error(ErrorKind::constraint, "{} accumulators in a thread", plan.kept_per_thread);
  if (anchor.combiner == graph::Op::max_exp_sum) {
    plan.lanes_exchange = lanes_can_combine(group, plan, plan.exchange);
    plan.lanes_cluster = lanes_can_combine(group, plan, plan.cluster);
  }
  const std::int64_t slots = (plan.exchange > 1 ? plan.exchange : 0) + (plan.cluster > 1 ? 1 : 0);
  plan.shared_bytes = slots * plan.kept_per_block * accumulator_bytes(program, anchor);
  return plan;
}

}  // namespace

Result<std::vector<ReductionPlan>> plan_reductions(const GroupStructure& structure, const GroupProgram& group) {
  std::vector<ReductionPlan> plans;
  for (int i = 0; i < std::ssize(structure.anchors); ++i) {
    const Anchor& anchor = structure.anchors[i];
    if (anchor.kind != Anchor::Kind::reduce && anchor.kind != Anchor::Kind::partial) continue;
    STITCH_ASSIGN(ReductionPlan plan, plan_reduction(*structure.program, group, anchor));
    plan.anchor = i;
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::int64_t exchange_bytes(const GroupStructure& structure, const std::vector<ReductionPlan>& plans) {
  // The reductions of one sweep share one exchange (one barrier); consecutive sweeps alternate between two buffers.
  std::vector<std::int64_t> together(structure.sweep_count, 0);
  // What is left for the next phase is exchanged when all sweeps are done, whatever sweep it comes from, and has both
  // buffers for that.
  std::int64_t behind = 0;
  for (const ReductionPlan& plan : plans) {
    const Anchor& anchor = structure.anchors[plan.anchor];
    std::int64_t& bytes = anchor.kind == Anchor::Kind::partial ? behind : together[anchor.sweep];
    bytes = aligned(bytes) + plan.shared_bytes;
  }
  std::int64_t most = aligned((behind + 1) / 2);
  for (const std::int64_t bytes : together) most = std::max(most, aligned(bytes));
  return most;
}

}  // namespace stitch::kernel
