#pragma once

#include <optional>

#include "graph/builder.h"

namespace stitch::import::hlo {

/// Integers that compare as IEEE's total order does: -NaN < -inf < … < -0 < +0 < … < inf < NaN. `bits`: the signed
/// type of x's size.
graph::Value total_order_key(graph::Builder& builder, graph::Value x, graph::DType bits);

std::optional<graph::DType> signed_of_size(int bytes);

}  // namespace stitch::import::hlo
