#include "kernel/contraction/merged_contraction.h"

#include <algorithm>
#include <set>

#include "graph/subgraph.h"

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Value;

template <class... Arguments>
Error unmergeable(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return make_error(ErrorKind::unsupported, format, std::forward<Arguments>(arguments)...);
}

/// What is in the way of one loop for both; empty: nothing.
std::string difference(const ContractionProblem& first, const ContractionProblem& other) {
  if (!(first.left == other.left)) return "another operand";
  if (first.batch != other.batch || first.rows != other.rows || first.contracted != other.contracted)
    return "other extents of the shared operand";
  if (first.accumulator != other.accumulator || first.is_convolution() != other.is_convolution())
    return "another kind of product";
  if (!other.right.windows.empty()) return "windows over what is not shared";
  return read_alike(first.right, other.right) ? "" : "an operand that lies otherwise";
}

/// The products seen so that the left operand is `shared`'s left; the number of the first that cannot be, with why.
struct Alignment {
  std::vector<ContractionProblem> members;
  std::size_t failed = 0;
  std::string why;
};
Alignment aligned(const std::vector<ContractionProblem>& products, ContractionProblem first) {
  Alignment found;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const std::string plain = difference(first, products[i]);
    if (plain.empty()) {
      found.members.push_back(products[i]);
    } else if (ContractionProblem other = turned(products[i]); difference(first, other).empty()) {
      found.members.push_back(std::move(other));
    } else {
      found.failed = i;
      found.why = plain;
      return found;
    }
  }
  return found;
}

Result<std::vector<ContractionProblem>> products_of(const Graph& graph) {
  std::vector<Value> parameters;
  for (const NodeId id : graph.parameters()) parameters.push_back({id, 0});
  std::vector<ContractionProblem> products;
  std::set<Value> results;
  for (std::size_t r = 0; r < graph.results().size(); ++r) {
    const Value result = graph.results()[r];
    if (!results.insert(result).second) return unmergeable("result {} is another one again", r);
    STITCH_ASSIGN(Graph part, graph::subgraph(graph, parameters, {result}));
    auto product = derive_contraction(std::move(part));
    if (!product) return product.error().within(fmt::format("result {}", r));
    if (!product->row_reductions.empty()) return unmergeable("result {} needs whole rows", r);
    if (!product->column_sums.empty()) return unmergeable("result {} has sums of columns", r);
    products.push_back(*std::move(product));
  }
  return products;
}

NodeId first_product(const Graph& graph) {
  const auto found = std::ranges::find_if(graph.nodes(), graph::is_contraction, &graph::Node::op);
  return static_cast<NodeId>(found - graph.nodes().begin());
}

}  // namespace

Result<ContractionProblem> derive_merged(Graph graph) {
  if (graph.results().size() < 2 || graph.results().size() > most_members)
    return unmergeable("{} products in one kernel", graph.results().size());
  STITCH_ASSIGN(const std::vector<ContractionProblem> products, products_of(graph));
  const std::int64_t roots = std::ranges::count_if(graph.nodes(), graph::is_contraction, &graph::Node::op);
  if (roots != std::ssize(products)) return unmergeable("{} products of {} results", roots, products.size());
  Alignment found = aligned(products, products[0]);
  // A convolution's windows are its left operand's.
  if (!found.why.empty() && !products[0].is_convolution()) {
    if (Alignment other = aligned(products, turned(products[0])); other.why.empty()) found = std::move(other);
  }
  if (!found.why.empty()) return unmergeable("result {}: {}", found.failed, found.why);
  ContractionProblem merged = found.members[0];
  merged.columns = 0;
  for (const ContractionProblem& member : found.members) merged.columns += member.columns;
  merged.root = first_product(graph);
  merged.graph = std::make_shared<const Graph>(std::move(graph));
  merged.members = std::move(found.members);
  return merged;
}

}  // namespace stitch::kernel
