#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/item_printer.h"

namespace stitch::codegen {

/// Writes the reductions of a group: every thread accumulates its own elements while a sweep runs,
///
///     f32 sum0 = 0.0f;                              declare
///     sum0 += in0_1[v];                             emit_accumulate, in the sweep's loops
///     sum0 = reduce_lanes<Sum, 16, 8, 4, 2, 1>(sum0);                      finish, behind them:
///     partial0[i_warp] = sum0;                                             lanes, then warps through
///     __syncthreads();                                                     shared memory, then the blocks
///     sum0 = reduce_shared<Sum, 8, 1>(partial0 + 0);                       of a cluster
///
/// after which every thread that needs it has the result. Reductions are named by the number of their anchor. It
/// remembers which of the two exchange buffers of the block is free.
class ReductionEmitter {
 public:
  explicit ReductionEmitter(GroupScope& scope)
      : scope_(scope), group_(scope.group), out_(scope.out), axes_(scope), items_(scope) {}

  /// To be called before the loops around the sweeps.
  void begin();
  void declare(int anchor);
  void emit_accumulate(int anchor, bool element);
  /// Whether the elements of a vector are added together, behind the loop over them: of exponentials relative to a
  /// maximum that moves the sum is rescaled once a vector instead of once an element. The loop then stands between
  /// declare_run and emit_run, and has emit_run_element in the place of emit_accumulate.
  [[nodiscard]] bool takes_runs(int anchor) const;
  void declare_run(int anchor);
  void emit_run_element(int anchor);
  void emit_run(int anchor);
  /// `plans`: numbers of the reductions that end here, all of them in a sweep, or all of them partial.
  void finish(const std::vector<int>& plans);

  /// Axes that the results of a reduction have.
  [[nodiscard]] kernel::AxisSet kept_axes(int anchor) const;
  /// The thread's accumulator where the loops over what it keeps stand.
  [[nodiscard]] std::string accumulator(int anchor, bool element = true) const {
    return items_.accumulator_name(anchor) + axes_.subscript(kept_axes(anchor), element);
  }
  [[nodiscard]] std::string accumulator_type(int anchor) const;

 private:
  [[nodiscard]] const kernel::ReductionPlan& plan(int number) const { return group_.reductions[number]; }
  [[nodiscard]] std::string accumulator_op(int anchor) const;
  [[nodiscard]] std::string identity(int anchor) const;
  [[nodiscard]] std::string operand(int anchor, bool element) const;
  /// Loops over the results that a thread keeps.
  void open_kept_loops(int anchor);
  /// Position of a thread's result among those of its block.
  [[nodiscard]] std::string kept_index(int anchor) const;

  void combine_lanes(const kernel::ReductionPlan& plan);
  /// A plan that crosses warps or blocks, and the name of its part of the exchange buffer.
  struct Crossing {
    const kernel::ReductionPlan* plan = nullptr;
    std::string buffer;
  };
  [[nodiscard]] std::vector<Crossing> declare_buffers(const std::vector<int>& plans, std::int64_t base,
                                                      const std::string& turn);
  /// Whether no reduction behind these crosses blocks, and every block meets what is written here once a tile.
  [[nodiscard]] bool is_last_crossing(const std::vector<int>& plans) const;
  [[nodiscard]] bool overwrites_what_blocks_read(int sweep) const;
  void wait_for_readers();
  [[nodiscard]] bool partials_lie_together(const kernel::ReductionPlan& plan) const;
  /// Conditions on which a thread speaks for those that have the same partial result.
  [[nodiscard]] std::vector<std::string> lane_leaders(const kernel::ReductionPlan& plan) const;
  [[nodiscard]] std::vector<std::string> block_leaders(int anchor) const;
  [[nodiscard]] std::string partner_index(const kernel::ReductionPlan& plan) const;
  void emit_exchange_write(const Crossing& crossing);
  void emit_exchange_read(const Crossing& crossing);
  void emit_block_result(Crossing& crossing);
  void emit_cluster_read(const Crossing& crossing);

  GroupScope& scope_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
  int exchanges_ = 0;                    ///< so many have been written
  std::map<int, bool> crosses_cluster_;  ///< the sweeps that exchange, and whether blocks of a cluster do
  bool alternating_ = false;
  int depth_ = 0;  ///< outside the loops around the sweeps
};

/// Conditions as those of an if, or parts of another list.
std::string joined(const std::vector<std::string>& parts, std::string_view separator);

}  // namespace stitch::codegen
