#pragma once

#include <algorithm>
#include <vector>

#include "graph/attributes.h"
#include "graph/op.h"

namespace stitch::graph::test {

/// The operator table's element-wise operators of so many operands that take this type, without those that need
/// attributes (comparisons and conversions). Tests that run every operator run these, so that a new one is among them.
inline std::vector<Op> elementwise_operators(int operands, DType dtype) {
  std::vector<Op> list;
  for (const OpInfo& row : op_table()) {
    const bool plain = std::holds_alternative<NoAttributes>(default_attributes(row.op));
    if (is_elementwise(row.op) && plain && row.max_operands == operands && takes(row.domain, dtype)) {
      list.push_back(row.op);
    }
  }
  return list;
}

/// Those of them that give floats of floats only: functions.
inline std::vector<Op> floating_functions() {
  std::vector<Op> list;
  for (const int operands : {1, 2}) {
    for (const Op op : elementwise_operators(operands, DType::f32)) {
      const bool classifies = op == Op::is_finite || op == Op::is_nan || op == Op::is_inf;
      if (info(op).domain == OpDomain::floating && !classifies) list.push_back(op);
    }
  }
  return list;
}

}  // namespace stitch::graph::test
