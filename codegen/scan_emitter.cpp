#include "codegen/scan_emitter.h"

#include "codegen/spelling.h"
#include "graph/reduce_kind.h"

namespace stitch::codegen {

using kernel::ItemId;
using kernel::Level;

ScanEmitter::ScanEmitter(GroupScope& scope, int anchor)
    : scope_(scope),
      group_(scope.group),
      out_(scope.out),
      axes_(scope),
      items_(scope),
      loads_(scope),
      anchor_(scope.anchor(anchor)),
      scan_(scope.graph.node(anchor_.node).as<graph::ScanAttributes>()),
      dtype_(scope.graph.node(anchor_.node).type().dtype),
      type_(compute_type(graph::info(dtype_).accumulator)),
      op_(combiner(scan_.kind)) {
  for (const int a : anchor_.reduced) {
    if (group_.extent(a, Level::lane) == 32) lanes_axis_ = a;
  }
}

void ScanEmitter::emit() {
  out_.blank();
  out_.line("// {} along the axis, {}", scan_.kind == graph::ReduceKind::sum ? "running sum" : "running combination",
            by_warp() ? "32 elements of a warp at a time" : "a line per thread");
  const int depth = out_.depth();
  const std::string guard = axes_.range_guard(kernel::AxisSet::first(axes_.count()) - anchor_.reduced, false);
  if (!guard.empty()) out_.open("if ({})", guard);
  // The type's own, not its accumulator's: an exclusive scan stores it.
  out_.line("{} total = {};", type_, literal(dtype_, graph::identity_bits(scan_.kind, dtype_)));
  open_walk();
  for (const std::vector<ItemId>* list : {&group_.hoisted, &group_.sweeps[0].uniform, &group_.sweeps[0].body}) {
    for (const ItemId id : *list) loads_.emit_uniform(id);
  }
  const std::string element = fmt::format("static_cast<{}>({})", type_, items_.value(anchor_.items[0], false));
  if (by_warp()) {
    emit_by_warp(element);
  } else {
    emit_by_thread(element);
  }
  out_.close(out_.depth() - depth);
}

void ScanEmitter::open_walk() {
  for (const int a : anchor_.reduced) {
    if (a == lanes_axis_) {
      open_lanes(a);
    } else {
      open_line(a);
    }
  }
}

void ScanEmitter::open_lanes(int axis) {
  const std::int64_t extent = group_.extents[axis];
  out_.open("for (int first = 0; first < {}; first += 32)", extent);
  out_.line("const int step = first + {};", axes_.digit(axis, Level::lane));
  out_.line("const bool inside = step < {};", extent);
  out_.line("const int {} = {};", axes_.name(axis),
            scan_.reverse ? fmt::format("inside ? {} - step : 0", extent - 1) : "inside ? step : 0");
}

void ScanEmitter::open_line(int axis) {
  const std::int64_t extent = group_.extents[axis];
  out_.open("for (int {0}_step = 0; {0}_step < {1}; ++{0}_step)", axes_.name(axis), extent);
  const std::string step = axes_.name(axis) + "_step";
  out_.line("const int {} = {};", axes_.name(axis), scan_.reverse ? fmt::format("{} - {}", extent - 1, step) : step);
}

std::string ScanEmitter::store_of(const std::string& value) const {
  return fmt::format("{}[{}] = narrow<{}>(static_cast<{}>({}));", scope_.pointers.name(anchor_.buffers[0]),
                     items_.address(anchor_.addresses[0], false), storage_type(dtype_), compute_type(dtype_), value);
}

void ScanEmitter::emit_by_warp(const std::string& element) {
  const std::string lane = axes_.digit(lanes_axis_, Level::lane);
  out_.line("{} running = inside ? {} : {};", type_, element,
            literal(dtype_, graph::identity_bits(scan_.kind, dtype_)));
  out_.line("#pragma unroll");
  out_.open("for (int distance = 1; distance < 32; distance *= 2)");
  out_.line("const {} before = __shfl_up_sync(0xffffffffu, running, distance);", type_);
  out_.line("if ({} >= distance) running = {}::combine(before, running);", lane, op_);
  out_.close();
  out_.line("running = {}::combine(total, running);", op_);
  if (scan_.exclusive) {
    out_.line("const {} before = __shfl_up_sync(0xffffffffu, running, 1);", type_);
    out_.line("if (inside) {}", store_of(fmt::format("{} == 0 ? total : before", lane)));
  } else {
    out_.line("if (inside) {}", store_of("running"));
  }
  out_.line("total = __shfl_sync(0xffffffffu, running, 31);");
}

void ScanEmitter::emit_by_thread(const std::string& element) {
  if (scan_.exclusive) out_.line("{}", store_of("total"));
  out_.line("total = {}::combine(total, {});", op_, element);
  if (!scan_.exclusive) out_.line("{}", store_of("total"));
}

}  // namespace stitch::codegen
