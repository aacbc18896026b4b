#include "codegen/ahead_emitter.h"

#include <algorithm>

#include "codegen/index_text.h"
#include "kernel/program/loads_ahead.h"

namespace stitch::codegen {

using kernel::ItemId;
using kernel::pipeline::TileNest;
using kernel::pipeline::TileStatement;
using Iterations = LoopEmitter::Iterations;

namespace {

constexpr std::string_view of_next_turn = "_next";

std::string text_of(const TileNest& nest, kernel::Index index) {
  return index_text(nest.pool, index, [&](kernel::Index) { return nest.loops[0].name; });
}

}  // namespace

void AheadEmitter::begin(const Iterations& turns) {
  if (!ahead_.loads.empty()) begin_registers(turns);
  if (ahead_.staged.empty()) return;
  out_.line("// the next turns' loads, on their way to shared memory while this one's are used");
  if (ahead_.bulk) {
    constexpr int warp = 32;
    out_.line("const BulkStages<{}, {}> copies(shared{});", ahead_.stages, scope_.group.threads / warp,
              offset_text(scope_.frame.shared_held + ahead_.barriers_offset));
    out_.line("copies.begin();");
  }
  emit_ask();
  const TileNest nest = nest_of(turns);
  emit_before_use(nest, nest.body, turns);
}

void AheadEmitter::take_over(const Iterations& turns) {
  if (!ahead_.staged.empty()) {
    const TileNest nest = nest_of(turns);
    const TileStatement& loop = nest.body.back();
    emit_before_use(nest, loop.body, turns);
    out_.line("const int stage = {};", text_of(nest, loop.body.back().reads[0].stage));
    for (const kernel::StagedLoad& load : ahead_.staged) {
      shared_.declare_stage(load);
      scope_.staged.insert(load.item);
    }
  }
  if (!ahead_.loads.empty()) take_registers(turns);
}

TileNest AheadEmitter::nest_of(const Iterations& turns) const {
  const std::string number = loops_.number_of_turn(turns);
  const bool name = number.find(' ') == std::string::npos;
  // The derivation has seen to it that there are turns for all stages.
  return *kernel::staged_loop(name ? number : "(" + number + ")", turns.last - turns.first, ahead_.stages);
}

void AheadEmitter::emit_before_use(const TileNest& nest, const std::vector<TileStatement>& statements,
                                   const Iterations& turns) {
  using Kind = TileStatement::Kind;
  for (const TileStatement& s : statements) {
    std::string condition;
    for (const kernel::pipeline::TileGuard& guard : s.guards)
      condition += fmt::format("if ({} < {}) ", text_of(nest, guard.index), guard.bound);
    if (s.kind == Kind::copy) {
      out_.line("{}ask({}, {});", condition, loops_.turn_of_number(turns, text_of(nest, s.to.tile)),
                text_of(nest, s.to.stage));
    } else if (s.kind == Kind::commit) {
      if (!ahead_.bulk) out_.line("commit_copies();");
    } else if (s.kind == Kind::wait && ahead_.bulk) {
      const std::string& turn = nest.loops[0].name;
      out_.line("copies.await_bytes({0} % {1}, {0} / {1});", turn, ahead_.stages);
      out_.line("copies.await_readers();");
    } else if (s.kind == Kind::wait) {
      out_.line("wait_for_groups<{}>();", s.pending);
    } else {
      return;
    }
  }
}

/// The function that asks for a turn's copies to a stage.
void AheadEmitter::emit_ask() {
  const int depth = out_.depth();
  out_.open("const auto ask = [&](const int {}_loop, const int stage)", axes_.name(ahead_.axis));
  loops_.emit_value(ahead_.axis);
  for (const kernel::StagedLoad& load : ahead_.staged) shared_.declare_stage(load);
  if (ahead_.bulk) out_.open("if (copies.asks())");
  for (const kernel::StagedLoad& load : ahead_.staged) emit_copies_of(load);
  if (ahead_.bulk) {
    out_.line("copies.all_asked(stage);");
    out_.close();
  }
  out_.set_depth(depth);
  out_.line("}};");
}

/// The thread's copies of one load; of bulk copies those of its warp.
void AheadEmitter::emit_copies_of(const kernel::StagedLoad& load) {
  const int outside = out_.depth();
  const kernel::AxisSet axes = scope_.program.at(load.item).axes;
  if (is_outer()) loops_.open_inner_loops(axes);
  if (shared_.brings_whole_rows(load.item)) {
    const int along = scope_.group.mapping.vector_axis;
    loops_.open_register_loops(axes - kernel::AxisSet::of(along));
    out_.open();
    out_.line("constexpr int {}_r = 0;", axes_.name(along));
    out_.line("const auto {0} = {0}0;", axes_.name(along));
  } else {
    loops_.open_register_loops(axes);
  }
  if (const std::string guard = axes_.range_guard(axes, false); !guard.empty()) out_.open("if ({})", guard);
  if (ahead_.bulk) {
    loads_.emit_bulk_copy(load.item, shared_.staged_place(load.item), load.run);
  } else {
    loads_.emit_copy(load.item, shared_.staged_place(load.item));
  }
  out_.close(out_.depth() - outside);
}

void AheadEmitter::end() {
  if (ahead_.bulk) out_.line("copies.end();");
}

void AheadEmitter::begin_registers(const Iterations& turns) {
  out_.line("// the next turn's loads, on their way while this one's are used");
  for (const ItemId id : ahead_.loads) {
    scope_.keep(id);
    loads_.declare_registers(id, of_next_turn);
  }
  emit_fetch();
  out_.line("fetch({});", loops_.turns_of(turns).first);
}

void AheadEmitter::emit_fetch() {
  const int depth = out_.depth();
  out_.open("const auto fetch = [&](const int {}_loop)", axes_.name(ahead_.axis));
  loops_.emit_value(ahead_.axis);
  if (is_outer()) loops_.emit_start_in_row();
  scope_.asks_ahead = meets_barrier();
  for (const ItemId id : ahead_.loads) loads_.emit_guarded(id, of_next_turn);
  scope_.asks_ahead = false;
  out_.set_depth(depth);
  out_.line("}};");
}

/// Whether a turn of the loop comes to a barrier of the block, which loads may be kept in front of.
bool AheadEmitter::meets_barrier() const {
  if (!is_outer()) return false;
  return std::ranges::any_of(scope_.group.reductions, [&](const kernel::ReductionPlan& plan) {
    return scope_.anchor(plan.anchor).kind == kernel::Anchor::Kind::reduce && (plan.exchange > 1 || plan.cluster > 1);
  });
}

void AheadEmitter::take_registers(const Iterations& turns) {
  for (const ItemId id : ahead_.loads) {
    loads_.declare_registers(id);
    out_.line("take_over({0}, {0}{1});", items_.name(id), of_next_turn);
    scope_.taken_over.insert(id);
  }
  const LoopEmitter::Turns of = loops_.turns_of(turns);
  out_.line("if ({}) fetch({});", of.has_next, of.next);
}

}  // namespace stitch::codegen
