#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace stitch::kernel {

/// Some operators of a fragment as a graph of their own: what one kernel computes.
struct KernelGraph {
  graph::Graph graph;
  std::vector<graph::Value> arguments;  ///< value of the fragment for each parameter
  std::vector<graph::Value> results;    ///< value of the fragment that each result is
  std::vector<graph::NodeId> nodes;     ///< operators of the fragment that it computes (copies of cheap ones included)
};

/// Which argument of the graph a parameter is; nothing for any other node.
std::optional<int> parameter_number(const graph::Graph& graph, graph::NodeId node);

/// Bytes of a kernel's arguments and results, each once: what must cross device memory.
std::int64_t least_bytes(const graph::Graph& graph);

/// Operators that belong to whoever reads them, in every kernel anew: constants, iotas, broadcasts, reshapes, and
/// scalar arithmetic on such. They are never kernels of their own unless a fragment's result is one.
std::vector<bool> attached_operators(const graph::Graph& fragment);

/// Whether all results have no elements: nobody computes or stores them.
bool is_empty(const graph::Node& node);

/// Who reads what in a fragment, so that extracting a kernel takes as long as the kernel is large.
class FragmentUses {
 public:
  explicit FragmentUses(const graph::Graph& fragment);

  struct Use {
    std::int32_t result;  ///< of the node that is read
    graph::NodeId reader;
  };
  [[nodiscard]] const std::vector<Use>& of(graph::NodeId node) const { return uses_[node]; }
  [[nodiscard]] bool is_result(graph::Value value) const;

 private:
  std::vector<std::vector<Use>> uses_;
  std::vector<graph::Value> results_;  ///< ascending
};

/// The kernel that computes `members` (operators that are not attached, plus attached ones that are results).
/// Values of other operators become parameters; a result is what other operators or the fragment's results use.
KernelGraph extract_kernel(const graph::Graph& fragment, const std::vector<bool>& attached, const FragmentUses& uses,
                           const std::vector<graph::NodeId>& members);

}  // namespace stitch::kernel
