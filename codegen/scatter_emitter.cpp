#include "codegen/scatter_emitter.h"

#include "codegen/spelling.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {

using kernel::AxisSet;
using kernel::ItemId;
using kernel::Level;

ScatterEmitter::ScatterEmitter(GroupScope& scope, int anchor)
    : scope_(scope),
      group_(scope.group),
      out_(scope.out),
      axes_(scope),
      items_(scope),
      loops_(scope),
      loads_(scope),
      anchor_(scope.anchor(anchor)),
      scatter_(scope.graph.node(anchor_.node).as<graph::ScatterAttributes>()),
      dtype_(scope.graph.node(anchor_.node).type().dtype),
      type_(compute_type(graph::info(dtype_).accumulator)),
      operand_(anchor_.items[0]),
      hits_(anchor_.items[1]),
      update_(anchor_.items[2]),
      batch_(axes_.count() - 1),
      updates_(group_.extents[batch_]),
      result_axes_(anchor_.axes - anchor_.reduced),
      by_warp_(tests_by_warp()) {}

bool ScatterEmitter::tests_by_warp() const {
  std::int64_t lanes = 1, hit_lanes = 1;
  for (int a = 0; a < batch_; ++a) {
    lanes *= group_.extent(a, Level::lane);
    if (scope_.program.at(hits_).axes.contains(a))
      hit_lanes *= group_.extent(a, Level::lane) * group_.extent(a, Level::reg);
  }
  return lanes == 32 && hit_lanes == 1;
}

/// Loops over the elements of the result that a thread has.
void ScatterEmitter::open_elements() {
  loops_.open_register_loops(result_axes_);
  if (const std::string guard = axes_.range_guard(result_axes_, false); !guard.empty()) out_.open("if ({})", guard);
}

void ScatterEmitter::emit() {
  out_.blank();
  out_.line("// {} of {} updates per element, {}",
            scatter_.combiner == graph::ReduceKind::replace ? "the last" : graph::to_string(scatter_.combiner),
            updates_, by_warp_ ? "tested 32 at a time by the warp" : "tested one after the other");
  emit_totals();
  if (by_warp_) {
    emit_updates_by_warp();
  } else {
    emit_updates_by_thread();
  }
  emit_results();
}

/// What the elements are before any update.
void ScatterEmitter::emit_totals() {
  out_.line("{} total{};", type_, axes_.dims(result_axes_));
  const int depth = out_.depth();
  open_elements();
  loads_.emit_uniform(kernel::needed_by(scope_.program, operand_));
  out_.line("{} = static_cast<{}>({});", total(), type_, items_.value(operand_, false));
  out_.close(out_.depth() - depth);
}

/// Combines one update into the elements that it hits; by warp it is known to hit.
void ScatterEmitter::emit_update() {
  const int depth = out_.depth();
  open_elements();
  std::vector<bool> wanted = kernel::needed_by(scope_.program, update_);
  if (!by_warp_) {
    const std::vector<bool> for_hits = kernel::needed_by(scope_.program, hits_);
    loads_.emit_uniform(for_hits);
    out_.open("if ({})", items_.value(hits_, false));
    for (ItemId id = 0; id < std::ssize(wanted); ++id) wanted[id] = wanted[id] && !for_hits[id];
  }
  loads_.emit_uniform(wanted);
  const std::string term = fmt::format("static_cast<{}>({})", type_, items_.value(update_, false));
  if (scatter_.combiner == graph::ReduceKind::replace) {
    out_.line("{} = {};", total(), term);
  } else {
    out_.line("{0} = {1}::combine({0}, {2});", total(), combiner(scatter_.combiner), term);
  }
  out_.close(out_.depth() - depth);
}

void ScatterEmitter::emit_updates_by_warp() {
  AxisSet lane_axes;
  for (int a = 0; a < axes_.count(); ++a) {
    if (group_.extent(a, Level::lane) > 1) lane_axes.insert(a);
  }
  const std::string first = "first + static_cast<int>(threadIdx.x % 32)";
  out_.open("for (int first = 0; first < {}; first += 32)", updates_);
  out_.line("bool hit = false;");
  out_.open("if ({})",
            both(fmt::format("{} < {}", first, updates_), axes_.range_guard(result_axes_ - lane_axes, false)));
  out_.line("const int {} = {};", axes_.name(batch_), first);
  loads_.emit_uniform(kernel::needed_by(scope_.program, hits_));
  out_.line("hit = {};", items_.value(hits_, false));
  out_.close();
  out_.open("for (unsigned hits = __ballot_sync(0xffffffffu, hit); hits != 0; hits &= hits - 1)");
  out_.line("const int {} = first + __ffs(static_cast<int>(hits)) - 1;", axes_.name(batch_));
  emit_update();
  out_.close(2);
}

void ScatterEmitter::emit_updates_by_thread() {
  out_.open("for (int {0} = 0; {0} < {1}; ++{0})", axes_.name(batch_), updates_);
  emit_update();
  out_.close();
}

void ScatterEmitter::emit_results() {
  const int depth = out_.depth();
  open_elements();
  out_.line("{}[{}] = narrow<{}>(static_cast<{}>({}));", scope_.pointers.name(anchor_.buffers[0]),
            items_.address(anchor_.addresses[0], false), storage_type(dtype_), compute_type(dtype_), total());
  out_.close(out_.depth() - depth);
}

}  // namespace stitch::codegen
