// Pooling over windows of the last two dimensions. A pool whose windows reach beyond the padding (ceil_mode) is left to
// PyTorch.
#include <algorithm>
#include <limits>
#include <optional>

#include "import/aten/rules.h"
#include "import/emit.h"

namespace stitch::import::aten {
namespace {

/// Positions in a window that are written out one after the other, at most.
constexpr std::int64_t most_positions = 64;

/// One entry for each of the last two dimensions.
struct Windows {
  Dims sizes, strides, padding, dilation;
};

Dims pair_of(Call& c, std::string_view name, Dims otherwise) {
  Dims given = c.integers(name);
  if (given.empty()) return otherwise;
  if (given.size() == 1) given.push_back(given[0]);
  if (given.size() != 2) c.wrong(name, "one number or two");
  given.resize(2, 1);
  return given;
}

/// Nothing where the case is not lowered, which the call then says.
std::optional<Windows> windows_of(Call& c, Value x) {
  Windows w;
  w.sizes = pair_of(c, "kernel_size", {1, 1});
  w.strides = pair_of(c, "stride", w.sizes);
  w.padding = pair_of(c, "padding", {0, 0});
  w.dilation = pair_of(c, "dilation", {1, 1});
  if (c.flag("ceil_mode", false)) {
    c.unsupported("windows that reach beyond the padding (ceil_mode)");
    return std::nullopt;
  }
  const bool positive = std::ranges::min(w.sizes) > 0 && std::ranges::min(w.strides) > 0 &&
                        std::ranges::min(w.dilation) > 0 && std::ranges::min(w.padding) >= 0;
  if (c.rank(x) < 2 || !positive) c.unsupported("no windows over two dimensions");
  return c.b.failed() ? std::nullopt : std::optional(w);
}

/// The entries for all dimensions of a tensor of this rank: `rest` but for the last two.
Dims widened(const Dims& pair, std::int64_t rank, std::int64_t rest) {
  Dims all(rank - 2, rest);
  all.insert(all.end(), pair.begin(), pair.end());
  return all;
}

Value window_sums(Builder& b, Value x, const Windows& w) {
  const std::int64_t rank = std::ssize(b.dims(x));
  const Dims padding = widened(w.padding, rank, 0), ones(rank, 1);
  return b.add(Op::reduce_window, {x},
               graph::ReduceWindowAttributes{ReduceKind::sum, widened(w.sizes, rank, 1), widened(w.strides, rank, 1),
                                             padding, padding, ones, widened(w.dilation, rank, 1)});
}

/// Position `offset` of every window along dimension `d` of the result, as an index into the tensor.
Value window_positions(Call& c, const Windows& w, std::int64_t d, std::int64_t offset) {
  const std::int64_t dimension = c.result().rank() - 2 + d;
  const Value step = emit::mul(c.b, c.b.iota(DType::s64, c.result().dims, dimension), w.strides[d]);
  return emit::add(c.b, step, offset * w.dilation[d] - w.padding[d]);
}

}  // namespace

/// Results: the maxima, and where they are in the plane of the last two dimensions. Among equals the first, and a NaN.
Values max_pool(Call& c) {
  Builder& b = c.b;
  const Value x = c.tensor("self");
  const std::optional<Windows> w = windows_of(c, x);
  if (!w) return {};
  const std::int64_t rank = c.rank(x), width = b.dims(x).back();
  if (w->sizes[0] * w->sizes[1] > most_positions) return c.unsupported("positions in large windows");
  const Dims padding = widened(w->padding, rank, 0);
  const Value lowest = b.scalar(b.dtype(x), -std::numeric_limits<double>::infinity());
  const Value padded = b.pad(x, lowest, padding, padding);
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
  const Value x = c.tensor("self");
  const std::optional<Windows> w = windows_of(c, x);
  if (!w) return {};
  if (std::ranges::max(w->dilation) > 1) return c.unsupported("windows with holes");
  const std::int64_t rank = c.rank(x);
  const Dims padding = widened(w->padding, rank, 0);
  return {c.b.add(Op::select_and_scatter, {x, c.operand("grad_output", c.result().dtype)},
                  graph::SelectAndScatterAttributes{ReduceKind::max, widened(w->sizes, rank, 1),
                                                    widened(w->strides, rank, 1), padding, padding})};
}

Values average_pool(Call& c) {
  Builder& b = c.b;
  const Value x = emit::widen(b, c.tensor("self"));
  const std::optional<Windows> w = windows_of(c, x);
  if (!w) return {};
  const Value sums = window_sums(b, x, *w);
  if (c.has("divisor_override")) return {emit::div(b, sums, c.number("divisor_override", 1.0))};
  if (c.flag("count_include_pad", true) || std::ranges::max(w->padding) == 0)
    return {emit::div(b, sums, static_cast<double>(w->sizes[0] * w->sizes[1]))};
  return {emit::div(b, sums, window_sums(b, emit::like(b, x, 1.0), *w))};
}

}  // namespace stitch::import::aten
