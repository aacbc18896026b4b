// Pooling over windows, and over all of space.
#include <algorithm>
#include <cmath>
#include <functional>

#include "import/emit.h"
#include "import/onnx/families.h"
#include "import/onnx/operators/window.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// Window positions beyond this many are not written out one by one.
constexpr std::int64_t most_positions = 256;

struct Pool {
  Window window;
  Dims counts;  ///< output extents
  Dims extra;   ///< elements behind the padding that windows rounded up by ceil_mode reach into
};

Result<Pool> read_pool(Call& c) {
  STITCH_TRY(c.need_rank(0, 3));
  const Dims& dims = c.dims(c.in(0));
  const Dims spatial(dims.begin() + 2, dims.end());
  Pool pool;
  STITCH_ASSIGN(pool.window, read_window(c, spatial, std::nullopt));
  STITCH_ASSIGN(const std::int64_t ceil_mode, c.node.integer("ceil_mode", 0));
  const Window& w = pool.window;
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    const std::int64_t room = spatial[d] + w.low[d] + w.high[d] - w.span(d);
    if (room < 0) return Call::wrong("a window of {} in dimension {} of {}", w.span(d), d + 2, graph::to_string(dims));
    std::int64_t count = room / w.strides[d] + 1;
    if (ceil_mode != 0) {
      count = (room + w.strides[d] - 1) / w.strides[d] + 1;
      // A window must begin inside the tensor or the padding before it.
      if ((count - 1) * w.strides[d] >= spatial[d] + w.low[d]) --count;
    }
    pool.counts.push_back(count);
    pool.extra.push_back(
        std::max<std::int64_t>((count - 1) * w.strides[d] + w.span(d) - (spatial[d] + w.low[d] + w.high[d]), 0));
  }
  return pool;
}

Value reduce_windows(graph::Builder& b, ReduceKind kind, Value x, const Pool& pool) {
  const std::size_t rank = b.dims(x).size();
  const Dims ones(rank, 1), zeros(rank, 0);
  graph::ReduceWindowAttributes a{kind, ones, ones, zeros, zeros, ones, ones};
  for (std::size_t d = 0; d < pool.counts.size() && d + 2 < rank; ++d) {
    a.sizes[d + 2] = pool.window.sizes[d];
    a.strides[d + 2] = pool.window.strides[d];
    a.window_dilation[d + 2] = pool.window.dilations[d];
    a.low[d + 2] = pool.window.low[d];
    a.high[d + 2] = pool.window.high[d] + pool.extra[d];
  }
  return b.add(Op::reduce_window, {x}, std::move(a));
}

/// How many elements count in each window along one dimension.
std::vector<double> window_counts(const Pool& pool, std::size_t d, std::int64_t extent, bool include_pad) {
  const Window& w = pool.window;
  std::vector<double> counts;
  for (std::int64_t i = 0; i < pool.counts[d]; ++i) {
    std::int64_t count = 0;
    const std::int64_t start = i * w.strides[d] - w.low[d];
    const std::int64_t low = include_pad ? -w.low[d] : 0, high = include_pad ? extent + w.high[d] : extent;
    for (std::int64_t k = 0; k < w.sizes[d]; ++k) {
      const std::int64_t position = start + k * w.dilations[d];
      count += position >= low && position < high;
    }
    counts.push_back(count);
  }
  return counts;
}

Result<Value> divide_by_counts(Call& c, Value sums, const Pool& pool, bool include_pad) {
  double all = 1.0;
  Value y = sums;
  for (std::size_t d = 0; d < pool.counts.size(); ++d) {
    if (pool.counts[d] * pool.window.sizes[d] > (std::int64_t{1} << 24)) return Call::unsupported("huge windows");
    const std::int64_t extent = c.dims(c.in(0))[d + 2];
    const std::vector<double> counts = window_counts(pool, d, extent, include_pad);
    if (counts.empty()) continue;
    if (std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end()) {
      all *= counts[0];
      continue;
    }
    const Value row = numbers(c.b, c.dtype(y), {pool.counts[d]}, counts);
    y = c.b.binary(Op::divide, y, spread(c.b, row, c.dims(y), {static_cast<std::int64_t>(d) + 2}));
  }
  return div(c.b, y, all);
}

/// Flat positions (as MaxPool's second result counts them) of every element of x; `column_major` swaps space.
Value flat_positions(graph::Builder& b, const Dims& dims, bool column_major) {
  Dims strides = graph::row_major_strides(dims);
  if (column_major) {
    std::int64_t stride = 1;
    for (std::size_t d = 2; d < dims.size(); ++d) {
      strides[d] = stride;
      stride *= dims[d];
    }
  }
  Value sum = b.filled(DType::s64, dims, 0.0);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const Value along = b.iota(DType::s64, dims, d);
    sum = b.binary(Op::add, sum, mul(b, along, strides[d]));
  }
  return sum;
}

/// Maxima with their positions: the window's positions one after the other, keeping the first of equals.
Result<Values> max_with_positions(Call& c, const Pool& pool) {
  const Window& w = pool.window;
  std::int64_t positions = 1;
  for (const std::int64_t size : w.sizes)
    positions = std::min(positions * std::min(size, most_positions + 1), most_positions + 1);
  if (positions > most_positions)
    return Call::unsupported("positions in windows of more than {} elements", most_positions);
  STITCH_ASSIGN(const std::int64_t order, c.node.integer("storage_order", 0));
  const Value x = c.in(0);
  const Dims dims = c.dims(x);
  Dims low(dims.size(), 0), high(dims.size(), 0);
  for (std::size_t d = 0; d < w.sizes.size(); ++d) {
    low[d + 2] = w.low[d];
    high[d + 2] = w.high[d] + pool.extra[d];
  }
  const bool floating = graph::is_floating(c.dtype(x));
  const Value lowest = c.b.scalar(c.dtype(x), floating ? -INFINITY : -1e30);  // saturates for integers
  const Value padded = c.b.pad(x, lowest, low, high);
  const Value where = c.b.pad(flat_positions(c.b, dims, order != 0), c.b.scalar(DType::s64, -1.0), low, high);
  const Dims none(dims.size(), 0);
  const bool has_padding = low != none || high != none;
  Value best, index;
  Dims offset(w.sizes.size(), 0);
  for (std::int64_t i = 0; i < positions && !c.b.failed(); ++i) {
    Dims starts(dims.size(), 0), limits = dims, strides(dims.size(), 1);
    std::int64_t rest = i;
    for (std::size_t d = w.sizes.size(); d-- > 0;) {
      starts[d + 2] = rest % w.sizes[d] * w.dilations[d];
      rest /= w.sizes[d];
      strides[d + 2] = w.strides[d];
      limits[d + 2] = starts[d + 2] + (pool.counts[d] - 1) * w.strides[d] + 1;
    }
    const Value candidate = c.b.slice(padded, starts, limits, strides);
    const Value position = c.b.slice(where, starts, limits, strides);
    if (i == 0) {
      best = candidate;
      index = position;
      continue;
    }
    Value better = c.b.compare(Comparison::gt, candidate, best);
    if (has_padding) {  // which loses to every element, equal ones too
      const Value first = c.b.binary(Op::bit_and, compare(c.b, Comparison::lt, index, 0.0),
                                     compare(c.b, Comparison::ge, position, 0.0));
      better = c.b.binary(Op::bit_or, better, first);
    }
    best = c.b.select(better, candidate, best);
    index = c.b.select(better, position, index);
  }
  return Values{best, index};
}

Result<Values> global(Call& c, const std::function<Value(Value, const Dims&)>& body) {
  STITCH_TRY(c.need_rank(0, 3));
  Dims axes;
  for (std::int64_t d = 2; d < c.rank(c.in(0)); ++d) axes.push_back(d);
  return Values{c.b.convert(body(widen(c.b, c.in(0)), axes), c.dtype(c.in(0)))};
}

/// (sum of |x|^p)^(1/p)
Value lp_of(graph::Builder& b, Value x, double p, const std::function<Value(Value)>& sum) {
  if (p == 1.0) return sum(b.unary(Op::abs, x));
  if (p == 2.0) return sqrt(b, sum(square(b, x)));
  const Value powers = b.binary(Op::power, b.unary(Op::abs, x), like(b, x, p));
  const Value total = sum(powers);
  return b.binary(Op::power, total, like(b, total, 1.0 / p));
}

}  // namespace

Result<Values> max_pool(Call& c) {
  STITCH_ASSIGN(const Pool pool, read_pool(c));
  if (c.wants(1)) return max_with_positions(c, pool);
  return Values{reduce_windows(c.b, ReduceKind::max, c.in(0), pool)};
}

Result<Values> average_pool(Call& c) {
  STITCH_ASSIGN(const Pool pool, read_pool(c));
  STITCH_ASSIGN(const std::int64_t include_pad, c.node.integer("count_include_pad", 0));
  const Value sums = reduce_windows(c.b, ReduceKind::sum, widen(c.b, c.in(0)), pool);
  STITCH_ASSIGN(const Value y, divide_by_counts(c, sums, pool, include_pad != 0));
  return Values{c.b.convert(y, c.dtype(c.in(0)))};
}

Result<Values> lp_pool(Call& c) {
  STITCH_ASSIGN(const Pool pool, read_pool(c));
  double p = 2.0;
  if (c.version < 2) {
    STITCH_ASSIGN(p, c.node.number("p", 2.0));
  } else {
    STITCH_ASSIGN(const std::int64_t whole, c.node.integer("p", 2));
    p = whole;
  }
  const Value y =
      lp_of(c.b, widen(c.b, c.in(0)), p, [&](Value v) { return reduce_windows(c.b, ReduceKind::sum, v, pool); });
  return Values{c.b.convert(y, c.dtype(c.in(0)))};
}

Result<Values> global_average_pool(Call& c) {
  return global(c, [&](Value x, const Dims& axes) { return mean_keep(c.b, x, axes); });
}

Result<Values> global_max_pool(Call& c) {
  return global(c, [&](Value x, const Dims& axes) { return reduce_keep(c.b, ReduceKind::max, x, axes); });
}

Result<Values> global_lp_pool(Call& c) {
  STITCH_ASSIGN(const std::int64_t p, c.node.integer("p", 2));
  return global(c, [&](Value x, const Dims& axes) {
    return lp_of(c.b, x, static_cast<double>(p), [&](Value v) { return reduce_keep(c.b, ReduceKind::sum, v, axes); });
  });
}

/// Elements put back to the flat positions that MaxPool gave; 0 elsewhere.
Result<Values> max_unpool(Call& c) {
  STITCH_TRY(c.need_rank(0, 3));
  const Dims dims = c.dims(c.in(0));
  const Dims spatial(dims.begin() + 2, dims.end());
  STITCH_ASSIGN(const Window w, read_window(c, spatial, std::nullopt));
  Dims inferred{dims[0], dims[1]};
  for (std::size_t d = 0; d < spatial.size(); ++d) {
    inferred.push_back((spatial[d] - 1) * w.strides[d] - w.low[d] - w.high[d] + w.sizes[d]);
  }
  Dims target = inferred;
  if (c.has(2)) {
    STITCH_ASSIGN(target, c.need_integers(2));
  }
  if (target.size() != dims.size()) return Call::wrong("the result's shape {}", graph::to_string(target));
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (inferred[d] < 0 || target[d] < inferred[d] || target[d] > (1LL << 31)) {
      return Call::wrong("the result's shape {}", graph::to_string(target));
    }
  }
  // The positions count in the tensor that was pooled, as its size follows from the window.
  const std::int64_t count = graph::element_count(dims);
  const Value flat = c.b.filled(c.dtype(c.in(0)), {graph::element_count(inferred)}, 0.0);
  graph::ScatterAttributes a;
  a.inserted_window_dims = a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  a.combiner = ReduceKind::replace;
  const Value scattered =
      c.b.add(Op::scatter, {flat, c.b.reshape(c.in(1), {count}), c.b.reshape(c.in(0), {count})}, std::move(a));
  Value y = c.b.reshape(scattered, inferred);
  Dims high(dims.size(), 0);
  for (std::size_t d = 0; d < dims.size(); ++d) high[d] = target[d] - inferred[d];
  if (target != inferred) y = c.b.pad(y, c.b.scalar(c.dtype(y), 0.0), Dims(dims.size(), 0), high);
  return Values{y};
}

}  // namespace stitch::import::onnx
