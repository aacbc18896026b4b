#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/index/axes.h"
#include "kernel/structure/scalar_program.h"

namespace stitch::kernel {

// A kernel's structure says what is computed and in which order, before anything is mapped to threads. For
//
//     softmax of f32[1024,768], with its rows inside a tile
//
// it is one phase with one group over the axes (row, column), which has three anchors: a reduce (the row's maximum, in
// sweep 0), a reduce (the row's sum, in sweep 1) and a store (in sweep 2). With rows that no tile holds the reductions
// leave partial results instead, which a group of the next phase finishes.
//
// derive_structure (kernel/structure/structure_builder.h) makes structures, of which the stitch explorer tries several
// for a kernel. With a mapping for each group, derive_program makes a KernelProgram of one (kernel/program/program.h),
// which carries the structure of its groups along: codegen and the cost model find anchors and items there.

/// Something that a group computes for its own sake: a value it stores, or a reduction (a sub-root).
struct Anchor {
  enum class Kind : std::uint8_t {
    store,    ///< writes `item` to `buffer` at `address`
    reduce,   ///< combines `item` over `reduced`; every thread that needs it gets the result
    partial,  ///< combines `item` over the part of `reduced` that a tile holds; partial results go to scratch
    scan,     ///< cumulative combination along one axis, written to `buffer`
    sort,     ///< lines along `reduced` in the order of items[0]; items[1 + i] goes to buffers[i]
    scatter,  ///< combines updates into a tensor, written to `buffer`: every element looks for its updates (items:
              ///< what is there, whether an update hits, the update; of those that are searched, by blocks or in sorted
              ///< lines, where it goes, the element's place)
    atomic,   ///< combines `item` into the element of `buffer` at `address`, which an earlier phase has filled
  };
  Kind kind = Kind::store;
  graph::NodeId node = -1;      ///< the reduction, or the node whose value is stored
  graph::Value value;           ///< what is stored, or the reduction's result
  std::vector<ItemId> items;    ///< operand of the reduction or value to store; more for several results at once
  std::vector<Buffer> buffers;  ///< where results go (store, partial: one per item; scatter: one)
  std::vector<int> results;     ///< scan, sort: by buffer, which of the node's results is stored there
  std::vector<Index> addresses;
  graph::DType dtype = graph::DType::f32;  ///< of the elements that are stored (partial: of the first buffer's)
  ItemId guard = -1;                       ///< store only where this holds
  AxisSet axes;                            ///< axes of the group that the anchor ranges over (reduced ones included)
  AxisSet reduced;
  graph::Op combiner = graph::Op::reduce;  ///< reduce, partial: that, arg_reduce or max_exp_sum
  int sweep = 0;                           ///< sweep of the group in which it is computed

  /// Its threads load and store in loops of its own, not in those and the registers of the group's mapping.
  [[nodiscard]] bool has_own_loops() const { return kind == Kind::scan || kind == Kind::sort || kind == Kind::scatter; }
};

/// A set of anchors that share one iteration space and one mapping: the design's group.
struct GroupStructure {
  std::shared_ptr<ScalarProgram> program;
  std::vector<Anchor> anchors;    ///< in order of computation
  std::vector<int> item_sweep;    ///< per item: the earliest sweep in which it can be computed
  int sweep_count = 1;            ///< how many sweeps there are: passes, with what reductions of one give the next
  int partial_axis = -1;          ///< position of the axis over partial results of an earlier phase, or -1
  graph::NodeId partial_of = -1;  ///< a reduction whose partials that axis runs over
  int slab_axis = -1;             ///< position of the axis of the kernel's slabs, or -1; a tile is of one of them
  std::set<int> lasting_inputs;   ///< StructureOptions::lasting_inputs

  [[nodiscard]] bool has_partials() const;
};

/// Bytes of a buffer that it matters to read twice: what is smaller is in L2 in any case.
inline constexpr std::int64_t least_reread = 1 << 20;

/// What a phase reads of what an earlier one was the last to read or write.
struct Reread {
  int phase = 0;
  std::int64_t bytes = 0;
};

/// Large results that nothing in the kernel reads, while it reads other things again: they leave L2 to those.
struct PassingStores {
  std::vector<Buffer> buffers;
  std::int64_t bytes = 0;
};

/// Groups that do not depend on one another; they run side by side (packing).
struct PhaseStructure {
  std::vector<GroupStructure> groups;
  bool backwards = false;       ///< tiles are taken from the last to the first (kernel/structure/walk_order.h)
  std::vector<Reread> rereads;  ///< of large buffers
  PassingStores passing;
};

/// An intermediate in device memory. Elements are kept in the accumulator's type.
struct Scratch {
  enum class Kind : std::uint8_t { value, partials };
  Kind kind = Kind::value;
  graph::Value value;
  graph::DType dtype = graph::DType::f32;
  std::int64_t elements = 0;  ///< of a value; of one set of partials
};

/// What a kernel computes and in which order, before anything is mapped to threads: phases separated by a grid-wide
/// dependence, each with its groups, each with its sweeps separated by reductions.
struct KernelStructure {
  std::vector<PhaseStructure> phases;
  std::vector<Scratch> scratch;
};

}  // namespace stitch::kernel
