#pragma once

#include <memory>

#include "driver/api/entry.h"

namespace stitch::driver {

/// A copy of a graph, with the nodes of the original by those of the copy if asked for.
std::unique_ptr<CUgraph_st> copy_graph(Driver& driver, const CUgraph_st& graph,
                                       std::map<CUgraphNode, CUgraphNode>* of_original = nullptr);
/// Ends a graph and its nodes, its children's too.
void forget_nodes(Driver& driver, CUgraph_st& graph);
/// Nodes in an order in which each comes after what it depends on; empty if there is a circle.
std::vector<CUgraphNode> in_order(const CUgraph_st& graph);

/// Work from the parameters of a node, checked as the call on a stream would be.
CUresult work_of(Call& call, const CUDA_KERNEL_NODE_PARAMS& parameters, Work& work);
CUresult work_of(Call& call, const CUDA_MEMCPY3D& parameters, Work& work);
CUresult work_of(Call& call, const CUDA_MEMSET_NODE_PARAMS& parameters, Work& work);
CUresult work_of(Call& call, const CUDA_HOST_NODE_PARAMS& parameters, Work& work);
/// The same for whatever type the parameters are of; a graph of a child is not replaced so. Error:
/// CUDA_ERROR_NOT_SUPPORTED, naming the type.
CUresult work_of_parameters(Call& call, CUgraphNodeParams& parameters, Work& work);

/// Puts new work in the place of a node's, which must be of the same type; attributes of a kernel stay.
CUresult replace_work(CUgraphNode node, Work work);

}  // namespace stitch::driver
