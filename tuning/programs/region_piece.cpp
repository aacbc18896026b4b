#include "tuning/programs/region_piece.h"

#include <algorithm>

namespace stitch::tuning {

bool is_one_product(const graph::Graph& graph, const RegionPiece& piece) {
  const auto* const* call = std::get_if<const graph::LibraryCall*>(&piece.work);
  return call != nullptr &&
         std::ranges::none_of((*call)->epilogue, [&](graph::NodeId id) { return graph.node(id).op == graph::Op::dot; });
}

}  // namespace stitch::tuning
