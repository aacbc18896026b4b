#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace stitch::graph {

/// A loop that a graph has written out turn by turn.
struct UnrolledLoop {
  /// Where every turn finds an operand of one of its operators.
  struct Operand {
    enum class Kind : std::uint8_t {
      this_turn,    ///< what `line` is in the same turn
      turn_before,  ///< what it was in the turn before; in the first turn `value`
      invariant,    ///< `value`, the same in all turns
    };
    Kind kind = Kind::invariant;
    std::int32_t line = -1;
    Value value;
  };

  /// One operator of the loop's body.
  struct Line {
    std::vector<NodeId> nodes;      ///< by turn; the last may be -1, where nothing needs it
    std::vector<Operand> operands;  ///< of a sliced tensor: one, an invariant
    /// A slice that in every turn takes what follows, or what comes before, along `dimension`: it begins `step` further
    /// on, which is plus or minus its extent.
    struct Advance {
      std::size_t dimension = 0;
      std::int64_t step = 0;
    };
    std::optional<Advance> advance;
    /// Whether it depends on what a turn hands to the next. What does not stays in the graph around, too, if that needs
    /// it.
    bool hands_on = false;
  };

  std::int64_t turns = 0;
  std::vector<Line> lines;  ///< in an order in which a turn computes them
};

/// The first loop of at least `fewest_turns` turns that is found and accepted. What it takes in holds no value that
/// depends on the loop itself; all turns are alike. `thorough`: with fewer turns, if more of what reads them is alike
/// then; takes some times as long.
std::optional<UnrolledLoop> find_unrolled_loop(const Graph& graph, std::int64_t fewest_turns, bool thorough,
                                               const std::function<bool(const UnrolledLoop&)>& accepts);

}  // namespace stitch::graph
