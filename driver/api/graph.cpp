// Graphs: their nodes, edges and copies.
#include <algorithm>
#include <cstdio>

#include "driver/api/entry.h"
#include "driver/api/graph_store.h"

namespace stitch::driver {
namespace {

/// Lets go of a user's object; its destructor runs on the engine's thread, which holds no lock of ours.
void release(Driver& driver, CUuserObject object, unsigned count) {
  object->references -= std::min(object->references, count);
  if (object->references > 0 || driver.user_objects.erase(object) == 0) return;
  constexpr std::uint32_t destructors = 0;  // a queue of its own
  driver.engine.submit(destructors, {}, [object] {
    object->destroy(object->object);
    delete object;
  });
}

}  // namespace

std::unique_ptr<CUgraph_st> copy_graph(Driver& driver, const CUgraph_st& graph,
                                       std::map<CUgraphNode, CUgraphNode>* of_original) {
  auto copy = std::make_unique<CUgraph_st>();
  std::map<CUgraphNode, CUgraphNode> copies;
  for (const auto& node : in_order(graph)) {
    std::vector<CUgraphNode> before;
    for (CUgraphNode earlier : node->before) before.push_back(copies.at(earlier));
    Work work = node->work;
    if (auto* child = std::get_if<ChildWork>(&work)) {
      copy->children.push_back(copy_graph(driver, *child->graph, of_original));
      child->graph = copy->children.back().get();
      child->graph->parent = copy.get();
    }
    CUgraphNode made = add_node(driver, copy.get(), std::move(before), std::move(work));
    made->cloned_from = node;
    copies[node] = made;
  }
  copy->retained = graph.retained;
  for (auto& [object, count] : copy->retained) object->references += count;
  if (of_original != nullptr) of_original->insert(copies.begin(), copies.end());
  return copy;
}

void forget_nodes(Driver& driver, CUgraph_st& graph) {
  for (const auto& child : graph.children) forget_nodes(driver, *child);
  for (const auto& node : graph.nodes) driver.nodes.erase(node.get());
  for (auto& [object, count] : graph.retained) release(driver, object, count);
  graph.retained.clear();
}

std::vector<CUgraphNode> in_order(const CUgraph_st& graph) {
  std::vector<CUgraphNode> order;
  std::map<CUgraphNode, std::size_t> missing;
  for (const auto& node : graph.nodes) {
    missing[node.get()] = node->before.size();
    if (node->before.empty()) order.push_back(node.get());
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (CUgraphNode later : order[i]->after) {
      if (--missing[later] == 0) order.push_back(later);
    }
  }
  if (order.size() != graph.nodes.size()) order.clear();
  return order;
}

namespace {

template <class Body>
CUresult graph_entry(CUgraph graph, Body&& body) {
  return entry([&](Call& call) -> CUresult {
    if (graph == nullptr || !call.driver.graphs.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
    return body(call);
  });
}

template <class Body>
CUresult node_entry(CUgraphNode node, Body&& body) {
  return entry([&](Call& call) -> CUresult {
    if (node == nullptr || !call.driver.nodes.contains(node)) return CUDA_ERROR_INVALID_VALUE;
    return body(call);
  });
}

/// Fills a list that the caller may ask only the length of.
template <class T>
CUresult fill_list(const std::vector<T>& from, T* into, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (into != nullptr) {
    for (size_t i = 0; i < *count; ++i) into[i] = i < from.size() ? from[i] : nullptr;
    *count = std::min(*count, from.size());
  } else {
    *count = from.size();
  }
  return CUDA_SUCCESS;
}

void clear_edges(CUgraphEdgeData* edges, const size_t* count) {
  for (size_t i = 0; edges != nullptr && count != nullptr && i < *count; ++i) edges[i] = {};
}

bool has_edge(CUgraphNode from, CUgraphNode to) { return std::ranges::find(to->before, from) != to->before.end(); }

void remove_edge(CUgraphNode from, CUgraphNode to) {
  std::erase(to->before, from);
  std::erase(from->after, to);
}

}  // namespace
}  // namespace stitch::driver

using namespace stitch::driver;

CUresult CUDAAPI cuGraphCreate(CUgraph* graph, unsigned flags) {
  return entry([&](Call& call) -> CUresult {
    if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *graph = new CUgraph_st;
    call.driver.graphs.insert(*graph);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
  return graph_entry(graph, [&](Call& call) -> CUresult {
    if (graph->parent != nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto forget_children = [&](const auto& self, CUgraph_st& whose) -> void {
      for (const auto& child : whose.children) {
        call.driver.graphs.erase(child.get());
        self(self, *child);
      }
    };
    forget_children(forget_children, *graph);
    forget_nodes(call.driver, *graph);
    call.driver.graphs.erase(graph);
    delete graph;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphClone(CUgraph* copy, CUgraph graph) {
  return graph_entry(graph, [&](Call& call) -> CUresult {
    if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *copy = copy_graph(call.driver, *graph).release();
    call.driver.graphs.insert(*copy);
    for (const auto& child : (*copy)->children) call.driver.graphs.insert(child.get());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode* found, CUgraphNode original, CUgraph clone) {
  return graph_entry(clone, [&](Call&) -> CUresult {
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto node = std::ranges::find(clone->nodes, original, [](const auto& each) { return each->cloned_from; });
    if (node == clone->nodes.end()) return CUDA_ERROR_INVALID_VALUE;
    *found = node->get();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return graph_entry(graph, [&](Call&) {
    std::vector<CUgraphNode> all;
    for (const auto& node : graph->nodes) all.push_back(node.get());
    return fill_list(all, nodes, count);
  });
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return graph_entry(graph, [&](Call&) {
    std::vector<CUgraphNode> roots;
    for (const auto& node : graph->nodes) {
      if (node->before.empty()) roots.push_back(node.get());
    }
    return fill_list(roots, nodes, count);
  });
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges,
                                 size_t* count) {
  return graph_entry(graph, [&](Call&) -> CUresult {
    if (count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUgraphNode> starts, ends;
    for (const auto& node : graph->nodes) {
      for (CUgraphNode earlier : node->before) {
        starts.push_back(earlier);
        ends.push_back(node.get());
      }
    }
    size_t room = *count;
    STITCH_CU_TRY(fill_list(starts, from, &room));
    STITCH_CU_TRY(fill_list(ends, to, count));
    clear_edges(edges, count);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* before, CUgraphEdgeData* edges,
                                            size_t* count) {
  return node_entry(node, [&](Call&) -> CUresult {
    STITCH_CU_TRY(fill_list(node->before, before, count));
    if (before != nullptr) clear_edges(edges, count);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* after, CUgraphEdgeData* edges,
                                              size_t* count) {
  return node_entry(node, [&](Call&) -> CUresult {
    STITCH_CU_TRY(fill_list(node->after, after, count));
    if (after != nullptr) clear_edges(edges, count);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                        const CUgraphEdgeData*, size_t count) {
  return graph_entry(graph, [&](Call& call) -> CUresult {
    if (count > 0 && !all_given(from, to)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
      const bool known = call.driver.nodes.contains(from[i]) && call.driver.nodes.contains(to[i]);
      if (!known || from[i] == to[i] || from[i]->graph != graph || to[i]->graph != graph || has_edge(from[i], to[i])) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      to[i]->before.push_back(from[i]);
      from[i]->after.push_back(to[i]);
      if (!in_order(*graph).empty()) continue;
      remove_edge(from[i], to[i]);
      return call.refuse(CUDA_ERROR_INVALID_VALUE, "a dependency that would make a circle in a graph");
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                           const CUgraphEdgeData*, size_t count) {
  return graph_entry(graph, [&](Call& call) -> CUresult {
    if (count > 0 && !all_given(from, to)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
      const bool known = call.driver.nodes.contains(from[i]) && call.driver.nodes.contains(to[i]);
      if (!known || !has_edge(from[i], to[i])) return CUDA_ERROR_INVALID_VALUE;
      remove_edge(from[i], to[i]);
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode node) {
  return node_entry(node, [&](Call& call) -> CUresult {
    for (CUgraphNode earlier : std::vector(node->before)) remove_edge(earlier, node);
    for (CUgraphNode later : std::vector(node->after)) remove_edge(node, later);
    call.driver.nodes.erase(node);
    std::erase_if(node->graph->nodes, [&](const auto& each) { return each.get() == node; });
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return node_entry(node, [&](Call&) -> CUresult {
    if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *type = node_type(node->work);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned) {
  return graph_entry(graph, [&](Call&) -> CUresult {
    std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
    if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
    fmt::print(file, "digraph dot {{\n");
    for (const auto& node : graph->nodes)
      fmt::print(file, "  node_{} [label=\"{}\"];\n", node->id, describe(node->work));
    for (const auto& node : graph->nodes) {
      for (CUgraphNode earlier : node->before) fmt::print(file, "  node_{} -> node_{};\n", earlier->id, node->id);
    }
    fmt::print(file, "}}\n");
    std::fclose(file);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject* object, void* pointer, CUhostFn destroy, unsigned references,
                                    unsigned flags) {
  return entry([&](Call& call) -> CUresult {
    if (object == nullptr || destroy == nullptr || references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *object = new CUuserObject_st{pointer, destroy, references};
    call.driver.user_objects.insert(*object);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned count) {
  return entry([&](Call& call) -> CUresult {
    if (!call.driver.user_objects.contains(object) || count == 0) return CUDA_ERROR_INVALID_VALUE;
    object->references += count;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned count) {
  return entry([&](Call& call) -> CUresult {
    if (!call.driver.user_objects.contains(object) || count == 0 || count > object->references)
      return CUDA_ERROR_INVALID_VALUE;
    release(call.driver, object, count);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  return graph_entry(graph, [&](Call& call) -> CUresult {
    if (!call.driver.user_objects.contains(object) || count == 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) object->references += count;
    graph->retained[object] += count;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  return graph_entry(graph, [&](Call& call) -> CUresult {
    const auto found = graph->retained.find(object);
    if (found == graph->retained.end() || found->second < count) return CUDA_ERROR_INVALID_VALUE;
    found->second -= count;
    if (found->second == 0) graph->retained.erase(found);
    release(call.driver, object, count);
    return CUDA_SUCCESS;
  });
}
