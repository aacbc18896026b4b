#pragma once

#include <cstdint>
#include <optional>

#include "graph/passes/rewriter.h"

namespace stitch::graph {

/// The one-element constant that fills `value`, seen through broadcasts, reshapes and transposes; null when `value` is
/// anything else. (Constant folding turns a larger constant of equal elements into this form.)
const ConstantAttributes* splat_constant(const Rewriter& graph, Value value);

/// Its element as a double; integers only as far as a double holds them exactly.
std::optional<double> splat_number(const Rewriter& graph, Value value);
/// Its element, exactly, if the dtype is an integer or pred; u64 as its two's complement bits.
std::optional<std::int64_t> splat_integer(const Rewriter& graph, Value value);

/// Whether every element equals `number` (as C's ==: both zeros are 0, NaN is never equal).
bool is_splat_of(const Rewriter& graph, Value value, double number);
/// Whether every element is the identity of `kind`: adding, multiplying, … it changes nothing.
bool is_identity(const Rewriter& graph, Value value, ReduceKind kind);

}  // namespace stitch::graph
