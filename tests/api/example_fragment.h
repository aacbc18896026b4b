#pragma once

#include "graph/builder.h"
#include "graph/canonical.h"

namespace stitch::api {

/// exp of f32[128], canonical.
inline graph::Graph exponential() {
  graph::Builder builder;
  const auto x = builder.parameter(graph::DType::f32, {128});
  return graph::canonicalise(*builder.finish({builder.unary(graph::Op::exp, x)}))->graph;
}

}  // namespace stitch::api
