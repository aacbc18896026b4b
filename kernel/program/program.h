#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/device_spec.h"
#include "base/result.h"
#include "kernel/loop/recurrent_step.h"
#include "kernel/program/schedule.h"
#include "kernel/program/state_products.h"
#include "kernel/structure/items.h"
#include "kernel/structure/row_shift.h"
#include "kernel/structure/structure.h"

// A kernel as it will run: the last form before code. Folder kernel/ tells how a kernel graph becomes one, in this
// order:
//
//   structure/kernel_graph      the operators of a fragment that are to be one kernel, as a graph of their own
//   index/axes                  the axes of its iteration space, shared by all of its values
//   structure/structure_builder phases, groups, anchors: what is computed in which order (structure/structure.h),
//                               each group with its scalar program (structure/scalar_program.h), made by index
//                               propagation over index/index_expr
//   program/schedule            the decisions: block, cluster, and for each group which part of which axis is whose
//   program/group_deriver       what follows for a group under its mapping: accesses, what is held between sweeps
//                               (program/holding), what is loaded early, how reductions cross threads
//   program/program_builder     groups joined into a kernel: blocks, shared memory, syncs, what is retained
//   program/legality            whether a device can run it
//
// loop/ makes of a recurrent loop the graph of one turn, which takes the same way; rewrite/ has other ways of computing
// a kernel that are tried beside it. Nothing here searches: search/schedule makes schedules and has the result scored
// by costmodel/, codegen/ prints it, profiler/ runs it, and all three read the structs below and nothing else.

namespace stitch::kernel {

/// How a load or a store touches memory under a mapping.
struct Access {
  int width = 1;        ///< elements per access along the vector axis
  bool uniform = true;  ///< does not depend on the vector axis
};

/// A value kept between sweeps.
struct HeldItem {
  ItemId item = -1;
  int from = 0, until = 0;  ///< computed in sweep `from`, last used in sweep `until`
  Hold place = Hold::registers;
  std::int64_t shared_offset = 0;  ///< bytes, when in shared memory
};

/// How one anchor's reduction crosses the levels.
struct ReductionPlan {
  int anchor = -1;
  std::vector<int> shuffles;         ///< xor distances of the butterfly, ascending; within a warp
  int exchange = 1;                  ///< partial results combined through shared memory, per kept element
  int cluster = 1;                   ///< blocks of a cluster combined through distributed shared memory
  std::int64_t partials = 1;         ///< tiles that each leave one partial result
  std::int64_t kept_per_thread = 1;  ///< accumulators of a thread
  std::int64_t kept_per_block = 1;   ///< distinct results of a block
  std::int64_t shared_bytes = 0;     ///< exchange buffer
  /// The lanes of a warp each read one of the `exchange` (or `cluster`) partial results and combine them by shuffles,
  /// instead of every thread all of them: where combining takes exponentials.
  bool lanes_exchange = false, lanes_cluster = false;
};

/// A load of which the block retains the values in shared memory for a later phase, or finds them there
/// (kernel/program/retention.h): those of the first rounds of its walk. What a thread finds is what it left itself.
struct RetainedLoad {
  ItemId item = -1;
  bool fills = false;              ///< the first of the phases: it loads from device memory
  AxisSet round_loops;             ///< axes whose loops make rounds, as the loop over tiles does
  AxisSet inner_loops;             ///< axes whose loops are within a round
  std::int64_t rounds = 0;         ///< rounds that are retained
  std::int64_t round_bytes = 0;    ///< of a block
  std::int64_t shared_offset = 0;  ///< of the first round, bytes behind resident_offset()
  double share = 0;                ///< of what all blocks load, in these rounds
};

/// A load whose turns lie in shared memory, turn t in stage t mod S of a ring. A thread finds what it asked for itself,
/// or, of bulk copies, what a lane of its warp has asked for.
struct StagedLoad {
  ItemId item = -1;
  std::int64_t stage_bytes = 0;    ///< of a block, in one turn
  std::int64_t shared_offset = 0;  ///< of the first stage, bytes, as HeldItem's
  std::int64_t run = 0;            ///< elements of each bulk copy; 0: threads copy what they read themselves
};

/// Loads that are made before the turn of a loop that uses them: while a turn computes, those of the turns behind it
/// are on their way, and those of the first turns are made before the loop (kernel/program/loads_ahead.h).
struct LoadsAhead {
  int axis = -1;                     ///< whose loop it is
  std::vector<ItemId> loads;         ///< the next turn's, into registers of their own
  int stages = 1;                    ///< of `staged`: those of stages - 1 turns are on their way
  std::vector<StagedLoad> staged;    ///< into shared memory, by asynchronous copies
  bool bulk = false;                 ///< these are bulk copies of warps, each of which has a barrier for every stage
  std::int64_t barriers_offset = 0;  ///< of the barriers, stage by stage, bytes, as HeldItem's

  [[nodiscard]] bool empty() const { return loads.empty() && staged.empty(); }
  [[nodiscard]] bool contains(ItemId load) const { return std::ranges::find(loads, load) != loads.end(); }
  [[nodiscard]] const StagedLoad* stages_of(ItemId load) const {
    const auto found = std::ranges::find(staged, load, &StagedLoad::item);
    return found != staged.end() ? &*found : nullptr;
  }
  /// Shared memory of all stages.
  [[nodiscard]] std::int64_t shared_bytes() const {
    std::int64_t bytes = 0;
    for (const StagedLoad& load : staged) bytes += stages * load.stage_bytes;
    return bytes;
  }
};

/// One pass of a group's threads over their part of the tile.
struct Sweep {
  std::vector<int> anchors;
  std::vector<ItemId> uniform;  ///< computed once per thread before the loops
  std::vector<ItemId> body;     ///< computed in the loops, in order
  /// Loads of the body that are issued together before its arithmetic, into registers. They need nothing that the body
  /// computes; a window's many loads, which would not fit registers, are made where they are used instead.
  std::vector<ItemId> early;
  /// Of them, those that go straight to shared memory, where later sweeps find them too: a thread asks for all that its
  /// loops will read before it waits for any of it (cp.async).
  std::vector<ItemId> copied;
  LoadsAhead ahead;  ///< of `early`: made turns ahead of the sweep's innermost loop
};

/// A group under its mapping: everything that the emitter prints and the cost model counts. For one warp a row
/// (schedule.h's example) a thread has six vectors in registers, `in_thread` and `varying` are {column}, no axis has a
/// loop, and the row's sum is shuffled over the distances 1, 2, 4, 8 and 16. derive_group makes it.
struct GroupProgram {
  GroupStructure structure;
  GroupMapping mapping;
  std::vector<std::int64_t> extents;        ///< of the axes; that over partials has its true extent here, slabs have 1
  std::vector<int> thread_order;            ///< axes from the fastest digit of the thread index to the slowest
  int threads = 1;                          ///< threads that take part: product of lanes and warps
  AxisSet in_thread;                        ///< axes on which a thread has more than one element
  AxisSet outer_loops;                      ///< axes whose loop wraps all sweeps
  AxisSet varying;                          ///< of in_thread: what changes within one iteration of the outer loops
  AxisSet inner_loops;                      ///< axes whose loop is inside each sweep
  std::optional<Misalignment> shift;        ///< of a shifted mapping: elements that a row's vectors begin before it
  std::vector<Access> accesses;             ///< per item (loads), indexed by ItemId
  std::vector<std::vector<Access>> stores;  ///< per anchor, per buffer
  std::vector<HeldItem> held;
  /// Loads that are made once and kept in registers: before the outer loops, or before the turns of a recurrent kernel.
  std::vector<ItemId> hoisted;
  LoadsAhead ahead;  ///< of all sweeps: made turns ahead of the innermost of the outer loops
  /// Of a mapping with tensor_cores: all of its reductions, whose items are in no sweep.
  std::vector<StateProducts> products;
  std::vector<RetainedLoad> retained;
  std::int64_t hoisted_registers = 0;  ///< of a thread, in 32-bit words; part of `registers`
  std::vector<Sweep> sweeps;
  std::vector<ReductionPlan> reductions;
  std::int64_t tiles = 1;           ///< product of the grid extents (blocks of a cluster count once)
  std::int64_t exchange_bytes = 0;  ///< shared memory for reductions
  std::int64_t held_bytes = 0;      ///< shared memory for held values and stages
  int registers = 0;                ///< estimate per thread

  /// Whether vectors along this axis begin before their row.
  [[nodiscard]] bool is_shifted(int axis) const { return shift && axis == mapping.vector_axis; }
  [[nodiscard]] std::int64_t extent(int axis, Level level) const { return mapping.axes[axis].at(level); }
  /// Turns of the loops over these axes.
  [[nodiscard]] std::int64_t turns(AxisSet axes) const;
  /// Elements along these axes that a thread has in registers at once.
  [[nodiscard]] std::int64_t register_elements(AxisSet axes) const;
  /// Elements along these axes that a thread takes in one turn of the outer loops, all turns of the inner ones
  /// included.
  [[nodiscard]] std::int64_t elements_per_thread(AxisSet axes) const;
  /// Elements of a thread's vectors; 1 where no axis has vectors.
  [[nodiscard]] std::int64_t vector_extent() const {
    return mapping.vector_axis < 0 ? 1 : extent(mapping.vector_axis, Level::vector);
  }
  /// Elements of all its axes that a block takes in a turn of the loops that wrap all sweeps.
  [[nodiscard]] std::int64_t round_elements() const;
  /// What is retained of a load, for later phases or from an earlier one; null: nothing.
  [[nodiscard]] const RetainedLoad* retention(ItemId load) const;
  /// Share of a load's elements that blocks find in their shared memory.
  [[nodiscard]] double found_share(ItemId load) const {
    const RetainedLoad* kept = retention(load);
    return kept != nullptr && !kept->fills ? kept->share : 0;
  }
  /// Whether the blocks of a cluster take a part of the tile each.
  [[nodiscard]] bool shares_cluster() const {
    for (const AxisMapping& axis : mapping.axes) {
      if (axis.at(Level::cluster) > 1) return true;
    }
    return false;
  }
};

struct PhaseProgram {
  std::vector<GroupProgram> groups;
  std::int64_t tiles = 0;       ///< of all groups
  bool backwards = false;       ///< PhaseStructure::backwards
  std::vector<Reread> rereads;  ///< PhaseStructure::rereads
  PassingStores passing;        ///< PhaseStructure::passing
};

/// One kernel, fully decided; derive_program (program_builder.h) makes it of a structure and a schedule. Of a recurrent
/// kernel (kernel/loop/recurrent_step.h) the phases are those of one turn of its loop in one block: their groups have
/// one tile, their buffers are those of the step's graph, and what they hand over through scratch stays in the block's
/// shared memory.
struct KernelProgram {
  Schedule schedule;
  std::vector<PhaseProgram> phases;
  std::vector<Scratch> scratch;                    ///< elements of partials: one set; see partial_count
  std::vector<std::int64_t> partial_count;         ///< per scratch: sets of partials (1 for values)
  std::int64_t blocks = 0;                         ///< launch grid, in blocks (a multiple of the cluster)
  std::int64_t shared_bytes = 0;                   ///< dynamic shared memory per block
  int registers = 0;                               ///< estimate per thread
  std::shared_ptr<const RecurrentStep> recurrent;  ///< null: every phase runs once

  [[nodiscard]] std::int64_t scratch_bytes(std::size_t i) const;
  /// Shared memory for held values, and for one of the two exchange buffers, that any of the groups wants.
  [[nodiscard]] std::int64_t held_bytes() const;
  [[nodiscard]] std::int64_t exchange_bytes() const;
  /// Whether the block that arrives last runs this phase by itself.
  [[nodiscard]] bool runs_alone(std::size_t phase) const;
  /// Of the launch; each takes a tile at a time.
  [[nodiscard]] std::int64_t clusters() const { return blocks / schedule.cluster; }
  /// Whether one cluster, or the block that runs it alone, takes several tiles of this phase, one after the other.
  [[nodiscard]] bool is_looped(std::size_t phase) const {
    return phases[phase].tiles > (runs_alone(phase) ? 1 : clusters());
  }
  /// Shared memory that blocks retain from phase to phase.
  [[nodiscard]] std::int64_t retained_bytes() const;
  /// Whether blocks wait for one another, and so must be resident together.
  [[nodiscard]] bool blocks_wait() const;
  /// The graph that the phases compute, of a kernel that was made for `kernel`.
  [[nodiscard]] const graph::Graph& computes(const graph::Graph& kernel) const {
    return recurrent != nullptr ? recurrent->graph : kernel;
  }
};

/// Where the shared memory begins in which a block keeps what phases hand on, and a recurrent kernel's turns.
std::int64_t resident_offset(const KernelProgram& kernel);
ResidentLayout resident_layout(const KernelProgram& kernel);

}  // namespace stitch::kernel
