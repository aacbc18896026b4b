#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/attributes.h"
#include "graph/op.h"
#include "graph/tensor_type.h"

namespace stitch::graph {

class Graph;

/// Shape and dtype inference: the result types of one operator application.
///
/// Errors say which operand or attribute is wrong and why ("attribute 'permutation': [0,0] is not a permutation of
/// 0..1"); Graph::add puts the node's name in front.
Result<std::vector<TensorType>> infer(Op op, std::span<const TensorType> operands, const Attributes& attributes,
                                      std::span<const std::shared_ptr<const Graph>> regions = {});

}  // namespace stitch::graph
