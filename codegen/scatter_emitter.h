#pragma once

#include <string>
#include <vector>

#include "codegen/load_emitter.h"

namespace stitch::codegen {

/// Writes a scatter from the result's side: every element gathers the updates that go to it, in their order, so that
/// the result does not vary and no atomics are needed. A warp whose lanes all work on elements that the same updates
/// hit tests 32 updates at a time, one a lane; else every thread tests them one after the other. Of updates in sorted
/// lines (kernel/index/sorted_indices.h) those of an element are found by binary search, line by line, or by such a
/// warp in 32 lines at a time, one a lane.
class ScatterEmitter {
 public:
  /// `anchor`: of the scatter, the only one of its group. Its last axis is that of the updates.
  ScatterEmitter(GroupScope& scope, int anchor);

  void emit();

 private:
  [[nodiscard]] bool tests_by_warp() const;
  void open_elements();
  void emit_totals();
  void emit_combination(const std::vector<bool>& wanted);
  void emit_update();
  void emit_updates();
  void emit_updates_by_warp();
  void emit_updates_by_thread();
  void emit_search();
  void emit_runs_by_warp();
  void emit_runs_by_thread();
  void emit_results();

  [[nodiscard]] std::string way() const;
  [[nodiscard]] kernel::AxisSet lane_axes() const;
  [[nodiscard]] std::string total() const { return "total" + axes_.subscript(result_axes_, false); }

  GroupScope& scope_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
  LoopEmitter loops_;
  LoadEmitter loads_;
  const kernel::Anchor& anchor_;
  const graph::ScatterAttributes& scatter_;
  const graph::DType dtype_;
  const std::string type_;  ///< of the accumulator
  const kernel::ItemId operand_, hits_, update_, precedes_;
  const int batch_;             ///< the axis of the updates
  const std::int64_t updates_;  ///< so many of them
  const std::int64_t line_;     ///< so many of them side by side are sorted; 0: none are
  const kernel::AxisSet result_axes_;
  const bool by_warp_;
};

}  // namespace stitch::codegen
