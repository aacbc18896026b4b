#include <algorithm>

#include "graph/reference/evaluate_ops.h"

// Operators that move elements to places known ahead.

namespace stitch::graph::reference {
namespace {

/// A run of dimensions of each shape with equal products: a reshape never moves elements between groups.
struct ReshapeGroup {
  std::size_t from_begin, from_end, to_begin, to_end;
};

std::vector<ReshapeGroup> reshape_groups(const Dims& from, const Dims& to) {
  std::vector<ReshapeGroup> groups;
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    ReshapeGroup group{i, i, j, j};
    std::int64_t left = 1, right = 1;
    if (i < from.size()) left *= from[i++];
    if (j < to.size()) right *= to[j++];
    while (left != right) {
      if (left < right) {
        left *= from[i++];
      } else {
        right *= to[j++];
      }
    }
    // Extents of 1 that follow belong to no other group.
    while (i < from.size() && from[i] == 1) ++i;
    while (j < to.size() && to[j] == 1) ++j;
    group.from_end = i;
    group.to_end = j;
    groups.push_back(group);
  }
  return groups;
}

/// Result dimension d walks the operand with strides[d], starting at `offset`.
struct View {
  Box box;       ///< of the operand
  Dims strides;  ///< per result dimension, in elements of a dense tensor of `box`
  std::int64_t offset = 0;
};

/// Hull, in dimensions [begin, end) of `dims`, of the linear range first … last, written into `box`: indices that both
/// ends share, then a range, then whole dimensions, which is a linear range again. Returns where it begins.
std::int64_t hull_of_range(const Dims& dims, std::size_t begin, std::size_t end, std::int64_t first, std::int64_t last,
                           Box& box) {
  std::int64_t stride = 1, base = 0;
  for (std::size_t d = begin; d < end; ++d) stride *= dims[d];
  bool same = true;  // so far both ends have the same index
  for (std::size_t d = begin; d < end; ++d) {
    stride /= dims[d];
    const std::int64_t low = first / stride, high = last / stride;
    first %= stride;
    last %= stride;
    box.start[d] = same ? low : 0;
    box.size[d] = same ? high - low + 1 : dims[d];
    base += box.start[d] * stride;
    same = same && low == high;
  }
  return base;
}

/// Within a group the operand's box is a linear range, so the result walks it with the strides of its own shape.
View reshape_view(const Dims& from, const Dims& to, const Box& out) {
  View view{{Dims(from.size()), Dims(from.size())}, Dims(to.size(), 0), 0};
  std::vector<ReshapeGroup> groups = reshape_groups(from, to);
  std::int64_t behind = 1;  // elements of the box in the groups behind this one
  for (std::size_t g = groups.size(); g-- > 0;) {
    const ReshapeGroup& group = groups[g];
    std::int64_t first = 0, last = 0;
    for (std::size_t d = group.to_begin; d < group.to_end; ++d) {
      first = first * to[d] + out.start[d];
      last = last * to[d] + out.end(d) - 1;
    }
    const std::int64_t base = hull_of_range(from, group.from_begin, group.from_end, first, last, view.box);
    view.offset += (first - base) * behind;
    std::int64_t stride = behind;
    for (std::size_t d = group.to_end; d-- > group.to_begin;) {
      view.strides[d] = stride;
      stride *= to[d];
    }
    for (std::size_t d = group.from_begin; d < group.from_end; ++d) behind *= view.box.size[d];
  }
  return view;
}

/// Where dimension d of the operand goes.
std::int64_t result_dimension_of(const Node& node, std::size_t d) {
  const std::int64_t dimension = d;
  if (node.op == Op::broadcast) return node.as<BroadcastAttributes>().mapping[d];
  if (node.op != Op::transpose) return dimension;
  const Dims& permutation = node.as<TransposeAttributes>().permutation;
  return std::find(permutation.begin(), permutation.end(), dimension) - permutation.begin();
}

View view_of(const Node& node, const Dims& from, const Box& out) {
  if (node.op == Op::reshape) return reshape_view(from, node.type().dims, out);
  View view{{Dims(from.size()), Dims(from.size())}, Dims(out.size.size(), 0), 0};
  std::vector<std::int64_t> result_dimension(from.size()), step(from.size(), 1);
  for (std::size_t d = 0; d < from.size(); ++d) {
    const std::int64_t r = result_dimension_of(node, d);
    result_dimension[d] = r;
    view.box.start[d] = out.start[r];
    view.box.size[d] = out.size[r];
    if (node.op == Op::slice) {
      step[d] = node.as<SliceAttributes>().strides[d];
      view.box.start[d] = node.as<SliceAttributes>().starts[d] + out.start[d] * step[d];
      view.box.size[d] = (out.size[d] - 1) * step[d] + 1;
    }
  }
  if (node.op == Op::reverse) {
    for (const std::int64_t d : node.as<ReverseAttributes>().dimensions) {
      view.box.start[d] = from[d] - out.end(d);
      step[d] = -1;
    }
  }
  const Dims strides = row_major_strides(view.box.size);
  for (std::size_t d = 0; d < from.size(); ++d) {
    view.strides[result_dimension[d]] = strides[d] * step[d];
    if (step[d] < 0) view.offset += strides[d] * (view.box.size[d] - 1);
  }
  return view;
}

Result<Block> evaluate_view(const OpContext& context, const Box& out) {
  const View view = view_of(context.node(), context.operand_type(0).dims, out);
  STITCH_ASSIGN(Block operand, context.operand(0, view.box));
  const bool uniform = operand.uniform || operand.box.elements() == 1;
  if (uniform) return Block{operand.dtype, out, operand.data, true};
  const StridedCopy walk{out.size, view.strides, row_major_strides(out.size)};
  const StridedCopy simple = simplified(walk);
  if (view.box.elements() == out.elements() && simple.extents.size() == 1 && simple.from_strides[0] == 1) {
    return Block{operand.dtype, out, operand.data, false};  // the same elements in the same order
  }
  STITCH_ASSIGN(StorageRef storage, context.make(operand.dtype, out, operand.exact()));
  storage->nonnegative = operand.data->nonnegative;
  copy_values(walk, operand, view.offset, *storage, 0);
  return Block{operand.dtype, out, std::move(storage), false};
}

/// Where a part of a concatenation lies in the result.
Box part_box(const OpContext& context, std::size_t part) {
  const std::size_t d = context.node().as<ConcatenateAttributes>().dimension;
  Box box = Box::whole(context.operand_type(part).dims);
  for (std::size_t i = 0; i < part; ++i) box.start[d] += context.operand_type(i).dims[d];
  return box;
}

/// `box` moved by -origin.
Box relative(Box box, const Dims& origin) {
  for (std::size_t d = 0; d < origin.size(); ++d) box.start[d] -= origin[d];
  return box;
}

Result<Block> evaluate_concatenate(const OpContext& context, const Box& out) {
  STITCH_ASSIGN(StorageRef storage, context.make(context.node().type().dtype, out, context.all_exact()));
  storage->nonnegative = true;
  const Dims to_strides = row_major_strides(out.size);
  for (std::size_t i = 0; i < context.operands.size(); ++i) {
    const Box place = part_box(context, i), common = intersection(place, out);
    if (common.empty()) continue;
    STITCH_ASSIGN(const Block part, context.operand(i, relative(common, place.start)));
    storage->nonnegative = storage->nonnegative && part.data->nonnegative;
    copy_values({common.size, row_major_strides(common.size), to_strides}, part, 0, *storage,
                offset_in(out, common.start));
  }
  return Block{context.node().type().dtype, out, std::move(storage), false};
}

/// Operand elements that land in `out`, which lies on a grid of step interior + 1.
Box pad_operand_box(const PadAttributes& a, const Dims& from, const Box& out) {
  Box box{Dims(from.size()), Dims(from.size())};
  for (std::size_t d = 0; d < from.size(); ++d) {
    const std::int64_t step = a.interior[d] + 1, low = out.start[d] - a.low[d], high = out.end(d) - 1 - a.low[d];
    const std::int64_t first = low <= 0 ? 0 : (low + step - 1) / step;
    const std::int64_t last = high < 0 ? -1 : std::min(high / step, from[d] - 1);
    box.start[d] = first;
    box.size[d] = std::max<std::int64_t>(0, last - first + 1);
  }
  return box;
}

Result<Block> evaluate_pad(const OpContext& context, const Box& out) {
  const PadAttributes& a = context.node().as<PadAttributes>();
  const DType dtype = context.node().type().dtype;
  STITCH_ASSIGN(StorageRef storage, context.make(dtype, out, context.all_exact()));
  const Dims strides = row_major_strides(out.size), none(out.size.size(), 0);
  STITCH_ASSIGN(const Block fill, context.operand(1, Box{}));
  copy_values({out.size, none, strides}, fill, 0, *storage, 0);
  storage->nonnegative = fill.data->nonnegative;
  const Box box = pad_operand_box(a, context.operand_type(0).dims, out);
  if (!box.empty()) {
    STITCH_ASSIGN(const Block operand, context.operand(0, box));
    storage->nonnegative = storage->nonnegative && operand.data->nonnegative;
    Dims to_strides = strides;
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      const std::int64_t step = a.interior[d] + 1;
      offset += (a.low[d] + box.start[d] * step - out.start[d]) * strides[d];
      to_strides[d] *= step;
    }
    copy_values({box.size, row_major_strides(box.size), to_strides}, operand, 0, *storage, offset);
  }
  return Block{dtype, out, std::move(storage), false};
}

}  // namespace

void layout_demand(const OpContext& context, const Box& out, std::span<Region> regions) {
  const Node& node = context.node();
  switch (node.op) {
    case Op::concatenate:
      for (std::size_t i = 0; i < regions.size(); ++i) {
        const Box place = part_box(context, i);
        regions[i].add(relative(intersection(place, out), place.start));
      }
      return;
    case Op::pad:
      regions[0].add(pad_operand_box(node.as<PadAttributes>(), context.operand_type(0).dims, out));
      regions[1].add(Box{});
      return;
    default: regions[0].add(view_of(node, context.operand_type(0).dims, out).box);
  }
}

Result<Block> evaluate_layout(const OpContext& context, const Box& out) {
  switch (context.node().op) {
    case Op::concatenate: return evaluate_concatenate(context, out);
    case Op::pad: return evaluate_pad(context, out);
    default: return evaluate_view(context, out);
  }
}

}  // namespace stitch::graph::reference
