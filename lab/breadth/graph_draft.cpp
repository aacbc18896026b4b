#include "lab/breadth/graph_draft.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "graph/literal.h"

namespace stitch::lab {
namespace {

using graph::Dims;
using graph::DType;
using graph::TensorType;
using graph::Value;

/// Element types by how often they are drawn.
const std::vector<DType>& weighted_dtypes() {
  static const std::vector<DType> list = {
      DType::f32, DType::f32, DType::f32, DType::f32, DType::bf16,   DType::bf16,   DType::bf16, DType::f16, DType::f16,
      DType::f64, DType::f64, DType::s32, DType::s32, DType::pred,   DType::s8,     DType::u8,   DType::s16, DType::u16,
      DType::u32, DType::s64, DType::u64, DType::s64, DType::f8e4m3, DType::f8e5m2, DType::pred,
  };
  return list;
}

/// Numbers where integers and floats behave differently from others.
const std::vector<double>& notable_numbers() {
  static const double infinity = std::numeric_limits<double>::infinity();
  static const std::vector<double> list = {
      0,    -0.0, 1,     -1,   0.5,      -2,        3,
      1e-3, 100,  65504, 1e-8, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()};
  return list;
}

const std::vector<std::int64_t>& notable_integers() {
  static const std::vector<std::int64_t> list = {0,
                                                 1,
                                                 -1,
                                                 2,
                                                 3,
                                                 7,
                                                 31,
                                                 32,
                                                 63,
                                                 64,
                                                 127,
                                                 -128,
                                                 255,
                                                 32767,
                                                 65535,
                                                 std::numeric_limits<std::int32_t>::max(),
                                                 std::numeric_limits<std::int32_t>::min(),
                                                 std::int64_t{1} << 53,
                                                 std::numeric_limits<std::int64_t>::max(),
                                                 std::numeric_limits<std::int64_t>::min()};
  return list;
}

}  // namespace

GraphDraft::GraphDraft(std::uint64_t seed) : random_(seed) {
  static const std::vector<std::int64_t> limits = {64, 512, 512, 2048, 2048, 2048, 8192, 8192, 40000};
  most_elements_ = of(limits);
  for (std::int64_t i = between(1, 3); i > 0; --i) palette_.push_back(of(weighted_dtypes()));
  for (std::int64_t i = between(2, 3); i > 0; --i) extents_.push_back(any_extent());
}

DType GraphDraft::any_dtype() { return of(weighted_dtypes()); }

DType GraphDraft::integer_dtype() {
  static const std::vector<DType> list = {DType::s32, DType::s32, DType::s64, DType::u32, DType::s8,
                                          DType::u8,  DType::s16, DType::u16, DType::u64};
  return of(list);
}

std::int64_t GraphDraft::any_extent() {
  static const std::vector<std::int64_t> small = {1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 11, 12, 13, 16, 16};
  static const std::vector<std::int64_t> large = {17,  19,  23,  24,  31,  32,  33,   37,   48,   63,
                                                  64,  65,  96,  97,  100, 127, 128,  129,  197,  255,
                                                  256, 257, 300, 512, 513, 768, 1000, 1024, 1031, 4096};
  if (one_in(60)) return 0;
  return one_in(2) ? of(small) : of(large);
}

Dims GraphDraft::dims(std::int64_t most_rank) {
  Dims dims;
  for (std::int64_t left = between(0, most_rank); left > 0; --left) {
    const std::int64_t wanted = extent();
    const std::int64_t most = room(graph::element_count(dims));
    dims.push_back(wanted <= most ? wanted : between(1, std::max<std::int64_t>(1, std::min<std::int64_t>(most, 9))));
  }
  return dims;
}

Dims GraphDraft::some_of(std::int64_t count) {
  Dims chosen;
  for (std::int64_t i = 0; i < count; ++i) {
    if (one_in(2)) chosen.push_back(i);
  }
  return chosen;
}

Dims GraphDraft::permutation(std::int64_t count) {
  Dims order;
  for (std::int64_t d = 0; d < count; ++d) order.insert(order.begin() + between(0, d), d);
  return order;
}

void GraphDraft::note(Value value) {
  if (!failed()) values_.push_back(value);
}

Value GraphDraft::any() {
  const std::int64_t recent = std::min<std::int64_t>(size(), 5);
  return one_in(3) ? of(values_) : values_[size() - 1 - below(recent)];
}

std::optional<Value> GraphDraft::find(const std::function<bool(Value)>& fits) {
  for (int tries = 0; tries < 16; ++tries) {
    if (const Value value = any(); fits(value)) return value;
  }
  return std::nullopt;
}

std::vector<double> GraphDraft::floats(std::int64_t count) {
  std::vector<double> values;
  const bool notable = one_in(3);
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(notable ? of(notable_numbers()) : random_.uniform() * 4 - 2);
  return values;
}

std::vector<std::int64_t> GraphDraft::integers(const TensorType& type) {
  std::vector<std::int64_t> values;
  const bool notable = one_in(3);
  for (std::int64_t i = 0; i < type.elements(); ++i)
    values.push_back(type.dtype == DType::pred ? below(2) : notable ? of(notable_integers()) : between(-8, 8));
  return values;
}

Value GraphDraft::scalar(DType dtype) {
  const TensorType type{dtype, {}};
  return builder_.constant(graph::is_floating(dtype) ? graph::dense(type, floats(1))
                                                     : graph::dense_integers(type, integers(type)));
}

Value GraphDraft::constant(const TensorType& type) {
  if (type.rank() == 0) return scalar(type.dtype);
  if (!one_in(3) || type.elements() > 256) return builder_.broadcast(scalar(type.dtype), type.dims, {});
  if (type.dtype != DType::pred && one_in(2)) return builder_.iota(type.dtype, type.dims, below(type.rank()));
  return builder_.constant(graph::is_floating(type.dtype) ? graph::dense(type, floats(type.elements()))
                                                          : graph::dense_integers(type, integers(type)));
}

Value GraphDraft::parameter(const TensorType& type) {
  const Value value = builder_.parameter(type.dtype, type.dims);
  note(value);
  return value;
}

std::optional<Value> GraphDraft::broadcast_to(const TensorType& type) {
  // Dimensions of the smaller value are some of the larger one's, in their order.
  const auto mapping_of = [&](Value value) -> std::optional<Dims> {
    const Dims& own = this->type(value).dims;
    Dims mapping;
    std::size_t at = 0;
    for (const std::int64_t extent : own) {
      while (at < type.dims.size() && type.dims[at] != extent) ++at;
      if (at == type.dims.size()) return std::nullopt;
      mapping.push_back(static_cast<std::int64_t>(at++));
    }
    return mapping;
  };
  const auto found = find([&](Value v) { return rank(v) < type.rank() && mapping_of(v); });
  if (!found) return std::nullopt;
  return builder_.broadcast(as(*found, type.dtype), type.dims, *mapping_of(*found));
}

Value GraphDraft::of_type(const TensorType& wanted) {
  const TensorType type = wanted;  // what it refers to may move
  if (!one_in(4)) {
    if (const auto same = find([&](Value v) { return this->type(v) == type; })) return *same;
  }
  if (one_in(2)) {
    if (const auto smaller = broadcast_to(type)) return *smaller;
  }
  if (one_in(2)) {
    if (const auto other = find([&](Value v) { return this->type(v).dims == type.dims; }))
      return as(*other, type.dtype);
  }
  if (one_in(2)) return parameter(type);
  return constant(type);
}

Value GraphDraft::place(std::int64_t extent) {
  const auto found = find([&](Value v) { return rank(v) == 0 && graph::is_integer(type(v).dtype); });
  if (found && one_in(2)) return *found;
  const DType dtype = integer_dtype();
  if (one_in(2)) return parameter({dtype, {}});
  return builder_.scalar(dtype, static_cast<double>(std::clamp<std::int64_t>(between(-1, extent), 0, 127)));
}

Value GraphDraft::places(const Dims& dims, std::int64_t extent) {
  const TensorType type{integer_dtype(), dims};
  if (const auto found =
          find([&](Value v) { return this->type(v).dims == dims && graph::is_integer(this->type(v).dtype); }))
    return *found;
  if (one_in(2) || type.elements() > 256) return parameter(type);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < type.elements(); ++i) values.push_back(between(-1, extent));
  return builder_.constant(graph::dense_integers(type, values));
}

std::vector<Value> GraphDraft::results(std::int64_t most) {
  std::vector<Value> results;
  const auto readers = graph::users(builder_.graph());
  for (const Value value : values_) {
    if (readers[value.node].empty() && builder_.graph().node(value.node).op != graph::Op::parameter)
      results.push_back(value);
  }
  if (results.empty() || one_in(3)) results.push_back(any());
  while (std::ssize(results) > most) results.erase(results.begin() + below(std::ssize(results)));
  return results;
}

}  // namespace stitch::lab
