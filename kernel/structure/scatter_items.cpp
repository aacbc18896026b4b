#include "kernel/structure/scatter_items.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernel/index/searched_updates.h"
#include "kernel/index/sorted_indices.h"

namespace stitch::kernel {
namespace {

using graph::contains;
using graph::Dims;
using graph::Graph;
using graph::Node;
using graph::NodeId;

/// Where one update of a scatter stands in the result.
struct Window {
  std::vector<Index> start;       ///< per dimension of the result
  Dims sizes;                     ///< per dimension of the result; 1 where it has no window dimension
  std::vector<std::size_t> dims;  ///< dimension of the result for each window dimension of the update
  ItemId fits = -1;               ///< -1: always
};

/// Of an integer type; of u64 what is left of it in an index.
std::int64_t greatest(graph::DType dtype) {
  const int bits = graph::byte_size(dtype) * 8;
  if (bits == 64) return std::numeric_limits<std::int64_t>::max();
  return (std::int64_t{1} << (graph::is_unsigned_integer(dtype) ? bits : bits - 1)) - 1;
}

/// `batch`: indices of the update's scatter dimensions.
Result<Window> scatter_window(ScalarProgram& program, NodeId scatter, const std::vector<Index>& batch) {
  const Graph& graph = program.graph();
  IndexPool& pool = program.pool();
  const Node& node = graph.node(scatter);
  const auto& a = node.as<graph::ScatterAttributes>();
  const Dims& extents = node.type().dims;
  std::vector<Index> position = batch;
  const bool has_vector = a.index_vector_dim < graph.type(node.operands[1]).rank();
  if (has_vector) position.insert(position.begin() + a.index_vector_dim, pool.constant(0));
  Window window{std::vector<Index>(extents.size(), pool.constant(0)), Dims(extents.size(), 1), {}, -1};
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (contains(a.inserted_window_dims, d) || contains(a.input_batching_dims, d)) continue;
    const std::size_t along = a.update_window_dims[window.dims.size()];
    window.sizes[d] = graph.type(node.operands[2]).dims[along];
    window.dims.push_back(d);
  }
  for (std::size_t k = 0; k < a.input_batching_dims.size(); ++k) {
    window.start[a.input_batching_dims[k]] = position[a.scatter_indices_batching_dims[k]];
  }
  for (std::size_t k = 0; k < a.scatter_dims_to_operand_dims.size(); ++k) {
    const std::size_t d = a.scatter_dims_to_operand_dims[k];
    if (has_vector) position[a.index_vector_dim] = pool.constant(k);
    STITCH_ASSIGN(const ItemId from, program.item(node.operands[1], position));
    const std::int64_t last = extents[d] - window.sizes[d];
    if (!graph::is_unsigned_integer(program.at(from).dtype))
      window.fits = program.both(window.fits, program.compare_to_integer(graph::Comparison::ge, from, 0));
    // A byte that places something in a long row cannot lie behind it, and could not be compared with its end.
    if (last < greatest(program.at(from).dtype))
      window.fits = program.both(window.fits, program.compare_to_integer(graph::Comparison::le, from, last));
    window.start[d] = program.dynamic_index(from, last);
  }
  return window;
}

/// The index of a scatter along its one scattered dimension, of the type that it has in memory: what lies outside is
/// before or behind all places.
Result<ItemId> key_of(ScalarProgram& program, NodeId scatter, std::vector<Index> batch) {
  const Node& node = program.graph().node(scatter);
  const auto& a = node.as<graph::ScatterAttributes>();
  if (a.index_vector_dim < program.graph().type(node.operands[1]).rank())
    batch.insert(batch.begin() + a.index_vector_dim, program.pool().constant(0));
  return program.item(node.operands[1], batch);
}

ItemId index_item(ScalarProgram& program, graph::DType dtype, Index index) {
  Item item;
  item.kind = Item::Kind::index;
  item.dtype = dtype;
  item.index = index;
  return program.add(std::move(item));
}

}  // namespace

Result<UpdateTarget> update_target(ScalarProgram& program, NodeId update, const std::vector<Index>& indices) {
  const Graph& graph = program.graph();
  IndexPool& pool = program.pool();
  const Node& node = graph.node(update);
  const Dims &to = node.type().dims, &from = graph.type(node.operands[1]).dims;
  UpdateTarget target;
  for (std::size_t d = 0; d < to.size(); ++d) {
    STITCH_ASSIGN(const ItemId start, program.item(node.operands[d + 2], {}));
    target.indices.push_back(pool.add(indices[d], program.dynamic_index(start, to[d] - from[d])));
  }
  return target;
}

Result<UpdateTarget> scatter_target(ScalarProgram& program, NodeId scatter, const std::vector<Index>& indices) {
  const Graph& graph = program.graph();
  IndexPool& pool = program.pool();
  const auto& a = graph.node(scatter).as<graph::ScatterAttributes>();
  std::vector<Index> batch, inside;
  for (std::size_t d = 0; d < indices.size(); ++d)
    (contains(a.update_window_dims, d) ? inside : batch).push_back(indices[d]);
  STITCH_ASSIGN(Window window, scatter_window(program, scatter, batch));
  for (std::size_t w = 0; w < inside.size(); ++w) {
    Index& to = window.start[window.dims[w]];
    to = pool.add(to, inside[w]);
  }
  return UpdateTarget{std::move(window.start), window.fits};
}

Result<ScatterTerm> scatter_term(ScalarProgram& program, NodeId scatter, const std::vector<Index>& indices,
                                 Index batch) {
  const Graph& graph = program.graph();
  IndexPool& pool = program.pool();
  const Node& node = graph.node(scatter);
  const auto& a = node.as<graph::ScatterAttributes>();
  const Dims& update = graph.type(node.operands[2]).dims;
  Dims batch_dims;
  for (std::size_t d = 0; d < update.size(); ++d) {
    if (!contains(a.update_window_dims, d)) batch_dims.push_back(update[d]);
  }
  const std::vector<Index> along = pool.delinearise(batch, batch_dims);
  STITCH_ASSIGN(const Window window, scatter_window(program, scatter, along));
  ScatterTerm term{window.fits, -1};
  // The only index that is looked up says by itself whether the update goes here.
  const bool keyed = sorted_line(graph, scatter) > 0 || searched_by_block(graph, scatter);
  if (keyed) term.hits = -1;
  std::vector<Index> offset(indices.size());
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (keyed && contains(a.inserted_window_dims, d)) continue;
    offset[d] = pool.subtract(indices[d], window.start[d]);
    if (pool.low(offset[d]) < 0 || pool.high(offset[d]) >= window.sizes[d])
      term.hits = program.both(term.hits, program.in_range(offset[d], 0, window.sizes[d]));
  }
  std::vector<Index> inner(update.size());
  std::size_t batch_at = 0, window_at = 0;
  for (std::size_t d = 0; d < update.size(); ++d)
    inner[d] = contains(a.update_window_dims, d) ? offset[window.dims[window_at++]] : along[batch_at++];
  STITCH_ASSIGN(term.update, program.item(node.operands[2], inner, term.hits));
  if (!keyed) return term;
  STITCH_ASSIGN(term.key, key_of(program, scatter, along));
  term.place = index_item(program, program.at(term.key).dtype, indices[a.inserted_window_dims[0]]);
  term.hits = program.both(program.compare(graph::Comparison::eq, term.key, term.place), term.hits);
  return term;
}

}  // namespace stitch::kernel
