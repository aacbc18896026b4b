#pragma once

#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "lab/breadth/breadth.h"

namespace stitch::lab {

/// What says whether cases (of one device) are right: check_cases.
using CaseCheck = std::function<std::vector<CaseVerdict>(std::span<const BreadthCase>)>;

/// A case that fails as another does, with as little in it as was found.
struct ShrunkCase {
  BreadthCase smallest;
  CaseVerdict verdict;
  int steps = 0;  ///< that made it smaller
};

/// Makes the graph of a wrong case smaller as long as some seed of schedules and inputs still shows a fault of the same
/// class: results are dropped, operators become parameters, or give way to one of their operands of the same type. The
/// case as it is if it is not wrong. Ends with what it has when `stop` is requested.
ShrunkCase shrink(const CaseCheck& check, const BreadthCase& wrong, const std::stop_token& stop = {});

/// Graphs that are one step smaller: the most effective steps first.
std::vector<graph::Graph> smaller_graphs(const graph::Graph& graph);

}  // namespace stitch::lab
