#include "codegen/shared_emitter.h"

#include <algorithm>

#include "codegen/spelling.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {

using kernel::AxisSet;
using kernel::HeldItem;
using kernel::ItemId;
using kernel::Level;
using kernel::RetainedLoad;

void SharedEmitter::declare_kept(const HeldItem& held) {
  const ItemId id = held.item;
  if (group_.ahead.stages_of(id) != nullptr) return;
  const std::int64_t offset = scope_.frame.shared_held + held.shared_offset;
  std::string place = "shared" + offset_text(offset);
  if (group_.retention(id) != nullptr) {
    emit_round(id);
    place = fmt::format("{} ? {} : {}", round_is_retained(id), retained_round(id), place);
  }
  out_.line("{0}* const {1}_kept = reinterpret_cast<{0}*>({2});  // {3} threads × {4} elements", items_.kept_type(id),
            items_.name(id), place, group_.threads, group_.elements_per_thread(scope_.program.at(id).axes));
}

void SharedEmitter::declare_stage(const kernel::StagedLoad& load) {
  const ItemId id = load.item;
  out_.line("{0}* const {1}_{2} = reinterpret_cast<{0}*>(shared{3} + stage * {4});", items_.kept_type(id),
            items_.name(id), is_kept(id) ? "kept" : "stage", offset_text(scope_.frame.shared_held + load.shared_offset),
            load.stage_bytes);
}

void SharedEmitter::declare_retained() {
  for (const RetainedLoad& load : group_.retained) {
    if (is_kept(load.item)) continue;
    emit_round(load.item);
    out_.line("{0}* const {1}_retained = reinterpret_cast<{0}*>({2} ? {3} : shared);", items_.kept_type(load.item),
              items_.name(load.item), round_is_retained(load.item), retained_round(load.item));
  }
}

bool SharedEmitter::is_found(ItemId id) const {
  const RetainedLoad* load = group_.retention(id);
  return load != nullptr && !load->fills;
}

bool SharedEmitter::is_left(ItemId id) const {
  const RetainedLoad* load = group_.retention(id);
  return load != nullptr && load->fills;
}

std::string SharedEmitter::round_is_retained(ItemId id) const {
  return fmt::format("{}_round < {}", items_.name(id), group_.retention(id)->rounds);
}

/// Where the block has what belongs to this round, if it is retained.
std::string SharedEmitter::retained_round(ItemId id) const {
  const RetainedLoad& load = *group_.retention(id);
  return fmt::format("shared + {} + {}_round * {}", scope_.frame.shared_retained + load.shared_offset, items_.name(id),
                     load.round_bytes);
}

std::string SharedEmitter::kept_place(ItemId id) const {
  return place(id, items_.name(id) + "_kept", group_.inner_loops);
}

/// A stage has one turn of the loops around it, and all of those within.
std::string SharedEmitter::staged_place(ItemId id) const {
  return is_kept(id) ? kept_place(id) : place(id, items_.name(id) + "_stage", {});
}

std::string SharedEmitter::retained_place(ItemId id) const {
  return place(id, items_.name(id) + "_retained", group_.retention(id)->inner_loops);
}

/// The round's number: of the block's turns of the loop over tiles and of the loops that make rounds.
void SharedEmitter::emit_round(ItemId id) {
  std::string round = scope_.frame.tiles_at_once > 0 ? fmt::format("tile / {}", scope_.frame.tiles_at_once) : "";
  for (const int a : group_.retention(id)->round_loops) {
    const std::int64_t turns = group_.extent(a, Level::loop);
    if (turns == 1) continue;
    const std::string turn = axes_.name(a) + "_loop";
    round = round.empty() ? turn : fmt::format("({}) * {} + {}", round, turns, turn);
  }
  out_.line("const int {}_round = {};", items_.name(id), round.empty() ? "0" : round);
}

std::string SharedEmitter::place(ItemId id, std::string_view pointer, AxisSet loops) const {
  const AxisSet axes = scope_.program.at(id).axes;
  // Runs of one step lie side by side for all threads, so lanes touch distinct banks.
  std::string step;
  const auto add = [&](const std::string& digit, std::int64_t extent) {
    step = step.empty() ? digit : fmt::format("({} * {} + {})", step, extent, digit);
  };
  for (const int a : axes) {
    if (loops.contains(a) && group_.extent(a, Level::loop) > 1)
      add(axes_.name(a) + "_loop", group_.extent(a, Level::loop));
    if (group_.extent(a, Level::reg) > 1) add(axes_.name(a) + "_r", group_.extent(a, Level::reg));
  }
  const std::string thread = "static_cast<int>(threadIdx.x)";
  std::string run = step.empty() ? thread : fmt::format("({} * {} + {})", step, group_.threads, thread);
  if (!step.empty() && brings_whole_rows(id)) {
    // What a warp has of a row is one run: its vectors lie behind one another.
    constexpr int warp = 32;
    std::int64_t vectors = 1;
    for (const int a : axes) vectors *= group_.extent(a, Level::reg);
    run = fmt::format("(({0} / {1} * {2} + {3}) * {1} + {0} % {1})", thread, warp, vectors, step);
  }
  return axes_.runs_along(axes) ? fmt::format("{} + {} * {}", pointer, run, axes_.vector_extent())
                                : fmt::format("{} + {}", pointer, run);
}

bool SharedEmitter::brings_whole_rows(ItemId id) const {
  constexpr int warp = 32;
  const kernel::StagedLoad* load = group_.ahead.stages_of(id);
  return load != nullptr && load->run > warp * group_.vector_extent();
}

int SharedEmitter::run_width(ItemId id) const {
  return std::min<std::int64_t>(axes_.vector_extent(), 16 / kernel::held_bytes(scope_.program.at(id)));
}

void SharedEmitter::emit_from(ItemId id, const std::string& place) {
  const std::string target = items_.registers(id, false);
  if (!axes_.has_vector(scope_.program.at(id).axes)) return out_.line("{} = *({});", target, place);
  const int width = run_width(id);
  for (int at = 0; at < axes_.vector_extent(); at += width)
    out_.line("load<{}, Cached::shared>({}{}, {}{});", width, target, offset_text(at), place, offset_text(at));
}

void SharedEmitter::emit_to(ItemId id, const std::string& place) {
  const std::string source = items_.registers(id, false);
  if (!axes_.has_vector(scope_.program.at(id).axes)) return out_.line("*({}) = {};", place, source);
  const int width = run_width(id);
  for (int at = 0; at < axes_.vector_extent(); at += width)
    out_.line("store<{}>({}{}, {}{});", width, place, offset_text(at), source, offset_text(at));
}

}  // namespace stitch::codegen
