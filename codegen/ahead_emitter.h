#pragma once

#include "codegen/load_emitter.h"
#include "codegen/loop_emitter.h"

namespace stitch::codegen {

/// Writes the loads of a loop that are made a turn ahead (kernel::LoadsAhead):
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
class AheadEmitter {
 public:
  AheadEmitter(GroupScope& scope, const kernel::LoadsAhead& ahead)
      : scope_(scope), out_(scope.out), ahead_(ahead), axes_(scope), items_(scope), loops_(scope), loads_(scope) {}

  /// What stands before the loop.
  void begin(const LoopEmitter::Iterations& turns);
  /// What stands at the top of a turn: from there on the loads are in the arrays of their names.
  void take_over(const LoopEmitter::Iterations& turns);

 private:
  void emit_fetch();
  [[nodiscard]] bool meets_barrier() const;

  GroupScope& scope_;
  Writer& out_;
  const kernel::LoadsAhead& ahead_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
  LoopEmitter loops_;
  LoadEmitter loads_;
};

}  // namespace stitch::codegen
