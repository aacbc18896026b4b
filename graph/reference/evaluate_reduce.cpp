#include <algorithm>

#include "graph/reference/evaluate_accumulate.h"
#include "graph/reference/evaluate_exp_sum.h"
#include "graph/reference/evaluate_ops.h"

// reduce, arg_reduce, max_exp_sum, scan.

namespace stitch::graph::reference {
namespace {

/// Boxes of the operand that contribute to `out`: one, or one per kept box.
std::vector<Box> contributing_boxes(const OpContext& context, const Box& out) {
  const Dims& dims = context.operand_type(0).dims;
  const Dims reduced = reduced_dimensions(context.node()).value_or(Dims{});
  std::vector<Box> boxes(context.kept.begin(), context.kept.end());
  if (boxes.empty()) boxes.push_back(Box::whole(dims));
  std::size_t next = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (std::ranges::count(reduced, static_cast<std::int64_t>(d)) > 0) continue;
    for (Box& box : boxes) {
      box.start[d] = out.start[next];
      box.size[d] = out.size[next];
    }
    ++next;
  }
  return boxes;
}

/// The operand's box is walked in memory order; result strides are 0 along reduced dimensions.
StridedCopy reduction_walk(const Box& box, const Dims& holder_size, const Dims& reduced, const Box& out) {
  StridedCopy walk{box.size, row_major_strides(holder_size), Dims(box.size.size(), 0)};
  const Dims strides = row_major_strides(out.size);
  std::size_t next = 0;
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    const bool is_reduced = std::find(reduced.begin(), reduced.end(), static_cast<std::int64_t>(d)) != reduced.end();
    if (!is_reduced) walk.to_strides[d] = strides[next++];
  }
  return simplified(walk);
}

/// Adds a walk's elements to their accumulators. A line along the innermost dimension goes either into one accumulator
/// (kept in registers) or into neighbouring ones.
template <class Accumulator, class T>
void accumulate(const StridedCopy& walk, std::size_t d, const T* values, const double* bounds,
                Accumulator* accumulators) {
  if (d + 1 < walk.extents.size()) {
    for (std::int64_t i = 0; i < walk.extents[d]; ++i) {
      accumulate(walk, d + 1, values + i * walk.from_strides[d],
                 bounds == nullptr ? nullptr : bounds + i * walk.from_strides[d],
                 accumulators + i * walk.to_strides[d]);
    }
    return;
  }
  const std::int64_t count = walk.extents.empty() ? 1 : walk.extents[d];
  const std::int64_t step = walk.extents.empty() ? 0 : walk.from_strides[d];
  const std::int64_t to_step = walk.extents.empty() ? 0 : walk.to_strides[d];
  if (to_step == 0) {
    Accumulator local = *accumulators;
    if (bounds == nullptr) {
      for (std::int64_t i = 0; i < count; ++i) local.add(values[i * step], 0);
    } else {
      for (std::int64_t i = 0; i < count; ++i) local.add(values[i * step], bounds[i * step]);
    }
    *accumulators = local;
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      accumulators[i * to_step].add(values[i * step], bounds == nullptr ? 0 : bounds[i * step]);
    }
  }
}

/// Elements of a reduction between two looks at whether it is still wanted: some milliseconds.
constexpr std::int64_t elements_between_looks = std::int64_t{1} << 22;

/// Which of the slab's elements the first one of `part` goes into; `part` lies in `box`, all of which goes into them.
std::int64_t place_in(const Box& part, const Box& box, const Dims& reduced, const Box& slab) {
  const Dims strides = row_major_strides(slab.size);
  std::int64_t place = 0;
  std::size_t next = 0;
  for (std::size_t d = 0; d < part.start.size(); ++d) {
    const bool is_reduced = std::find(reduced.begin(), reduced.end(), static_cast<std::int64_t>(d)) != reduced.end();
    if (!is_reduced) place += (part.start[d] - box.start[d]) * strides[next++];
  }
  return place;
}

/// Adds what contributes to the slab's elements to their accumulators.
template <class Accumulator>
Status accumulate_slab(const OpContext& context, const Box& slab, std::vector<Accumulator>& accumulators) {
  const Dims reduced = reduced_dimensions(context.node()).value_or(Dims{});
  for (const Box& box : contributing_boxes(context, slab)) {
    if (box.empty()) continue;
    const Block& holder = context.holding(0, box);
    const auto add = [&](const Box& part) -> Status {
      STITCH_TRY(context.memory.go_on());
      Accumulator* const to = accumulators.data() + place_in(part, box, reduced, slab);
      StridedCopy walk = reduction_walk(part, holder.box.size, reduced, slab);
      std::int64_t first = offset_in(holder.box, part.start);
      if (holder.uniform) {
        walk.from_strides.assign(walk.extents.size(), 0);
        first = 0;
      }
      const double* bounds = holder.exact() ? nullptr : holder.data->bounds.data() + first;
      if constexpr (std::is_same_v<typename Accumulator::Value, double>) {
        accumulate(walk, 0, holder.data->floats.data() + first, bounds, to);
      } else {
        accumulate(walk, 0, holder.data->integers.data() + first, bounds, to);
      }
      return {};
    };
    STITCH_TRY(for_each_slab(box, elements_between_looks, add));
  }
  return {};
}

template <class Accumulator>
Status reduce_slab(const OpContext& context, const Box& slab, const Accumulator& fresh,
                   const Accumulation& accumulation, Storage& storage, std::int64_t offset) {
  std::vector<Accumulator> accumulators(slab.elements(), fresh);
  STITCH_TRY(accumulate_slab(context, slab, accumulators));
  finish_elements(accumulators.data(), slab.elements(), accumulation, storage, offset);
  return {};
}

/// Whether the kernel computes, so that exact elements do not make an exact result.
bool is_sum_or_product(ReduceKind kind) { return kind == ReduceKind::sum || kind == ReduceKind::product; }

}  // namespace

Result<Block> evaluate_reduce(const OpContext& context, const Box& out) {
  const ReduceAttributes& a = context.node().as<ReduceAttributes>();
  const DType dtype = context.node().type().dtype;
  const bool exact = context.all_exact() && !(is_floating(dtype) && is_sum_or_product(a.kind));
  STITCH_ASSIGN(StorageRef storage, context.make(dtype, out, exact));
  Accumulation accumulation(dtype, context.options.error_model);
  accumulation.may_be_one_sided = context.may_be_one_sided;
  std::int64_t offset = 0;
  const Status status = for_each_slab(out, slab_elements, [&](const Box& slab) {
    return with_accumulator(a.kind, dtype, !storage->bounds.empty(), [&](auto fresh) {
      const Status done = reduce_slab(context, slab, fresh, accumulation, *storage, offset);
      offset += slab.elements();
      return done;
    });
  });
  STITCH_TRY(status);
  const bool not_empty = context.operand_type(0).elements() > 0;  // else it may be the identity of max, -inf
  storage->nonnegative =
      context.operand_nonnegative(0) && is_floating(dtype) && (is_sum_or_product(a.kind) || not_empty);
  return Block{dtype, out, std::move(storage), false};
}

namespace {

template <bool bounded, bool compensated>
Status sum_exponentials(const OpContext& context, const Box& slab, const Accumulation& accumulation,
                        const Storage& maxima, Storage& sums, std::int64_t offset) {
  std::vector<ExpSum<bounded, compensated>> accumulators;
  for (std::int64_t i = offset; i < offset + slab.elements(); ++i)
    accumulators.emplace_back(maxima.floats[i], maxima.bounds.empty() ? 0 : maxima.bounds[i], accumulation.rounding);
  STITCH_TRY(accumulate_slab(context, slab, accumulators));
  finish_elements(accumulators.data(), slab.elements(), accumulation, sums, offset);
  return {};
}

}  // namespace

Result<std::vector<Block>> evaluate_max_exp_sum(const OpContext& context, const Box& out) {
  const DType dtype = context.node().type().dtype;
  STITCH_ASSIGN(StorageRef maxima, context.make(dtype, out, context.all_exact()));
  STITCH_ASSIGN(StorageRef sums, context.make(dtype, out, false));
  Accumulation accumulation(dtype, context.options.error_model);
  accumulation.may_be_one_sided = context.may_be_one_sided;
  std::int64_t offset = 0;
  const auto evaluate = [&](const Box& slab) -> Status {
    STITCH_TRY(with_accumulator(ReduceKind::max, dtype, !maxima->bounds.empty(), [&](auto fresh) {
      return reduce_slab(context, slab, fresh, accumulation, *maxima, offset);
    }));
    const bool bounded = !sums->bounds.empty(), wide = dtype == DType::f64;
    const auto sum = bounded ? (wide ? sum_exponentials<true, true> : sum_exponentials<true, false>)
                             : (wide ? sum_exponentials<false, true> : sum_exponentials<false, false>);
    STITCH_TRY(sum(context, slab, accumulation, *maxima, *sums, offset));
    offset += slab.elements();
    return {};
  };
  STITCH_TRY(for_each_slab(out, slab_elements, evaluate));
  sums->nonnegative = true;
  return std::vector<Block>{{dtype, out, std::move(maxima), false}, {dtype, out, std::move(sums), false}};
}

namespace {

/// The extreme of one line and where it is.
template <class T>
struct Extreme {
  T value{};
  double bound = 0;
  std::int64_t position = -1;
};

/// Elements of one line of an arg_reduce, of one kept box.
template <class T>
struct LinePart {
  const T* values;
  const double* bounds;
  std::int64_t step, count, first_position;
};

template <class T>
bool beats(T x, T best, bool largest, bool last) {
  if constexpr (std::is_floating_point_v<T>) {
    if (x != x || best != best) return x != x && (best == best || last);
  }
  if (x == best) return last;
  return largest ? x > best : x < best;
}

/// Position bound: the farthest element that may be the extreme in some correct kernel.
template <class T>
double position_bound(const std::vector<LinePart<T>>& line, const Extreme<T>& best, bool largest) {
  double farthest = 0;
  for (const LinePart<T>& part : line) {
    for (std::int64_t i = 0; i < part.count; ++i) {
      const double e = part.bounds == nullptr ? 0 : part.bounds[i * part.step];
      if (e == unchecked) return unchecked;
      if (e + best.bound == 0) continue;
      const double x = part.values[i * part.step], reach = static_cast<double>(best.value);
      if (largest ? x + e >= reach - best.bound : x - e <= reach + best.bound) {
        farthest = std::max(farthest, std::fabs(static_cast<double>(part.first_position + i - best.position)));
      }
    }
  }
  return farthest;
}

template <class T>
void arg_reduce_line(const ArgReduceAttributes& a, const std::vector<LinePart<T>>& line, Extreme<T>& best) {
  const bool largest = a.kind == ReduceKind::max;
  for (const LinePart<T>& part : line) {
    for (std::int64_t i = 0; i < part.count; ++i) {
      const T x = part.values[i * part.step];
      if (best.position >= 0 && !beats(x, best.value, largest, a.last)) continue;
      best = {x, part.bounds == nullptr ? 0 : part.bounds[i * part.step], part.first_position + i};
    }
  }
  // The extreme itself: any element that may be it, within its own bound.
  double low = best.bound, high = best.bound;
  for (const LinePart<T>& part : line) {
    if (part.bounds == nullptr || best.value != best.value) break;
    for (std::int64_t i = 0; i < part.count; ++i) {
      const double apart = static_cast<double>(part.values[i * part.step]) - static_cast<double>(best.value);
      const double e = part.bounds[i * part.step];
      if (e == unchecked) low = high = unchecked;
      if (std::isfinite(apart)) high = std::max(high, (largest ? apart : -apart) + e);
    }
  }
  best.bound = std::max(low, high);
}

template <class T>
void arg_reduce_elements(const OpContext& context, const Box& out, const std::vector<Box>& boxes,
                         const T* (*data)(const Block&), Storage& values, Storage& positions) {
  const ArgReduceAttributes& a = context.node().as<ArgReduceAttributes>();
  const std::size_t d = a.dimension;
  const bool bounded = !positions.bounds.empty();
  Dims index = out.start;
  for (std::int64_t i = 0, count = out.elements(); i < count; ++i) {
    std::vector<LinePart<T>> line;
    for (const Box& box : boxes) {
      if (box.empty()) continue;
      const Block& holder = context.holding(0, box);
      Dims first = index;
      first.insert(first.begin() + a.dimension, box.start[d]);
      const std::int64_t offset = holder.uniform ? 0 : offset_in(holder.box, first);
      line.push_back({data(holder) + offset, holder.exact() ? nullptr : holder.data->bounds.data() + offset,
                      holder.uniform ? 0 : row_major_strides(holder.box.size)[d], box.size[d], box.start[d]});
    }
    Extreme<T> best;
    const bool any_bounds =
        std::any_of(line.begin(), line.end(), [](const auto& part) { return part.bounds != nullptr; });
    arg_reduce_line(a, line, best);
    if constexpr (std::is_same_v<T, double>) {
      values.floats[i] = best.value;
    } else {
      values.integers[i] = best.value;
    }
    positions.integers[i] = wrap_integer(a.index_dtype, best.position);
    if (bounded) {
      values.bounds[i] = best.bound;
      positions.bounds[i] = any_bounds ? position_bound(line, best, a.kind == ReduceKind::max) : 0;
    }
    next_index(out, index);
  }
}

}  // namespace

Result<std::vector<Block>> evaluate_arg_reduce(const OpContext& context, const Box& out) {
  const ArgReduceAttributes& a = context.node().as<ArgReduceAttributes>();
  const DType dtype = context.node().type(0).dtype;
  const bool exact = context.all_exact();
  STITCH_ASSIGN(StorageRef values, context.make(dtype, out, exact));
  STITCH_ASSIGN(StorageRef positions, context.make(a.index_dtype, out, exact));
  const std::vector<Box> boxes = contributing_boxes(context, out);
  if (is_floating(dtype)) {
    arg_reduce_elements<double>(
        context, out, boxes, [](const Block& block) -> const double* { return block.data->floats.data(); }, *values,
        *positions);
  } else if (dtype == DType::u64) {
    arg_reduce_elements<std::uint64_t>(
        context, out, boxes,
        [](const Block& block) { return reinterpret_cast<const std::uint64_t*>(block.data->integers.data()); }, *values,
        *positions);
  } else {
    arg_reduce_elements<std::int64_t>(
        context, out, boxes, [](const Block& block) -> const std::int64_t* { return block.data->integers.data(); },
        *values, *positions);
  }
  return std::vector<Block>{{dtype, out, std::move(values), false}, {a.index_dtype, out, std::move(positions), false}};
}

namespace {

/// The operand's box of a scan: everything up to (or from) the wanted elements.
Box scan_box(const OpContext& context, const Box& out) {
  const ScanAttributes& a = context.node().as<ScanAttributes>();
  const std::size_t d = a.dimension;
  Box box = out;
  if (a.reverse) {
    box.size[d] = context.operand_type(0).dims[d] - out.start[d];
  } else {
    box.start[d] = 0;
    box.size[d] = out.end(d);
  }
  return box;
}

}  // namespace

Result<Block> evaluate_scan(const OpContext& context, const Box& out) {
  const ScanAttributes& a = context.node().as<ScanAttributes>();
  const DType dtype = context.node().type().dtype;
  const std::size_t d = a.dimension;
  const Box box = scan_box(context, out);
  STITCH_ASSIGN(const Block sub, context.operand(0, box));
  STITCH_ASSIGN(const Block operand, expanded(context.memory, sub));
  STITCH_ASSIGN(StorageRef storage,
                context.make(dtype, out, context.all_exact() && !(is_floating(dtype) && is_sum_or_product(a.kind))));
  const Accumulation accumulation(dtype, context.options.error_model);
  const std::int64_t inner = row_major_strides(box.size)[d], extent = box.size[d];
  const std::int64_t lines = box.elements() / extent;
  const double* bounds = operand.exact() ? nullptr : operand.data->bounds.data();
  with_accumulator(a.kind, dtype, !storage->bounds.empty(), [&](auto fresh) {
    for (std::int64_t line = 0; line < lines; ++line) {
      const std::int64_t from = line / inner * inner * extent + line % inner;
      const std::int64_t to = line / inner * inner * out.size[d] + line % inner;
      auto accumulator = fresh;
      for (std::int64_t step = 0; step < extent; ++step) {
        const std::int64_t i = a.reverse ? extent - 1 - step : step;  // within the operand's box
        const std::int64_t o = box.start[d] + i - out.start[d];       // within the result's
        const bool wanted = o >= 0 && o < out.size[d];
        if (wanted && a.exclusive) finish_elements(&accumulator, 1, accumulation, *storage, to + o * inner);
        const double e = bounds == nullptr ? 0 : bounds[from + i * inner];
        if constexpr (std::is_same_v<typename decltype(accumulator)::Value, double>) {
          accumulator.add(operand.data->floats[from + i * inner], e);
        } else {
          accumulator.add(operand.data->integers[from + i * inner], e);
        }
        if (wanted && !a.exclusive) finish_elements(&accumulator, 1, accumulation, *storage, to + o * inner);
      }
    }
  });
  storage->nonnegative = operand.data->nonnegative && is_floating(dtype) && is_sum_or_product(a.kind);
  return Block{dtype, out, std::move(storage), false};
}

void reduction_demand(const OpContext& context, const Box& out, std::span<Region> regions) {
  if (context.node().op == Op::scan) {
    regions[0].add(scan_box(context, out));
  } else {
    for (Box& box : contributing_boxes(context, out)) regions[0].add(std::move(box));
  }
}

}  // namespace stitch::graph::reference
