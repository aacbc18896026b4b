#pragma once

#include <string>
#include <vector>

#include "codegen/reduction_emitter.h"

namespace stitch::codegen {

/// Writes what a tile contributes to reductions that other tiles contribute to as well: its results go to scratch, a
/// set for every tile, which a later phase combines.
class PartialEmitter {
 public:
  PartialEmitter(GroupScope& scope, ReductionEmitter& reductions)
      : scope_(scope), group_(scope.group), out_(scope.out), axes_(scope), items_(scope), reductions_(reductions) {}

  /// Declares the accumulators; before the tile's loops.
  void begin();
  /// After them: combines what the block's threads have, and stores it.
  void finish();

 private:
  void emit(const kernel::ReductionPlan& plan);
  /// Conditions on which a thread stores the block's result.
  [[nodiscard]] std::vector<std::string> leaders(const kernel::Anchor& anchor) const;
  /// Number of the tile's set; empty: there is one.
  [[nodiscard]] std::string set_number(const kernel::Anchor& anchor) const;
  /// Where in the scratch buffer the result that the loops stand at lies.
  [[nodiscard]] std::string place(const kernel::ReductionPlan& plan, bool along) const;
  [[nodiscard]] int width(const kernel::ReductionPlan& plan) const;
  void open_kept_loops(kernel::AxisSet kept, int width);
  void emit_store(const kernel::ReductionPlan& plan, int width);

  GroupScope& scope_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
  ReductionEmitter& reductions_;
  std::vector<int> plans_;  ///< numbers of the group's partial reductions
};

}  // namespace stitch::codegen
