#pragma once

#include <string>
#include <vector>

#include "codegen/load_emitter.h"
#include "codegen/partial_emitter.h"
#include "codegen/product_emitter.h"
#include "codegen/sweep_emitter.h"

namespace stitch::codegen {

/// Prints the code of one group for one tile (variable `tile`) of the kernel that codegen/kernel.h lowers. Its passes,
/// in order: name the digits of the axes (LoopEmitter); declare what lives across sweeps (LoadEmitter, SharedEmitter);
/// write the sweeps (SweepEmitter), which leave reductions to the ReductionEmitter; last, leave partial results
/// (PartialEmitter). Scans and scatters, alone in their groups, have emitters of their own. A row's sum, 32 lanes of 4:
///
///     // axes  i: 512 = grid 512; j: 128 = vector 4, lane 32
///     const int j_lane = static_cast<int>(threadIdx.x);
///     const int i = tile;
///     const int j = j_lane * 4;
///
///     // sweep 0: reduce 1
///     f32 sum0 = 0.0f;
///     …
///
/// The code refers to buffers by the names of pointers(), to `tile`, and to `shared`, `slab` and `extent` where there
/// are such; who prints the function around it gives it those.
class GroupEmitter {
 public:
  GroupEmitter(const graph::Graph& graph, const kernel::GroupProgram& group, const kernel::Schedule& schedule,
               const GroupFrame& frame);
  GroupEmitter(const GroupEmitter&) = delete;  // its parts refer to its scope
  GroupEmitter& operator=(const GroupEmitter&) = delete;

  /// The statements. An emitter emits these or the hoisted loads, once.
  std::string emit();
  /// The statements that make the hoisted loads of a kernel that takes turns, into arrays of their names; and that
  /// bring weights to where tensor cores find them.
  std::string emit_hoisted();

  [[nodiscard]] const GroupPointers& pointers() const { return scope_.pointers; }
  /// Whether what emit() wrote arrives at a cluster barrier without waiting there.
  [[nodiscard]] bool leaves_cluster() const { return scope_.leaves_cluster; }
  [[nodiscard]] std::vector<HoistedLoad> hoisted() const;

 private:
  void emit_sweeps();
  /// The loops that wrap all sweeps; in the innermost one loads may be made a turn ahead.
  void open_outer_loops();

  GroupScope scope_;
  LoopEmitter loops_;
  LoadEmitter loads_;
  SharedEmitter shared_;
  ReductionEmitter reductions_;
  ProductEmitter products_;
};

}  // namespace stitch::codegen
