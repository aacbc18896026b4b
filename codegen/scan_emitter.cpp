#include "codegen/scan_emitter.h"

#include <algorithm>

#include "codegen/spelling.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {

using kernel::ItemId;
using kernel::Level;
using Names = ScanTuple::Names;

ScanEmitter::ScanEmitter(GroupScope& scope, int anchor)
    : scope_(scope),
      number_(anchor),
      group_(scope.group),
      out_(scope.out),
      axes_(scope),
      items_(scope),
      loads_(scope),
      anchor_(scope.anchor(anchor)),
      node_(scope.graph.node(anchor_.node)),
      tuple_(scope, anchor_),
      in_lines_(axes_.range_guard(kernel::AxisSet::first(axes_.count()) - anchor_.reduced, false)) {
  for (const int a : anchor_.reduced) axis_ = a;
  if (node_.op == graph::Op::scan) {
    reverse_ = node_.as<graph::ScanAttributes>().reverse;
    exclusive_ = node_.as<graph::ScanAttributes>().exclusive;
  } else {
    reverse_ = node_.as<graph::AssociativeScanAttributes>().reverse;
  }
}

std::int64_t ScanEmitter::run() const {
  if (axis_ < 0) return 1;
  return in_vectors() ? axes_.vector_extent() : group_.extent(axis_, Level::reg);
}

std::string ScanEmitter::inside(const std::string& step) const {
  return both(in_lines_, fmt::format("{} < {}", step, extent()));
}

std::string ScanEmitter::title() const {
  const bool sum = node_.op == graph::Op::scan && node_.as<graph::ScanAttributes>().kind == graph::ReduceKind::sum;
  std::string text = fmt::format("// running {} along the axis", sum ? "sum" : "combination");
  if (run() > 1) text += fmt::format(", {} a thread", run());
  if (by_lanes()) text += ", 32 lanes";
  if (warps() > 1) text += fmt::format(", {} warps", warps());
  return text;
}

void ScanEmitter::emit() {
  out_.blank();
  out_.line("{}", title());
  tuple_.emit_combiner();
  tuple_.declare({"total", "{}"});
  out_.line("bool begun = false;");
  if (warps() > 1) {
    for (int c = 0; c < tuple_.components(); ++c)
      out_.line("__shared__ {} of_warp{}[2][{}][{}];", tuple_.type(c), c, warps(), by_lanes() ? 1 : 32);
  }
  const int depth = out_.depth();
  open_walk();
  emit_turn();
  out_.close(out_.depth() - depth);
  // The next tile writes where the slowest warp may still read.
  if (warps() > 1) out_.line("__syncthreads();");
}

/// The outer axes line by line; the innermost in turns of what all threads of a line take at once.
void ScanEmitter::open_walk() {
  for (const int a : anchor_.reduced) {
    if (a == axis_) continue;
    const std::int64_t lines = group_.extents[a];
    out_.open("for (int {0}_step = 0; {0}_step < {1}; ++{0}_step)", axes_.name(a), lines);
    const std::string step = axes_.name(a) + "_step";
    out_.line("const int {} = {};", axes_.name(a), reverse_ ? fmt::format("{} - {}", lines - 1, step) : step);
  }
  const std::int64_t each = run() * threads();
  const std::string digit = threads() > 1 ? axes_.thread_digit(axis_) : "";
  out_.open("for (int first = 0; first < {}; first += {})", extent(), each);
  const std::string own = digit.empty() ? "first"
                          : run() > 1   ? fmt::format("first + {} * {}", digit, run())
                                        : fmt::format("first + {}", digit);
  out_.line("const int step = {};", own);
  if (warps() > 1) out_.line("const int turn = first / {} % 2;", each);
}

void ScanEmitter::emit_turn() {
  tuple_.declare({"run", fmt::format("[{}]", run())});
  emit_loads();
  const bool alone = !by_lanes() && warps() == 1;
  if (alone) tuple_.combine({"total", ""}, {"run", "[0]"}, "begun");
  if (exclusive_ && alone) out_.line("const {} before0 = begun ? total0 : {};", tuple_.type(0), tuple_.identity());
  scan_run();
  const Names last{"run", fmt::format("[{}]", run() - 1)};
  if (alone) {
    tuple_.assign({"total", ""}, last);
    out_.line("begun = true;");
  } else {
    if (by_lanes()) scan_lanes();
    tuple_.declare({"before", ""});
    tuple_.assign({"before", ""}, {"total", ""});
    out_.line("bool any = begun;");
    join_warps();
    apply();
  }
  emit_stores();
}

/// Names the axis' element `offset` steps on; beyond the end the first one, which is there to be read.
void ScanEmitter::emit_places(const std::string& offset) {
  const std::string step = offset.empty() ? "step" : fmt::format("step + {}", offset);
  out_.line("const bool inside = {};", inside(step));
  if (axis_ < 0) return;
  const std::string back = fmt::format("{} - {}", extent() - 1, offset.empty() ? "step" : fmt::format("({})", step));
  out_.line("const int {} = {} < {} ? {} : 0;", axes_.name(axis_), step, extent(), reverse_ ? back : step);
}

void ScanEmitter::emit_loads() { in_vectors() ? load_vectors() : load_elements(); }

/// Opens a block for each element of a thread's run, where `r` is its number.
void ScanEmitter::open_run() {
  if (run() > 1) {
    out_.line("#pragma unroll");
    out_.open("for (int r = 0; r < {}; ++r)", run());
  } else {
    out_.open();
  }
  emit_places(run() > 1 ? "r" : "");
}

void ScanEmitter::load_elements() {
  const int depth = out_.depth();
  open_run();
  for (const std::vector<ItemId>* list : {&group_.hoisted, &group_.sweeps[0].uniform, &group_.sweeps[0].body}) {
    for (const ItemId id : *list) loads_.emit_uniform(id);
  }
  for (int c = 0; c < tuple_.components(); ++c)
    out_.line("run{}[{}] = static_cast<{}>({});", c, run() > 1 ? "r" : "0", tuple_.type(c),
              items_.value(anchor_.items[c], false));
  out_.close(out_.depth() - depth);
}

/// A turn's vectors are loaded whole, and are there as a whole: the axis has no part of one.
void ScanEmitter::load_vectors() {
  const std::string name = axes_.name(axis_);
  out_.line("const bool inside = {};", inside("step"));
  out_.line("const int {} = step < {} ? {} : 0;", name, extent(),
            reverse_ ? fmt::format("{} - step", extent() - run()) : "step");
  std::vector<ItemId> vectors, elements;
  for (const std::vector<ItemId>* list : {&group_.hoisted, &group_.sweeps[0].uniform, &group_.sweeps[0].body}) {
    for (const ItemId id : *list) {
      if (kernel::is_inline(scope_.program, id)) continue;
      if (!scope_.program.at(id).axes.contains(axis_)) {
        loads_.emit_uniform(id);
      } else if (std::ranges::find(group_.sweeps[0].early, id) != group_.sweeps[0].early.end()) {
        vectors.push_back(id);
      } else {
        elements.push_back(id);
      }
    }
  }
  for (const ItemId id : vectors) loads_.declare_for_sweep(id);
  out_.open("if (inside)");
  for (const ItemId id : vectors) loads_.emit_run(id);
  out_.close();
  out_.line("#pragma unroll");
  out_.open("for (int v = 0; v < {}; ++v)", run());
  for (const ItemId id : elements)
    out_.line("const {} {} = {};", compute_type(scope_.program.at(id).dtype), items_.name(id),
              items_.expression_of(id, true));
  for (int c = 0; c < tuple_.components(); ++c)
    out_.line("run{}[{}] = static_cast<{}>({});", c, reverse_ ? fmt::format("{} - v", run() - 1) : "v", tuple_.type(c),
              items_.value(anchor_.items[c], true));
  out_.close();
}

void ScanEmitter::scan_run() {
  if (run() == 1) return;
  out_.line("#pragma unroll");
  out_.open("for (int r = 1; r < {}; ++r)", run());
  tuple_.combine({"run", "[r - 1]"}, {"run", "[r]"});
  out_.close();
}

/// Of the runs' totals: `lanes` of all lanes up to this one, `earlier` of those before it.
void ScanEmitter::scan_lanes() {
  const std::string lane = axes_.digit(axis_, Level::lane);
  tuple_.declare({"lanes", ""});
  tuple_.assign({"lanes", ""}, {"run", fmt::format("[{}]", run() - 1)});
  out_.line("#pragma unroll");
  out_.open("for (int distance = 1; distance < 32; distance *= 2)");
  tuple_.shuffle_up({"lower", ""}, {"lanes", ""}, "distance");
  tuple_.combine({"lower", ""}, {"lanes", ""}, fmt::format("{} >= distance", lane));
  out_.close();
  for (int c = 0; c < tuple_.components(); ++c)
    out_.line("{} earlier{} = __shfl_up_sync(0xffffffffu, lanes{}, 1);", tuple_.type(c), c, c);
}

/// Carries the total on over all warps of the line; `before` is what is combined before this thread's warp.
void ScanEmitter::join_warps() {
  if (warps() == 1) {
    tuple_.broadcast({"part", ""}, {"lanes", ""}, 31);
    tuple_.combine({"total", ""}, {"part", ""}, "begun");
    tuple_.assign({"total", ""}, {"part", ""});
    out_.line("begun = true;");
    return;
  }
  const std::string warp = axes_.digit(axis_, Level::warp), line = by_lanes() ? "0" : "threadIdx.x % 32";
  if (by_lanes()) out_.open("if ({} == 31)", axes_.digit(axis_, Level::lane));
  for (int c = 0; c < tuple_.components(); ++c)
    out_.line("of_warp{}[turn][{}][{}] = {};", c, warp, line,
              by_lanes() ? fmt::format("lanes{}", c) : fmt::format("run{}[{}]", c, run() - 1));
  if (by_lanes()) out_.close();
  out_.line("__syncthreads();");
  out_.line("#pragma unroll");
  out_.open("for (int w = 0; w < {}; ++w)", warps());
  out_.open("if (w == {})", warp);
  tuple_.assign({"before", ""}, {"total", ""});
  out_.line("any = begun;");
  out_.close();
  for (int c = 0; c < tuple_.components(); ++c)
    out_.line("{} part{} = of_warp{}[turn][w][{}];", tuple_.type(c), c, c, line);
  tuple_.combine({"total", ""}, {"part", ""}, "begun");
  tuple_.assign({"total", ""}, {"part", ""});
  out_.line("begun = true;");
  out_.close();
}

/// Puts what is combined before the thread's run in front of its elements.
void ScanEmitter::apply() {
  if (by_lanes()) {
    out_.open("if ({} > 0)", axes_.digit(axis_, Level::lane));
    tuple_.combine({"before", ""}, {"earlier", ""}, "any");
    tuple_.assign({"before", ""}, {"earlier", ""});
    out_.line("any = true;");
    out_.close();
  }
  out_.open("if (any)");
  out_.line("#pragma unroll");
  out_.open("for (int r = 0; r < {}; ++r)", run());
  tuple_.combine({"before", ""}, {"run", "[r]"});
  out_.close(2);
  if (exclusive_) out_.line("if (!any) before0 = {};", tuple_.identity());
}

std::string ScanEmitter::stored(int component, const std::string& at) const {
  const graph::DType dtype = node_.type(component).dtype;
  std::string value = fmt::format("run{}[{}]", component, at);
  if (exclusive_) {
    // The element before: of the first that of all before the run.
    const bool counted = !std::ranges::all_of(at, [](unsigned char c) { return std::isdigit(c) != 0; });
    value = counted ? fmt::format("({0} == 0 ? before0 : run0[{0} == 0 ? 0 : {0} - 1])", at) : "before0";
  }
  return fmt::format("narrow<{}>(static_cast<{}>({}))", storage_type(dtype), compute_type(dtype), value);
}

void ScanEmitter::emit_stores() { in_vectors() ? store_vectors() : store_elements(); }

void ScanEmitter::store_elements() {
  const int depth = out_.depth();
  open_run();
  out_.open("if (inside)");
  for (std::size_t b = 0; b < anchor_.buffers.size(); ++b)
    out_.line("{}[{}] = {};", scope_.pointers.name(anchor_.buffers[b]), items_.address(anchor_.addresses[b], false),
              stored(anchor_.results[b], run() > 1 ? "r" : "0"));
  out_.close(out_.depth() - depth);
}

void ScanEmitter::store_vectors() {
  const std::string at = reverse_ ? fmt::format("({} - v)", run() - 1) : "v";
  out_.open("if (inside)");
  for (std::size_t b = 0; b < anchor_.buffers.size(); ++b) {
    const int result = anchor_.results[b];
    const int width = group_.stores[number_][b].width;
    const std::string& pointer = scope_.pointers.name(anchor_.buffers[b]);
    if (width == 1) {  // not side by side, if there are several
      out_.line("#pragma unroll");
      out_.line("for (int v = 0; v < {}; ++v) {}[{}] = {};", run(), pointer, items_.address(anchor_.addresses[b], true),
                stored(result, at));
      continue;
    }
    const std::string to = fmt::format("{} + {}", pointer, items_.address(anchor_.addresses[b], false));
    out_.line("{} result{}[{}];", storage_type(node_.type(result).dtype), result, run());
    out_.line("#pragma unroll");
    out_.line("for (int v = 0; v < {}; ++v) result{}[v] = {};", run(), result, stored(result, at));
    for (std::int64_t v = 0; v < run(); v += width)
      out_.line("store<{}>({}{}, result{}{});", width, to, offset_text(v), result, offset_text(v));
  }
  out_.close();
}

}  // namespace stitch::codegen
