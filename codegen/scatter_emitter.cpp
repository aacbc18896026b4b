// GroupEmitter: scatter, from the result's side: every element gathers the updates that go to it, in their order, so
// that the result does not vary and no atomics are needed. A warp that works on one row tests 32 updates at a time.

#include <algorithm>
#include <functional>
#include <set>

#include "codegen/group_emitter.h"
#include "codegen/spelling.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {

using kernel::ItemId;
using kernel::Level;

namespace {

bool has(std::uint64_t mask, std::size_t axis) { return ((mask >> axis) & 1) != 0; }

}  // namespace

void GroupEmitter::emit_scatter(int number) {
  const kernel::Anchor& it = anchor(number);
  const graph::Node& node = graph_.node(it.node);
  const auto& a = node.as<graph::ScatterAttributes>();
  const graph::DType accumulator = graph::info(node.type().dtype).accumulator;
  const std::string type = compute_type(accumulator);
  const ItemId operand = it.items[0], hits = it.items[1], update = it.items[2];
  const std::size_t batch = group_.extents.size() - 1;
  const std::int64_t updates = group_.extents[batch];
  const std::uint64_t result_axes = it.axes & ~it.reduced;

  // What telling whether an update hits needs, and what else its value needs.
  std::set<ItemId> for_hits, done;
  const std::function<void(ItemId)> collect = [&](ItemId id) {
    if (!for_hits.insert(id).second) return;
    for (const ItemId needed : kernel::dependencies(program_, id)) collect(needed);
  };
  collect(hits);
  const auto emit_needed = [&](const std::function<bool(ItemId)>& wanted) {
    for (std::size_t i = 0; i < program_.items().size(); ++i) {
      const ItemId id = i;
      if (wanted(id) && !done.contains(id)) emit_uniform(id);
    }
  };
  std::set<ItemId> for_operand, for_update;
  const std::function<void(ItemId, std::set<ItemId>&)> gather = [&](ItemId id, std::set<ItemId>& into) {
    if (!into.insert(id).second) return;
    for (const ItemId needed : kernel::dependencies(program_, id)) gather(needed, into);
  };
  gather(operand, for_operand);
  gather(update, for_update);

  // A warp tests 32 updates at once when its lanes all work on elements that the same updates hit.
  std::int64_t lanes = 1, hit_lanes = 1;
  for (std::size_t x = 0; x < batch; ++x) {
    lanes *= group_.extent(x, Level::lane);
    if (has(program_.at(hits).axes, x)) hit_lanes *= group_.extent(x, Level::lane) * group_.extent(x, Level::reg);
  }
  const bool by_warp = lanes == 32 && hit_lanes == 1;
  const std::string guard = range_guard(result_axes & ~(by_warp ? lane_axes() : 0), false);
  const std::string dims = array_dims(result_axes);
  const auto element_guard = [&] { return range_guard(result_axes, false); };

  out_.blank();
  out_.line("// {} of {} updates per element, {}",
            a.combiner == graph::ReduceKind::replace ? "the last" : graph::to_string(a.combiner), updates,
            by_warp ? "tested 32 at a time by the warp" : "tested one after the other");
  out_.line("{} total{};", type, dims);
  const int depth = out_.depth();
  open_register_loops(result_axes);
  if (!element_guard().empty()) out_.open("if ({})", element_guard());
  emit_needed([&](ItemId id) { return for_operand.contains(id); });
  out_.line("total{} = static_cast<{}>({});", array_subscript_all(result_axes), type, value(operand, false));
  out_.close(out_.depth() - depth);

  const auto accumulate = [&] {
    const int inner = out_.depth();
    open_register_loops(result_axes);
    if (!element_guard().empty()) out_.open("if ({})", element_guard());
    if (!by_warp) {
      emit_needed([&](ItemId id) { return for_hits.contains(id); });
      out_.open("if ({})", value(hits, false));
    }
    emit_needed([&](ItemId id) { return for_update.contains(id) && (by_warp || !for_hits.contains(id)); });
    const std::string target = "total" + array_subscript_all(result_axes);
    const std::string term = fmt::format("static_cast<{}>({})", type, value(update, false));
    if (a.combiner == graph::ReduceKind::replace) {
      out_.line("{} = {};", target, term);
    } else {
      out_.line("{0} = {1}::combine({0}, {2});", target, combiner(a.combiner), term);
    }
    out_.close(out_.depth() - inner);
  };

  if (by_warp) {
    out_.open("for (int first = 0; first < {}; first += 32)", updates);
    out_.line("bool hit = false;");
    out_.open("if (first + static_cast<int>(threadIdx.x % 32) < {}{})", updates, guard.empty() ? "" : " && " + guard);
    out_.line("const int {} = first + static_cast<int>(threadIdx.x % 32);", axis_name(batch));
    emit_needed([&](ItemId id) { return for_hits.contains(id); });
    out_.line("hit = {};", value(hits, false));
    out_.close();
    out_.open("for (unsigned hits = __ballot_sync(0xffffffffu, hit); hits != 0; hits &= hits - 1)");
    out_.line("const int {} = first + __ffs(static_cast<int>(hits)) - 1;", axis_name(batch));
    accumulate();
    out_.close(2);
  } else {
    out_.open("for (int {0} = 0; {0} < {1}; ++{0})", axis_name(batch), updates);
    accumulate();
    out_.close();
  }

  open_register_loops(result_axes);
  if (!element_guard().empty()) out_.open("if ({})", element_guard());
  out_.line("{}[{}] = narrow<{}>(static_cast<{}>(total{}));", pointer_of(it.buffers[0]),
            index_text(it.addresses[0], false, is_wide(it.addresses[0])), storage_type(node.type().dtype),
            compute_type(node.type().dtype), array_subscript_all(result_axes));
  out_.close(out_.depth() - depth);
}

std::uint64_t GroupEmitter::lane_axes() const {
  std::uint64_t axes = 0;
  for (std::size_t x = 0; x < group_.extents.size(); ++x) {
    if (group_.extent(x, Level::lane) > 1) axes |= std::uint64_t{1} << x;
  }
  return axes;
}

std::string GroupEmitter::array_subscript_all(std::uint64_t axes) const { return array_subscript(axes, false); }

}  // namespace stitch::codegen
