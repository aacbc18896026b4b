// Nodes of graphs by kind: adding them, their parameters.
#include <algorithm>

#include "driver/api/copy.h"
#include "driver/api/entry.h"
#include "driver/api/graph_store.h"
#include "driver/api/kernel_launch.h"

namespace stitch::driver {

CUresult work_of(Call& call, const CUDA_KERNEL_NODE_PARAMS& parameters, Work& work) {
  CUcontext context = parameters.ctx;
  if (context == nullptr) STITCH_CU_TRY(call.context(context));
  if (!call.driver.contexts.contains(context)) return CUDA_ERROR_INVALID_CONTEXT;
  const CUlaunchConfig config = {parameters.gridDimX,
                                 parameters.gridDimY,
                                 parameters.gridDimZ,
                                 parameters.blockDimX,
                                 parameters.blockDimY,
                                 parameters.blockDimZ,
                                 parameters.sharedMemBytes,
                                 nullptr,
                                 nullptr,
                                 0};
  const void* handle = parameters.func != nullptr ? static_cast<const void*>(parameters.func) : parameters.kern;
  KernelWork kernel;
  STITCH_CU_TRY(prepare_launch(call, {handle, context, config, parameters.kernelParams, parameters.extra}, kernel));
  work = std::move(kernel);
  return CUDA_SUCCESS;
}

CUresult work_of(Call& call, const CUDA_MEMCPY3D& parameters, Work& work) {
  CopyWork copy;
  bool to_pageable = false;
  STITCH_CU_TRY(prepare_copy(call, parameters, true, copy, to_pageable));
  work = std::move(copy);
  return CUDA_SUCCESS;
}

CUresult work_of(Call& call, const CUDA_MEMSET_NODE_PARAMS& parameters, Work& work) {
  STITCH_CU_TRY(prepare_fill(call, parameters));
  work = FillWork{parameters};
  return CUDA_SUCCESS;
}

CUresult work_of(Call&, const CUDA_HOST_NODE_PARAMS& parameters, Work& work) {
  if (parameters.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  work = HostWork{parameters.fn, parameters.userData, {}};
  return CUDA_SUCCESS;
}

CUresult replace_work(CUgraphNode node, Work work) {
  if (node->work.index() != work.index()) return CUDA_ERROR_INVALID_VALUE;
  if (const auto* old = std::get_if<KernelWork>(&node->work)) {
    auto& kernel = std::get<KernelWork>(work);
    kernel.attributes = old->attributes;
    for (const CUlaunchAttribute& attribute : kernel.attributes) apply_attribute(kernel, attribute.id, attribute.value);
  }
  node->work = std::move(work);
  node->parameter_pointers.clear();
  return CUDA_SUCCESS;
}

namespace {

CUresult add(Call& call, CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count, Work work) {
  std::vector<CUgraphNode> all(before, before + (before == nullptr ? 0 : count));
  for (CUgraphNode each : all) {
    if (!call.driver.nodes.contains(each) || each->graph != graph) return CUDA_ERROR_INVALID_VALUE;
  }
  *node = add_node(call.driver, graph, std::move(all), std::move(work));
  return CUDA_SUCCESS;
}

/// The body of a function that adds a node: makes its work.
template <class Body>
CUresult add_entry(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count, Body&& body) {
  return entry([&](Call& call) -> CUresult {
    if (node == nullptr || !call.driver.graphs.contains(graph) || (count > 0 && before == nullptr)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    Work work;
    STITCH_CU_TRY(body(call, work));
    return add(call, node, graph, before, count, std::move(work));
  });
}

template <class Kind, class Body>
CUresult node_of_kind(CUgraphNode node, Body&& body) {
  return entry([&](Call& call) -> CUresult {
    if (!call.driver.nodes.contains(node)) return CUDA_ERROR_INVALID_VALUE;
    auto* work = std::get_if<Kind>(&node->work);
    return work == nullptr ? CUDA_ERROR_INVALID_VALUE : body(call, *work);
  });
}

/// `read` makes the parameters of the node's work.
template <class Kind, class Parameters, class Read>
CUresult get_parameters(CUgraphNode node, Parameters* parameters, Read read) {
  return node_of_kind<Kind>(node, [&](Call&, const Kind& work) -> CUresult {
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *parameters = read(work);
    return CUDA_SUCCESS;
  });
}

template <class Parameters>
CUresult set_parameters(CUgraphNode node, const Parameters* parameters) {
  return entry([&](Call& call) -> CUresult {
    if (parameters == nullptr || !call.driver.nodes.contains(node)) return CUDA_ERROR_INVALID_VALUE;
    Work work;
    STITCH_CU_TRY(work_of(call, *parameters, work));
    return replace_work(node, std::move(work));
  });
}

void write_parameters(CUgraphNode node, KernelWork& work, CUDA_KERNEL_NODE_PARAMS& parameters) {
  node->parameter_pointers.clear();
  for (const emulator::KernelParameter& parameter : work.kernel->program.parameters()) {
    node->parameter_pointers.push_back(work.parameters.data() + parameter.offset);
  }
  parameters = {};
  if (work.kernel->module != nullptr) {
    parameters.func = static_cast<CUfunction>(work.kernel.get());
  } else {
    parameters.kern = static_cast<CUkernel>(work.kernel.get());
  }
  const auto& config = work.config;
  parameters.gridDimX = config.grid.x;
  parameters.gridDimY = config.grid.y;
  parameters.gridDimZ = config.grid.z;
  parameters.blockDimX = config.block.x;
  parameters.blockDimY = config.block.y;
  parameters.blockDimZ = config.block.z;
  parameters.sharedMemBytes = config.dynamic_shared_bytes;
  parameters.kernelParams = node->parameter_pointers.data();
}

CUresult child_of(Call& call, CUgraph parent, CUgraph child, Work& work) {
  if (!call.driver.graphs.contains(child) || child == parent) return CUDA_ERROR_INVALID_VALUE;
  parent->children.push_back(copy_graph(call.driver, *child));
  CUgraph copy = parent->children.back().get();
  copy->parent = parent;
  call.driver.graphs.insert(copy);
  work = ChildWork{copy};
  return CUDA_SUCCESS;
}

CUresult allocation_of(Call& call, CUDA_MEM_ALLOC_NODE_PARAMS& parameters, Work& work) {
  CUcontext context = nullptr;
  STITCH_CU_TRY(call.context(context));
  const EmulatedDevice* device = nullptr;
  STITCH_CU_TRY(call.device(parameters.poolProps.location.id, device));
  if (parameters.bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  Allocation details;
  details.kind = MemoryKind::pooled;
  details.context = context;
  details.device = device->ordinal;
  const auto made = call.driver.memory.allocate(std::move(details), parameters.bytesize, "allocation node");
  if (!made) return call.refuse(CUDA_ERROR_OUT_OF_MEMORY, made.error().message);
  // It is the graph's, and no leak of the program's.
  call.driver.memory.mark_ending(*made);
  parameters.dptr = *made;
  work = AllocateWork{*made, parameters.bytesize, parameters};
  return CUDA_SUCCESS;
}

CUresult release_of(Call& call, CUdeviceptr address, Work& work) {
  if (!call.driver.memory.find(address)) return CUDA_ERROR_INVALID_VALUE;
  work = FreeWork{address, true};
  return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS current_version(const CUDA_KERNEL_NODE_PARAMS_v3& parameters) {
  return {parameters.func,         parameters.gridDimX,  parameters.gridDimY,  parameters.gridDimZ,
          parameters.blockDimX,    parameters.blockDimY, parameters.blockDimZ, parameters.sharedMemBytes,
          parameters.kernelParams, parameters.extra,     parameters.kern,      parameters.ctx};
}

CUDA_MEMSET_NODE_PARAMS current_version(const CUDA_MEMSET_NODE_PARAMS_v2& parameters) {
  return {parameters.dst,         parameters.pitch, parameters.value,
          parameters.elementSize, parameters.width, parameters.height};
}

/// The work of a node by whatever parameters it is given.
CUresult work_of_any(Call& call, CUgraph graph, CUgraphNodeParams& parameters, Work& work) {
  switch (parameters.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return work_of(call, current_version(parameters.kernel), work);
    case CU_GRAPH_NODE_TYPE_MEMCPY: return work_of(call, parameters.memcpy.copyParams, work);
    case CU_GRAPH_NODE_TYPE_MEMSET: return work_of(call, current_version(parameters.memset), work);
    case CU_GRAPH_NODE_TYPE_HOST: return work_of(call, {parameters.host.fn, parameters.host.userData}, work);
    case CU_GRAPH_NODE_TYPE_EMPTY: work = EmptyWork{}; return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      work = WaitWork{parameters.eventWait.event};
      return call.need(call.driver.events, parameters.eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      work = RecordWork{parameters.eventRecord.event};
      return call.need(call.driver.events, parameters.eventRecord.event);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return graph == nullptr ? CUDA_ERROR_NOT_SUPPORTED : child_of(call, graph, parameters.graph.graph, work);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS older{};
      older.poolProps = parameters.alloc.poolProps;
      older.bytesize = parameters.alloc.bytesize;
      STITCH_CU_TRY(allocation_of(call, older, work));
      parameters.alloc.dptr = older.dptr;
      return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return release_of(call, parameters.free.dptr, work);
    default:
      return call.refuse(CUDA_ERROR_NOT_SUPPORTED,
                         fmt::format("graph nodes of type {} (conditional, external semaphores, memory operations)",
                                     static_cast<int>(parameters.type)),
                         MisuseKind::unsupported);
  }
}

}  // namespace

CUresult work_of_parameters(Call& call, CUgraphNodeParams& parameters, Work& work) {
  return work_of_any(call, nullptr, parameters, work);
}

}  // namespace stitch::driver

using namespace stitch::driver;

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                      const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_entry(node, graph, before, count,
                   [&](Call& call, Work& work) { return work_of(call, *parameters, work); });
}

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                      const CUDA_MEMCPY3D* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_entry(node, graph, before, count,
                   [&](Call& call, Work& work) { return work_of(call, *parameters, work); });
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                      const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_entry(node, graph, before, count,
                   [&](Call& call, Work& work) { return work_of(call, *parameters, work); });
}

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                    const CUDA_HOST_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_entry(node, graph, before, count,
                   [&](Call& call, Work& work) { return work_of(call, *parameters, work); });
}

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count) {
  return add_entry(node, graph, before, count, [](Call&, Work&) { return CUDA_SUCCESS; });
}

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                          CUgraph child) {
  return add_entry(node, graph, before, count,
                   [&](Call& call, Work& work) { return child_of(call, graph, child, work); });
}

CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                           CUevent event) {
  return add_entry(node, graph, before, count, [&](Call& call, Work& work) {
    work = RecordWork{event};
    return call.need(call.driver.events, event);
  });
}

CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                         CUevent event) {
  return add_entry(node, graph, before, count, [&](Call& call, Work& work) {
    work = WaitWork{event};
    return call.need(call.driver.events, event);
  });
}

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                        CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_entry(node, graph, before, count,
                   [&](Call& call, Work& work) { return allocation_of(call, *parameters, work); });
}

CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, size_t count,
                                       CUdeviceptr address) {
  return add_entry(node, graph, before, count, [&](Call& call, Work& work) { return release_of(call, address, work); });
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, const CUgraphEdgeData*,
                                size_t count, CUgraphNodeParams* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_entry(node, graph, before, count,
                   [&](Call& call, Work& work) { return work_of_any(call, graph, *parameters, work); });
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* parameters) {
  return entry([&](Call& call) -> CUresult {
    if (parameters == nullptr || !call.driver.nodes.contains(node)) return CUDA_ERROR_INVALID_VALUE;
    Work work;
    STITCH_CU_TRY(work_of_parameters(call, *parameters, work));
    return replace_work(node, std::move(work));
  });
}

CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* parameters) {
  return node_of_kind<KernelWork>(node, [&](Call&, KernelWork& work) -> CUresult {
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    write_parameters(node, work, *parameters);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return set_parameters(node, parameters);
}

CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* parameters) {
  return get_parameters<CopyWork>(node, parameters, [](const CopyWork& work) { return work.shape; });
}

CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* parameters) {
  return set_parameters(node, parameters);
}

CUresult CUDAAPI cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* parameters) {
  return get_parameters<FillWork>(node, parameters, [](const FillWork& work) { return work.shape; });
}

CUresult CUDAAPI cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* parameters) {
  return set_parameters(node, parameters);
}

CUresult CUDAAPI cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* parameters) {
  return get_parameters<HostWork>(node, parameters, [](const HostWork& work) {
    return CUDA_HOST_NODE_PARAMS{work.function, work.data};
  });
}

CUresult CUDAAPI cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* parameters) {
  return set_parameters(node, parameters);
}

CUresult CUDAAPI cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  return get_parameters<AllocateWork>(node, parameters, [](const AllocateWork& work) { return work.parameters; });
}

CUresult CUDAAPI cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* address) {
  return get_parameters<FreeWork>(node, address, [](const FreeWork& work) { return work.address; });
}

CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  return node_of_kind<ChildWork>(node, [&](Call&, ChildWork& work) -> CUresult {
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *graph = work.graph;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return node_of_kind<RecordWork>(node, [&](Call&, RecordWork& work) -> CUresult {
    if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *event = work.event;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return node_of_kind<RecordWork>(node, [&](Call& call, RecordWork& work) -> CUresult {
    STITCH_CU_TRY(call.need(call.driver.events, event));
    work.event = event;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return node_of_kind<WaitWork>(node, [&](Call&, WaitWork& work) -> CUresult {
    if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *event = work.event;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return node_of_kind<WaitWork>(node, [&](Call& call, WaitWork& work) -> CUresult {
    STITCH_CU_TRY(call.need(call.driver.events, event));
    work.event = event;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                               const CUkernelNodeAttrValue* value) {
  return node_of_kind<KernelWork>(node, [&](Call&, KernelWork& work) -> CUresult {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::erase_if(work.attributes, [&](const CUlaunchAttribute& attribute) { return attribute.id == id; });
    CUlaunchAttribute attribute{};
    attribute.id = id;
    attribute.value = *value;
    work.attributes.push_back(attribute);
    apply_attribute(work, id, *value);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id, CUkernelNodeAttrValue* value) {
  return node_of_kind<KernelWork>(node, [&](Call&, KernelWork& work) -> CUresult {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto found = std::ranges::find(work.attributes, id, &CUlaunchAttribute::id);
    *value = found == work.attributes.end() ? CUkernelNodeAttrValue{} : found->value;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return node_of_kind<KernelWork>(to, [&](Call& call, KernelWork& work) -> CUresult {
    if (!call.driver.nodes.contains(from)) return CUDA_ERROR_INVALID_VALUE;
    const auto* source = std::get_if<KernelWork>(&from->work);
    if (source == nullptr) return CUDA_ERROR_INVALID_VALUE;
    work.attributes = source->attributes;
    for (const CUlaunchAttribute& attribute : work.attributes) apply_attribute(work, attribute.id, attribute.value);
    return CUDA_SUCCESS;
  });
}
