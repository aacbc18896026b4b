#pragma once

#include "graph/passes/pass.h"

namespace stitch::graph {

/// Chains of convert and bitcast-convert.
///
///  - convert to the same dtype, bitcast of bitcast, bitcast to the same dtype;
///  - convert(convert(x: A → B) → C) is convert(x: A → C) when B holds every value of A (f16 → f32 → f64,
///    bf16 → f32 → bf16, s32 → f64 → f32), or when all three are integers and C is no wider than B;
///  - f32 → bf16 → f32 and f64 → f32 → bf16 stay: the rounding in the middle is part of the program;
///  - convert of an iota is an iota of the other dtype where the first holds all its indices;
///  - select(c, 1, 0) is convert(c).
///
/// Expects: nothing. Exact.
Result<int> simplify_conversions(Graph& graph, const PassContext& context);

/// Whether every value of `from` is a value of `to`.
bool holds_all_values(DType to, DType from);

/// Whether 0, 1, …, count - 1 are values of a number type: then an iota of so many neither wraps nor is rounded.
bool counts_exactly(DType dtype, std::int64_t count);

}  // namespace stitch::graph
