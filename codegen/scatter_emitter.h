#pragma once

#include <string>
#include <vector>

#include "codegen/load_emitter.h"
#include "kernel/program/update_list.h"

namespace stitch::codegen {

/// Writes a scatter from the result's side: every element gathers the updates that go to it, in their order, so that
/// the result does not vary and no atomics are needed. A warp whose lanes all work on elements that the same updates
/// hit tests 32 updates at a time, one a lane; else every thread tests them one after the other.
///
/// Updates in sorted lines (kernel/index/sorted_indices.h) are found by binary search. A warp looks in 32 lines at a
/// time, one a lane, for all that goes to any of its lanes' places, which is often nothing; then each lane looks there
/// for its own, line by line, or (where all lanes work on one place) each in its line.
///
/// Updates that blocks search (kernel/index/searched_updates.h) are listed in shared memory, chunk by chunk, those that
/// go to any place of the block's tile (kernel/program/update_list.h); each warp takes from the list what is its rows'.
class ScatterEmitter {
 public:
  /// `anchor`: of the scatter, the only one of its group. Its last axis is that of the updates.
  ScatterEmitter(GroupScope& scope, int anchor);

  void emit();

 private:
  [[nodiscard]] std::int64_t lanes_of(kernel::AxisSet axes) const;
  [[nodiscard]] std::int64_t registers_of(kernel::AxisSet axes) const;
  [[nodiscard]] bool tests_by_warp() const;
  void open_elements();
  void emit_totals();
  void combine_with(const std::string& term);
  void emit_combination(const std::vector<bool>& wanted);
  void emit_update();
  void emit_updates();
  void emit_updates_by_warp();
  void emit_updates_by_thread();
  void emit_runs();
  void emit_bound(const std::string& low, const std::string& high, const std::string& place);
  void emit_places_of_warp();
  void open_lines();
  void emit_run_end();
  void emit_run(const std::string& begin, const std::string& end);
  void emit_run_by_lanes();
  void emit_runs_by_warp();
  void emit_runs_by_lane();
  void emit_runs_by_thread();
  void emit_places_of_block();
  void emit_place_of_update();
  void emit_chunk_list();
  void emit_listed();
  void emit_updates_of_block();
  void emit_results();

  [[nodiscard]] std::string way() const;
  [[nodiscard]] std::string place() const;
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
  const std::string type_;                                      ///< of the accumulator
  const kernel::ItemId operand_, hits_, update_, key_, place_;  ///< the last two of updates that are searched only
  const int batch_;                                             ///< the axis of the updates
  const std::int64_t updates_;                                  ///< so many of them
  const std::int64_t line_;                          ///< so many of them side by side are sorted; 0: none are
  const kernel::AxisSet result_axes_, placed_axes_;  ///< of an element; of those, the ones that updates choose
  const kernel::UpdateList list_;                    ///< no parts: there is none
  const bool whole_warps_, by_warp_;
};

}  // namespace stitch::codegen
