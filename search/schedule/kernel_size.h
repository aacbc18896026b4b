#pragma once

#include "graph/graph.h"

namespace stitch::search {

/// About how many instructions compute one element of each result of each operator, those of bodies once: what a
/// kernel's code, and so the time and the memory that it takes to compile, grow with, faster than in proportion.
double instructions_per_element(const graph::Graph& kernel);

/// More in one kernel fits none (kind constraint), and is split into several. TODO-VALUE
inline constexpr double most_instructions_per_element = 1e9;

}  // namespace stitch::search
