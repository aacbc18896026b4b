#pragma once

#include <map>
#include <set>
#include <vector>

#include "codegen/group_frame.h"
#include "codegen/group_pointers.h"
#include "codegen/writer.h"
#include "graph/graph.h"
#include "kernel/program/program.h"

namespace stitch::codegen {

/// A group under way to text: what is printed, what it is called, and what holds where the writer stands. One value is
/// shared by the printers, which turn axes and items into expressions, and the emitters, which write statements; it is
/// made by GroupEmitter.
struct GroupScope {
  GroupScope(const graph::Graph& computed, const kernel::GroupProgram& printed, const kernel::Schedule& of_kernel,
             const GroupFrame& around);

  [[nodiscard]] const kernel::Anchor& anchor(int number) const { return group.structure.anchors[number]; }
  [[nodiscard]] const kernel::HeldItem* held_in_shared(kernel::ItemId id) const;
  /// Keeps an item as an array of registers, with an element for each of its places in `varying`.
  void keep(kernel::ItemId id) { arrays[id] = program.at(id).axes & group.varying; }

  const graph::Graph& graph;
  const kernel::GroupProgram& group;
  const kernel::ScalarProgram& program;
  const kernel::Schedule& schedule;
  const GroupFrame frame;
  const GroupPointers pointers;
  const std::map<kernel::ItemId, const kernel::HeldItem*> held;
  const std::set<kernel::ItemId> rounded_quotients;  ///< divisions that must be rounded correctly

  Writer out;
  std::map<kernel::ItemId, kernel::AxisSet> arrays;  ///< items kept as arrays, with the axes that index them
  std::vector<kernel::ItemId> sweep_arrays;  ///< of those, the ones that end with the sweep that is being written
  std::set<kernel::ItemId> taken_over;       ///< loads that were made before, and are in their arrays already
  std::set<kernel::ItemId> staged;           ///< loads that are in their stages of shared memory (kernel::StagedLoad)
  bool asks_ahead = false;                   ///< what is loaded is for the next turn of a loop
  bool asks_unwaited = false;                ///< what is loaded stands before the wait for the launch before
  /// What an earlier phase has left is read many times over: L1 may keep it, which has nothing older since the barrier.
  bool keeps_in_l1 = false;
  bool leaves_cluster = false;  ///< the blocks have arrived at a cluster barrier that the kernel waits at
  kernel::AxisSet whole_axes;   ///< axes whose end the iterations that are being written do not meet
};

}  // namespace stitch::codegen
