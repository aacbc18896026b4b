#include "graph/reference/evaluate_index.h"

#include "graph/reference/evaluate_functions.h"

// dynamic-slice, dynamic-update-slice, gather.

namespace stitch::graph::reference {
namespace {

// ---- dynamic slices

/// Starts from context.indices, clamped so that a window of `sizes` lies inside `dims`.
Dims clamped_starts(const OpContext& context, const Dims& dims, const Dims& sizes) {
  Dims starts(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    starts[d] = std::clamp<std::int64_t>(index_value(context.indices[d], 0), 0, dims[d] - sizes[d]);
  }
  return starts;
}

bool starts_uncertain(const OpContext& context) {
  return std::any_of(context.indices.begin(), context.indices.end(),
                     [](const Block& block) { return index_uncertain(block, 0); });
}

Box moved(Box box, const Dims& by, std::int64_t sign) {
  for (std::size_t d = 0; d < by.size(); ++d) box.start[d] += sign * by[d];
  return box;
}

Box dynamic_slice_box(const OpContext& context, const Box& out) {
  const Dims& sizes = context.node().as<DynamicSliceAttributes>().sizes;
  return moved(out, clamped_starts(context, context.operand_type(0).dims, sizes), 1);
}

Result<Block> evaluate_dynamic_slice(const OpContext& context, const Box& out) {
  STITCH_ASSIGN(Block part, context.operand(0, dynamic_slice_box(context, out)));
  if (!context.options.bounds || !starts_uncertain(context)) return Block{part.dtype, out, part.data, part.uniform};
  STITCH_ASSIGN(StorageRef storage, context.make(part.dtype, out, false));
  const Dims strides = row_major_strides(out.size);
  copy_values({out.size, strides, strides}, part, 0, *storage, 0);
  std::fill(storage->bounds.begin(), storage->bounds.end(), unchecked);
  return Block{part.dtype, out, std::move(storage), false};
}

/// Where the update lies in the result.
Box update_box(const OpContext& context) {
  const Dims& sizes = context.operand_type(1).dims;
  return {clamped_starts(context, context.operand_type(0).dims, sizes), sizes};
}

/// Hull of the part of `out` that `update` leaves uncovered.
Box uncovered(const Box& out, const Box& update) {
  if (update.empty()) return out;
  std::ptrdiff_t sticks_out = -1;
  for (std::size_t d = 0; d < out.start.size(); ++d) {
    if (update.start[d] <= out.start[d] && update.end(d) >= out.end(d)) continue;
    if (sticks_out >= 0) return out;  // in two dimensions: the hull is all of it
    sticks_out = d;
  }
  if (sticks_out < 0) return {out.start, Dims(out.size.size(), 0)};
  const std::size_t d = sticks_out;
  Box rest = out;
  if (update.start[d] <= out.start[d] && update.end(d) > out.start[d]) {
    rest.start[d] = update.end(d);
    rest.size[d] = out.end(d) - update.end(d);
  } else if (update.end(d) >= out.end(d) && update.start[d] < out.end(d)) {
    rest.size[d] = update.start[d] - out.start[d];
  }
  return rest;
}

/// Copies the part of `from` that lies in `out` (whose dense storage is `to`).
void place(const Block& from, const Box& out, Storage& to) {
  copy_values({from.box.size, row_major_strides(from.box.size), row_major_strides(out.size)}, from, 0, to,
              offset_in(out, from.box.start));
}

Result<Block> evaluate_dynamic_update_slice(const OpContext& context, const Box& out) {
  const Box update = update_box(context), common = intersection(update, out);
  const bool uncertain = starts_uncertain(context);
  const DType dtype = context.node().type().dtype;
  STITCH_ASSIGN(StorageRef storage, context.make(dtype, out, context.all_exact()));
  const Box rest = uncertain ? out : uncovered(out, update);
  if (!rest.empty()) {
    STITCH_ASSIGN(const Block below, context.operand(0, rest));
    place(below, out, *storage);
  }
  if (!common.empty()) {
    STITCH_ASSIGN(Block above, context.operand(1, moved(common, update.start, -1)));
    above.box = common;
    place(above, out, *storage);
  }
  storage->nonnegative = context.operand_nonnegative(0) && context.operand_nonnegative(1);
  if (uncertain) std::fill(storage->bounds.begin(), storage->bounds.end(), unchecked);
  return Block{dtype, out, std::move(storage), false};
}

// ---- gather

/// Dimensions of the result that are not in offset_dims, in order: they are those of the indices.
Dims batch_dims_of(const Dims& offset_dims, std::size_t rank) {
  Dims dims;
  for (std::size_t d = 0; d < rank; ++d) {
    if (!contains(offset_dims, d)) dims.push_back(d);
  }
  return dims;
}

/// Calls visit(operand box, result box, uncertain) for every window that `out` reads.
template <class Visit>
void for_each_gathered(const OpContext& context, const Block& indices, const Box& out, Visit visit) {
  const GatherAttributes& a = context.node().as<GatherAttributes>();
  const Dims& dims = context.operand_type(0).dims;
  const std::size_t index_rank = context.operand_type(1).dims.size();
  const Dims batch_dims = batch_dims_of(a.offset_dims, out.size.size());
  Box batches;
  for (const std::int64_t d : batch_dims) {
    batches.start.push_back(out.start[d]);
    batches.size.push_back(out.size[d]);
  }
  // The window's part of both boxes is the same for all index vectors.
  Box from{Dims(dims.size(), 0), Dims(dims.size(), 1)}, to = out;
  Dims offsets(dims.size(), 0);
  for (std::size_t d = 0, w = 0; d < dims.size(); ++d) {
    const std::int64_t dimension = d;
    if (contains(a.collapsed_slice_dims, dimension) || contains(a.operand_batching_dims, dimension)) continue;
    const std::size_t r = a.offset_dims[w++];
    offsets[d] = out.start[r];
    from.size[d] = out.size[r];
  }
  Dims batch = batches.start;
  do {
    Dims start(dims.size(), 0);
    bool uncertain = false;
    for (std::size_t k = 0; k < a.start_index_map.size(); ++k) {
      const Dims position = index_position(batch, a.index_vector_dim, index_rank, k);
      const std::int64_t offset = offset_in(indices.box, position);
      const std::size_t d = a.start_index_map[k];
      start[d] = std::clamp<std::int64_t>(index_value(indices, offset), 0, dims[d] - a.slice_sizes[d]);
      uncertain = uncertain || index_uncertain(indices, offset);
    }
    for (std::size_t k = 0; k < a.operand_batching_dims.size(); ++k) {
      start[a.operand_batching_dims[k]] = batch_coordinate(batch, a.index_vector_dim, a.start_indices_batching_dims[k]);
    }
    for (std::size_t d = 0; d < dims.size(); ++d) from.start[d] = start[d] + offsets[d];
    for (std::size_t i = 0; i < batch_dims.size(); ++i) {
      to.start[batch_dims[i]] = batch[i];
      to.size[batch_dims[i]] = 1;
    }
    visit(from, to, uncertain);
  } while (next_index(batches, batch));
}

Result<Block> evaluate_gather(const OpContext& context, const Box& out) {
  const GatherAttributes& a = context.node().as<GatherAttributes>();
  const DType dtype = context.node().type().dtype;
  STITCH_ASSIGN(StorageRef storage, context.make(dtype, out, context.all_exact()));
  const Dims out_strides = row_major_strides(out.size);
  Dims to_strides(context.operand_type(0).dims.size(), 0);
  for (std::size_t d = 0, w = 0; d < to_strides.size(); ++d) {
    const std::int64_t dimension = d;
    if (contains(a.collapsed_slice_dims, dimension) || contains(a.operand_batching_dims, dimension)) continue;
    to_strides[d] = out_strides[a.offset_dims[w++]];
  }
  for_each_gathered(context, context.indices[0], out, [&](const Box& from, const Box& to, bool uncertain) {
    const Block& block = context.holding(0, from);
    const std::int64_t offset = offset_in(out, to.start);
    copy_values({from.size, row_major_strides(block.box.size), to_strides}, block,
                block.uniform ? 0 : offset_in(block.box, from.start), *storage, offset);
    if (!uncertain || storage->bounds.empty()) return;
    const double infinite = unchecked;
    copy_strided({to.size, Dims(to.size.size(), 0), out_strides}, &infinite, storage->bounds.data() + offset);
  });
  storage->nonnegative = context.operand_nonnegative(0);
  return Block{dtype, out, std::move(storage), false};
}

}  // namespace

Box gather_index_box(const Node& node, const TensorType& indices, const Box& out) {
  const GatherAttributes& a = node.as<GatherAttributes>();
  Box box = Box::whole(indices.dims);
  const Dims batch_dims = batch_dims_of(a.offset_dims, out.size.size());
  for (std::size_t i = 0; i < batch_dims.size(); ++i) {
    const std::size_t d = static_cast<std::int64_t>(i) < a.index_vector_dim ? i : i + 1;
    box.start[d] = out.start[batch_dims[i]];
    box.size[d] = out.size[batch_dims[i]];
  }
  return box;
}

void index_demand(const OpContext& context, const Box& out, std::span<Region> regions) {
  switch (context.node().op) {
    case Op::dynamic_slice: regions[0].add(dynamic_slice_box(context, out)); return;
    case Op::dynamic_update_slice: {
      const Box update = update_box(context);
      regions[0].add(starts_uncertain(context) ? out : uncovered(out, update));
      regions[1].add(moved(intersection(update, out), update.start, -1));
      return;
    }
    case Op::gather:
      for_each_gathered(context, context.indices[0], out,
                        [&](const Box& from, const Box&, bool) { regions[0].add(from); });
      return;
    default: scatter_demand(context, out, regions);
  }
}

Result<Block> evaluate_index(const OpContext& context, const Box& out) {
  switch (context.node().op) {
    case Op::dynamic_slice: return evaluate_dynamic_slice(context, out);
    case Op::dynamic_update_slice: return evaluate_dynamic_update_slice(context, out);
    case Op::gather: return evaluate_gather(context, out);
    default: return evaluate_scatter(context, out);
  }
}

}  // namespace stitch::graph::reference
