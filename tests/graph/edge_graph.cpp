#include "tests/graph/edge_graph.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/literal.h"
#include "tests/graph/op_lists.h"

namespace stitch::graph::test {
namespace {

constexpr std::int64_t most_elements = 300;

const std::vector<DType> integer_dtypes = {DType::s8,  DType::u8,  DType::s16, DType::u16,
                                           DType::s32, DType::u32, DType::s64, DType::u64};

/// Draws what several generators need.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t bound) { return bound <= 0 ? 0 : static_cast<std::int64_t>(random_.below(bound)); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[below(list.size())];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) {
      std::swap(list[i - 1], list[below(i)]);
    }
  }

  /// Small numbers and the ends of dtypes; stored into a narrower dtype they wrap.
  std::int64_t integer() {
    static const std::vector<std::int64_t> small = {0, 1, -1, 2, -2, 3, 5, 7};
    static const std::vector<std::int64_t> ends = {127,
                                                   -128,
                                                   128,
                                                   255,
                                                   256,
                                                   32767,
                                                   65535,
                                                   31,
                                                   32,
                                                   63,
                                                   64,
                                                   2147483647,
                                                   -2147483648LL,
                                                   4294967295LL,
                                                   std::int64_t{1} << 53,
                                                   (std::int64_t{1} << 53) + 1,
                                                   std::numeric_limits<std::int64_t>::max(),
                                                   std::numeric_limits<std::int64_t>::min()};
    return one_in(2) ? of(small) : of(ends);
  }
  DType dtype() { return one_in(8) ? DType::pred : of(integer_dtypes); }
  Dims dims(std::int64_t most_rank = 3) {
    static const std::vector<std::int64_t> extents = {1, 2, 3, 4, 2, 3, 6, 0};
    Dims dims;
    for (std::int64_t rank = below(most_rank + 1); rank > 0; --rank) dims.push_back(of(extents));
    return dims;
  }

 private:
  Random random_;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : draw_(seed) {}

  std::optional<Graph> generate() {
    for (std::int64_t i = 1 + draw_.below(3); i > 0; --i) note(b_.parameter(draw_.dtype(), draw_.dims()));
    note(b_.parameter(draw_.of(integer_dtypes), {}));
    static const std::vector<void (Generator::*)()> steps = {
        &Generator::binary,      &Generator::binary,  &Generator::binary,      &Generator::unary,
        &Generator::compare,     &Generator::select,  &Generator::clamp,       &Generator::convert,
        &Generator::convert,     &Generator::bitcast, &Generator::broadcast,   &Generator::broadcast,
        &Generator::reshape,     &Generator::slice,   &Generator::slice,       &Generator::transpose,
        &Generator::pad,         &Generator::reverse, &Generator::concatenate, &Generator::reduce,
        &Generator::reduce,      &Generator::dynamic, &Generator::gather_rows, &Generator::scatter_rows,
        &Generator::one_hot_sum, &Generator::iota};
    for (std::int64_t i = 4 + draw_.below(10); i > 0 && !b_.failed(); --i) (this->*draw_.of(steps))();
    Result<Graph> graph = b_.finish({values_.back(), any(), any()});
    return graph ? std::optional(std::move(*graph)) : std::nullopt;
  }

 private:
  void note(Value value) {
    if (!b_.failed()) values_.push_back(value);
  }
  Value any() { return draw_.one_in(2) && values_.size() > 3 ? recent() : draw_.of(values_); }
  Value recent() { return values_[values_.size() - 1 - static_cast<std::size_t>(draw_.below(3))]; }
  std::optional<Value> find(const std::function<bool(Value)>& fits) {
    for (int tries = 0; tries < 12; ++tries) {
      if (const Value value = any(); fits(value)) return value;
    }
    return std::nullopt;
  }
  [[nodiscard]] const TensorType& type(Value x) const { return b_.type(x); }
  [[nodiscard]] bool is_pred(Value x) const { return type(x).dtype == DType::pred; }

  Value scalar(DType dtype) {
    const std::vector<std::int64_t> value = {dtype == DType::pred ? draw_.below(2) : draw_.integer()};
    return b_.constant(dense_integers({dtype, {}}, value));
  }
  /// A constant, an iota or runs of indices of this type.
  Value constant(const TensorType& of) {
    if (of.rank() == 0 || !draw_.one_in(3))
      return of.rank() == 0 ? scalar(of.dtype) : b_.broadcast(scalar(of.dtype), of.dims, {});
    if (of.dtype != DType::pred && draw_.one_in(2)) return b_.iota(of.dtype, of.dims, draw_.below(of.rank()));
    std::vector<std::int64_t> values;
    const std::uint64_t first = draw_.integer();
    const bool run = draw_.one_in(2);
    for (std::int64_t i = 0; i < of.elements(); ++i) {
      const std::int64_t next = first + static_cast<std::uint64_t>(i);
      values.push_back(of.dtype == DType::pred ? draw_.below(2) : run ? next : draw_.integer());
    }
    return b_.constant(dense_integers(of, values));
  }
  Value partner(Value x) {
    const TensorType like = type(x);
    if (draw_.one_in(6)) return x;
    if (draw_.one_in(2)) return constant(like);
    return find([&](Value v) { return type(v) == like; }).value_or(constant(like));
  }
  Value index() {
    const auto found = find([&](Value v) { return type(v).rank() == 0 && !is_pred(v); });
    return found && draw_.one_in(2) ? *found : scalar(draw_.of(integer_dtypes));
  }

  void binary() {
    const Value x = any(), y = partner(x);
    const Op op = draw_.of(elementwise_operators(2, type(x).dtype));
    const bool exchanged = draw_.one_in(2);
    note(b_.binary(op, exchanged ? y : x, exchanged ? x : y));
  }
  void unary() {
    const Value x = any();
    note(b_.unary(draw_.of(elementwise_operators(1, type(x).dtype)), x));
  }
  Value compared(Value x) {
    const auto direction = static_cast<Comparison>(draw_.below(6));
    return b_.compare(direction, x, partner(x));
  }
  void compare() { note(compared(any())); }
  void select() {
    const Value x = any();
    const Dims dims = type(x).dims;
    const auto chosen = find([&](Value v) { return is_pred(v) && type(v).dims == dims; });
    note(b_.select(chosen ? *chosen : compared(x), x, partner(x)));
  }
  void clamp() {
    const Value x = any();
    if (!is_pred(x)) note(b_.add(Op::clamp, {partner(x), x, partner(x)}));
  }
  /// Directly, or through a floating dtype.
  void convert() {
    const Value x = any();
    const bool direct = draw_.one_in(2);
    const DType between = draw_.of(std::vector<DType>{DType::f64, DType::f32, DType::bf16});
    note(b_.convert(direct ? x : b_.convert(x, between), draw_.dtype()));
  }
  void bitcast() {
    const Value x = any();
    const DType to = draw_.dtype();
    if (byte_size(to) == byte_size(type(x).dtype)) note(b_.add(Op::bitcast_convert, {x}, ConvertAttributes{to}));
  }
  void broadcast() {
    const Value x = any();
    Dims dims, mapping;
    for (std::int64_t d = 0; d <= type(x).rank(); ++d) {
      if (draw_.one_in(3)) dims.push_back(draw_.of(Dims{1, 2, 3, 4, 2, 0}));
      if (d == type(x).rank()) break;
      mapping.push_back(dims.size());
      dims.push_back(type(x).dims[d]);
    }
    if (element_count(dims) <= most_elements) note(b_.broadcast(x, dims, mapping));
  }
  void reshape() {
    const Value x = any();
    Dims dims = type(x).dims;
    draw_.shuffle(dims);
    for (std::size_t d = 0; d + 1 < dims.size(); ++d) {
      if (!draw_.one_in(3)) continue;
      dims[d] *= dims[d + 1];
      dims.erase(dims.begin() + d + 1);
    }
    if (draw_.one_in(3)) dims.insert(dims.begin() + draw_.below(static_cast<std::int64_t>(dims.size()) + 1), 1);
    note(b_.reshape(x, dims));
  }
  void transpose() {
    const Value x = any();
    Dims permutation(type(x).dims.size());
    std::iota(permutation.begin(), permutation.end(), 0);
    draw_.shuffle(permutation);
    note(b_.transpose(x, permutation));
  }
  void slice() {
    const Value x = any();
    SliceAttributes a;
    for (const std::int64_t extent : type(x).dims) {
      const std::int64_t start = draw_.one_in(3) ? 0 : draw_.below(extent + 1);
      a.starts.push_back(start);
      a.limits.push_back(draw_.one_in(3) ? extent : start + draw_.below(extent - start + 1));
      a.strides.push_back(draw_.one_in(3) ? 1 + draw_.below(3) : draw_.one_in(9) ? std::int64_t{1} << 39 : 1);
    }
    note(b_.slice(x, a.starts, a.limits, a.strides));
  }
  void pad() {
    const Value x = any();
    PadAttributes a;
    for (const std::int64_t extent : type(x).dims) {
      const std::int64_t interior = draw_.one_in(4) ? draw_.below(3) : 0;
      const std::int64_t full = extent + std::max<std::int64_t>(extent - 1, 0) * interior;
      const std::int64_t low = draw_.one_in(2) ? draw_.below(5) - 2 : 0;
      a.low.push_back(low);
      a.high.push_back(std::max(draw_.below(5) - 2, -full - low));
      a.interior.push_back(interior);
    }
    note(b_.add(Op::pad, {x, scalar(type(x).dtype)}, a));
  }
  void reverse() {
    const Value x = any();
    note(b_.reverse(x, some_dimensions(x)));
  }
  Dims some_dimensions(Value x) {
    Dims dimensions;
    for (std::int64_t d = 0; d < type(x).rank(); ++d) {
      if (draw_.one_in(2)) dimensions.push_back(d);
    }
    return dimensions;
  }
  void concatenate() {
    const Value x = any();
    if (type(x).rank() == 0) return;
    const std::size_t along = draw_.below(type(x).rank());
    TensorType other = type(x);
    other.dims[along] = draw_.below(4);
    std::vector<Value> parts = {x, constant(other), partner(x)};
    draw_.shuffle(parts);
    note(b_.concatenate(parts, along));
  }
  ReduceKind kind(DType dtype) {
    std::vector<ReduceKind> kinds = {ReduceKind::max, ReduceKind::min, ReduceKind::bit_and, ReduceKind::bit_or,
                                     ReduceKind::bit_xor};
    if (dtype != DType::pred) kinds.insert(kinds.end(), {ReduceKind::sum, ReduceKind::sum, ReduceKind::product});
    return draw_.of(kinds);
  }
  void reduce() {
    const Value x = any();
    note(b_.reduce(kind(type(x).dtype), x, some_dimensions(x)));
  }
  void dynamic() {
    const Value x = any();
    std::vector<Value> starts;
    Dims sizes;
    for (const std::int64_t extent : type(x).dims) {
      sizes.push_back(draw_.one_in(2) ? extent : draw_.below(extent + 1));
      starts.push_back(index());
    }
    std::vector<Value> operands = {x};
    const bool updates = draw_.one_in(2);
    if (updates) operands.push_back(constant({type(x).dtype, sizes}));
    operands.insert(operands.end(), starts.begin(), starts.end());
    note(updates ? b_.add(Op::dynamic_update_slice, operands, UpdateAttributes{})
                 : b_.add(Op::dynamic_slice, operands, DynamicSliceAttributes{sizes}));
  }
  /// Indices of rank 1: computed ones, constants or an iota.
  Value row_indices() {
    const auto found = find([&](Value v) { return type(v).rank() == 1 && !is_pred(v); });
    if (found && draw_.one_in(2)) return *found;
    return constant({draw_.of(integer_dtypes), {draw_.of(Dims{1, 2, 3, 5})}});
  }
  void gather_rows() {
    const Value x = any(), rows = row_indices();
    if (type(x).rank() == 0) return;
    const std::size_t along = draw_.below(type(x).rank());
    if (type(x).dims[along] == 0) return;
    GatherAttributes a;
    for (std::int64_t d = 1; d < type(x).rank(); ++d) a.offset_dims.push_back(d);
    a.collapsed_slice_dims = a.start_index_map = {static_cast<std::int64_t>(along)};
    a.index_vector_dim = 1;
    a.slice_sizes = type(x).dims;
    a.slice_sizes[along] = 1;
    note(b_.add(Op::gather, {x, rows}, a));
  }
  void scatter_rows() {
    const Value x = any(), rows = row_indices();
    if (type(x).rank() == 0) return;
    const std::size_t along = draw_.below(type(x).rank());
    ScatterAttributes a;
    TensorType updates{type(x).dtype, {type(rows).dims[0]}};
    for (std::size_t d = 0; d < type(x).dims.size(); ++d) {
      if (d != along) updates.dims.push_back(type(x).dims[d]);
    }
    for (std::int64_t d = 1; d < updates.rank(); ++d) a.update_window_dims.push_back(d);
    a.inserted_window_dims = a.scatter_dims_to_operand_dims = {static_cast<std::int64_t>(along)};
    a.index_vector_dim = 1;
    a.combiner = draw_.one_in(3) ? ReduceKind::replace : kind(type(x).dtype);
    note(b_.add(Op::scatter, {x, rows, constant(updates)}, a));
  }
  /// Σ_j select(j == i, v, 0), with more classes than some dtypes can count.
  void one_hot_sum() {
    const Value rows = row_indices();
    const std::int64_t n = type(rows).dims[0], classes = draw_.of(Dims{3, 127, 128, 255, 256, 257});
    if (n * classes > 5 * most_elements) return;
    const DType dtype = type(rows).dtype;
    const Value place = b_.broadcast(b_.iota(dtype, {classes}, 0), {n, classes}, {1});
    const Value hit = b_.compare(Comparison::eq, place, b_.broadcast(rows, {n, classes}, {0}));
    const Value row = b_.broadcast(constant({DType::s32, {n}}), {n, classes}, {0});
    note(b_.reduce(ReduceKind::sum, b_.select(hit, row, b_.filled(DType::s32, {n, classes}, 0)), {1}));
  }
  void iota() {
    const DType dtype = draw_.of(integer_dtypes);
    const std::int64_t length = draw_.of(Dims{0, 1, 5, 127, 128, 129, 255, 256, 257});
    const Value whole = b_.iota(dtype, {length}, 0);
    const std::int64_t start = draw_.below(length + 1),
                       limit = start + draw_.below(std::min<std::int64_t>(length - start, 6) + 1);
    note(b_.slice(whole, {start}, {limit}, {1 + draw_.below(2)}));
  }

  Draw draw_;
  Builder b_;
  std::vector<Value> values_;
};

}  // namespace

Graph edge_graph(std::uint64_t seed) {
  for (std::uint64_t attempt = 0;; ++attempt) {
    if (std::optional<Graph> graph = Generator(mix(seed, attempt)).generate()) return std::move(*graph);
  }
}

std::vector<Tensor> edge_arguments(const Graph& graph, std::uint64_t seed) {
  Draw draw(mix(seed, 0x65646765));
  std::vector<Tensor> arguments;
  for (const NodeId parameter : graph.parameters()) {
    Tensor& tensor = arguments.emplace_back(Tensor::zeros(graph.node(parameter).type()));
    const DType dtype = tensor.type.dtype;
    for (std::int64_t& value : tensor.integers) {
      std::byte bytes[8] = {};
      store_integer(dtype, dtype == DType::pred ? draw.below(2) : draw.integer(), bytes);
      value = load_integer(dtype, bytes);
    }
  }
  return arguments;
}

}  // namespace stitch::graph::test
