// Pooling over windows of the last two dimensions; averages of the last three, too.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "import/aten/rules.h"
#include "import/emit.h"

namespace stitch::import::aten {
namespace {

/// Positions in a window that are written out one after the other, at most.
constexpr std::int64_t most_positions = 64;
/// Sizes and steps beyond this fit no tensor, and what is computed with them could overflow.
constexpr std::int64_t widest_window = std::int64_t{1} << 20;

/// One entry for each of the last dimensions.
struct Windows {
  Dims sizes, strides, padding, dilation;
  Dims high;  ///< padding behind the last element: with ceil_mode as far as the last window reaches

  /// Whether a window reaches beyond the padding that was asked for.
  [[nodiscard]] bool reach_beyond() const { return high != padding; }
};

Dims entries_of(Call& c, std::string_view name, Dims otherwise) {
  Dims given = c.integers(name);
  if (given.empty()) return otherwise;
  if (given.size() == 1) given.resize(otherwise.size(), given[0]);
  if (given.size() != otherwise.size()) c.wrong(name, fmt::format("one number or {}", otherwise.size()));
  given.resize(otherwise.size(), 1);
  return given;
}

/// Windows over the last `count` dimensions, of which `pooled` says how many there are. Nothing where the case is not
/// lowered, which the call then says.
std::optional<Windows> windows_of(Call& c, Value x, const Dims& pooled, std::int64_t count = 2) {
  const Dims ones(count, 1);
  Windows w;
  w.sizes = entries_of(c, "kernel_size", ones);
  w.strides = entries_of(c, "stride", w.sizes);
  w.padding = entries_of(c, "padding", Dims(count, 0));
  w.dilation = entries_of(c, "dilation", ones);
  w.high = w.padding;
  const auto within = [](const Dims& entries, std::int64_t least) {
    return std::ranges::min(entries) >= least && std::ranges::max(entries) <= widest_window;
  };
  const bool sound = within(w.sizes, 1) && within(w.strides, 1) && within(w.dilation, 1) && within(w.padding, 0);
  if (c.rank(x) < count || std::ssize(pooled) != c.rank(x) || !sound)
    c.unsupported(fmt::format("no windows over {} dimensions", count));
  if (c.b.failed()) return std::nullopt;
  for (std::int64_t d = 0; d < count && c.flag("ceil_mode", false); ++d) {
    const std::int64_t at = c.rank(x) - count + d;
    const std::int64_t end = (pooled[at] - 1) * w.strides[d] + (w.sizes[d] - 1) * w.dilation[d] + 1;
    w.high[d] = std::max(w.padding[d], end - w.padding[d] - c.b.dims(x)[at]);
  }
  return c.b.failed() ? std::nullopt : std::optional(w);
}

/// The entries for all dimensions of a tensor of this rank: `rest` but for the last ones.
Dims widened(const Dims& last, std::int64_t rank, std::int64_t rest) {
  Dims all(rank - std::ssize(last), rest);
  all.insert(all.end(), last.begin(), last.end());
  return all;
}

Value window_sums(Builder& b, Value x, const Windows& w) {
  const std::int64_t rank = std::ssize(b.dims(x));
  const Dims low = widened(w.padding, rank, 0), high = widened(w.high, rank, 0), ones(rank, 1);
  return b.add(Op::reduce_window, {x},
               graph::ReduceWindowAttributes{ReduceKind::sum, widened(w.sizes, rank, 1), widened(w.strides, rank, 1),
                                             low, high, ones, widened(w.dilation, rank, 1)});
}

/// Position `offset` of every window along dimension `d` of the result, as an index into the tensor.
Value window_positions(Call& c, const Windows& w, std::int64_t d, std::int64_t offset) {
  const std::int64_t dimension = c.result().rank() - 2 + d;
  const Value step = emit::mul(c.b, c.b.iota(DType::s64, c.result().dims, dimension), w.strides[d]);
  return emit::add(c.b, step, offset * w.dilation[d] - w.padding[d]);
}

/// What each window's sum is divided by: one number, or by window. What lies beyond the padding does not count.
Value divisors(Call& c, Value x, const Windows& w) {
  Builder& b = c.b;
  const bool padding_counts = c.flag("count_include_pad", true) || std::ranges::max(w.padding) == 0;
  if ((!padding_counts || w.reach_beyond()) && !c.has("divisor_override")) {
    Value counted = emit::like(b, x, 1.0);
    if (!padding_counts) return window_sums(b, counted, w);
    const Dims padding = widened(w.padding, c.rank(x), 0);
    counted = b.pad(counted, b.scalar(b.dtype(x), 1.0), padding, padding);
    Windows rest = w;
    std::ranges::transform(w.high, w.padding, rest.high.begin(), std::minus());
    std::ranges::fill(rest.padding, 0);
    return window_sums(b, counted, rest);
  }
  const double count = static_cast<double>(graph::element_count(w.sizes));
  return b.scalar(b.dtype(x), c.number("divisor_override", count));
}

}  // namespace

/// Results: the maxima, and where they are in the plane of the last two dimensions. Among equals the first, and a NaN.
Values max_pool(Call& c) {
  Builder& b = c.b;
  const Value x = c.tensor("self");
  const std::optional<Windows> w = windows_of(c, x, c.result().dims);
  if (!w) return {};
  const std::int64_t rank = c.rank(x), width = b.dims(x).back();
  if (w->sizes[0] * w->sizes[1] > most_positions) return c.unsupported("positions in large windows");
  const Value lowest = b.scalar(b.dtype(x), -std::numeric_limits<double>::infinity());
  const Value padded = b.pad(x, lowest, widened(w->padding, rank, 0), widened(w->high, rank, 0));
  Value best, place;
  for (std::int64_t i = 0; i < w->sizes[0]; ++i) {
    for (std::int64_t j = 0; j < w->sizes[1]; ++j) {
      const Dims start = {i * w->dilation[0], j * w->dilation[1]};
      Dims starts = widened(start, rank, 0), limits = b.dims(padded);
      for (std::int64_t d = 0; d < 2; ++d) {
        const std::int64_t at = rank - 2 + d;
        limits[at] = start[d] + (c.result().dims[at] - 1) * w->strides[d] + 1;
      }
      const Value one = b.slice(padded, starts, limits, widened(w->strides, rank, 1));
      const Value rows = emit::mul(b, window_positions(c, *w, 0, i), width);
      const Value here = b.binary(Op::add, rows, window_positions(c, *w, 1, j));
      if (best.node < 0) {
        best = one;
        place = here;
        continue;
      }
      const Value greater = b.compare(graph::Comparison::gt, one, best);
      const Value better =
          graph::is_floating(b.dtype(x)) ? b.binary(Op::bit_or, greater, b.unary(Op::is_nan, one)) : greater;
      best = b.select(better, one, best);
      place = b.select(better, here, place);
    }
  }
  return {best, place};
}

/// The gradient goes to the element that each window has its maximum from, which the tensor itself tells.
Values max_pool_backward(Call& c) {
  const Value x = c.tensor("self"), gradient = c.operand("grad_output", c.result().dtype);
  const std::optional<Windows> w = windows_of(c, x, c.b.dims(gradient));
  if (!w) return {};
  if (std::ranges::max(w->dilation) > 1) return c.unsupported("windows with holes");
  const std::int64_t rank = c.rank(x);
  return {c.b.add(
      Op::select_and_scatter, {x, gradient},
      graph::SelectAndScatterAttributes{ReduceKind::max, widened(w->sizes, rank, 1), widened(w->strides, rank, 1),
                                        widened(w->padding, rank, 0), widened(w->high, rank, 0)})};
}

Values average_pool(Call& c, std::int64_t dimensions) {
  Builder& b = c.b;
  const Value x = emit::widen(b, c.tensor("self"));
  const std::optional<Windows> w = windows_of(c, x, c.result().dims, dimensions);
  if (!w) return {};
  return {emit::div(b, window_sums(b, x, *w), divisors(c, x, *w))};
}

/// Each element has its share of the windows that it is in: with the gradients spread to where the windows begin, these
/// are the ones in the window that ends at the element.
Values average_pool_backward(Call& c, std::int64_t dimensions) {
  Builder& b = c.b;
  const Value x = emit::widen(b, c.tensor("self"));
  const Value gradient = emit::widen(b, c.tensor("grad_output"));
  const std::optional<Windows> w = windows_of(c, x, b.dims(gradient), dimensions);
  if (!w) return {};
  const std::int64_t rank = c.rank(x);
  Dims low, high, interior;
  for (std::int64_t d = 0; d < dimensions; ++d) {
    const std::int64_t at = rank - dimensions + d, windows = b.dims(gradient)[at];
    low.push_back(w->sizes[d] - 1 - w->padding[d]);
    interior.push_back(w->strides[d] - 1);
    high.push_back(b.dims(x)[at] + w->padding[d] - 1 - (windows - 1) * w->strides[d]);
  }
  const Value share = emit::div(b, gradient, divisors(c, x, *w));
  const Value spread = b.pad(share, b.scalar(b.dtype(share), 0.0), widened(low, rank, 0), widened(high, rank, 0),
                             widened(interior, rank, 0));
  const Dims ones(dimensions, 1);
  return {window_sums(b, spread, {w->sizes, ones, Dims(dimensions, 0), ones, Dims(dimensions, 0)})};
}

}  // namespace stitch::import::aten
