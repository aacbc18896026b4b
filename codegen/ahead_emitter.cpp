#include "codegen/ahead_emitter.h"

#include <algorithm>

namespace stitch::codegen {

using kernel::ItemId;

namespace {

constexpr std::string_view of_next_turn = "_next";

}  // namespace

void AheadEmitter::begin(const LoopEmitter::Iterations& turns) {
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
  if (scope_.group.outer_loops.contains(ahead_.axis)) loops_.emit_start_in_row();
  scope_.asks_ahead = meets_barrier();
  for (const ItemId id : ahead_.loads) loads_.emit_guarded(id, of_next_turn);
  scope_.asks_ahead = false;
  out_.set_depth(depth);
  out_.line("}};");
}

/// Whether a turn of the loop comes to a barrier of the block, which loads may be kept in front of.
bool AheadEmitter::meets_barrier() const {
  if (!scope_.group.outer_loops.contains(ahead_.axis)) return false;
  return std::ranges::any_of(scope_.group.reductions, [&](const kernel::ReductionPlan& plan) {
    return scope_.anchor(plan.anchor).kind == kernel::Anchor::Kind::reduce && (plan.exchange > 1 || plan.cluster > 1);
  });
}

void AheadEmitter::take_over(const LoopEmitter::Iterations& turns) {
  for (const ItemId id : ahead_.loads) {
    loads_.declare_registers(id);
    out_.line("take_over({0}, {0}{1});", items_.name(id), of_next_turn);
    scope_.taken_over.insert(id);
  }
  const LoopEmitter::Turns of = loops_.turns_of(turns);
  out_.line("if ({}) fetch({});", of.has_next, of.next);
}

}  // namespace stitch::codegen
