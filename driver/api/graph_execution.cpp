// Executable graphs: instantiation, updates, launches.
#include <algorithm>

#include "driver/api/entry.h"
#include "driver/api/graph_store.h"

namespace stitch::driver {

namespace {

template <class Body>
CUresult executable_entry(CUgraphExec executable, Body&& body) {
  return entry([&](Call& call) -> CUresult {
    if (executable == nullptr || !call.driver.executables.contains(executable)) return CUDA_ERROR_INVALID_VALUE;
    return body(call);
  });
}

CUresult instantiate(CUgraphExec* executable, CUgraph graph, unsigned long long flags, CUgraphInstantiateResult* why) {
  return entry([&](Call& call) -> CUresult {
    if (executable == nullptr || !call.driver.graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
      if (why != nullptr) *why = CUDA_GRAPH_INSTANTIATE_ERROR;
      return call.refuse(CUDA_ERROR_NOT_SUPPORTED, "graphs that kernels launch", MisuseKind::unsupported);
    }
    if (in_order(*graph).empty() && !graph->nodes.empty()) {
      if (why != nullptr) *why = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
      return call.refuse(CUDA_ERROR_INVALID_VALUE, "a graph with a circle");
    }
    *executable = new CUgraphExec_st;
    (*executable)->graph = copy_graph(call.driver, *graph, &(*executable)->of_original);
    (*executable)->flags = flags;
    call.driver.executables.insert(*executable);
    if (why != nullptr) *why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return CUDA_SUCCESS;
  });
}

/// Puts the nodes of a graph into queues of the executable, one per branch, each after what it depends on.
class GraphLaunch {
 public:
  GraphLaunch(Driver& driver, CUgraphExec_st& executable, CUstream stream)
      : driver_(driver), executable_(executable), context_(stream->context) {}

  /// Returns what is known once all has ended.
  StreamClock run(const CUgraph_st& graph, const StreamClock& start) {
    std::map<CUgraphNode, StreamClock> ends;
    std::map<CUgraphNode, std::size_t> branch;
    StreamClock all = start;
    for (CUgraphNode node : in_order(graph)) {
      StreamClock after = start;
      std::size_t lane = next_;
      for (CUgraphNode earlier : node->before) {
        after.join(ends.at(earlier));
        // The first to follow a node goes on in its branch.
        if (const auto found = branch.find(earlier); lane == next_ && found != branch.end()) {
          lane = found->second;
          branch.erase(found);
        }
      }
      if (lane == next_) ++next_;
      ends[node] = place(*node, lane, std::move(after), start);
      branch[node] = lane;
      all.join(ends[node]);
    }
    return all;
  }

 private:
  /// `start`: what the whole graph comes after.
  StreamClock place(const CUgraphNode_st& node, std::size_t lane, StreamClock after, const StreamClock& start) {
    if (executable_.disabled.contains(const_cast<CUgraphNode>(&node))) return after;
    if (const auto* child = std::get_if<ChildWork>(&node.work)) return run(*child->graph, after);
    if (const auto* record = std::get_if<RecordWork>(&node.work)) {
      if (driver_.events.contains(record->event)) {
        record->event->recorded = true;
        record->event->at = after;
      }
      return after;
    }
    if (const auto* wait = std::get_if<WaitWork>(&node.work)) {
      if (driver_.events.contains(wait->event) && wait->event->recorded) after.join(wait->event->at);
      return after;
    }
    while (executable_.queues.size() <= lane) executable_.queues.push_back(driver_.new_queue());
    const std::uint32_t queue = executable_.queues[lane];
    Placement where{context_, queue, after, after, {}, fmt::format("node {} of a graph", node.id)};
    LaunchOrder order{after, {}};
    // Captured behind a kernel it depends on that one as it does in a stream.
    const auto before = node.before.size() == 1 ? orders_.find(node.before[0]) : orders_.end();
    const bool depends = is_dependent(node.work) && before != orders_.end();
    if (depends) {
      LaunchOrder known = before->second;
      known.join(start);
      order = depend(where, std::get<KernelWork>(node.work), known, driver_.engine.last(queue) + 1);
    }
    StreamClock end = submit(driver_, std::move(where), node.work);
    if (!depends) order.ended = end;
    if (std::holds_alternative<KernelWork>(node.work)) orders_[const_cast<CUgraphNode>(&node)] = std::move(order);
    return end;
  }

  Driver& driver_;
  CUgraphExec_st& executable_;
  CUcontext context_;
  std::map<CUgraphNode, LaunchOrder> orders_;  ///< of kernels
  std::size_t next_ = 0;
};

/// Nodes of the same places in two graphs, whose work the second one's replaces the first one's by.
CUgraphExecUpdateResult update(CUgraph_st& into, const CUgraph_st& from,
                               std::map<CUgraphNode, CUgraphNode>& of_original, CUgraphNode& culprit) {
  const std::vector<CUgraphNode> old_nodes = in_order(into), new_nodes = in_order(from);
  if (old_nodes.size() != new_nodes.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  std::map<CUgraphNode, CUgraphNode> pairs;
  for (std::size_t i = 0; i < old_nodes.size(); ++i) pairs[new_nodes[i]] = old_nodes[i];
  for (CUgraphNode node : new_nodes) {
    CUgraphNode old = pairs.at(node);
    culprit = node;
    std::vector<CUgraphNode> before;
    for (CUgraphNode earlier : node->before) before.push_back(pairs.at(earlier));
    std::ranges::sort(before);
    std::vector<CUgraphNode> known = old->before;
    std::ranges::sort(known);
    if (before != known) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (node->work.index() != old->work.index()) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  }
  for (CUgraphNode node : new_nodes) {
    CUgraphNode old = pairs.at(node);
    if (auto* child = std::get_if<ChildWork>(&old->work)) {
      const auto result = update(*child->graph, *std::get<ChildWork>(node->work).graph, of_original, culprit);
      if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return result;
    } else {
      old->work = node->work;
    }
    of_original[node] = old;
  }
  culprit = nullptr;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/// A node of the graph that was instantiated, as the executable has it.
CUresult own_node(const CUgraphExec_st& executable, CUgraphNode node, CUgraphNode& own) {
  const auto found = executable.of_original.find(node);
  if (found == executable.of_original.end()) return CUDA_ERROR_INVALID_VALUE;
  own = found->second;
  return CUDA_SUCCESS;
}

template <class Parameters>
CUresult set_parameters(CUgraphExec executable, CUgraphNode node, const Parameters* parameters) {
  return executable_entry(executable, [&](Call& call) -> CUresult {
    CUgraphNode own = nullptr;
    STITCH_CU_TRY(own_node(*executable, node, own));
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Work work;
    STITCH_CU_TRY(work_of(call, *parameters, work));
    return replace_work(own, std::move(work));
  });
}

template <class Kind>
CUresult set_event(CUgraphExec executable, CUgraphNode node, CUevent event) {
  return executable_entry(executable, [&](Call& call) -> CUresult {
    CUgraphNode own = nullptr;
    STITCH_CU_TRY(own_node(*executable, node, own));
    STITCH_CU_TRY(call.need(call.driver.events, event));
    return replace_work(own, Kind{event});
  });
}

}  // namespace
}  // namespace stitch::driver

using namespace stitch::driver;

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  return instantiate(executable, graph, flags, nullptr);
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec* executable, CUgraph graph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  parameters->hErrNode_out = nullptr;
  return instantiate(executable, graph, parameters->flags, &parameters->result_out);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec executable) {
  return executable_entry(executable, [&](Call& call) -> CUresult {
    forget_nodes(call.driver, *executable->graph);
    call.driver.executables.erase(executable);
    delete executable;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec executable, cuuint64_t* flags) {
  return executable_entry(executable, [&](Call&) -> CUresult {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = executable->flags;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec executable, CUstream handle) {
  return executable_entry(executable, [&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    return call.stream(handle, stream);
  });
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec executable, CUstream handle) {
  return executable_entry(executable, [&](Call& call) -> CUresult {
    CUstream stream = nullptr;
    STITCH_CU_TRY(call.stream(handle, stream));
    if (stream->capture != nullptr) {
      // It becomes a child of the graph that is captured.
      CUgraph parent = stream->capture->graph;
      parent->children.push_back(copy_graph(call.driver, *executable->graph));
      parent->children.back()->parent = parent;
      call.driver.graphs.insert(parent->children.back().get());
      return call.issue(stream, ChildWork{parent->children.back().get()});
    }
    StreamClock start = call.driver.clock_for(stream);
    start.join(executable->last);
    executable->last = GraphLaunch(call.driver, *executable, stream).run(*executable->graph, start);
    stream->known = executable->last;
    stream->order = {start, stream->known};
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo* result) {
  return executable_entry(executable, [&](Call& call) -> CUresult {
    if (result == nullptr || !call.driver.graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
    *result = {};
    result->result = update(*executable->graph, *graph, executable->of_original, result->errorNode);
    return result->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  });
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return set_parameters(executable, node, parameters);
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                const CUDA_MEMCPY3D* parameters, CUcontext) {
  return set_parameters(executable, node, parameters);
}

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  return set_parameters(executable, node, parameters);
}

CUresult CUDAAPI cuGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                              const CUDA_HOST_NODE_PARAMS* parameters) {
  return set_parameters(executable, node, parameters);
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraphNodeParams* parameters) {
  return executable_entry(executable, [&](Call& call) -> CUresult {
    CUgraphNode own = nullptr;
    STITCH_CU_TRY(own_node(*executable, node, own));
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Work work;
    STITCH_CU_TRY(work_of_parameters(call, *parameters, work));
    return replace_work(own, std::move(work));
  });
}

CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraph graph) {
  return executable_entry(executable, [&](Call& call) -> CUresult {
    CUgraphNode own = nullptr;
    STITCH_CU_TRY(own_node(*executable, node, own));
    auto* child = std::get_if<ChildWork>(&own->work);
    if (child == nullptr || !call.driver.graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
    CUgraphNode culprit = nullptr;
    const auto result = update(*child->graph, *graph, executable->of_original, culprit);
    return result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event) {
  return set_event<RecordWork>(executable, node, event);
}

CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event) {
  return set_event<WaitWork>(executable, node, event);
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node, unsigned enabled) {
  return executable_entry(executable, [&](Call&) -> CUresult {
    CUgraphNode own = nullptr;
    STITCH_CU_TRY(own_node(*executable, node, own));
    const bool can_be = std::holds_alternative<KernelWork>(own->work) || std::holds_alternative<CopyWork>(own->work) ||
                        std::holds_alternative<FillWork>(own->work);
    if (!can_be) return CUDA_ERROR_INVALID_VALUE;
    if (enabled != 0) {
      executable->disabled.erase(own);
    } else {
      executable->disabled.insert(own);
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec executable, CUgraphNode node, unsigned* enabled) {
  return executable_entry(executable, [&](Call&) -> CUresult {
    CUgraphNode own = nullptr;
    STITCH_CU_TRY(own_node(*executable, node, own));
    if (enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *enabled = executable->disabled.contains(own) ? 0 : 1;
    return CUDA_SUCCESS;
  });
}
