#include "codegen/reduction_emitter.h"

#include <algorithm>
#include <iterator>

#include "codegen/spelling.h"
#include "graph/reduce_kind.h"

namespace stitch::codegen {

using kernel::Anchor;
using kernel::AxisSet;
using kernel::Level;
using kernel::ReductionPlan;

namespace {

/// An expression as one factor of a product.
std::string factor(const std::string& text) { return text.find(' ') == std::string::npos ? text : "(" + text + ")"; }

/// Up to this many results of a block may lie next to their own partials; more lie next to one another.
constexpr std::int64_t few_results = 32;
constexpr std::int64_t bank_row_bytes = 128;  ///< of shared memory: 32 banks of 4 bytes

std::int64_t aligned(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

/// With an odd number of exchanges in a turn of the loops around the sweeps the next turn would begin with the buffer
/// that this one's last readers may not have left. Tiles end with a barrier, and so need none of that.
void ReductionEmitter::begin() {
  depth_ = out_.depth();
  for (const ReductionPlan& plan : group_.reductions) {
    const Anchor& reduced = scope_.anchor(plan.anchor);
    const bool within = reduced.kind != Anchor::Kind::partial;  // the others come after the loops
    if (within && (plan.exchange > 1 || plan.cluster > 1)) crosses_cluster_[reduced.sweep] |= plan.cluster > 1;
  }
  alternating_ = !group_.outer_loops.empty() && crosses_cluster_.size() % 2 == 1;
  if (alternating_) out_.line("int turn = 0;  // which of the two exchange buffers is free");
}

AxisSet ReductionEmitter::kept_axes(int anchor) const {
  const Anchor& it = scope_.anchor(anchor);
  return it.axes - it.reduced;
}

std::string ReductionEmitter::accumulator_type(int anchor) const {
  const graph::DType dtype = scope_.graph.node(scope_.anchor(anchor).node).results[0].dtype;
  const std::string element = compute_type(graph::info(dtype).accumulator);
  if (items_.is_max_exp_sum(anchor)) return fmt::format("MaxExpSum<{}>", element);
  return items_.is_arg_reduce(anchor) ? fmt::format("Indexed<{}>", element) : element;
}

std::string ReductionEmitter::accumulator_op(int anchor) const {
  const graph::Node& node = scope_.graph.node(scope_.anchor(anchor).node);
  if (items_.is_max_exp_sum(anchor)) return "MaxAndExpSum";
  if (items_.is_arg_reduce(anchor)) {
    const auto& a = node.as<graph::ArgReduceAttributes>();
    return fmt::format("ArgExtreme<{}, {}>", a.kind == graph::ReduceKind::max, a.last);
  }
  return combiner(node.as<graph::ReduceAttributes>().kind);
}

std::string ReductionEmitter::identity(int anchor) const {
  const graph::Node& node = scope_.graph.node(scope_.anchor(anchor).node);
  // The type's own, not its accumulator's: of nothing it is the result.
  const graph::DType dtype = node.results[0].dtype;
  if (items_.is_max_exp_sum(anchor))
    return fmt::format("{{{}, {}}}", literal(dtype, graph::identity_bits(graph::ReduceKind::max, dtype)),
                       literal(dtype, 0));
  if (!items_.is_arg_reduce(anchor))
    return literal(dtype, graph::identity_bits(node.as<graph::ReduceAttributes>().kind, dtype));
  const auto& a = node.as<graph::ArgReduceAttributes>();
  // An index that loses every tie: the identity must not win against an equal element.
  return fmt::format("{{{}, {}}}", literal(dtype, graph::identity_bits(a.kind, dtype)),
                     a.last ? "-1" : "0x7fffffffffffffffll");
}

void ReductionEmitter::declare(int anchor) {
  const std::string type = accumulator_type(anchor), name = items_.accumulator_name(anchor);
  const std::string dims = axes_.dims(kept_axes(anchor));
  const bool tuple = items_.is_arg_reduce(anchor) || items_.is_max_exp_sum(anchor);
  if (dims.empty()) return out_.line("{} {}{};", type, name, tuple ? identity(anchor) : " = " + identity(anchor));
  out_.line("{} {}{};", type, name, dims);
  const int depth = out_.depth();
  open_kept_loops(anchor);
  out_.line("{} = {}{};", accumulator(anchor), tuple ? type : "", identity(anchor));
  out_.close(out_.depth() - depth);
}

void ReductionEmitter::open_kept_loops(int anchor) {
  for (const int a : kept_axes(anchor)) {
    if (group_.extent(a, Level::reg) == 1) continue;
    out_.line("#pragma unroll");
    out_.open("for (int {0}_r = 0; {0}_r < {1}; ++{0}_r)", axes_.name(a), group_.extent(a, Level::reg));
  }
  if (axes_.has_vector(kept_axes(anchor))) {
    out_.line("#pragma unroll");
    out_.open("for (int v = 0; v < {}; ++v)", axes_.vector_extent());
  }
}

/// What an element adds, in the accumulator's type.
std::string ReductionEmitter::operand(int anchor, bool element) const {
  const Anchor& it = scope_.anchor(anchor);
  const std::string type = compute_type(graph::info(scope_.graph.node(it.node).results[0].dtype).accumulator);
  std::string text = items_.value(it.items[0], element);
  if (compute_type(scope_.program.at(it.items[0]).dtype) != type) text = fmt::format("static_cast<{}>({})", type, text);
  if (items_.is_max_exp_sum(anchor) && it.items.size() > 1)
    return fmt::format("{}{{{}, {}}}", accumulator_type(anchor), text, items_.value(it.items[1], element));
  if (!items_.is_arg_reduce(anchor)) return text;
  const std::string index =
      it.items.size() > 1 ? items_.value(it.items[1], element) : items_.index(it.addresses[0], element, true);
  return fmt::format("{}{{{}, static_cast<s64>({})}}", accumulator_type(anchor), text, index);
}

void ReductionEmitter::emit_accumulate(int anchor, bool element) {
  const Anchor& it = scope_.anchor(anchor);
  const graph::Node& node = scope_.graph.node(it.node);
  std::string guard;
  if (element && axes_.vector_tail_by_element() && axes_.runs_along(it.axes))
    guard = fmt::format("if ({}) ", axes_.in_range(group_.mapping.vector_axis, true));
  const std::string target = accumulator(anchor, element);
  if (items_.is_max_exp_sum(anchor) && it.items.size() == 1)
    return out_.line("{}add_exponential({}, {});", guard, target, operand(anchor, element));
  const bool adds = node.op == graph::Op::reduce && graph::is_floating(node.results[0].dtype) &&
                    node.as<graph::ReduceAttributes>().kind == graph::ReduceKind::sum;
  if (adds) return out_.line("{}{} += {};", guard, target, operand(anchor, element));
  out_.line("{}{} = {}::combine({}, {});", guard, target, accumulator_op(anchor), target, operand(anchor, element));
}

bool ReductionEmitter::takes_runs(int anchor) const {
  const Anchor& it = scope_.anchor(anchor);
  const bool reduces = it.kind == Anchor::Kind::reduce || it.kind == Anchor::Kind::partial;
  return reduces && items_.is_max_exp_sum(anchor) && it.items.size() == 1 && axes_.has_vector(it.reduced);
}

void ReductionEmitter::declare_run(int anchor) {
  const graph::DType dtype = scope_.graph.node(scope_.anchor(anchor).node).results[0].dtype;
  out_.line("{} run_{}[{}];", compute_type(dtype), anchor, axes_.vector_extent());
}

void ReductionEmitter::emit_run_element(int anchor) {
  std::string text = operand(anchor, true);
  if (axes_.vector_tail_by_element()) {
    const graph::DType dtype = scope_.graph.node(scope_.anchor(anchor).node).results[0].dtype;
    text = fmt::format("{} ? {} : {}", axes_.in_range(group_.mapping.vector_axis, true), text,
                       literal(dtype, graph::identity_bits(graph::ReduceKind::max, dtype)));
  }
  out_.line("run_{}[v] = {};", anchor, text);
}

void ReductionEmitter::emit_run(int anchor) {
  out_.line("add_exponentials({}, run_{});", accumulator(anchor, false), anchor);
}

std::string ReductionEmitter::kept_index(int anchor) const {
  std::string text;
  for (const int a : kept_axes(anchor)) {
    const kernel::AxisMapping& axis = group_.mapping.axes[a];
    const std::int64_t extent = axis.at(Level::vector) * axis.threads() * axis.at(Level::reg);
    if (extent == 1) continue;
    std::vector<std::string> terms;
    if (axis.threads() > 1)
      terms.push_back(axis.at(Level::vector) > 1 ? fmt::format("{} * {}", axes_.thread_digit(a), axis.at(Level::vector))
                                                 : axes_.thread_digit(a));
    if (axis.at(Level::reg) > 1) terms.push_back(fmt::format("{}_r * {}", axes_.name(a), axis.step(Level::reg)));
    if (a == group_.mapping.vector_axis && axes_.vector_extent() > 1) terms.emplace_back("v");
    const std::string own = joined(terms, " + ");
    text = text.empty() ? own : fmt::format("{} * {} + {}", factor(text), extent, own);
  }
  return text.empty() ? "0" : text;
}

/// Whether the partials of a result lie next to one another, so that a thread reads several at once; if not, those of
/// one warp do. Lanes that read different results, each next to its own partials, must not meet in a bank.
bool ReductionEmitter::partials_lie_together(const ReductionPlan& plan) const {
  if (plan.kept_per_block > few_results) return false;
  std::int64_t lanes = 1;
  for (const int a : kept_axes(plan.anchor)) lanes *= group_.extent(a, Level::lane);
  if (lanes == 1) return true;
  const std::int64_t results = lanes * (axes_.runs_along(kept_axes(plan.anchor)) ? axes_.vector_extent() : 1);
  const std::int64_t slots = plan.exchange + (plan.cluster > 1 ? 1 : 0);
  return results * plan.exchange * (plan.shared_bytes / (plan.kept_per_block * slots)) <= bank_row_bytes;
}

/// Which of the `exchange` partial results of a block this thread's is: the reduced warp digits (and lane digits where
/// shuffles could not combine them), slowest axis first.
std::string ReductionEmitter::partner_index(const ReductionPlan& plan) const {
  std::string index;
  for (const int a : scope_.anchor(plan.anchor).reduced) {
    const std::int64_t warps = group_.extent(a, Level::warp);
    const std::int64_t lanes = plan.shuffles.empty() ? group_.extent(a, Level::lane) : 1;
    if (lanes * warps == 1) continue;
    std::string own = lanes > 1 ? axes_.digit(a, Level::lane) : axes_.digit(a, Level::warp);
    if (lanes > 1 && warps > 1) own += fmt::format(" + {} * {}", lanes, axes_.digit(a, Level::warp));
    index = index.empty() ? own : fmt::format("{} * {} + {}", factor(index), lanes * warps, own);
  }
  return index.empty() ? "0" : index;
}

std::vector<std::string> ReductionEmitter::lane_leaders(const ReductionPlan& plan) const {
  const Anchor& it = scope_.anchor(plan.anchor);
  std::vector<std::string> leaders;
  for (int a = 0; a < axes_.count(); ++a) {
    const bool lanes = group_.extent(a, Level::lane) > 1, warps = group_.extent(a, Level::warp) > 1;
    if (it.reduced.contains(a)) {
      if (lanes && !plan.shuffles.empty()) leaders.push_back(axes_.is_first(a, Level::lane));
    } else if (!it.axes.contains(a)) {
      if (lanes) leaders.push_back(axes_.is_first(a, Level::lane));
      if (warps) leaders.push_back(axes_.is_first(a, Level::warp));
    }
  }
  if (group_.threads < scope_.schedule.threads) leaders.emplace_back("active");
  return leaders;
}

/// What is true of one thread of the block for every element that the reduction keeps.
std::vector<std::string> ReductionEmitter::block_leaders(int anchor) const {
  std::vector<std::string> leaders;
  for (const int a : AxisSet::first(axes_.count()) - kept_axes(anchor)) {
    for (const Level level : {Level::lane, Level::warp}) {
      if (group_.extent(a, level) > 1) leaders.push_back(axes_.is_first(a, level));
    }
  }
  // Digits start again behind the threads that the mapping uses.
  if (group_.threads < scope_.schedule.threads) leaders.emplace_back("active");
  return leaders;
}

void ReductionEmitter::emit_exchange_write(const Crossing& crossing) {
  const ReductionPlan& plan = *crossing.plan;
  const std::vector<std::string> leaders = lane_leaders(plan);
  const int depth = out_.depth();
  if (!leaders.empty()) out_.open("if ({})", joined(leaders, " && "));
  open_kept_loops(plan.anchor);
  const std::string kept = kept_index(plan.anchor), partner = partner_index(plan);
  const std::string place = partials_lie_together(plan)
                                ? fmt::format("{} * {} + {}", factor(kept), plan.exchange, partner)
                                : fmt::format("{} * {} + {}", factor(partner), plan.kept_per_block, kept);
  out_.line("{}[{}] = {};", crossing.buffer, place, accumulator(plan.anchor));
  out_.close(out_.depth() - depth);
}

void ReductionEmitter::emit_exchange_read(const Crossing& crossing) {
  const ReductionPlan& plan = *crossing.plan;
  const int depth = out_.depth();
  if (group_.threads < scope_.schedule.threads) out_.open("if (active)");
  open_kept_loops(plan.anchor);
  const bool together = partials_lie_together(plan);
  const std::string kept = kept_index(plan.anchor);
  if (plan.lanes_exchange) {
    out_.line("{} = reduce_shared_by_lanes<{}, {}>({});", accumulator(plan.anchor), accumulator_op(plan.anchor),
              plan.exchange, crossing.buffer);
    return out_.close(out_.depth() - depth);
  }
  out_.line("{} = reduce_shared<{}, {}, {}>({} + {});", accumulator(plan.anchor), accumulator_op(plan.anchor),
            plan.exchange, together ? 1 : plan.kept_per_block, crossing.buffer,
            together ? fmt::format("({}) * {}", kept, plan.exchange) : kept);
  out_.close(out_.depth() - depth);
}

/// What the block has of the result, behind the exchange area, for all blocks of the cluster to read.
void ReductionEmitter::emit_block_result(Crossing& crossing) {
  const ReductionPlan& plan = *crossing.plan;
  crossing.buffer =
      fmt::format("({} + {})", crossing.buffer, plan.exchange > 1 ? plan.exchange * plan.kept_per_block : 0);
  const std::vector<std::string> leaders = block_leaders(plan.anchor);
  const int depth = out_.depth();
  if (!leaders.empty()) out_.open("if ({})", joined(leaders, " && "));
  open_kept_loops(plan.anchor);
  out_.line("{}[{}] = {};", crossing.buffer, kept_index(plan.anchor), accumulator(plan.anchor));
  out_.close(out_.depth() - depth);
}

void ReductionEmitter::emit_cluster_read(const Crossing& crossing) {
  const ReductionPlan& plan = *crossing.plan;
  const int depth = out_.depth();
  open_kept_loops(plan.anchor);
  out_.line("{} = reduce_cluster{}<{}, {}>({} + {});", accumulator(plan.anchor), plan.lanes_cluster ? "_by_lanes" : "",
            accumulator_op(plan.anchor), plan.cluster, crossing.buffer, kept_index(plan.anchor));
  out_.close(out_.depth() - depth);
}

void ReductionEmitter::combine_lanes(const ReductionPlan& plan) {
  if (plan.shuffles.empty()) return;
  const std::vector<int> distances(plan.shuffles.rbegin(), plan.shuffles.rend());
  const int depth = out_.depth();
  open_kept_loops(plan.anchor);
  out_.line("{0} = reduce_lanes<{1}, {2}>({0});", accumulator(plan.anchor), accumulator_op(plan.anchor),
            fmt::join(distances, ", "));
  out_.close(out_.depth() - depth);
}

std::vector<ReductionEmitter::Crossing> ReductionEmitter::declare_buffers(const std::vector<int>& plans,
                                                                          std::int64_t base, const std::string& turn) {
  std::vector<Crossing> crossings;
  std::int64_t offset = 0;
  for (const int p : plans) {
    offset = aligned(offset);
    crossings.push_back({&plan(p), fmt::format("partial{}", plan(p).anchor)});
    out_.line("{0}* const {1} = reinterpret_cast<{0}*>(shared{2}{3});", accumulator_type(plan(p).anchor),
              crossings.back().buffer, offset_text(base + offset), turn);
    offset += plan(p).shared_bytes;
  }
  return crossings;
}

bool ReductionEmitter::is_last_crossing(const std::vector<int>& plans) const {
  if (!scope_.frame.only_group || out_.depth() != depth_) return false;
  const int sweep = scope_.anchor(plan(plans[0]).anchor).sweep;
  return std::ranges::none_of(group_.reductions, [&](const ReductionPlan& each) {
    const Anchor& later = scope_.anchor(each.anchor);
    return each.cluster > 1 && (later.sweep > sweep || later.kind == Anchor::Kind::partial);
  });
}

/// Whether other blocks may still read the buffer that this sweep's exchange overwrites: they read it two exchanges
/// ago, and the one between was none of theirs.
bool ReductionEmitter::overwrites_what_blocks_read(int sweep) const {
  const int count = std::ssize(crosses_cluster_);
  const auto at = crosses_cluster_.find(sweep);
  const int place = std::distance(crosses_cluster_.begin(), at);
  const auto crosses = [&](int before) {  // -1: nothing is before it
    int earlier = place - before;
    if (!group_.outer_loops.empty()) earlier = ((earlier % count) + count) % count;
    return earlier < 0 ? -1 : static_cast<int>(std::next(crosses_cluster_.begin(), earlier)->second);
  };
  return crosses(1) == 0 && crosses(2) == 1;
}

void ReductionEmitter::wait_for_readers() {
  out_.line("{}  // the other blocks have read what is overwritten",
            scope_.leaves_cluster ? "cluster_wait();" : "cluster_barrier();");
  scope_.leaves_cluster = false;
}

void ReductionEmitter::finish(const std::vector<int>& plans) {
  for (const int p : plans) combine_lanes(plan(p));
  std::vector<int> crossing;
  std::ranges::copy_if(plans, std::back_inserter(crossing),
                       [&](int p) { return plan(p).exchange > 1 || plan(p).cluster > 1; });
  if (crossing.empty()) return;
  // What is left for the next phase takes both buffers, when the sweeps are done with them.
  const bool behind = scope_.anchor(plan(crossing[0]).anchor).kind == Anchor::Kind::partial;
  const bool taking_turns = alternating_ && !behind;
  if (behind && exchanges_ > 0)
    out_.line("{}", scope_.schedule.cluster > 1 ? "cluster_barrier();" : "__syncthreads();");
  const std::int64_t second = alternating_ || behind ? 0 : (exchanges_ % 2) * group_.exchange_bytes;
  const std::string turn = taking_turns ? fmt::format(" + turn * {}", group_.exchange_bytes) : "";
  ++exchanges_;
  if (!behind && overwrites_what_blocks_read(scope_.anchor(plan(crossing[0]).anchor).sweep)) wait_for_readers();
  std::vector<Crossing> all = declare_buffers(crossing, scope_.frame.shared_exchange + second, turn);
  for (const Crossing& each : all) emit_exchange_write(each);
  const bool exchange = std::ranges::any_of(all, [](const Crossing& each) { return each.plan->exchange > 1; });
  const bool cluster = std::ranges::any_of(all, [](const Crossing& each) { return each.plan->cluster > 1; });
  if (exchange) out_.line("__syncthreads();");
  for (const Crossing& each : all) {
    if (each.plan->exchange > 1) emit_exchange_read(each);
  }
  if (cluster) {
    for (Crossing& each : all) {
      if (exchange && each.plan->cluster > 1) emit_block_result(each);
    }
    out_.line("cluster_barrier();");
    for (const Crossing& each : all) {
      if (each.plan->cluster > 1) emit_cluster_read(each);
    }
    if (is_last_crossing(plans)) {
      out_.line("cluster_arrive();  // the others may leave: their shared memory has been read");
      scope_.leaves_cluster = true;
    }
  }
  if (taking_turns) out_.line("turn ^= 1;");
}

}  // namespace stitch::codegen
