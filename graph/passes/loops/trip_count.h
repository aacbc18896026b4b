#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "graph/graph.h"

namespace stitch::graph {

/// The constant by which `body` counts up carried value i (a scalar integer): its result i is parameter i plus it.
std::optional<std::int64_t> counter_step(const Graph& body, std::size_t i);

/// How often a loop runs whose condition compares a counter with a constant; none when it cannot be told (or is
/// beyond 2^31). `start(i)` is the initial value of carried value i, if it is a known integer.
std::optional<std::int64_t> trip_count(const Graph& body, const Graph& condition,
                                       const std::function<std::optional<std::int64_t>(std::size_t)>& start);

}  // namespace stitch::graph
