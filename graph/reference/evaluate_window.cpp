#include <algorithm>
#include <limits>
#include <type_traits>

#include "graph/reference/evaluate_accumulate.h"
#include "graph/reference/evaluate_ops.h"

// reduce-window, select-and-scatter.

namespace stitch::graph::reference {
namespace {

std::int64_t floor_divide(std::int64_t x, std::int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); }
std::int64_t ceil_divide(std::int64_t x, std::int64_t y) { return -floor_divide(-x, y); }

/// Operand elements that the windows of `out` touch.
Box window_operand_box(const ReduceWindowAttributes& a, const Dims& dims, const Box& out) {
  Box box{Dims(dims.size()), Dims(dims.size())};
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t low = out.start[d] * a.strides[d] - a.low[d];
    const std::int64_t high = (out.end(d) - 1) * a.strides[d] + (a.sizes[d] - 1) * a.window_dilation[d] - a.low[d];
    const std::int64_t first = std::max<std::int64_t>(0, ceil_divide(low, a.base_dilation[d]));
    const std::int64_t last = std::min(dims[d] - 1, floor_divide(high, a.base_dilation[d]));
    box.start[d] = first;
    box.size[d] = std::max<std::int64_t>(0, last - first + 1);
  }
  return box;
}

/// Per dimension and position in the window: for every result index of a slab, the operand's offset, or -1.
using WindowTables = std::vector<std::vector<std::vector<std::int64_t>>>;

WindowTables window_tables(const ReduceWindowAttributes& a, const Box& slab, const Box& operand, bool uniform) {
  WindowTables tables(slab.size.size());
  const Dims strides = row_major_strides(operand.size);
  for (std::size_t d = 0; d < tables.size(); ++d) {
    for (std::int64_t k = 0; k < a.sizes[d]; ++k) {
      std::vector<std::int64_t>& table = tables[d].emplace_back(slab.size[d], -1);
      for (std::int64_t i = 0; i < slab.size[d]; ++i) {
        const std::int64_t place = (slab.start[d] + i) * a.strides[d] + k * a.window_dilation[d] - a.low[d];
        const std::int64_t index = floor_divide(place, a.base_dilation[d]);
        if (place % a.base_dilation[d] != 0 || index < operand.start[d] || index >= operand.end(d)) continue;
        table[i] = uniform ? 0 : (index - operand.start[d]) * strides[d];
      }
    }
  }
  return tables;
}

/// One position of the window: adds its element to every result that has one there.
template <class Accumulator, class T>
void add_shifted(const WindowTables& tables, const Dims& position, const Dims& out_strides, std::size_t d,
                 const T* values, const double* bounds, Accumulator* accumulators) {
  if (d == tables.size()) {  // a scalar's only window
    accumulators->add(*values, bounds == nullptr ? 0 : *bounds);
    return;
  }
  const std::vector<std::int64_t>& table = tables[d][position[d]];
  const bool innermost = d + 1 == tables.size();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::int64_t from = table[i];
    if (from < 0) continue;
    const double* e = bounds == nullptr ? nullptr : bounds + from;
    if (innermost) {
      accumulators[i].add(values[from], e == nullptr ? 0 : *e);
    } else {
      add_shifted(tables, position, out_strides, d + 1, values + from, e, accumulators + i * out_strides[d]);
    }
  }
}

template <class Accumulator>
Status window_slab(const OpContext& context, const Box& slab, const Accumulator& fresh,
                   const Accumulation& accumulation, Storage& storage, std::int64_t offset) {
  const ReduceWindowAttributes& a = context.node().as<ReduceWindowAttributes>();
  std::vector<Accumulator> accumulators(slab.elements(), fresh);
  const Box box = window_operand_box(a, context.operand_type(0).dims, slab);
  if (!box.empty()) {
    STITCH_ASSIGN(const Block operand, context.operand(0, box));
    const WindowTables tables = window_tables(a, slab, box, operand.uniform);
    const Dims out_strides = row_major_strides(slab.size);
    const double* bounds = operand.exact() ? nullptr : operand.data->bounds.data();
    const Box window = Box::whole(a.sizes);
    Dims position = window.start;
    do {
      if constexpr (std::is_same_v<typename Accumulator::Value, double>) {
        add_shifted(tables, position, out_strides, 0, operand.data->floats.data(), bounds, accumulators.data());
      } else {
        add_shifted(tables, position, out_strides, 0, operand.data->integers.data(), bounds, accumulators.data());
      }
    } while (next_index(window, position));
  }
  finish_elements(accumulators.data(), slab.elements(), accumulation, storage, offset);
  return {};
}

Result<Block> evaluate_reduce_window(const OpContext& context, const Box& out) {
  const ReduceWindowAttributes& a = context.node().as<ReduceWindowAttributes>();
  const DType dtype = context.node().type().dtype;
  const bool computes = is_floating(dtype) && (a.kind == ReduceKind::sum || a.kind == ReduceKind::product);
  STITCH_ASSIGN(StorageRef storage, context.make(dtype, out, context.all_exact() && !computes));
  const Accumulation accumulation(dtype, context.options.error_model);
  std::int64_t offset = 0;
  STITCH_TRY(for_each_slab(out, 16 * slab_elements, [&](const Box& slab) {
    return with_accumulator(a.kind, dtype, !storage->bounds.empty(), [&](auto fresh) {
      const Status done = window_slab(context, slab, fresh, accumulation, *storage, offset);
      offset += slab.elements();
      return done;
    });
  }));
  storage->nonnegative = computes && context.operand_nonnegative(0);
  return Block{dtype, out, std::move(storage), false};
}

// ---- select-and-scatter

/// The source elements whose windows reach into `out`.
Box source_box(const SelectAndScatterAttributes& a, const Dims& source, const Box& out) {
  Box box{Dims(source.size()), Dims(source.size())};
  for (std::size_t d = 0; d < source.size(); ++d) {
    const std::int64_t first = floor_divide(out.start[d] + a.low[d] - a.sizes[d], a.strides[d]) + 1;
    const std::int64_t last = ceil_divide(out.end(d) + a.low[d], a.strides[d]) - 1;
    box.start[d] = std::max<std::int64_t>(0, first);
    box.size[d] = std::max<std::int64_t>(0, std::min(last, source[d] - 1) - box.start[d] + 1);
  }
  return box;
}

/// The operand elements of one source element's window, or of a box of them.
Box windows_box(const SelectAndScatterAttributes& a, const Dims& dims, const Box& sources) {
  Box box = sources;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t first = std::max<std::int64_t>(0, sources.start[d] * a.strides[d] - a.low[d]);
    const std::int64_t last = (sources.end(d) - 1) * a.strides[d] - a.low[d] + a.sizes[d] - 1;
    box.start[d] = first;
    box.size[d] = std::max<std::int64_t>(0, std::min(last, dims[d] - 1) - first + 1);
  }
  return box;
}

/// An element of a window: its value, bound and place.
template <class T>
struct Candidate {
  T value;
  double bound;
  Dims index;
};

template <class T>
bool is_better(T x, T best, bool largest) {
  if constexpr (std::is_floating_point_v<T>) {
    if (x != x || best != best) return x != x && best == best;
  }
  return largest ? x > best : x < best;
}

/// Whether another correct kernel might select `c` instead of `best`.
template <class T>
bool may_be_selected(const Candidate<T>& c, const Candidate<T>& best, bool largest) {
  const double reach = c.bound + best.bound;
  if (reach == 0) return false;
  const double behind = (static_cast<double>(best.value) - static_cast<double>(c.value)) * (largest ? 1 : -1);
  return !(behind > reach);
}

/// Adds one source element to where its window selects; where the choice is uncertain, to the bounds of all choices.
template <class T, class Accumulator>
void scatter_source(const std::vector<Candidate<T>>& window, bool largest, T source, double source_bound,
                    const Box& out, std::vector<Accumulator>& accumulators) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < window.size(); ++i) {
    if (is_better(window[i].value, window[best].value, largest)) best = i;
  }
  // A source that is not finite may make any result of it.
  const double reach = std::fabs(static_cast<double>(source)) + source_bound;
  const double whole = std::isfinite(reach) ? reach : unchecked;
  bool certain = true;
  for (std::size_t i = 0; i < window.size(); ++i) {
    if (i == best || !may_be_selected(window[i], window[best], largest)) continue;
    certain = false;
    if (out.contains({window[i].index, Dims(out.size.size(), 1)})) {
      accumulators[offset_in(out, window[i].index)].add(T{0}, whole);
    }
  }
  if (out.contains({window[best].index, Dims(out.size.size(), 1)})) {
    accumulators[offset_in(out, window[best].index)].add(source, certain ? source_bound : whole);
  }
}

template <class Accumulator>
void scatter_sources(const OpContext& context, const Block& operand, const Block& sources, const Box& out,
                     std::vector<Accumulator>& accumulators) {
  using T = typename Accumulator::Value;
  const SelectAndScatterAttributes& a = context.node().as<SelectAndScatterAttributes>();
  const auto value = [](const Block& block, std::int64_t offset) -> T {
    if constexpr (std::is_same_v<T, double>) return block.data->floats[block.uniform ? 0 : offset];
    if constexpr (!std::is_same_v<T, double>) return block.data->integers[block.uniform ? 0 : offset];
  };
  // Flipping the top bit orders unsigned 64-bit values as signed ones.
  const auto ordered = [&](T x) -> T {
    if constexpr (std::is_same_v<T, double>) return x;
    if constexpr (!std::is_same_v<T, double>) {
      return operand.dtype == DType::u64 ? x ^ std::numeric_limits<std::int64_t>::min() : x;
    }
  };
  const auto bound = [](const Block& block, std::int64_t offset) {
    return block.exact() ? 0 : block.data->bounds[block.uniform ? 0 : offset];
  };
  std::vector<Candidate<T>> window;
  Dims source = sources.box.start;
  for (std::int64_t i = 0, count = sources.box.elements(); i < count; ++i, next_index(sources.box, source)) {
    const Box box = windows_box(a, context.operand_type(0).dims, {source, Dims(source.size(), 1)});
    if (box.empty()) continue;
    window.clear();
    Dims index = box.start;
    do {
      const std::int64_t offset = offset_in(operand.box, index);
      window.push_back({ordered(value(operand, offset)), bound(operand, offset), index});
    } while (next_index(box, index));
    scatter_source(window, a.select == ReduceKind::max, value(sources, i), bound(sources, i), out, accumulators);
  }
}

Result<Block> evaluate_select_and_scatter(const OpContext& context, const Box& out) {
  const SelectAndScatterAttributes& a = context.node().as<SelectAndScatterAttributes>();
  const DType dtype = context.node().type().dtype;
  STITCH_ASSIGN(StorageRef storage, context.make(dtype, out, context.all_exact() && !is_floating(dtype)));
  Accumulation accumulation(dtype, context.options.error_model);
  accumulation.rounds_each = true;
  const Box sources = source_box(a, context.operand_type(1).dims, out);
  const Box windows = sources.empty() ? sources : windows_box(a, context.operand_type(0).dims, sources);
  STITCH_TRY(with_accumulator(ReduceKind::sum, dtype, !storage->bounds.empty(), [&](auto fresh) -> Status {
    std::vector accumulators(out.elements(), fresh);
    if (!windows.empty()) {
      STITCH_ASSIGN(const Block source, context.operand(1, sources));
      STITCH_ASSIGN(const Block operand, context.operand(0, windows));
      scatter_sources(context, operand, source, out, accumulators);
    }
    finish_elements(accumulators.data(), out.elements(), accumulation, *storage, 0);
    return {};
  }));
  storage->nonnegative = is_floating(dtype) && context.operand_nonnegative(1);
  return Block{dtype, out, std::move(storage), false};
}

}  // namespace

void window_demand(const OpContext& context, const Box& out, std::span<Region> regions) {
  const Node& node = context.node();
  const Dims& dims = context.operand_type(0).dims;
  if (node.op == Op::reduce_window) {
    regions[0].add(window_operand_box(node.as<ReduceWindowAttributes>(), dims, out));
    return;
  }
  const auto& a = node.as<SelectAndScatterAttributes>();
  const Box sources = source_box(a, context.operand_type(1).dims, out);
  if (sources.empty()) return;
  const Box windows = windows_box(a, dims, sources);
  if (windows.empty()) return;
  regions[0].add(windows);
  regions[1].add(sources);
}

Result<Block> evaluate_window(const OpContext& context, const Box& out) {
  return context.node().op == Op::reduce_window ? evaluate_reduce_window(context, out)
                                                : evaluate_select_and_scatter(context, out);
}

}  // namespace stitch::graph::reference
