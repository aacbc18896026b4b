#pragma once

#include "graph/graph.h"

namespace stitch::search {

/// About how many instructions compute one element of each result of the operators of a kernel that hang together, at
/// most: what the length of a piece of straight code, and so the time and the memory that it takes to compile, grow
/// with, faster than in proportion. Operators hang together where one reads what another computes, but for single
/// numbers and what is spread of them: a thousand updates of an optimizer that share a learning rate are a thousand
/// pieces. Bodies of loops and branches count with their node, once.
double connected_instructions(const graph::Graph& kernel);

/// More in one kernel fits none (kind constraint): the operators are split over several. A chain of as many takes NVRTC
/// a few seconds, one of three times as many a minute.
inline constexpr double most_connected_instructions = 8000;

}  // namespace stitch::search
