#include "graph/reference/added_products.h"

#include <vector>

#include "graph/dot_dimensions.h"

namespace stitch::graph::reference {
namespace {

/// Who reads a node: a node once for each of its operands, and the graph's results.
class Readers {
 public:
  explicit Readers(const Graph& graph) : count_(graph.size(), 0), reader_(graph.size(), -1) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      for (const Value operand : graph.node(id).operands) {
        ++count_[operand.node];
        reader_[operand.node] = id;
      }
    }
    for (const Value result : graph.results()) {
      ++count_[result.node];
      reader_[result.node] = -1;
    }
  }

  /// −1: there are none, several, or a result is one.
  [[nodiscard]] NodeId only_reader(NodeId id) const { return count_[id] == 1 ? reader_[id] : -1; }

 private:
  std::vector<int> count_;
  std::vector<NodeId> reader_;
};

bool hands_on(const Node& node) {
  const bool converts = node.op == Op::convert && is_floating(node.type().dtype);
  return converts || node.op == Op::transpose || node.op == Op::reshape;
}

/// Of what is a sum of products, and not read elsewhere.
std::int64_t terms_of(const Graph& graph, const Readers& readers, NodeId id) {
  if (readers.only_reader(id) < 0) return 0;
  const Node& node = graph.node(id);
  if (node.op == Op::dot) {
    const Dims& left = graph.type(node.operands[0]).dims;
    return product_of(left, node.as<DotAttributes>().lhs_contracting);
  }
  if (node.op != Op::add && !hands_on(node)) return 0;
  std::int64_t terms = 0;
  for (const Value operand : node.operands) terms += terms_of(graph, readers, operand.node);
  return terms;
}

}  // namespace

std::int64_t terms_added_to(const Graph& graph, NodeId dot) {
  if (!is_floating(graph.node(dot).type().dtype)) return 0;
  const Readers readers(graph);
  std::int64_t terms = 0;
  NodeId below = dot;
  for (NodeId id = readers.only_reader(dot); id >= 0; below = id, id = readers.only_reader(id)) {
    const Node& node = graph.node(id);
    if (node.op == Op::add) {
      for (const Value operand : node.operands) {
        if (operand.node != below) terms += terms_of(graph, readers, operand.node);
      }
    } else if (!hands_on(node)) {
      break;
    }
  }
  return terms;
}

}  // namespace stitch::graph::reference
