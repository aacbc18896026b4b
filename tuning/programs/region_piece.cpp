#include "tuning/programs/region_piece.h"

#include <algorithm>

namespace stitch::tuning {

bool is_copy(const RegionPiece& piece, graph::Value value, const std::function<graph::Value(graph::Value)>& memory_of) {
  return std::ranges::any_of(piece.reads, [&](graph::Value read) { return memory_of(read) == value; });
}

std::vector<graph::Value> distinct(std::span<const graph::Value> values) {
  std::vector<graph::Value> list;
  for (const graph::Value value : values) {
    if (std::ranges::count(list, value) == 0) list.push_back(value);
  }
  return list;
}

bool is_one_product(const graph::Graph& graph, const RegionPiece& piece) {
  const auto* const* call = std::get_if<const graph::LibraryCall*>(&piece.work);
  return call != nullptr && std::ranges::none_of((*call)->epilogue, [&](graph::NodeId id) {
           const graph::Op op = graph.node(id).op;
           return op == graph::Op::dot || op == graph::Op::reduce;
         });
}

}  // namespace stitch::tuning
