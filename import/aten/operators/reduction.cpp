// Reductions, scans and positions of extremes.
#include <fmt/format.h>

#include <algorithm>

#include "graph/sorting.h"
#include "import/aten/rules.h"
#include "import/emit.h"

namespace stitch::import::aten {
namespace {

/// The reduction over the argument `dim`, with the dims that PyTorch declares (which is what keepdim decides).
Value reduced_over_dim(Call& c, ReduceKind kind, Value x) {
  const Dims dimensions = c.dimensions("dim", std::ssize(c.b.dims(x)));
  return c.b.reshape(dimensions.empty() ? x : c.b.reduce(kind, x, dimensions), c.result().dims);
}

std::int64_t reduced_count(Call& c, Value x) {
  std::int64_t count = 1;
  for (const std::int64_t d : c.dimensions("dim", std::ssize(c.b.dims(x)))) count *= c.b.dims(x)[d];
  return count;
}

/// Variance by the mean of squared differences, and the mean, both with the reduced dimensions kept as 1.
struct Moments {
  Value variance, mean;
};

Moments moments(Call& c) {
  Builder& b = c.b;
  const Value x = emit::widen(b, c.tensor("self"));
  const Dims dimensions = c.dimensions("dim", std::ssize(b.dims(x)));
  const Value mean = emit::mean_keep(b, x, dimensions);
  const Value squares = emit::square(b, emit::sub(b, x, mean));
  const double count = static_cast<double>(reduced_count(c, x)) - c.number("correction", 1.0);
  const Value sum = emit::reduce_keep(b, ReduceKind::sum, squares, dimensions);
  return {emit::div(b, sum, emit::like(b, sum, std::max(count, 0.0))), mean};
}

Value truth(Call& c) { return c.b.convert(c.tensor("self"), DType::pred); }

}  // namespace

Values reduce(Call& c, ReduceKind kind) {
  const bool product = kind == ReduceKind::product;
  const Value x = product ? c.operand("self", c.result().dtype) : c.tensor("self");
  return {reduced_over_dim(c, kind, x)};
}

/// Sums of integers and truth values are s64, which is what is declared.
Values sum(Call& c) { return {reduced_over_dim(c, ReduceKind::sum, c.operand("self", c.result().dtype))}; }

Values mean(Call& c) {
  const Value x = emit::widen(c.b, c.operand("self", c.result().dtype));
  const Value total = reduced_over_dim(c, ReduceKind::sum, x);
  return {emit::div(c.b, total, emit::like(c.b, total, static_cast<double>(reduced_count(c, x))))};
}

Values any(Call& c) { return {c.b.convert(reduced_over_dim(c, ReduceKind::bit_or, truth(c)), c.result().dtype)}; }
Values all(Call& c) { return {c.b.convert(reduced_over_dim(c, ReduceKind::bit_and, truth(c)), c.result().dtype)}; }

Values variance(Call& c) { return {c.b.reshape(moments(c).variance, c.result().dims)}; }

Values variance_and_mean(Call& c) {
  const Moments found = moments(c);
  return {c.b.reshape(found.variance, c.result(0).dims), c.b.reshape(found.mean, c.result(1).dims)};
}

Values arg_reduce(Call& c, ReduceKind kind, bool with_values) {
  Builder& b = c.b;
  Value x = c.tensor("self");
  if (b.dtype(x) == DType::pred) x = b.convert(x, DType::u8);
  if (!c.has("dim")) x = b.reshape(x, {graph::element_count(b.dims(x))});
  if (b.dims(x).empty()) x = b.reshape(x, {1});
  const std::int64_t dimension = c.dimension("dim", std::ssize(b.dims(x)));
  const DType index = with_values ? c.result(1).dtype : c.result().dtype;
  const Value extreme = b.add(Op::arg_reduce, {x}, graph::ArgReduceAttributes{kind, dimension, index, false});
  const Value position = {extreme.node, 1};
  if (!with_values) return {b.reshape(position, c.result().dims)};
  return {b.reshape(b.convert(extreme, c.result(0).dtype), c.result(0).dims), b.reshape(position, c.result(1).dims)};
}

Values scan(Call& c, ReduceKind kind) {
  const Value x = c.operand("self", c.result().dtype);
  if (c.b.dims(x).empty()) return {x};
  const std::int64_t dimension = c.dimension("dim", std::ssize(c.b.dims(x)));
  return {c.b.add(Op::scan, {x}, graph::ScanAttributes{kind, dimension, false, false})};
}

namespace {

/// log(exp(a) + exp(b)) without overflow.
std::shared_ptr<const graph::Graph> log_sum_exp_of_two(Call& c, DType dtype) {
  Builder b("log_sum_exp");
  const Value x = b.parameter(dtype, {}), y = b.parameter(dtype, {});
  const Value apart = b.binary(Op::subtract, x, y);
  const Value rest = b.unary(Op::log1p, b.unary(Op::exp, b.unary(Op::negate, b.unary(Op::abs, apart))));
  const Value sum = b.binary(Op::add, b.binary(Op::maximum, x, y), rest);
  // Of equal infinities the difference is no number.
  const Value result = b.select(b.unary(Op::is_nan, apart), b.binary(Op::add, x, y), sum);
  Result<graph::Graph> region = b.finish({result});
  if (region) return std::make_shared<const graph::Graph>(std::move(*region));
  c.unsupported(region.error().message);
  return nullptr;
}

}  // namespace

Values scan_log_sum_exp(Call& c) {
  const Value x = emit::widen(c.b, c.operand("self", c.result().dtype));
  if (c.b.dims(x).empty()) return {x};
  const std::int64_t dimension = c.dimension("dim", std::ssize(c.b.dims(x)));
  const auto region = log_sum_exp_of_two(c, c.b.dtype(x));
  if (region == nullptr) return {};
  return {c.b.add(Op::associative_scan, {x}, graph::AssociativeScanAttributes{dimension, false}, {region})};
}

namespace {

/// The first `count` of the lines of x in order, and their places; -1: all of them. PyTorch's order is ours: NaN is
/// the greatest, zeros of both signs are equal.
Values in_order(Call& c, Value x, bool descending, std::int64_t count) {
  Builder& b = c.b;
  if (b.dims(x).empty()) x = b.reshape(x, {1});
  const Dims dims = b.dims(x);
  if (dims.empty()) return {};  // the builder has failed
  const std::int64_t dimension = c.dimension("dim", std::ssize(dims), -1), length = dims[dimension];
  if (const std::int64_t most = graph::longest_sorted_line(b.dtype(x)); length > most)
    return c.unsupported(fmt::format("lines of {} elements: a block sorts at most {}", length, most));
  const Value sorted = b.add(Op::sort, {x, b.iota(DType::s64, dims, dimension)},
                             graph::SortAttributes{dimension, descending, count < 0 ? length : count});
  return {sorted, {sorted.node, 1}};
}

/// Both of `in_order`'s results at one rank of every line, in the results' shapes.
Values at_rank(Call& c, const Values& both, std::int64_t rank) {
  Builder& b = c.b;
  const Dims dims = b.dims(both[0]);
  const std::int64_t dimension = c.dimension("dim", std::ssize(dims), -1);
  Dims starts(dims.size(), 0), limits = dims;
  starts[dimension] = rank;
  limits[dimension] = rank + 1;
  Values picked;
  for (std::size_t i = 0; i < c.result_count(); ++i)
    picked.push_back(b.reshape(b.slice(both[i], starts, limits, Dims(dims.size(), 1)), c.result(i).dims));
  return picked;
}

}  // namespace

Values sort(Call& c) {
  Values both = in_order(c, c.tensor("self"), c.flag("descending", false), -1);
  if (both.size() < 2) return both;
  return {c.b.reshape(both[0], c.result(0).dims), c.b.reshape(both[1], c.result(1).dims)};
}

Values arg_sort(Call& c) {
  Values both = in_order(c, c.tensor("self"), c.flag("descending", false), -1);
  return both.size() < 2 ? both : Values{c.b.reshape(both[1], c.result().dims)};
}

Values top_k(Call& c) {
  Values both = in_order(c, c.tensor("self"), c.flag("largest", true), c.integer("k", 0));
  if (both.size() < 2) return both;
  return {c.b.reshape(both[0], c.result(0).dims), c.b.reshape(both[1], c.result(1).dims)};
}

Values kth_value(Call& c) {
  Values both = in_order(c, c.tensor("self"), false, -1);
  if (both.size() < 2) return both;
  const Dims& dims = c.b.dims(both[0]);
  if (c.b.failed()) return both;
  const std::int64_t k = c.integer("k", 1), length = dims[c.dimension("dim", std::ssize(dims), -1)];
  if (k < 1 || k > length) return c.unsupported(fmt::format("the {}th of {} elements", k, length));
  return at_rank(c, both, k - 1);
}

/// The lower of two in the middle; of a line with a NaN that, which is the last in order.
Values median(Call& c) {
  Builder& b = c.b;
  Value x = c.tensor("self");
  if (!c.has("dim")) x = b.reshape(x, {graph::element_count(b.dims(x))});
  Values both = in_order(c, x, false, -1);
  if (both.size() < 2) return both;
  const Dims& dims = b.dims(both[0]);
  if (b.failed()) return both;
  const std::int64_t length = dims[c.dimension("dim", std::ssize(dims), -1)];
  if (length < 1) return c.unsupported("the median of no elements");
  Values middle = at_rank(c, both, (length - 1) / 2);
  if (!graph::is_floating(b.dtype(both[0]))) return middle;
  const Values last = at_rank(c, both, length - 1);
  const Value none = b.unary(Op::is_nan, last[0]);
  for (std::size_t i = 0; i < middle.size(); ++i) middle[i] = b.select(none, last[i], middle[i]);
  return middle;
}

}  // namespace stitch::import::aten
