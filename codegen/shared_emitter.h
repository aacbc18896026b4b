#pragma once

#include <string>
#include <string_view>

#include "codegen/item_printer.h"

namespace stitch::codegen {

/// Writes what a group does with its block's shared memory, reductions apart: items that are held there between sweeps
/// (`in0_3_kept`, a run for every thread and turn of its loops), loads that are copied there turns of a loop ahead
/// (`in0_3_stage`, codegen/ahead_emitter.h), and those that blocks retain there from one phase to another
/// (`in0_3_retained`, kernel/program/retention.h), in the first rounds of their walk.
class SharedEmitter {
 public:
  explicit SharedEmitter(GroupScope& scope)
      : scope_(scope), group_(scope.group), out_(scope.out), axes_(scope), items_(scope) {}

  /// Declares the place of an item that is held in shared memory; of one that stays in its stage the turn has.
  void declare_kept(const kernel::HeldItem& held);
  /// Declares a load's place in the stage whose number is the variable `stage`.
  void declare_stage(const kernel::StagedLoad& load);
  /// What is not held in shared memory between sweeps has a place there of its own, in the rounds that are retained.
  void declare_retained();

  [[nodiscard]] bool is_kept(kernel::ItemId id) const { return scope_.held_in_shared(id) != nullptr; }
  /// Whether an earlier phase has left it, in some rounds.
  [[nodiscard]] bool is_found(kernel::ItemId id) const;
  /// Whether this phase leaves it for a later one, in some rounds.
  [[nodiscard]] bool is_left(kernel::ItemId id) const;
  /// The condition that this round is one of them.
  [[nodiscard]] std::string round_is_retained(kernel::ItemId id) const;

  /// The thread's run of an item where the loops stand.
  [[nodiscard]] std::string kept_place(kernel::ItemId id) const;
  [[nodiscard]] std::string retained_place(kernel::ItemId id) const;
  [[nodiscard]] std::string staged_place(kernel::ItemId id) const;
  /// Whether each of its bulk copies brings several vectors of every lane, all on the axis of vectors.
  [[nodiscard]] bool brings_whole_rows(kernel::ItemId id) const;
  /// Moves the run between `place` and the item's registers.
  void emit_from(kernel::ItemId id, const std::string& place);
  void emit_to(kernel::ItemId id, const std::string& place);

 private:
  /// The thread's run of an item, which has a place for every turn of `loops`.
  [[nodiscard]] std::string place(kernel::ItemId id, std::string_view pointer, kernel::AxisSet loops) const;
  /// Elements of the run that one access moves.
  [[nodiscard]] int run_width(kernel::ItemId id) const;
  [[nodiscard]] std::string retained_round(kernel::ItemId id) const;
  void emit_round(kernel::ItemId id);

  GroupScope& scope_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
};

}  // namespace stitch::codegen
