#include <type_traits>

#include "graph/reference/evaluate_accumulate.h"
#include "graph/reference/evaluate_index.h"

namespace stitch::graph::reference {
namespace {

/// One index vector's window: where its first element goes, and whether all of it lies inside.
struct ScatterWindow {
  Dims batch;  ///< position in the indices, without the vector dimension
  Dims start;  ///< in the operand
  bool inside = true;
  bool uncertain = false;
};

/// Dimension w of the window (update_window_dims) is this dimension of the operand.
Dims window_operand_dims(const ScatterAttributes& a, std::size_t rank) {
  Dims dims;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t dimension = d;
    if (!contains(a.inserted_window_dims, dimension) && !contains(a.input_batching_dims, dimension)) {
      dims.push_back(dimension);
    }
  }
  return dims;
}

/// Extent of a window along every dimension of the operand.
Dims window_extents(const OpContext& context) {
  const ScatterAttributes& a = context.node().as<ScatterAttributes>();
  Dims extents(context.operand_type(0).dims.size(), 1);
  const Dims dims = window_operand_dims(a, extents.size());
  for (std::size_t w = 0; w < dims.size(); ++w) {
    extents[dims[w]] = context.operand_type(2).dims[a.update_window_dims[w]];
  }
  return extents;
}

/// Calls visit(window) for every index vector, in row-major order.
template <class Visit>
void for_each_scattered(const OpContext& context, Visit visit) {
  const ScatterAttributes& a = context.node().as<ScatterAttributes>();
  const Dims &dims = context.operand_type(0).dims, &index_dims = context.operand_type(1).dims;
  const Block& indices = context.indices[0];
  const Dims extents = window_extents(context);
  Box batches;
  for (std::size_t d = 0; d < index_dims.size(); ++d) {
    if (static_cast<std::int64_t>(d) != a.index_vector_dim) {
      batches.start.push_back(0);
      batches.size.push_back(index_dims[d]);
    }
  }
  if (batches.empty()) return;
  ScatterWindow window{batches.start, Dims(dims.size()), true, false};
  do {
    window.start.assign(dims.size(), 0);
    window.uncertain = false;
    for (std::size_t k = 0; k < a.scatter_dims_to_operand_dims.size(); ++k) {
      const std::int64_t offset =
          offset_in(indices.box, index_position(window.batch, a.index_vector_dim, index_dims.size(), k));
      window.start[a.scatter_dims_to_operand_dims[k]] = index_value(indices, offset);
      window.uncertain = window.uncertain || index_uncertain(indices, offset);
    }
    for (std::size_t k = 0; k < a.input_batching_dims.size(); ++k) {
      window.start[a.input_batching_dims[k]] =
          batch_coordinate(window.batch, a.index_vector_dim, a.scatter_indices_batching_dims[k]);
    }
    window.inside = true;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      window.inside = window.inside && window.start[d] >= 0 && window.start[d] <= dims[d] - extents[d];
    }
    visit(window);
  } while (next_index(batches, window.batch));
}

/// The part of the updates that lands on `common`, a box of the operand inside the window.
Box updates_box(const OpContext& context, const ScatterWindow& window, const Box& common) {
  const ScatterAttributes& a = context.node().as<ScatterAttributes>();
  const std::size_t rank = context.operand_type(2).dims.size();
  Box box{Dims(rank, 0), Dims(rank, 1)};
  const Dims operand_dims = window_operand_dims(a, common.size.size());
  for (std::size_t d = 0, w = 0, b = 0; d < rank; ++d) {
    if (w < a.update_window_dims.size() && a.update_window_dims[w] == static_cast<std::int64_t>(d)) {
      const std::size_t o = operand_dims[w++];
      box.start[d] = common.start[o] - window.start[o];
      box.size[d] = common.size[o];
    } else {
      box.start[d] = window.batch[b++];
    }
  }
  return box;
}

/// Strides of the updates' window, per operand dimension, in a tensor of box `box`.
Dims update_strides(const OpContext& context, const Box& box) {
  const ScatterAttributes& a = context.node().as<ScatterAttributes>();
  const Dims strides = row_major_strides(box.size);
  Dims result(context.operand_type(0).dims.size(), 0);
  const Dims dims = window_operand_dims(a, result.size());
  for (std::size_t w = 0; w < dims.size(); ++w) result[dims[w]] = strides[a.update_window_dims[w]];
  return result;
}

/// Adds the updates of one window that land in `slab` to the slab's accumulators, line by line.
template <class Accumulator>
void scatter_window(const OpContext& context, const ScatterWindow& window, const Box& common, const Box& slab,
                    std::vector<Accumulator>& accumulators) {
  const Box from = updates_box(context, window, common);
  const Block& block = context.holding(2, from);
  const StridedCopy walk{common.size, block.uniform ? Dims(common.size.size(), 0) : update_strides(context, block.box),
                         row_major_strides(slab.size)};
  const std::int64_t first = block.uniform ? 0 : offset_in(block.box, from.start);
  const std::int64_t target = offset_in(slab, common.start);
  const std::size_t last = common.size.size();
  const std::int64_t count = last == 0 ? 1 : common.size[last - 1];
  const std::int64_t from_step = last == 0 ? 0 : walk.from_strides[last - 1];
  Box lines{Dims(last, 0), common.size};
  if (last > 0) lines.size[last - 1] = 1;
  Dims index = lines.start;
  do {
    std::int64_t offset = first, to = target;
    for (std::size_t d = 0; d < last; ++d) {
      offset += index[d] * walk.from_strides[d];
      to += index[d] * walk.to_strides[d];
    }
    for (std::int64_t i = 0; i < count; ++i, offset += from_step) {
      const double e = block.exact() ? 0 : block.data->bounds[offset];
      if constexpr (std::is_same_v<typename Accumulator::Value, double>) {
        accumulators[to + i].add(block.data->floats[offset], e);
      } else {
        accumulators[to + i].add(block.data->integers[offset], e);
      }
    }
  } while (next_index(lines, index));
}

/// One slab of the result: the operand's elements, then every update that lands there, in order.
template <class Accumulator>
Status scatter_slab(const OpContext& context, const Box& slab, const Accumulator& fresh,
                    const Accumulation& accumulation, Storage& storage, std::int64_t offset) {
  STITCH_ASSIGN(const Block below, context.operand(0, slab));
  std::vector<Accumulator> accumulators(slab.elements(), fresh);
  for (std::size_t i = 0; i < accumulators.size(); ++i) {
    const std::size_t from = below.uniform ? 0 : i;
    const double e = below.exact() ? 0 : below.data->bounds[from];
    if constexpr (std::is_same_v<typename Accumulator::Value, double>) {
      accumulators[i].add(below.data->floats[from], e);
    } else {
      accumulators[i].add(below.data->integers[from], e);
    }
  }
  const Dims extents = window_extents(context);
  for_each_scattered(context, [&](const ScatterWindow& window) {
    if (!window.inside) return;
    const Box common = intersection({window.start, extents}, slab);
    if (!common.empty()) scatter_window(context, window, common, slab, accumulators);
  });
  finish_elements(accumulators.data(), slab.elements(), accumulation, storage, offset);
  return {};
}

}  // namespace

Result<Block> evaluate_scatter(const OpContext& context, const Box& out) {
  const ScatterAttributes& a = context.node().as<ScatterAttributes>();
  const DType dtype = context.node().type().dtype;
  const bool computes = a.combiner == ReduceKind::sum || a.combiner == ReduceKind::product;
  STITCH_ASSIGN(StorageRef storage, context.make(dtype, out, context.all_exact() && !(is_floating(dtype) && computes)));
  Accumulation accumulation(dtype, context.options.error_model);
  accumulation.rounds_each = true;  // kernels may add by atomics of the dtype itself
  std::int64_t offset = 0;
  // Every slab walks all windows: slabs as large as memory allows rather than caches.
  STITCH_TRY(for_each_slab(out, 256 * slab_elements, [&](const Box& slab) {
    if (const Status wanted = context.memory.go_on(); !wanted) return wanted;
    return with_accumulator(a.combiner, dtype, !storage->bounds.empty(), [&](auto fresh) {
      const Status done = scatter_slab(context, slab, fresh, accumulation, *storage, offset);
      offset += slab.elements();
      return done;
    });
  }));
  if (!storage->bounds.empty()) {
    bool uncertain = false;
    for_each_scattered(context, [&](const ScatterWindow& window) { uncertain = uncertain || window.uncertain; });
    // An update whose place is not certain may have hit any element.
    if (uncertain) std::fill(storage->bounds.begin(), storage->bounds.end(), unchecked);
  }
  storage->nonnegative = context.operand_nonnegative(0) && context.operand_nonnegative(2) && is_floating(dtype);
  return Block{dtype, out, std::move(storage), false};
}

void scatter_demand(const OpContext& context, const Box& out, std::span<Region> regions) {
  regions[0].add(out);
  const Dims extents = window_extents(context);
  for_each_scattered(context, [&](const ScatterWindow& window) {
    if (!window.inside) return;
    const Box common = intersection({window.start, extents}, out);
    if (!common.empty()) regions[2].add(updates_box(context, window, common));
  });
}

}  // namespace stitch::graph::reference
