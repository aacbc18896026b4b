#include "codegen/load_emitter.h"

#include "codegen/spelling.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {

using kernel::Item;
using kernel::ItemId;

void LoadEmitter::emit_uniform(ItemId id) {
  const Item& item = scope_.program.at(id);
  if (kernel::is_inline(scope_.program, id) || item.kind == Item::Kind::reduced) return;
  out_.line("const {} {} = {};", compute_type(item.dtype), items_.name(id), items_.expression_of(id, false));
}

void LoadEmitter::declare_registers(ItemId id, std::string_view suffix) {
  const kernel::AxisSet axes = scope_.program.at(id).axes;
  const ItemPrinter::Registers kept = items_.registers_of(id, axes);
  // What is written under a predicate alone is live from the turn before, for all that ptxas can tell.
  const bool clears = !group_.mapping.hoists && !axes_.range_guard(axes, false).empty();
  out_.line("{} {}{}{}{};", kept.type, items_.name(id), suffix, kept.dims, clears ? " = {}" : "");
}

void LoadEmitter::declare_held(const kernel::HeldItem& held) {
  if (held.place == kernel::Hold::shared) return shared_.declare_kept(held);
  if (scope_.taken_over.contains(held.item)) return;
  scope_.keep(held.item);
  declare_registers(held.item);
}

void LoadEmitter::declare_for_sweep(ItemId id) {
  scope_.keep(id);
  scope_.sweep_arrays.push_back(id);
  declare_registers(id);
}

std::vector<HoistedLoad> LoadEmitter::hoisted() const {
  std::vector<HoistedLoad> all;
  for (const ItemId id : group_.hoisted) {
    const Item& item = scope_.program.at(id);
    const ItemPrinter::Registers kept = items_.registers_of(id, item.axes);
    all.push_back({kept.type, items_.name(id), kept.dims, item.buffer});
  }
  return all;
}

void LoadEmitter::emit_hoisted() {
  if (group_.hoisted.empty()) return;
  out_.line("// the same for every iteration of the tile");
  for (const ItemId id : group_.hoisted) {
    declare_registers(id);
    emit_hoisted(id);
  }
}

void LoadEmitter::emit_hoisted_into_arrays() {
  for (const ItemId id : group_.hoisted) emit_hoisted(id);
}

void LoadEmitter::emit_hoisted(ItemId id) {
  const kernel::AxisSet axes = scope_.program.at(id).axes;
  scope_.keep(id);
  const int depth = out_.depth();
  loops_.open_register_loops(axes & group_.varying);
  if (const std::string guard = axes_.range_guard(axes, false); !guard.empty()) out_.open("if ({})", guard);
  emit_run(id);
  out_.close(out_.depth() - depth);
}

void LoadEmitter::emit_unwaited() {
  if (scope_.frame.unwaited.empty()) return;
  out_.line("// of what the launch before does not write");
  scope_.asks_unwaited = true;
  for (const ItemId id : scope_.frame.unwaited) {
    scope_.keep(id);
    declare_registers(id);
    emit_guarded(id);
    scope_.taken_over.insert(id);
  }
  scope_.asks_unwaited = false;
}

void LoadEmitter::emit_uniform(const std::vector<bool>& wanted) {
  for (ItemId id = 0; id < std::ssize(wanted); ++id) {
    if (wanted[id]) emit_uniform(id);
  }
}

void LoadEmitter::emit_run(ItemId id, std::string_view suffix) {
  const std::string target = items_.registers(id, false, suffix);
  if (!axes_.has_vector(scope_.program.at(id).axes)) {
    emit_single(id, target);
  } else if (group_.accesses[id].width == 1) {
    emit_element_wise(id, target);
  } else {
    emit_accesses(id, target);
  }
}

void LoadEmitter::emit_guarded(ItemId id, std::string_view suffix) {
  const kernel::AxisSet axes = scope_.program.at(id).axes;
  const int depth = out_.depth();
  const std::string guard = axes_.range_guard(axes, false);
  if (!axes.meets(group_.varying)) {
    // One for all of a thread's elements: also of threads that have none, which may compute with it.
    const kernel::Item& item = scope_.program.at(id);
    const std::string loaded = items_.load_one(item, false);
    out_.line("{}{} = {};", items_.name(id), suffix,
              guard.empty() ? loaded : fmt::format("{} ? {} : {}{{}}", guard, loaded, storage_type(item.dtype)));
    return;
  }
  loops_.open_register_loops(axes & group_.varying);
  if (!guard.empty()) out_.open("if ({})", guard);
  emit_run(id, suffix);
  out_.close(out_.depth() - depth);
}

void LoadEmitter::emit_copy(ItemId id, const std::string& place) {
  const Item& item = scope_.program.at(id);
  const int width = group_.accesses[id].width;
  const bool along = axes_.runs_along(item.axes);
  for (std::int64_t at = 0; at < (along ? axes_.vector_extent() : 1); at += width) {
    const std::string from =
        fmt::format("{} + ({})", scope_.pointers.name(item.buffer), items_.address(item.index, false));
    const std::string places = fmt::format("{0}{2}, {1}{2}", place, from, offset_text(at));
    if (group_.shift && along) {
      out_.line("copy_part<{}>({}, {});", width, places, axes_.part_bounds(at));
    } else {
      out_.line("copy_async<{}>({});", width, places);
    }
  }
}

void LoadEmitter::emit_bulk_copy(ItemId id, const std::string& place, std::int64_t elements) {
  const Item& item = scope_.program.at(id);
  out_.line("copies.copy<{}>(stage, {}, {} + ({}));", elements * graph::byte_size(item.dtype), place,
            scope_.pointers.name(item.buffer), items_.address(item.index, false));
}

void LoadEmitter::emit_single(ItemId id, const std::string& target) {
  const Item& item = scope_.program.at(id);
  const std::string loaded = items_.load_one(item, false);
  if (item.guard < 0) return out_.line("{} = {};", target, loaded);
  out_.line("{} = {} ? {} : {}{{}};", target, items_.value(item.guard, false), loaded, storage_type(item.dtype));
}

void LoadEmitter::emit_element_wise(ItemId id, const std::string& target) {
  const Item& item = scope_.program.at(id);
  out_.line("#pragma unroll");
  out_.open("for (int v = 0; v < {}; ++v)", axes_.vector_extent());
  std::string guard = axes_.vector_tail_by_element() ? axes_.in_range(group_.mapping.vector_axis, true) : "";
  if (item.guard >= 0) guard = both(guard, items_.value(item.guard, true));
  const std::string loaded = items_.load_one(item, true);
  out_.line("{}[v] = {};", target,
            guard.empty() ? loaded : fmt::format("{} ? {} : {}{{}}", guard, loaded, storage_type(item.dtype)));
  out_.close();
}

void LoadEmitter::emit_accesses(ItemId id, const std::string& target) {
  const Item& item = scope_.program.at(id);
  const int width = group_.accesses[id].width;
  const std::string_view cached = items_.caching(item);
  const std::string guard = item.guard >= 0 ? items_.value(item.guard, false) : "";
  if (!guard.empty()) {
    out_.line("#pragma unroll");
    out_.line("for (int v = 0; v < {}; ++v) {}[v] = {}{{}};", axes_.vector_extent(), target, storage_type(item.dtype));
    out_.open("if ({})", guard);
  }
  const bool tail = axes_.vector_tail_by_element();
  for (std::int64_t at = 0; at < axes_.vector_extent(); at += width) {
    const std::string from =
        fmt::format("{} + {}", scope_.pointers.name(item.buffer), items_.address(item.index, false));
    const std::string places = fmt::format("{0}{2}, {1}{2}", target, from, offset_text(at));
    if (tail && group_.shift) {
      out_.line("load_part<{}, {}>({}, {});", width, cached, places, axes_.part_bounds(at));
    } else if (tail) {
      out_.line("load_tail<{}, {}>({}, {});", width, cached, places, axes_.tail_count(at));
    } else {
      out_.line("load<{}, {}>({});", width, cached, places);
    }
  }
  if (!guard.empty()) out_.close();
}

}  // namespace stitch::codegen
