#pragma once

#include "graph/builder.h"

/// Products of groups of rows, each with a matrix of its own, whose sizes are in memory (mixtures of experts), as XLA's
/// ragged-dot and PyTorch's _grouped_mm have them: a product with every group's matrix, of an operand that is zero
/// where it is another group's, which is what JAX lowers them to. Kernels of ours leave the zeros out
/// (kernel/contraction/shown_depth.h).
namespace stitch::import {

/// s32: where each of the groups ends that follow one another, of their sizes (integers, one dimension).
graph::Value group_ends(graph::Builder& b, graph::Value sizes);

/// x for each group, [groups, x's dimensions], zero where the index along one of x's dimensions is no group's own:
/// before the end (s32) of the group before it, or from its end on.
graph::Value for_groups(graph::Builder& b, graph::Value x, std::int64_t dimension, graph::Value ends);

}  // namespace stitch::import
