#include "codegen/store_emitter.h"

#include <algorithm>

#include "codegen/spelling.h"

namespace stitch::codegen {

using kernel::Anchor;
using kernel::Buffer;

bool StoreEmitter::is_passing(const Buffer& buffer) const {
  return std::ranges::count(scope_.frame.passing, buffer) > 0;
}

int StoreEmitter::copies(const Buffer& buffer) const {
  const kernel::Residence& residence = scope_.frame.residence;
  return residence.is_resident(buffer) ? residence.copies(group_) : 1;
}

std::string StoreEmitter::guard(const Anchor& it, bool element) const {
  std::string guard = axes_.replica_guard(it.axes);
  if (element && axes_.vector_tail_by_element() && axes_.runs_along(it.axes))
    guard = both(guard, axes_.in_range(group_.mapping.vector_axis, true));
  if (it.guard >= 0) guard = both(guard, items_.value(it.guard, element));
  if (scope_.frame.residence.is_stored_by_one(group_, it.buffers[0]))
    guard = both(guard, fmt::format("blockIdx.x % {} == 0", scope_.schedule.cluster));
  return guard;
}

namespace {

/// The combiner of a scatter that keeps the greatest or the least of floats; else nothing.
std::string extreme_of(const graph::Node& node) {
  if (node.op != graph::Op::scatter || !graph::is_floating(node.type().dtype)) return {};
  const graph::ReduceKind kind = node.as<graph::ScatterAttributes>().combiner;
  return kind == graph::ReduceKind::max || kind == graph::ReduceKind::min ? combiner(kind) : "";
}

}  // namespace

std::string StoreEmitter::stored_value(int anchor, bool element) const {
  const Anchor& it = scope_.anchor(anchor);
  const std::string extreme = extreme_of(scope_.graph.node(it.node));
  // What is only moved stays as it lies in memory.
  const kernel::Item& item = scope_.program.at(it.items[0]);
  const bool moved = item.kind == kernel::Item::Kind::load && item.dtype == it.dtype && items_.is_array(it.items[0]);
  if (moved && extreme.empty() && (element || !axes_.has_vector(scope_.arrays.at(it.items[0]))))
    return items_.registers(it.items[0], element);
  const std::string type = storage_type(it.dtype);
  std::string text = items_.value(it.items[0], element);
  // What updates are combined into may have no NaN but the one that the combiner knows.
  if (!extreme.empty()) text = fmt::format("{}::filled({})", extreme, text);
  const bool same = scope_.program.at(it.items[0]).dtype == it.dtype && compute_type(it.dtype) == type;
  return same ? text : fmt::format("narrow<{}>({})", type, text);
}

void StoreEmitter::emit_element(int anchor, bool element) {
  const Anchor& it = scope_.anchor(anchor);
  const std::string condition = guard(it, element);
  if (!condition.empty()) out_.open("if ({})", condition);
  const std::string pointer = scope_.pointers.name(it.buffers[0]);
  const std::string index = items_.address(it.addresses[0], element);
  if (it.kind == Anchor::Kind::atomic) {
    const auto& scatter = scope_.graph.node(it.node).as<graph::ScatterAttributes>();
    out_.line("{}::combine_atomically({} + {}, {});", combiner(scatter.combiner), pointer, index,
              items_.value(it.items[0], element));
  } else if (const int blocks = copies(it.buffers[0]); blocks > 1) {
    out_.line("const {} shared_{} = {};", storage_type(it.dtype), anchor, stored_value(anchor, element));
    out_.line("store_in_cluster<{}, 1>({} + {}, &shared_{});", blocks, pointer, index, anchor);
  } else if (is_passing(it.buffers[0])) {
    out_.line("store_one<Written::passing>({} + {}, {});", pointer, index, stored_value(anchor, element));
  } else {
    out_.line("{}[{}] = {};", pointer, index, stored_value(anchor, element));
  }
  if (!condition.empty()) out_.close();
}

bool StoreEmitter::takes_runs(int anchor) const {
  const Anchor::Kind kind = scope_.anchor(anchor).kind;
  const bool stores = kind == Anchor::Kind::store || (kind == Anchor::Kind::atomic && !axes_.vector_tail_by_element());
  return stores && group_.stores[anchor][0].width > 1;
}

void StoreEmitter::emit_run(int anchor) {
  const Anchor& it = scope_.anchor(anchor);
  const int width = group_.stores[anchor][0].width;
  const std::string condition = guard(it, false);
  if (!condition.empty()) out_.open("if ({})", condition);
  const int blocks = copies(it.buffers[0]);
  const std::string everywhere = blocks > 1 ? fmt::format("{}, ", blocks) : "";
  const std::string_view where = blocks > 1 ? "_in_cluster" : "";
  const std::string_view how = is_passing(it.buffers[0]) ? ", Written::passing" : "";
  for (std::int64_t at = 0; at < axes_.vector_extent(); at += width) {
    const std::string to =
        fmt::format("{} + {}", scope_.pointers.name(it.buffers[0]), items_.address(it.addresses[0], false));
    const std::string places = fmt::format("{0}{2}, result_{1}{2}", to, anchor, offset_text(at));
    if (it.kind == Anchor::Kind::atomic) {
      const auto& scatter = scope_.graph.node(it.node).as<graph::ScatterAttributes>();
      out_.line("combine_{}<{}, {}>({});", scope_.frame.private_table ? "privately" : "atomically",
                combiner(scatter.combiner), width, places);
    } else if (group_.shift && axes_.vector_tail_by_element()) {
      out_.line("store_part<{}{}>({}, {});", width, how, places, axes_.part_bounds(at));
    } else if (axes_.vector_tail_by_element()) {
      out_.line("store_tail{}<{}{}{}>({}, {});", where, everywhere, width, how, places, axes_.tail_count(at));
    } else {
      out_.line("store{}<{}{}{}>({});", where, everywhere, width, how, places);
    }
  }
  if (!condition.empty()) out_.close();
}

}  // namespace stitch::codegen
