// Layout: operators that move, repeat or select elements by position.
#include <algorithm>
#include <cstdlib>

#include "import/emit.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// Dims of a reshape: 0 copies the extent (unless `allow_zero`), one -1 takes what is left.
Result<Dims> target_dims(const Dims& from, Dims to, bool allow_zero) {
  std::int64_t known = 1, open = -1;
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 0 && !allow_zero) {
      if (d >= from.size())
        return Call::wrong("shape {} copies dimension {} of {}", graph::to_string(to), d, graph::to_string(from));
      to[d] = from[d];
    }
    if (to[d] == -1) {
      if (open >= 0) return Call::wrong("shape {} has two open extents", graph::to_string(to));
      open = d;
      continue;
    }
    if (to[d] < 0) return Call::wrong("shape {}", graph::to_string(to));
    if (!graph::multiply_extent(known, to[d])) return Call::wrong("shape {} is too large", graph::to_string(to));
  }
  if (open >= 0) {
    for (const std::int64_t extent : to) {
      if (extent == 0) return Call::wrong("shape {} leaves an extent open beside 0", graph::to_string(to));
    }
    to[open] = graph::element_count(from) / known;
  }
  return to;
}

}  // namespace

Result<Values> reshape(Call& c) {
  STITCH_ASSIGN(const std::optional<Dims> shape, c.integers_from(1, "shape"));
  if (!shape) return Call::wrong("there is no shape");
  STITCH_ASSIGN(const std::int64_t allow_zero, c.node.integer("allowzero", 0));
  STITCH_ASSIGN(Dims dims, target_dims(c.dims(c.in(0)), *shape, allow_zero != 0));
  return Values{c.b.reshape(c.in(0), std::move(dims))};
}

Result<Values> flatten(Call& c) {
  const Dims& dims = c.dims(c.in(0));
  STITCH_ASSIGN(std::int64_t axis, c.node.integer("axis", 1));
  if (axis < 0) axis += c.rank(c.in(0));
  if (axis < 0 || axis > c.rank(c.in(0))) return Call::wrong("attribute 'axis' is out of range");
  std::int64_t rows = 1, columns = 1;
  for (std::size_t d = 0; d < dims.size(); ++d) (static_cast<std::int64_t>(d) < axis ? rows : columns) *= dims[d];
  return Values{c.b.reshape(c.in(0), {rows, columns})};
}

Result<Values> squeeze(Call& c) {
  const Dims& dims = c.dims(c.in(0));
  STITCH_ASSIGN(const std::optional<Dims> given, c.integers_from(1, "axes"));
  Dims axes;
  if (given) {
    STITCH_ASSIGN(axes, Call::normal_axes(*given, c.rank(c.in(0))));
  } else {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == 1) axes.push_back(d);
    }
  }
  Dims rest;
  for (const std::int64_t d : other_axes(c.rank(c.in(0)), axes)) rest.push_back(dims[d]);
  for (const std::int64_t d : axes) {
    if (dims[d] != 1) return Call::wrong("axis {} of {} is not 1", d, graph::to_string(dims));
  }
  return Values{c.b.reshape(c.in(0), std::move(rest))};
}

Result<Values> unsqueeze(Call& c) {
  STITCH_ASSIGN(const std::optional<Dims> given, c.integers_from(1, "axes"));
  if (!given) return Call::wrong("there are no axes");
  const std::int64_t rank = c.rank(c.in(0)) + static_cast<std::int64_t>(given->size());
  STITCH_ASSIGN(const Dims axes, Call::normal_axes(*given, rank));
  Dims dims = c.dims(c.in(0));
  for (const std::int64_t axis : axes) dims.insert(dims.begin() + axis, 1);
  return Values{c.b.reshape(c.in(0), std::move(dims))};
}

Result<Values> transpose(Call& c) {
  Dims reversed = first_axes(c.rank(c.in(0)));
  std::reverse(reversed.begin(), reversed.end());
  STITCH_ASSIGN(const Dims given, c.node.integers("perm", reversed));
  if (given.size() != reversed.size()) {
    return Call::wrong("attribute 'perm' has {} entries for rank {}", given.size(), reversed.size());
  }
  Dims permutation;
  for (const std::int64_t axis : given) {
    STITCH_ASSIGN(const std::int64_t normal, Call::normal_axis(axis, c.rank(c.in(0))));
    permutation.push_back(normal);
  }
  if (permutation == first_axes(c.rank(c.in(0)))) return Values{c.in(0)};
  return Values{c.b.transpose(c.in(0), std::move(permutation))};
}

Result<Values> expand(Call& c) {
  STITCH_ASSIGN(const Dims shape, c.need_integers(1));
  STITCH_ASSIGN(const Dims dims, graph::broadcast_shape(c.dims(c.in(0)), shape));
  return Values{c.b.broadcast_to(c.in(0), dims)};
}

Result<Values> tile(Call& c) {
  const Dims from = c.dims(c.in(0));
  Dims repeats;
  if (c.version < 6 && c.has(2)) {  // opset 1: a count and an axis
    STITCH_ASSIGN(const std::int64_t count, c.need_integer(1));
    STITCH_ASSIGN(const std::int64_t given, c.need_integer(2));
    STITCH_ASSIGN(const std::int64_t axis, Call::normal_axis(given, c.rank(c.in(0))));
    repeats.assign(from.size(), 1);
    repeats[axis] = count;
  } else {
    STITCH_ASSIGN(repeats, c.need_integers(1));
  }
  if (repeats.size() != from.size()) {
    return Call::wrong("{} repeats for rank {}", repeats.size(), from.size());
  }
  Dims wide, mapping, result;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (repeats[d] < 0 || repeats[d] > (std::int64_t{1} << 40)) return Call::wrong("{} repeats", repeats[d]);
    if (repeats[d] != 1) wide.push_back(repeats[d]);
    mapping.push_back(wide.size());
    wide.push_back(from[d]);
  }
  const Value repeated = c.b.broadcast(c.in(0), wide, mapping);
  if (c.b.failed()) return Values{repeated};
  for (std::size_t d = 0; d < from.size(); ++d) result.push_back(from[d] * repeats[d]);
  return Values{c.b.reshape(repeated, result)};
}

Result<Values> concat(Call& c) {
  Values parts;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return Call::wrong("input {} is missing", i);
    parts.push_back(c.in(i));
  }
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", 1, c.rank(parts[0])));
  return Values{c.b.concatenate(std::move(parts), axis)};
}

Result<Values> split(Call& c) {
  STITCH_TRY(c.need_rank(0, 1));
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", 0, c.rank(c.in(0))));
  const std::int64_t extent = c.dims(c.in(0))[axis];
  STITCH_ASSIGN(std::optional<Dims> sizes, c.integers_from(1, "split"));
  if (!sizes) {
    const std::int64_t parts = std::max<std::size_t>(c.outputs(), 1);
    // Opset 18: the last part is smaller when the extent does not divide.
    const std::int64_t each = (extent + parts - 1) / parts;
    sizes.emplace();
    for (std::int64_t i = 0; i < parts; ++i) {
      sizes->push_back(std::clamp<std::int64_t>(extent - i * each, 0, each));
    }
  }
  Values values;
  std::int64_t start = 0;
  for (const std::int64_t size : *sizes) {
    if (size < 0 || size > extent - start)
      return Call::wrong("parts {} of extent {}", graph::to_string(*sizes), extent);
    values.push_back(slice_axis(c.b, c.in(0), axis, start, start + size));
    start += size;
  }
  if (start != extent) return Call::wrong("parts {} of extent {}", graph::to_string(*sizes), extent);
  return values;
}

namespace {

/// One axis of a Slice, in NumPy's terms, as [start, limit) by stride and whether it is read backwards.
struct AxisSlice {
  std::int64_t start = 0, limit = 0, stride = 1;
  bool reversed = false;
};

AxisSlice numpy_slice(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t extent) {
  const auto from_end = [&](std::int64_t i) { return i < 0 ? i + extent : i; };
  if (step > 0) {
    start = std::clamp<std::int64_t>(from_end(start), 0, extent);
    end = std::clamp<std::int64_t>(from_end(end), start, extent);
    return {start, end, std::min(step, std::max<std::int64_t>(extent, 1)), false};
  }
  start = std::clamp<std::int64_t>(from_end(start), -1, extent - 1);
  end = std::clamp<std::int64_t>(from_end(end), -1, start);
  step = std::max(step, -std::max<std::int64_t>(extent, 1));
  const std::int64_t count = (start - end + -step - 1) / -step;
  if (count == 0) return {0, 0, 1, false};
  // The same elements ascending: the last one read comes first.
  const std::int64_t first = start + (count - 1) * step;
  return {first, start + 1, -step, true};
}

}  // namespace

Result<Values> slice(Call& c) {
  const Dims dims = c.dims(c.in(0));
  const std::int64_t rank = c.rank(c.in(0));
  STITCH_ASSIGN(const std::optional<Dims> starts, c.integers_from(1, "starts"));
  STITCH_ASSIGN(const std::optional<Dims> ends, c.integers_from(2, "ends"));
  STITCH_ASSIGN(const std::optional<Dims> axes_given, c.integers_from(3, "axes"));
  STITCH_ASSIGN(const std::optional<Dims> steps_given, c.integers_from(4, "steps"));
  if (!starts || !ends || starts->size() != ends->size()) return Call::wrong("starts and ends do not match");
  const Dims axes = axes_given.value_or(first_axes(starts->size()));
  const Dims steps = steps_given.value_or(Dims(starts->size(), 1));
  if (axes.size() != starts->size() || steps.size() != starts->size()) return Call::wrong("axes or steps do not match");
  Dims from(dims.size(), 0), to = dims, strides(dims.size(), 1), reversed;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    STITCH_ASSIGN(const std::int64_t axis, Call::normal_axis(axes[i], rank));
    if (steps[i] == 0) return Call::wrong("step 0");
    const AxisSlice part = numpy_slice((*starts)[i], (*ends)[i], steps[i], dims[axis]);
    from[axis] = part.start;
    to[axis] = part.limit;
    strides[axis] = part.stride;
    if (part.reversed) reversed.push_back(axis);
  }
  Value y = c.in(0);
  if (to != dims || from != Dims(dims.size(), 0) || strides != Dims(dims.size(), 1)) {
    y = c.b.slice(y, from, to, strides);
  }
  std::sort(reversed.begin(), reversed.end());
  return Values{reversed.empty() ? y : c.b.reverse(y, reversed)};
}

Result<Values> depth_to_space(Call& c) {
  STITCH_TRY(c.need_rank(0, 4, 4));
  STITCH_ASSIGN(const std::int64_t block, c.node.integer("blocksize", 0));
  STITCH_ASSIGN(const std::string mode, c.node.text("mode", "DCR"));
  const Dims d = c.dims(c.in(0));
  if (block < 1 || block > (1 << 20) || d[1] % (block * block) != 0) return Call::wrong("blocksize {}", block);
  const std::int64_t depth = d[1] / (block * block);
  const bool columns_first = mode == "CRD";
  const Value parts = c.b.reshape(c.in(0), columns_first ? Dims{d[0], depth, block, block, d[2], d[3]}
                                                         : Dims{d[0], block, block, depth, d[2], d[3]});
  const Value moved = c.b.transpose(parts, columns_first ? Dims{0, 1, 4, 2, 5, 3} : Dims{0, 3, 4, 1, 5, 2});
  return Values{c.b.reshape(moved, {d[0], depth, d[2] * block, d[3] * block})};
}

Result<Values> space_to_depth(Call& c) {
  STITCH_TRY(c.need_rank(0, 4, 4));
  STITCH_ASSIGN(const std::int64_t block, c.node.integer("blocksize", 0));
  STITCH_ASSIGN(const std::string mode, c.node.text("mode", "DCR"));
  const Dims d = c.dims(c.in(0));
  if (block < 1 || d[2] % block != 0 || d[3] % block != 0) return Call::wrong("blocksize {}", block);
  const Value parts = c.b.reshape(c.in(0), {d[0], d[1], d[2] / block, block, d[3] / block, block});
  const Value moved = c.b.transpose(parts, mode == "CRD" ? Dims{0, 1, 3, 5, 2, 4} : Dims{0, 3, 5, 1, 2, 4});
  return Values{c.b.reshape(moved, {d[0], d[1] * block * block, d[2] / block, d[3] / block})};
}

/// Upper or lower triangle, by comparing the two positions.
Result<Values> trilu(Call& c) {
  STITCH_TRY(c.need_rank(0, 2));
  STITCH_ASSIGN(const std::int64_t upper, c.node.integer("upper", 1));
  std::int64_t k = 0;
  if (c.has(1)) {
    STITCH_ASSIGN(k, c.need_integer(1));
  }
  const Dims dims = c.dims(c.in(0));
  const std::int64_t rank = c.rank(c.in(0));
  const Dims matrix(dims.end() - 2, dims.end());
  const Value row = c.b.iota(DType::s64, matrix, 0), column = c.b.iota(DType::s64, matrix, 1);
  const Value shifted = add(c.b, row, k);
  const Value kept = c.b.compare(upper != 0 ? Comparison::ge : Comparison::le, column, shifted);
  const Value mask = c.b.broadcast(kept, dims, {rank - 2, rank - 1});
  return Values{c.b.select(mask, c.in(0), like(c.b, c.in(0), 0.0))};
}

}  // namespace stitch::import::onnx
