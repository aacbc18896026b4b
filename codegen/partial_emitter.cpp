#include "codegen/partial_emitter.h"

#include <algorithm>

#include "codegen/spelling.h"

namespace stitch::codegen {

using kernel::Anchor;
using kernel::AxisSet;
using kernel::Level;
using kernel::ReductionPlan;

void PartialEmitter::begin() {
  for (int i = 0; i < std::ssize(group_.reductions); ++i) {
    const int anchor = group_.reductions[i].anchor;
    if (scope_.anchor(anchor).kind != Anchor::Kind::partial) continue;
    plans_.push_back(i);
    reductions_.declare(anchor);
  }
}

void PartialEmitter::finish() {
  if (plans_.empty()) return;
  out_.blank();
  out_.line("// partial results of this tile");
  reductions_.finish(plans_);
  for (const int p : plans_) emit(group_.reductions[p]);
}

std::vector<std::string> PartialEmitter::leaders(const Anchor& it) const {
  std::vector<std::string> leaders;
  for (const int a : AxisSet::first(axes_.count()) - (it.axes - it.reduced)) {
    for (const Level level : {Level::lane, Level::warp, Level::cluster, Level::grid}) {
      // Of a reduced axis every tile leaves a set of its own.
      const bool leaves_sets = level == Level::grid && it.reduced.contains(a);
      if (group_.extent(a, level) > 1 && !leaves_sets) leaders.push_back(axes_.is_first(a, level));
    }
  }
  if (group_.threads < scope_.schedule.threads) leaders.emplace_back("active");
  return leaders;
}

std::string PartialEmitter::set_number(const Anchor& it) const {
  std::string number;
  for (const int a : it.reduced) {
    const std::int64_t tiles = group_.extent(a, Level::grid);
    if (tiles == 1) continue;
    const std::string digit = axes_.digit(a, Level::grid);
    number = number.empty() ? digit : fmt::format("({} * {} + {})", number, tiles, digit);
  }
  return number;
}

std::string PartialEmitter::place(const ReductionPlan& plan, bool along) const {
  const Anchor& it = scope_.anchor(plan.anchor);
  const std::string place = items_.address(it.addresses.back(), along);
  const std::string number = set_number(it);
  if (number.empty()) return place;
  const std::int64_t elements = std::max<std::int64_t>(scope_.graph.node(it.node).results[0].elements(), 1);
  const bool wide = plan.partials * elements >= std::int64_t{1} << 31;
  return fmt::format("{} * {} + {}", wide ? fmt::format("static_cast<s64>({})", number) : number, elements, place);
}

/// How many of a vector's partial results one access stores: they lie side by side in registers as in memory, but the
/// lanes' lie as far apart as their vectors, a sector each if they were stored one by one.
int PartialEmitter::width(const ReductionPlan& plan) const {
  const int v = group_.mapping.vector_axis;
  if (items_.is_arg_reduce(plan.anchor) || items_.is_max_exp_sum(plan.anchor) || v < 0 ||
      axes_.vector_tail_by_element())
    return 1;
  const Anchor& it = scope_.anchor(plan.anchor);
  if (storage_type(it.dtype) != reductions_.accumulator_type(plan.anchor)) return 1;
  const std::int64_t elements = scope_.graph.node(it.node).results[0].elements();
  for (int width = 16 / graph::byte_size(it.dtype); width > 1; width /= 2) {
    const kernel::IndexPool::Run run =
        scope_.program.pool().run(it.addresses.back(), scope_.program.axes().variables[v], width);
    const bool whole = axes_.vector_extent() % width == 0 && elements % width == 0;
    if (whole && run.regular && run.step == 1 && run.aligned) return width;
  }
  return 1;
}

/// The kept axes' values, inside loops over what the thread keeps.
void PartialEmitter::open_kept_loops(AxisSet kept, int width) {
  for (const int a : kept) {
    if (group_.extent(a, Level::reg) == 1) continue;
    out_.line("#pragma unroll");
    out_.open("for (int {0}_r = 0; {0}_r < {1}; ++{0}_r)", axes_.name(a), group_.extent(a, Level::reg));
    out_.line("const int {0} = {0}0 + {0}_r * {1};", axes_.name(a), group_.mapping.axes[a].step(Level::reg));
  }
  const bool along = axes_.has_vector(kept);
  if (along) {
    out_.line("#pragma unroll");
    out_.open("for (int v = 0; v < {}; v += {})", axes_.vector_extent(), width);
  }
  std::string guard;
  for (const int a : kept) {
    if (axes_.has_tail(a)) guard = both(guard, fmt::format("{} < {}", axes_.value(a, along), axes_.extent(a)));
  }
  if (!guard.empty()) out_.open("if ({})", guard);
}

void PartialEmitter::emit(const ReductionPlan& plan) {
  const AxisSet kept = reductions_.kept_axes(plan.anchor);
  const std::vector<std::string> conditions = leaders(scope_.anchor(plan.anchor));
  const int depth = out_.depth();
  if (!conditions.empty()) out_.open("if ({})", joined(conditions, " && "));
  const int at_once = axes_.has_vector(kept) ? width(plan) : 1;
  open_kept_loops(kept, at_once);
  emit_store(plan, at_once);
  out_.close(out_.depth() - depth);
}

void PartialEmitter::emit_store(const ReductionPlan& plan, int width) {
  const Anchor& it = scope_.anchor(plan.anchor);
  const graph::Node& node = scope_.graph.node(it.node);
  const bool along = axes_.has_vector(reductions_.kept_axes(plan.anchor));
  const std::string where = place(plan, along), own = reductions_.accumulator(plan.anchor, along);
  const std::string& to = scope_.pointers.name(it.buffers[0]);
  if (items_.is_arg_reduce(plan.anchor)) {
    out_.line("{}[{}] = {}.value;", to, where, own);
    out_.line("{}[{}] = static_cast<{}>({}.index);", scope_.pointers.name(it.buffers[1]), where,
              compute_type(node.results[1].dtype), own);
  } else if (items_.is_max_exp_sum(plan.anchor)) {
    out_.line("{}[{}] = {}.maximum;", to, where, own);
    out_.line("{}[{}] = {}.sum;", scope_.pointers.name(it.buffers[1]), where, own);
  } else if (width > 1) {
    out_.line("store<{}>({} + {}, &{});", width, to, where, own);
  } else {
    // Accumulators are stored as they are, but a truth value as a byte.
    const bool is_pred = node.type().dtype == graph::DType::pred;
    out_.line("{}[{}] = {};", to, where, is_pred ? fmt::format("narrow<pred>({})", own) : own);
  }
}

}  // namespace stitch::codegen
