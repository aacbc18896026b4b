#pragma once

#include <string>

#include "codegen/load_emitter.h"
#include "codegen/loop_emitter.h"
#include "codegen/shared_emitter.h"
#include "kernel/pipeline/nest.h"

namespace stitch::codegen {

/// Writes the loads of a loop that are made turns ahead (kernel::LoadsAhead). Those into registers:
///
///     bf16 in0_3_next[8];                          registers of the next turn
///     const auto fetch = [&](const int i_loop) {   how a turn is asked for
///       const int i = i0 + i_loop * 1024;
///       load<8, Cached::ahead>(in0_3_next, in0 + i * 4096 + j);
///     };
///     fetch(0);
///     for (int i_loop = 0; i_loop < 8; ++i_loop) {
///       const int i = i0 + i_loop * 1024;
///       bf16 in0_3[8];
///       take_over(in0_3, in0_3_next);
///       if (i_loop + 1 < 8) fetch(i_loop + 1);     nothing beyond the last turn is read
///
/// ptxas 13.0 leaves loads of read-only memory at the top of a loop that has no barrier. Where it has one it moves them
/// behind it, so that they are loads of any memory there, which stay before it (Cached::ahead in device/memory.cuh).
///
/// Those into stages of shared memory, as kernel/pipeline's passes order copies, groups and waits:
///
///     const auto ask = [&](const int i_loop, const int stage) {
///       const int i = i0 + i_loop * 1024;
///       bf16* const in0_3_stage = reinterpret_cast<bf16*>(shared + stage * 4096);
///       copy_async<8>(in0_3_stage + threadIdx.x * 8, in0 + (i * 4096 + j));
///     };
///     ask(0, 0);
///     commit_copies();
///     ask(1, 1);
///     commit_copies();
///     for (int i_loop = 0; i_loop < 8; ++i_loop) {
///       wait_for_groups<1>();
///       if ((i_loop + 2) < 8) ask((i_loop + 2), ((i_loop + 2) % 3));
///       commit_copies();                         in every turn one group, so that the wait is the same in all
///       const int stage = (i_loop % 3);
///       bf16* const in0_3_stage = …
///
/// By bulk copies (device/bulk_copy.cuh) one lane asks for its warp's runs, and the other lanes wait for their bytes:
///
///     const BulkStages<3, 8> copies(shared + 12288);
///     const auto ask = [&](const int i_loop, const int stage) {
///       const int i = i0 + i_loop * 1024;
///       bf16* const in0_3_stage = …
///       if (copies.asks()) {
///         copies.copy<512>(stage, in0_3_stage + threadIdx.x * 8, in0 + (i * 4096 + j));
///         copies.all_asked(stage);
///       }
///     };
///     …
///       copies.await_bytes((i_loop % 3), i_loop / 3);
///       copies.await_readers();                  the lane that fills the last turn's stage knows that all have read it
///       if ((i_loop + 2) < 8) ask((i_loop + 2), ((i_loop + 2) % 3));
///     …
///     copies.end();
///
/// The passes' waits are a block's; of copies that threads make for themselves each thread reads what it asked for
/// itself, and no barrier is needed: neither for that nor before a stage is filled again, which the same thread has
/// read in the turn before.
class AheadEmitter {
 public:
  AheadEmitter(GroupScope& scope, const kernel::LoadsAhead& ahead)
      : scope_(scope),
        out_(scope.out),
        ahead_(ahead),
        axes_(scope),
        items_(scope),
        loops_(scope),
        loads_(scope),
        shared_(scope) {}

  /// What stands before the loop.
  void begin(const LoopEmitter::Iterations& turns);
  /// What stands at the top of a turn: from there on the loads are in the arrays of their names, or in the stages.
  void take_over(const LoopEmitter::Iterations& turns);
  /// What stands behind the loop.
  void end();

 private:
  void begin_registers(const LoopEmitter::Iterations& turns);
  void take_registers(const LoopEmitter::Iterations& turns);
  void emit_fetch();
  void emit_ask();
  void emit_copies_of(const kernel::StagedLoad& load);
  /// The loop with its stages: what stands before its body, and at its top.
  [[nodiscard]] kernel::pipeline::TileNest nest_of(const LoopEmitter::Iterations& turns) const;
  void emit_before_use(const kernel::pipeline::TileNest& nest,
                       const std::vector<kernel::pipeline::TileStatement>& statements,
                       const LoopEmitter::Iterations& turns);
  /// Whether it is made turns ahead of a loop around all sweeps.
  [[nodiscard]] bool is_outer() const { return scope_.group.outer_loops.contains(ahead_.axis); }
  [[nodiscard]] bool meets_barrier() const;

  GroupScope& scope_;
  Writer& out_;
  const kernel::LoadsAhead& ahead_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
  LoopEmitter loops_;
  LoadEmitter loads_;
  SharedEmitter shared_;
};

}  // namespace stitch::codegen
