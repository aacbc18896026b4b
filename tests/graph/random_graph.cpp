#include "tests/graph/random_graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/literal.h"
#include "tests/graph/op_lists.h"

namespace stitch::graph::test {
namespace {

/// Beyond this, a value is squashed before it is used in arithmetic.
constexpr double largest_magnitude = 1000;

/// One call that draws or adds nodes per argument list: a seed shall be the same graph whatever order a compiler
/// evaluates arguments in.
class Generator {
 public:
  explicit Generator(const RandomGraphOptions& options) : options_(options), random_(options.seed) {}

  Graph generate() {
    for (int i = 0; i < options_.parameters; ++i) {
      const Dims dims = random_dims();
      note(b_.parameter(pick(options_.dtypes), dims, fmt::format("p{}", i)), 2);
    }
    const std::vector<std::pair<int, std::function<void()>>> steps = {
        {options_.unary, [&] { unary(); }},
        {options_.binary, [&] { binary(); }},
        {options_.compare_select, [&] { compare_select(); }},
        {options_.convert, [&] { convert(); }},
        {options_.broadcast, [&] { broadcast(); }},
        {options_.reshape, [&] { reshape(); }},
        {options_.transpose, [&] { transpose(); }},
        {options_.slice, [&] { slice(); }},
        {options_.reverse, [&] { reverse(); }},
        {options_.pad, [&] { pad(); }},
        {options_.concatenate, [&] { concatenate(); }},
        {options_.gather, [&] { gather(); }},
        {options_.dynamic_slice, [&] { dynamic_slice(); }},
        {options_.iota, [&] { iota(); }},
        {options_.reduce, [&] { reduce(); }},
        {options_.arg_reduce, [&] { arg_reduce(); }},
        {options_.max_exp_sum, [&] { max_exp_sum(); }},
        {options_.scan, [&] { scan(); }},
        {options_.sort, [&] { sort(); }},
        {options_.reduce_window, [&] { reduce_window(); }},
        {options_.scatter, [&] { scatter(); }},
        {options_.dot, [&] { dot(); }},
        {options_.function, [&] { function(); }},
    };
    int total = 0;
    for (const auto& [weight, step] : steps) total += weight;
    for (int tries = 0; b_.graph().size() < options_.parameters + options_.operators && tries < 1000; ++tries) {
      int chosen = random_.below(total);
      for (const auto& [weight, step] : steps) {
        chosen -= weight;
        if (chosen >= 0) continue;
        step();
        break;
      }
    }
    return finish();
  }

 private:
  struct Entry {
    Value value;
    double magnitude;  ///< |element| at most, for well-behaved arguments
  };

  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(high - low + 1));
  }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[below(list.size())];
  }

  Dims random_dims() {
    Dims dims;
    const std::int64_t rank = between(0, options_.most_rank);
    for (std::int64_t i = 0; i < rank; ++i) {
      const std::int64_t room = options_.most_elements / std::max<std::int64_t>(1, element_count(dims));
      dims.push_back(between(1, std::max<std::int64_t>(1, std::min(options_.most_extent, room))));
    }
    return dims;
  }

  Value note(Value value, double magnitude) {
    values_.push_back({value, magnitude});
    return value;
  }
  Entry any() { return pick(values_); }
  /// An entry that `fits`, preferring recent ones so that graphs get deep; false after some tries.
  template <class Fits>
  bool find(Fits fits, Entry& found) {
    for (int tries = 0; tries < 20; ++tries) {
      const std::size_t recent = std::min<std::size_t>(values_.size(), 8);
      found = below(2) == 0 ? any() : values_[values_.size() - 1 - below(recent)];
      if (fits(found)) return true;
    }
    return false;
  }
  [[nodiscard]] bool floating(const Entry& e) const { return is_floating(b_.dtype(e.value)); }
  [[nodiscard]] bool number(const Entry& e) const { return b_.dtype(e.value) != DType::pred; }
  [[nodiscard]] int rank(const Entry& e) const { return b_.type(e.value).rank(); }

  Value constant_like(Value x, double value) { return b_.filled(b_.dtype(x), b_.dims(x), value); }

  Value absolute_plus(Value x, double offset) {
    const Value added = constant_like(x, offset);
    return b_.binary(Op::add, b_.unary(Op::abs, x), added);
  }

  /// Something of the type of `like`: a value that is there, a broadcast, or a new constant.
  Entry partner(const Entry& like) {
    Entry other;
    const TensorType type = b_.type(like.value);
    if (find([&](const Entry& e) { return b_.type(e.value) == type; }, other) && below(4) != 0) return other;
    if (find([&](const Entry& e) { return b_.dtype(e.value) == type.dtype && rank(e) == 0; }, other)) {
      return {rank(like) == 0 ? other.value : b_.broadcast(other.value, type.dims, {}), other.magnitude};
    }
    return {constant_like(like.value, static_cast<double>(between(-3, 3)) + 0.5), 3.5};
  }

  void unary() {
    Entry x;
    if (!find([&](const Entry& e) { return number(e); }, x)) return;
    if (!floating(x)) {
      const Op op = pick(std::vector<Op>{Op::negate, Op::abs, Op::sign, Op::bit_not, Op::popcount});
      note(b_.unary(op, x.value), x.magnitude);
      return;
    }
    switch (below(8)) {
      case 0: note(b_.unary(pick(std::vector<Op>{Op::negate, Op::abs}), x.value), x.magnitude); break;
      case 1:
        note(b_.unary(pick(std::vector<Op>{Op::tanh, Op::logistic, Op::erf, Op::erfc, Op::sin, Op::cos}), x.value), 1);
        break;
      case 2:
        if (x.magnitude <= 5) note(b_.unary(Op::exp, x.value), std::exp(x.magnitude));
        break;
      case 3: {
        const Value positive = absolute_plus(x.value, 0.5);
        const Op op = pick(std::vector<Op>{Op::log, Op::sqrt, Op::rsqrt, Op::cbrt});
        note(b_.unary(op, positive), std::max(1.5, std::sqrt(x.magnitude + 0.5)));
        break;
      }
      case 4: note(b_.unary(pick(std::vector<Op>{Op::floor, Op::ceil, Op::sign}), x.value), x.magnitude + 1); break;
      case 5:
        if (x.magnitude <= 5) note(b_.unary(Op::expm1, x.value), std::exp(x.magnitude));
        break;
      case 6: note(b_.unary(pick(std::vector<Op>{Op::atan, Op::asinh}), x.value), 10); break;
      default: note(b_.unary(Op::log1p, b_.unary(Op::abs, x.value)), 10); break;
    }
  }

  void binary() {
    Entry x;
    if (!find([&](const Entry& e) { return number(e); }, x)) return;
    const Entry y = partner(x);
    if (!floating(x)) {
      const Op op = pick(std::vector<Op>{Op::add, Op::subtract, Op::multiply, Op::maximum, Op::minimum, Op::bit_and,
                                         Op::bit_or, Op::bit_xor, Op::divide, Op::remainder, Op::shift_left,
                                         Op::shift_right_logical, Op::shift_right_arithmetic});
      note(b_.binary(op, x.value, y.value), x.magnitude);
      return;
    }
    switch (below(6)) {
      case 0:
      case 1:
        if (x.magnitude + y.magnitude <= largest_magnitude) {
          note(b_.binary(below(2) == 0 ? Op::add : Op::subtract, x.value, y.value), x.magnitude + y.magnitude);
        }
        break;
      case 2:
      case 3:
        if (x.magnitude * y.magnitude <= largest_magnitude) {
          note(b_.binary(Op::multiply, x.value, y.value), x.magnitude * y.magnitude);
        }
        break;
      case 4:
        note(b_.binary(below(2) == 0 ? Op::maximum : Op::minimum, x.value, y.value),
             std::max(x.magnitude, y.magnitude));
        break;
      default: {
        const Value divisor = absolute_plus(y.value, 1);
        note(b_.binary(Op::divide, x.value, divisor), x.magnitude);
      }
    }
  }

  void compare_select() {
    const Entry x = any(), y = partner(x);
    Entry condition;
    const auto fits = [&](const Entry& e) {
      return b_.dtype(e.value) == DType::pred && b_.dims(e.value) == b_.dims(x.value);
    };
    if (!find(fits, condition) || below(2) == 0) {
      condition = {b_.compare(static_cast<Comparison>(below(6)), x.value, y.value), 1};
      note(condition.value, 1);
    }
    note(b_.select(condition.value, x.value, y.value), std::max(x.magnitude, y.magnitude));
  }

  void convert() {
    const Entry x = any();
    const DType to = pick(options_.dtypes);
    if (b_.dtype(x.value) == to) return;
    note(b_.convert(x.value, to), std::min(x.magnitude, 1e6));
  }

  void broadcast() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) < options_.most_rank; }, x)) return;
    Dims dims = b_.dims(x.value), mapping;
    std::vector<bool> own(dims.size(), true);
    for (std::int64_t added = between(1, 2); added > 0 && std::ssize(dims) < options_.most_rank; --added) {
      const std::int64_t room = options_.most_elements / element_count(dims);
      const std::int64_t at = between(0, static_cast<std::int64_t>(dims.size()));
      dims.insert(dims.begin() + at, between(1, std::max<std::int64_t>(1, std::min(options_.most_extent, room))));
      own.insert(own.begin() + at, false);
    }
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (own[d]) mapping.push_back(d);
    }
    note(b_.broadcast(x.value, dims, mapping), x.magnitude);
  }

  void reshape() {
    const Entry x = any();
    std::int64_t left = b_.type(x.value).elements();
    Dims dims;
    while (left > 1 && static_cast<int>(dims.size()) + 1 < options_.most_rank) {
      std::vector<std::int64_t> divisors;
      for (std::int64_t f = 1; f <= left; ++f) {
        if (left % f == 0) divisors.push_back(f);
      }
      dims.push_back(pick(divisors));
      left /= dims.back();
    }
    if (left > 1 || (dims.empty() && below(2) == 0)) dims.push_back(left);
    if (dims != b_.dims(x.value)) note(b_.reshape(x.value, dims), x.magnitude);
  }

  void transpose() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) >= 2; }, x)) return;
    Dims permutation;
    for (int d = 0; d < rank(x); ++d) permutation.insert(permutation.begin() + between(0, d), d);
    note(b_.transpose(x.value, permutation), x.magnitude);
  }

  void slice() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) >= 1; }, x)) return;
    Dims starts, limits, strides;
    for (const std::int64_t extent : b_.dims(x.value)) {
      starts.push_back(between(0, extent - 1));
      limits.push_back(between(starts.back() + 1, extent));
      strides.push_back(between(1, 3));
    }
    note(b_.slice(x.value, starts, limits, strides), x.magnitude);
  }

  void reverse() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) >= 1; }, x)) return;
    Dims dimensions;
    for (int d = 0; d < rank(x); ++d) {
      if (below(2) == 0) dimensions.push_back(d);
    }
    note(b_.reverse(x.value, dimensions), x.magnitude);
  }

  void pad() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) >= 1 && b_.type(e.value).elements() * 4 < options_.most_elements; },
              x)) {
      return;
    }
    Dims low, high, interior;
    for (const std::int64_t extent : b_.dims(x.value)) {
      low.push_back(between(extent > 2 ? -1 : 0, 2));
      high.push_back(between(extent > 2 ? -1 : 0, 2));
      interior.push_back(between(0, 1));
    }
    note(b_.pad(x.value, b_.scalar(b_.dtype(x.value), 1), low, high, interior), std::max(x.magnitude, 1.0));
    if (b_.type(values_.back().value).elements() > options_.most_elements) values_.pop_back();
  }

  void concatenate() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) >= 1 && b_.type(e.value).elements() * 2 < options_.most_elements; },
              x)) {
      return;
    }
    const Entry y = partner(x);
    note(b_.concatenate({x.value, y.value}, between(0, rank(x) - 1)), std::max(x.magnitude, y.magnitude));
  }

  /// Rows of x along dimension 0, picked by constant indices (some out of range, to be clamped).
  void gather() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) >= 1; }, x)) return;
    const Dims dims = b_.dims(x.value);
    const std::int64_t rows = between(1, 4);
    if (rows * b_.type(x.value).elements() / dims[0] > options_.most_elements) return;
    GatherAttributes a;
    for (std::size_t d = 1; d < dims.size(); ++d) a.offset_dims.push_back(d);
    a.collapsed_slice_dims = {0};
    a.start_index_map = {0};
    a.index_vector_dim = 1;
    a.slice_sizes = dims;
    a.slice_sizes[0] = 1;
    note(b_.add(Op::gather, {x.value, random_indices(rows, dims[0])}, a), x.magnitude);
  }

  Value random_indices(std::int64_t count, std::int64_t extent) {
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < count; ++i) indices.push_back(between(-1, extent));
    return b_.constant(dense_integers({DType::s32, {count}}, indices));
  }

  void dynamic_slice() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) >= 1; }, x)) return;
    Dims sizes;
    std::vector<Value> operands{x.value};
    for (const std::int64_t extent : b_.dims(x.value)) {
      sizes.push_back(between(1, extent));
      operands.push_back(b_.scalar(DType::s32, static_cast<double>(between(-1, extent))));
    }
    note(b_.add(Op::dynamic_slice, operands, DynamicSliceAttributes{sizes}), x.magnitude);
  }

  void iota() {
    const DType dtype = pick(options_.dtypes);
    const Dims dims = random_dims();
    if (dims.empty() || dtype == DType::pred) return;
    note(b_.iota(dtype, dims, between(0, static_cast<std::int64_t>(dims.size()) - 1)),
         static_cast<double>(options_.most_extent));
  }

  void reduce() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) >= 1; }, x)) return;
    Dims dimensions;
    std::int64_t count = 1;
    for (int d = 0; d < rank(x); ++d) {
      if (below(2) == 0) {
        dimensions.push_back(d);
        count *= b_.dims(x.value)[d];
      }
    }
    const double sum = x.magnitude * static_cast<double>(count);
    std::vector<ReduceKind> kinds{ReduceKind::max, ReduceKind::min};
    if (floating(x) && sum <= largest_magnitude) kinds.insert(kinds.end(), 4, ReduceKind::sum);
    if (floating(x) && x.magnitude <= 1) kinds.push_back(ReduceKind::product);
    if (!floating(x)) kinds.insert(kinds.end(), {ReduceKind::bit_and, ReduceKind::bit_or, ReduceKind::bit_xor});
    if (!floating(x) && number(x)) kinds.insert(kinds.end(), {ReduceKind::sum, ReduceKind::product});
    const ReduceKind kind = pick(kinds);
    note(b_.reduce(kind, x.value, dimensions), kind == ReduceKind::sum ? sum : x.magnitude);
  }

  void arg_reduce() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) >= 1 && number(e); }, x)) return;
    const ArgReduceAttributes a{below(2) == 0 ? ReduceKind::max : ReduceKind::min, between(0, rank(x) - 1), DType::s32,
                                below(2) == 0};
    const Value both = b_.add(Op::arg_reduce, {x.value}, a);
    note(both, x.magnitude);
    note({both.node, 1}, static_cast<double>(options_.most_extent));
  }

  void max_exp_sum() {
    Entry x;
    const auto takes = [&](const Entry& e) {
      const DType dtype = b_.dtype(e.value);
      return rank(e) >= 1 && (dtype == DType::f32 || dtype == DType::f64);
    };
    if (!find(takes, x)) return;
    MaxExpSumAttributes a;
    double count = 1;
    for (int d = 0; d < rank(x); ++d) {
      if (below(2) == 0) continue;
      a.dimensions.push_back(d);
      count *= static_cast<double>(b_.dims(x.value)[d]);
    }
    const Value both = b_.add(Op::max_exp_sum, {x.value}, a);
    note(both, x.magnitude);
    note({both.node, 1}, count);
  }

  void scan() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) >= 1 && number(e) && e.magnitude < 100; }, x)) return;
    const ScanAttributes a{below(2) == 0 ? ReduceKind::sum : ReduceKind::max, between(0, rank(x) - 1), below(2) == 0,
                           below(2) == 0};
    const double count = b_.dims(x.value)[a.dimension];
    const Value y = b_.add(Op::scan, {x.value}, a);
    // An exclusive maximum starts from -inf, which is no good argument of anything else.
    if (a.kind == ReduceKind::sum || !a.exclusive) note(y, x.magnitude * count);
  }

  void sort() {
    Entry x, y;
    if (!find([&](const Entry& e) { return rank(e) >= 1; }, x)) return;
    SortAttributes a;
    a.dimension = between(0, rank(x) - 1);
    a.descending = below(2) == 0;
    const Dims dims = b_.dims(x.value);
    const std::int64_t extent = dims[a.dimension];
    a.count = below(2) == 0 ? extent : between(1, extent);
    std::vector<Entry> operands = {x};
    if (below(2) == 0) operands.push_back({b_.iota(DType::s32, dims, a.dimension), static_cast<double>(extent)});
    if (below(3) == 0 && find([&](const Entry& e) { return b_.dims(e.value) == dims; }, y)) operands.push_back(y);
    std::vector<Value> values;
    for (const Entry& each : operands) values.push_back(each.value);
    const Value sorted = b_.add(Op::sort, values, a);
    for (std::size_t r = 0; r < operands.size(); ++r)
      note({sorted.node, static_cast<std::int32_t>(r)}, operands[r].magnitude);
  }

  void reduce_window() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) >= 1 && number(e) && e.magnitude < 50; }, x)) return;
    ReduceWindowAttributes a;
    a.kind = below(2) == 0 ? ReduceKind::sum : ReduceKind::max;
    double count = 1;
    for (const std::int64_t extent : b_.dims(x.value)) {
      a.sizes.push_back(between(1, std::min<std::int64_t>(extent, 3)));
      a.strides.push_back(between(1, 2));
      // Less than the window: every window has an element, so that no maximum is -inf.
      a.low.push_back(between(0, a.sizes.back() - 1));
      a.high.push_back(between(0, a.sizes.back() - 1));
      a.base_dilation.push_back(1);
      a.window_dilation.push_back(1);
      count *= static_cast<double>(a.sizes.back());
    }
    const Value y = b_.add(Op::reduce_window, {x.value}, a);
    if (b_.type(y).elements() > 0) note(y, x.magnitude * count);
  }

  /// Rows of updates added to rows of x.
  void scatter() {
    Entry x;
    if (!find([&](const Entry& e) { return rank(e) >= 1 && number(e) && e.magnitude < 100; }, x)) return;
    const Dims dims = b_.dims(x.value);
    const std::int64_t rows = between(1, 4);
    Dims update_dims = dims;
    update_dims[0] = rows;
    if (element_count(update_dims) > options_.most_elements) return;
    ScatterAttributes a;
    for (std::size_t d = 1; d < dims.size(); ++d) a.update_window_dims.push_back(d);
    a.inserted_window_dims = {0};
    a.scatter_dims_to_operand_dims = {0};
    a.index_vector_dim = 1;
    a.combiner = pick(std::vector<ReduceKind>{ReduceKind::sum, ReduceKind::max, ReduceKind::replace});
    const Value updates = b_.filled(b_.dtype(x.value), update_dims, 1.5);
    note(b_.add(Op::scatter, {x.value, random_indices(rows, dims[0]), updates}, a), x.magnitude + 6);
  }

  void dot() {
    Entry x, y;
    if (!find([&](const Entry& e) { return rank(e) >= 1 && floating(e) && e.magnitude < 20; }, x)) return;
    const std::int64_t k = b_.dims(x.value).back();
    const auto fits = [&](const Entry& e) {
      return rank(e) >= 1 && b_.dtype(e.value) == b_.dtype(x.value) && b_.dims(e.value)[0] == k && e.magnitude < 10 &&
             rank(e) + rank(x) - 2 <= options_.most_rank &&
             b_.type(e.value).elements() / k * (b_.type(x.value).elements() / k) <= options_.most_elements;
    };
    if (!find(fits, y)) return;
    DotAttributes a;
    a.lhs_contracting = {rank(x) - 1};
    a.rhs_contracting = {0};
    a.result = b_.dtype(x.value);
    note(b_.dot(x.value, y.value, a), x.magnitude * y.magnitude * static_cast<double>(k));
  }

  /// x where a function is defined, away from the ends.
  Value inside(const RealInterval& defined, const Entry& x) {
    constexpr double huge = 1e30;
    if (defined.low < -huge) return x.value;
    if (defined.high >= huge) return absolute_plus(x.value, defined.low + 0.5);
    const Value factor = constant_like(x.value, 0.9);
    return b_.binary(Op::multiply, b_.unary(Op::tanh, x.value), factor);
  }

  void function() {
    static const std::vector<Op> functions = floating_functions();
    Entry x;
    if (!find([&](const Entry& e) { return floating(e); }, x)) return;
    const OpInfo& row = info(pick(functions));
    std::vector<Value> operands = {inside(row.defined, x)};
    if (row.max_operands == 2) operands.push_back(partner(x).value);
    const Value y = b_.add(row.op, std::move(operands));
    note(b_.add(Op::clamp, {constant_like(y, -10), y, constant_like(y, 10)}), 10);
  }

  Graph finish() {
    std::vector<Value> results;
    const auto lists = users(b_.graph());
    for (const Entry& e : values_) {
      if (lists[e.value.node].empty() && b_.graph().node(e.value.node).op != Op::parameter) {
        results.push_back(e.value);
      }
    }
    while (std::ssize(results) < options_.results) results.push_back(any().value);
    Result<Graph> graph = b_.finish(std::move(results));
    if (!graph) throw std::logic_error("random_graph: " + graph.error().message);
    return std::move(*graph);
  }

  const RandomGraphOptions& options_;
  Random random_;
  Builder b_{"random"};
  std::vector<Entry> values_;
};

}  // namespace

Graph random_graph(const RandomGraphOptions& options) { return Generator(options).generate(); }

double random_element(const TensorType& type, std::uint64_t seed, std::int64_t index) {
  const double u = uniform_at(seed, static_cast<std::uint64_t>(index));
  if (type.dtype == DType::pred) return u < 0.5 ? 0 : 1;
  if (is_floating(type.dtype)) return round_to(type.dtype, 4 * u - 2);
  return std::floor(is_signed_integer(type.dtype) ? 200 * u - 100 : 200 * u);
}

std::vector<Tensor> random_arguments(const Graph& graph, std::uint64_t seed) {
  std::vector<Tensor> arguments;
  for (const NodeId parameter : graph.parameters()) {
    Tensor tensor = Tensor::zeros(graph.node(parameter).type());
    const std::uint64_t own = mix(seed, static_cast<std::uint64_t>(arguments.size()));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      const double value = random_element(tensor.type, own, i);
      if (is_floating(tensor.type.dtype)) {
        tensor.floats[i] = value;
      } else {
        tensor.integers[i] = value;
      }
    }
    arguments.push_back(std::move(tensor));
  }
  return arguments;
}

}  // namespace stitch::graph::test
