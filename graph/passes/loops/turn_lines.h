#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace stitch::graph {

/// How the turns of a loop lie along a dimension of a tensor whose extent is their number: every turn has one place of
/// its own there.
struct TurnAxis {
  std::int64_t dimension = 0;
  bool backward = false;  ///< turn 0 has the last place, the last turn the first

  bool operator==(const TurnAxis&) const = default;
};

/// Integers of a loop's body that change by the same amount from turn to turn: its counters and what is added to them.
class TurnLines {
 public:
  /// A scalar integer that is first + step · turn.
  struct Line {
    std::int64_t first = 0, step = 0;
  };

  /// `starts`: by carried value, what it begins with if that is a known integer. Refers to the body.
  TurnLines(const Graph& body, std::span<const std::optional<std::int64_t>> starts, std::int64_t turns);

  [[nodiscard]] const std::optional<Line>& of(NodeId node) const { return lines_[node]; }
  /// Whether the type holds the line's values of all turns.
  [[nodiscard]] bool fits(const Line& line, DType dtype) const;
  /// For a slice of `sizes` of a tensor, whose starts are the node's operands from `first_start` on: the axis along
  /// which every turn takes one place, all of them in the end.
  [[nodiscard]] std::optional<TurnAxis> axis(const Dims& extents, const Dims& sizes, const Node& node,
                                             std::size_t first_start) const;

 private:
  [[nodiscard]] std::optional<Line> line_of(const Node& node) const;

  const Graph& body_;
  std::int64_t turns_;
  std::vector<std::optional<Line>> lines_;  ///< by node, first results
};

}  // namespace stitch::graph
