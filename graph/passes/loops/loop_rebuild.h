#pragma once

#include <vector>

#include "graph/passes/loops/loop_turns.h"

namespace stitch::graph {

/// What is to change of a loop. Everything else stays, and what nothing needs any more leaves the body.
struct LoopEdit {
  /// In the place of one value of the body: its own place in a tensor from outside, which the loop carries.
  struct Slice {
    NodeId node = -1;
    Value tensor;  ///< of the graph around
    TurnAxis axis;
  };
  /// A value of the body of which all turns are wanted after the loop, in a new carried tensor.
  struct Stack {
    Value value;
    bool backward = false;
  };

  std::vector<bool> removed;  ///< by carried value: no other carried value, slice or stack depends on it
  std::vector<Slice> slices;
  std::vector<Stack> stacks;
};

struct RebuiltLoop {
  Value first;                         ///< result 0
  std::vector<std::int32_t> position;  ///< of the old carried values among its results; -1 for those removed
  std::int32_t first_stack = 0;        ///< position of stack 0; its type is stack_type, the others follow

  [[nodiscard]] Value result(std::size_t old_carried) const { return {first.node, position[old_carried]}; }
  [[nodiscard]] Value stack(std::size_t i) const { return {first.node, first_stack + static_cast<std::int32_t>(i)}; }
};

/// The turns along dimension 0, then the value's own extents other than 1.
TensorType stack_type(const LoopTurns& turns, Value value);

/// Adds the changed loop to the graph.
RebuiltLoop rebuild(Rewriter& graph, const LoopTurns& turns, const LoopEdit& edit);

}  // namespace stitch::graph
