#include "codegen/scatter_emitter.h"

#include "codegen/spelling.h"
#include "kernel/index/sorted_indices.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {

using kernel::AxisSet;
using kernel::ItemId;
using kernel::Level;

namespace {

/// Updates of a run whose loads are under way together.
constexpr int updates_in_flight = 4;

}  // namespace

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
      precedes_(anchor_.items.size() > 3 ? anchor_.items[3] : -1),
      batch_(axes_.count() - 1),
      updates_(group_.extents[batch_]),
      line_(precedes_ < 0 ? 0 : kernel::sorted_line(scope.graph, anchor_.node)),
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

std::string ScatterEmitter::way() const {
  if (line_ == 0) return by_warp_ ? "tested 32 at a time by the warp" : "tested one after the other";
  return fmt::format("found in sorted lines of {}, {}", line_,
                     by_warp_ ? "32 of them at a time by the warp" : "one after the other");
}

AxisSet ScatterEmitter::lane_axes() const {
  AxisSet axes;
  for (int a = 0; a < axes_.count(); ++a) {
    if (group_.extent(a, Level::lane) > 1) axes.insert(a);
  }
  return axes;
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
            updates_, way());
  emit_totals();
  emit_updates();
  emit_results();
}

void ScatterEmitter::emit_updates() {
  if (line_ > 0) return by_warp_ ? emit_runs_by_warp() : emit_runs_by_thread();
  by_warp_ ? emit_updates_by_warp() : emit_updates_by_thread();
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

/// Combines the update at hand into the element at hand, for which these items are still to be computed.
void ScatterEmitter::emit_combination(const std::vector<bool>& wanted) {
  loads_.emit_uniform(wanted);
  const std::string term = fmt::format("static_cast<{}>({})", type_, items_.value(update_, false));
  if (scatter_.combiner == graph::ReduceKind::replace) {
    out_.line("{} = {};", total(), term);
  } else {
    out_.line("{0} = {1}::combine({0}, {2});", total(), combiner(scatter_.combiner), term);
  }
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
  emit_combination(wanted);
  out_.close(out_.depth() - depth);
}

void ScatterEmitter::emit_updates_by_warp() {
  const std::string first = "first + static_cast<int>(threadIdx.x % 32)";
  out_.open("for (int first = 0; first < {}; first += 32)", updates_);
  out_.line("bool hit = false;");
  out_.open("if ({})",
            both(fmt::format("{} < {}", first, updates_), axes_.range_guard(result_axes_ - lane_axes(), false)));
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

/// Moves [begin, end), a sorted line, to those of its updates that hit the element at hand.
void ScatterEmitter::emit_search() {
  const std::string at = axes_.name(batch_);
  out_.open("for (int behind = end; begin < behind;)");
  out_.line("const int {} = begin + (behind - begin) / 2;", at);
  loads_.emit_uniform(kernel::needed_by(scope_.program, precedes_));
  out_.open("if ({})", items_.value(precedes_, false));
  out_.line("begin = {} + 1;", at);
  out_.close();
  out_.open("else");
  out_.line("behind = {};", at);
  out_.close(2);
  // Few lines have many of them. To know their number first lets several be on their way at a time.
  out_.open("for (int {0} = begin;; ++{0})", at);
  out_.line("bool hit = false;");
  out_.open("if ({} < end)", at);
  loads_.emit_uniform(kernel::needed_by(scope_.program, hits_));
  out_.line("hit = {};", items_.value(hits_, false));
  out_.close();
  out_.open("if (!hit)");
  out_.line("end = {};", at);
  out_.line("break;");
  out_.close(2);
}

/// Every lane searches a line; what they find is combined in the lines' order.
void ScatterEmitter::emit_runs_by_warp() {
  const std::int64_t lines = updates_ / line_;
  out_.open("for (int first = 0; first < {}; first += 32)", lines);
  out_.line("const int searched = first + static_cast<int>(threadIdx.x % 32);");
  out_.line("int begin = searched * {}, end = begin;", line_);
  out_.open("if ({})", both(fmt::format("searched < {}", lines), axes_.range_guard(result_axes_ - lane_axes(), false)));
  out_.line("end += {};", line_);
  emit_search();
  out_.close();
  out_.open("for (unsigned found = __ballot_sync(0xffffffffu, begin < end); found != 0; found &= found - 1)");
  out_.line("const int lane = __ffs(static_cast<int>(found)) - 1;");
  out_.line("const int last = __shfl_sync(0xffffffffu, end, lane);");
  out_.line("#pragma unroll {}", updates_in_flight);
  out_.open("for (int {0} = __shfl_sync(0xffffffffu, begin, lane); {0} < last; ++{0})", axes_.name(batch_));
  emit_update();
  out_.close(3);
}

void ScatterEmitter::emit_runs_by_thread() {
  const int depth = out_.depth();
  open_elements();
  out_.open("for (int first = 0; first < {}; first += {})", updates_, line_);
  out_.line("int begin = first, end = first + {};", line_);
  emit_search();
  out_.line("#pragma unroll {}", updates_in_flight);
  out_.open("for (int {0} = begin; {0} < end; ++{0})", axes_.name(batch_));
  emit_combination(kernel::needed_by(scope_.program, update_));
  out_.close(out_.depth() - depth);
}

void ScatterEmitter::emit_results() {
  const int depth = out_.depth();
  open_elements();
  out_.line("{}[{}] = narrow<{}>(static_cast<{}>({}));", scope_.pointers.name(anchor_.buffers[0]),
            items_.address(anchor_.addresses[0], false), storage_type(dtype_), compute_type(dtype_), total());
  out_.close(out_.depth() - depth);
}

}  // namespace stitch::codegen
