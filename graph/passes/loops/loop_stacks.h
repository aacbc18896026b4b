#pragma once

#include <map>
#include <optional>
#include <vector>

#include "graph/passes/loops/loop_rebuild.h"

namespace stitch::graph {

/// Whether a value per turn is small enough to be kept for all turns although the loop did without.
bool may_keep_turns(const TensorType& type, std::int64_t turns);

/// Where the values that one value of a loop's body has in its turns are found side by side, outside: in the invariant
/// that they are sliced out of, in the carried tensor that they are written to, in a part of a concatenation of which
/// this holds, each but for reshapes and transposes; or in a new carried tensor.
class LoopStacks {
 public:
  explicit LoopStacks(const LoopTurns& turns);

  /// Whether they are there, or may be: not for invariants, nor for what is sliced in ways that are not understood.
  [[nodiscard]] bool possible(Value value) const;
  /// Whether they are there without the loop.
  [[nodiscard]] bool sliced(Value value) const;
  /// Their order, if they are there already or will be.
  [[nodiscard]] std::optional<bool> backward(Value value) const;
  /// Makes sure that they will be there, in this order where that is left to choose.
  void require(Value value, bool backward);

  /// The new tensors that the requirements take.
  [[nodiscard]] const std::vector<LoopEdit::Stack>& added() const { return added_; }

  /// The tensor outside: the turns along dimension 0 in the order asked for, then the value's own dimensions. `loop`,
  /// with all that is in added(), may be missing for what is sliced.
  Value outside(Rewriter& graph, const RebuiltLoop* loop, Value value, bool backward) const;

 private:
  /// On the way up from a value through reshapes and transposes.
  struct Place {
    enum class Kind : std::uint8_t { sliced, written, added, part };
    Kind kind;
    Value at;  ///< of this value the turns are known
    bool backward = false;
    std::size_t index = 0;  ///< in writes() or added(), or the operand of the concatenation
    Value whole = {};       ///< part: the concatenation
  };

  [[nodiscard]] Value root(Value value) const;
  [[nodiscard]] std::optional<Place> find(Value value) const;
  [[nodiscard]] std::optional<Place> find_part(Value value) const;
  Value at_place(Rewriter& graph, const RebuiltLoop* loop, const Place& place) const;
  Value part(Rewriter& graph, const RebuiltLoop* loop, const Place& place) const;
  [[nodiscard]] Dims stacked(const Dims& dims) const;

  const LoopTurns& turns_;
  const Graph& body_;
  std::map<Value, Place> held_;  // written and added
  std::vector<LoopEdit::Stack> added_;
};

/// An invariant of the body, computed around the loop.
Value around(Rewriter& graph, const LoopTurns& turns, Value invariant);

/// dot(stack, other), or dot(other, stack), in the place of a dot of the body whose operand `side` is stacked along
/// dimension 0 and whose other operand is the same in all turns. Returns also the dimension of the turns.
std::pair<Value, std::int64_t> dot_over_turns(Rewriter& graph, const Node& dot, std::size_t side, Value stack,
                                              Value other);

/// Moves dimension `from` of a value to `to`; the others keep their order.
Value moved(Rewriter& graph, Value x, std::int64_t from, std::int64_t to);

}  // namespace stitch::graph
