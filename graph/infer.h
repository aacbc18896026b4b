#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/attributes.h"
#include "graph/op.h"
#include "graph/tensor_type.h"

namespace stitch::graph {

/// What inference has to know of a region: the types it takes and gives.
struct RegionTypes {
  bool missing = false;
  std::vector<TensorType> parameters, results;
  std::string fault;  ///< why results have no type ("result 5.0 does not exist"); empty when all have one
};

/// Shape and dtype inference: the result types of one operator application.
///
/// Errors say which operand or attribute is wrong and why ("attribute 'permutation': [0,0] is not a permutation of
/// 0..1"); Graph::add puts the node's name in front.
Result<std::vector<TensorType>> infer(Op op, std::span<const TensorType> operands, const Attributes& attributes,
                                      std::span<const RegionTypes> regions = {});

}  // namespace stitch::graph
