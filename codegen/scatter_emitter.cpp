#include "codegen/scatter_emitter.h"

#include "codegen/spelling.h"
#include "kernel/index/sorted_indices.h"
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
      key_(anchor_.items.size() > 3 ? anchor_.items[3] : -1),
      place_(anchor_.items.size() > 3 ? anchor_.items[4] : -1),
      batch_(axes_.count() - 1),
      updates_(group_.extents[batch_]),
      line_(key_ < 0 ? 0 : kernel::sorted_line(scope.graph, anchor_.node)),
      result_axes_(anchor_.axes - anchor_.reduced),
      placed_axes_(scope.program.at(hits_).axes & result_axes_),
      list_(kernel::update_list(group_.structure, group_.mapping, scope.schedule.threads)),
      whole_warps_(lanes_of(anchor_.axes) == 32),
      by_warp_(tests_by_warp()) {}

std::int64_t ScatterEmitter::lanes_of(AxisSet axes) const {
  std::int64_t lanes = 1;
  for (const int a : axes) lanes *= group_.extent(a, Level::lane);
  return lanes;
}

std::int64_t ScatterEmitter::registers_of(AxisSet axes) const {
  std::int64_t registers = 1;
  for (const int a : axes) registers *= group_.extent(a, Level::reg);
  return registers;
}

bool ScatterEmitter::tests_by_warp() const {
  return whole_warps_ && lanes_of(placed_axes_) == 1 && (line_ > 0 || registers_of(placed_axes_) == 1);
}

std::string ScatterEmitter::way() const {
  if (list_.parts > 0) return fmt::format("listed by the block, {} at a time", list_.chunk());
  if (line_ == 0) return by_warp_ ? "tested 32 at a time by the warp" : "tested one after the other";
  return fmt::format("found in sorted lines of {}, {}", line_,
                     by_warp_       ? "by the lanes of a warp"
                     : whole_warps_ ? "each by a warp"
                                    : "one after the other");
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
  if (line_ > 0) return emit_runs();
  if (list_.parts > 0) return emit_updates_of_block();
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
  combine_with(fmt::format("static_cast<{}>({})", type_, items_.value(update_, false)));
}

void ScatterEmitter::combine_with(const std::string& term) {
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

/// Combines what is found in sorted lines. All searches of a line begin with the same keys.
void ScatterEmitter::emit_runs() {
  scope_.keeps_in_l1 = true;
  by_warp_ ? emit_runs_by_warp() : whole_warps_ ? emit_runs_by_lane() : emit_runs_by_thread();
  scope_.keeps_in_l1 = false;
}

std::string ScatterEmitter::place() const { return items_.index(scope_.program.at(place_).index, false); }

/// Moves `low` to the first update of [low, high), which are sorted, that does not go before `place`.
void ScatterEmitter::emit_bound(const std::string& low, const std::string& high, const std::string& place) {
  out_.open("for (int behind = {}; {} < behind;)", high, low);
  out_.line("const int {0} = {1} + (behind - {1}) / 2;", axes_.name(batch_), low);
  loads_.emit_uniform(kernel::needed_by(scope_.program, key_));
  out_.line("const bool before = {} < {};", items_.value(key_, false), place);
  out_.line("{0} = before ? {1} + 1 : {0};", low, axes_.name(batch_));
  out_.line("behind = before ? behind : {};", axes_.name(batch_));
  out_.close();
}

/// The first and the last of the places that the thread, and with it its warp, has elements of.
void ScatterEmitter::emit_places_of_warp() {
  out_.line("int lowest = 0x7fffffff, highest = -1;");
  const int depth = out_.depth();
  if (by_warp_) loops_.open_register_loops(placed_axes_);
  // A tile's tail has none: what goes nowhere is not among what is found.
  const std::int64_t last = scope_.program.pool().high(scope_.program.at(place_).index);
  out_.line("lowest = min(lowest, {});", place());
  out_.line("highest = max(highest, min({}, {}));", place(), last);
  out_.close(out_.depth() - depth);
  if (by_warp_) return;
  out_.line("lowest = lowest_of_warp(lowest);");
  out_.line("highest = highest_of_warp(highest);");
}

/// Opens a loop over 32 lines at a time: [from, to) are the updates of the lane's line that go to the warp's places.
void ScatterEmitter::open_lines() {
  const std::int64_t lines = updates_ / line_;
  out_.open("for (int first = 0; first < {}; first += 32)", lines);
  out_.line("int from = (first + static_cast<int>(threadIdx.x % 32)) * {}, to = from;", line_);
  out_.open("if (from < {})", updates_);
  out_.line("int last = from + {};", line_);
  emit_bound("from", "last", "lowest");
  // They are few: ever larger steps are sooner there than halves of what is left.
  out_.line("to = from;");
  out_.open("for (int step = 1; to + step <= last; step *= 2)");
  out_.line("const int {} = to + step - 1;", axes_.name(batch_));
  loads_.emit_uniform(kernel::needed_by(scope_.program, key_));
  out_.open("if ({} > highest)", items_.value(key_, false));
  out_.line("last = {};", axes_.name(batch_));
  out_.line("break;");
  out_.close();
  out_.line("to = {} + 1;", axes_.name(batch_));
  out_.close();
  emit_bound("to", "last", "highest + 1");
  out_.close();
}

/// Moves `end` behind the last of the updates from `begin` on that hit the element at hand. To know their number first
/// lets several be on their way at a time.
void ScatterEmitter::emit_run_end() {
  out_.open("for (int {0} = begin; {0} < end; ++{0})", axes_.name(batch_));
  loads_.emit_uniform(kernel::needed_by(scope_.program, hits_));
  out_.open("if (!{})", items_.value(hits_, false));
  out_.line("end = {};", axes_.name(batch_));
  out_.line("break;");
  out_.close(2);
}

/// Combines a run of updates into the elements of the place at hand.
void ScatterEmitter::emit_run(const std::string& begin, const std::string& end) {
  out_.line("#pragma unroll {}",
            kernel::updates_in_flight(scope_.graph, anchor_.node, registers_of(result_axes_ - placed_axes_)));
  out_.open("for (int {0} = {1}; {0} < {2}; ++{0})", axes_.name(batch_), begin, end);
  const int depth = out_.depth();
  loops_.open_register_loops(result_axes_ - placed_axes_);
  if (const std::string guard = axes_.range_guard(result_axes_, false); !guard.empty()) out_.open("if ({})", guard);
  emit_combination(kernel::needed_by(scope_.program, update_));
  out_.close(out_.depth() - depth + 1);
}

/// The same of a place of one element, for which the lanes load 32 updates side by side; they are combined in order.
void ScatterEmitter::emit_run_by_lanes() {
  out_.open("for (int start = __shfl_sync(0xffffffffu, begin, lane); start < last; start += 32)");
  out_.line("const int {} = min(start + static_cast<int>(threadIdx.x % 32), last - 1);", axes_.name(batch_));
  loads_.emit_uniform(kernel::needed_by(scope_.program, update_));
  out_.line("const {0} own = static_cast<{0}>({1});", type_, items_.value(update_, false));
  out_.open("for (int turn = 0; turn < min(last - start, 32); ++turn)");
  combine_with("__shfl_sync(0xffffffffu, own, turn)");
  out_.close(2);
}

/// All lanes work on the same places, and each of them has found a line's updates: they take turns.
void ScatterEmitter::emit_runs_by_warp() {
  emit_places_of_warp();
  open_lines();
  out_.line("if (!__any_sync(0xffffffffu, from < to)) continue;");
  const int depth = out_.depth();
  loops_.open_register_loops(placed_axes_);
  out_.line("int begin = from, end = to;");
  // Of one place, and no other condition, what was found is its run.
  const kernel::Item& hits = scope_.program.at(hits_);
  if (registers_of(placed_axes_) > 1 || hits.op != graph::Op::compare) {
    emit_bound("begin", "end", place());
    emit_run_end();
  }
  out_.open("for (unsigned found = __ballot_sync(0xffffffffu, begin < end); found != 0; found &= found - 1)");
  out_.line("const int lane = __ffs(static_cast<int>(found)) - 1;");
  out_.line("const int last = __shfl_sync(0xffffffffu, end, lane);");
  lanes_of(result_axes_) == 1 ? emit_run_by_lanes() : emit_run("__shfl_sync(0xffffffffu, begin, lane)", "last");
  out_.close(out_.depth() - depth + 1);
}

/// Lanes work on different places, side by side: lines in which one of them finds something are taken in turn.
void ScatterEmitter::emit_runs_by_lane() {
  const int depth = out_.depth();
  loops_.open_register_loops(placed_axes_);
  emit_places_of_warp();
  open_lines();
  out_.open("for (unsigned found = __ballot_sync(0xffffffffu, from < to); found != 0; found &= found - 1)");
  out_.line("const int lane = __ffs(static_cast<int>(found)) - 1;");
  out_.line("int begin = __shfl_sync(0xffffffffu, from, lane), end = __shfl_sync(0xffffffffu, to, lane);");
  emit_bound("begin", "end", place());
  emit_run_end();
  emit_run("begin", "end");
  out_.close(out_.depth() - depth);
}

void ScatterEmitter::emit_runs_by_thread() {
  const int depth = out_.depth();
  loops_.open_register_loops(placed_axes_);
  out_.open("for (int first = 0; first < {}; first += {})", updates_, line_);
  out_.line("int begin = first, end = first + {};", line_);
  emit_bound("begin", "end", place());
  emit_run_end();
  emit_run("begin", "end");
  out_.close(out_.depth() - depth);
}

/// The first and the last place that any warp of the block has elements of, in shared memory for all.
void ScatterEmitter::emit_places_of_block() {
  out_.line("int2* const list = reinterpret_cast<int2*>(shared{});", offset_text(scope_.frame.shared_held));
  out_.line("int* const found = reinterpret_cast<int*>(list + {});", list_.chunk());
  out_.line("int2* const ranges = reinterpret_cast<int2*>(found + {});", list_.parts + list_.parts % 2);
  out_.line("const int lane = threadIdx.x % 32, part = threadIdx.x / 32;");
  out_.line("int lowest = 0x7fffffff, highest = -1;");
  const int depth = out_.depth();
  loops_.open_register_loops(placed_axes_);
  // A tile's tail has none: what goes nowhere is not among what is found.
  const std::int64_t last = scope_.program.pool().high(scope_.program.at(place_).index);
  out_.line("lowest = min(lowest, static_cast<int>({}));", place());
  out_.line("highest = max(highest, static_cast<int>(min({}, {})));", place(), last);
  out_.close(out_.depth() - depth);
  out_.line("if (lane == 0) ranges[part] = make_int2(lowest, highest);");
  out_.line("__syncthreads();");
  out_.open("if (lane < {})", list_.parts);
  out_.line("lowest = ranges[lane].x;");
  out_.line("highest = ranges[lane].y;");
  out_.close();
  out_.line("lowest = lowest_of_warp(lowest);");
  out_.line("highest = highest_of_warp(highest);");
}

/// The part of a chunk that the warp reads, 32 updates a turn: whether the lane's goes to the tile, and where.
void ScatterEmitter::emit_place_of_update() {
  out_.line("const int at = first + part * {} + turn * 32 + lane;", list_.part);
  // All lanes take part in the vote; what is behind the last update is not listed.
  out_.line("const int {} = min(at, {});", axes_.name(batch_), updates_ - 1);
  loads_.emit_uniform(kernel::needed_by(scope_.program, key_));
  out_.line("const auto goes_to = {};", items_.value(key_, false));
}

/// Lists what a chunk has for the block's tile, in order: each warp keeps what it finds in its part, a vote a turn and
/// lane, until all know how many the parts before have.
void ScatterEmitter::emit_chunk_list() {
  const std::int64_t turns = list_.part / 32;
  out_.line("unsigned own = 0;");
  out_.line("int count = 0;");
  out_.line("#pragma unroll 4");
  out_.open("for (int turn = 0; turn < {}; ++turn)", turns);
  emit_place_of_update();
  out_.line("const bool here = at < {} && goes_to >= lowest && goes_to <= highest;", updates_);
  out_.line("const unsigned all = __ballot_sync(0xffffffffu, here);");
  out_.line("own = lane == turn ? all : own;");
  out_.line("count += __popc(all);");
  out_.close();
  out_.line("if (lane == 0) found[part] = count;");
  out_.line("__syncthreads();");
  out_.line("int listed = lane < {} ? found[lane] : 0, to = lane < part ? listed : 0;", list_.parts);
  out_.line("#pragma unroll");
  out_.open("for (int step = 16; step > 0; step /= 2)");
  out_.line("listed += __shfl_xor_sync(0xffffffffu, listed, step);");
  out_.line("to += __shfl_xor_sync(0xffffffffu, to, step);");
  out_.close();
  out_.open("for (int turn = 0; turn < {}; ++turn)", turns);
  out_.line("const unsigned all = __shfl_sync(0xffffffffu, own, turn);");
  out_.open("if (all >> lane & 1)");
  emit_place_of_update();
  out_.line("list[to + __popc(all & ((1u << lane) - 1))] = make_int2(at, static_cast<int>(goes_to));");
  out_.close();
  out_.line("to += __popc(all);");
  out_.close();
  out_.line("__syncthreads();");
}

/// Combines what a chunk's list has for the warp's places, 32 entries at a time, in order.
void ScatterEmitter::emit_listed() {
  out_.open("for (int start = 0; start < listed; start += 32)");
  out_.line("const int2 entry = start + lane < listed ? list[start + lane] : make_int2(0, -1);");
  const int depth = out_.depth();
  loops_.open_register_loops(placed_axes_);
  out_.line("unsigned hits = __ballot_sync(0xffffffffu, entry.y == {});", place());
  out_.line("const int count = __popc(hits);");
  // To know their number first lets several be on their way at a time.
  out_.line("#pragma unroll {}", kernel::UpdateList::in_flight(registers_of(result_axes_ - placed_axes_)));
  out_.open("for (int turn = 0; turn < count; ++turn, hits &= hits - 1)");
  out_.line("const int {} = __shfl_sync(0xffffffffu, entry.x, __ffs(static_cast<int>(hits)) - 1);", axes_.name(batch_));
  loops_.open_register_loops(result_axes_ - placed_axes_);
  if (const std::string guard = axes_.range_guard(result_axes_, false); !guard.empty()) out_.open("if ({})", guard);
  emit_combination(kernel::needed_by(scope_.program, update_));
  out_.close(out_.depth() - depth + 1);
}

/// Behind a chunk no barrier is missing: nobody lists the next one's before all have left this one's, as all meet when
/// the next one's are counted.
void ScatterEmitter::emit_updates_of_block() {
  emit_places_of_block();
  out_.open("for (int first = 0; first < {}; first += {})", updates_, list_.chunk());
  scope_.keeps_in_l1 = true;  // the block's next tile, and other blocks, read the same indices
  emit_chunk_list();
  scope_.keeps_in_l1 = false;
  emit_listed();
  out_.close();
}

void ScatterEmitter::emit_results() {
  const int depth = out_.depth();
  // Where lanes lie along the updates all of them have the element.
  if (lanes_of(anchor_.reduced) > 1) out_.open("if (threadIdx.x % 32 == 0)");
  open_elements();
  out_.line("{}[{}] = narrow<{}>(static_cast<{}>({}));", scope_.pointers.name(anchor_.buffers[0]),
            items_.address(anchor_.addresses[0], false), storage_type(anchor_.dtype), compute_type(anchor_.dtype),
            total());
  out_.close(out_.depth() - depth);
}

}  // namespace stitch::codegen
