#include "graph/builder.h"

#include <algorithm>
#include <numeric>

#include "graph/literal.h"

namespace stitch::graph {
namespace {

const TensorType scalar_type{};

}  // namespace

Value Builder::add(Op op, std::vector<Value> operands, Attributes attributes,
                   std::vector<std::shared_ptr<const Graph>> regions) {
  if (error_) return {};
  Result<Value> value = graph_.add(op, std::move(operands), std::move(attributes), name_, line_, std::move(regions));
  if (!value) {
    error_ = value.error();
    return {};
  }
  return *value;
}

void Builder::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

const TensorType& Builder::type(Value value) const {
  if (value.node < 0 || value.node >= graph_.size()) return scalar_type;
  return graph_.type(value);
}

Value Builder::parameter(DType dtype, Dims dims, std::string parameter_name) {
  if (error_) return {};
  Result<Value> value =
      graph_.add(Op::parameter, {}, ParameterAttributes{{dtype, std::move(dims)}}, std::move(parameter_name), line_);
  if (!value) {
    error_ = value.error();
    return {};
  }
  return *value;
}

Value Builder::scalar(DType dtype, double value) { return constant(splat({dtype, {}}, value)); }

Value Builder::filled(DType dtype, Dims dims, double value) {
  const Value one = scalar(dtype, value);
  return dims.empty() ? one : broadcast(one, std::move(dims), {});
}

Value Builder::iota(DType dtype, Dims dims, std::int64_t dimension) {
  return add(Op::iota, {}, IotaAttributes{{dtype, std::move(dims)}, dimension});
}

Value Builder::convert(Value x, DType dtype) {
  return this->dtype(x) == dtype ? x : add(Op::convert, {x}, ConvertAttributes{dtype});
}

Value Builder::bitcast(Value x, DType dtype) { return add(Op::bitcast_convert, {x}, ConvertAttributes{dtype}); }

Value Builder::broadcast(Value x, Dims dims, Dims mapping) {
  return add(Op::broadcast, {x}, BroadcastAttributes{std::move(dims), std::move(mapping)});
}

Value Builder::reshape(Value x, Dims dims) {
  return this->dims(x) == dims ? x : add(Op::reshape, {x}, ReshapeAttributes{std::move(dims)});
}

Value Builder::transpose(Value x, Dims permutation) {
  return add(Op::transpose, {x}, TransposeAttributes{std::move(permutation)});
}

Value Builder::slice(Value x, Dims starts, Dims limits, Dims strides) {
  if (strides.empty()) strides.assign(starts.size(), 1);
  return add(Op::slice, {x}, SliceAttributes{std::move(starts), std::move(limits), std::move(strides)});
}

Value Builder::concatenate(std::vector<Value> parts, std::int64_t dimension) {
  return parts.size() == 1 ? parts[0] : add(Op::concatenate, std::move(parts), ConcatenateAttributes{dimension});
}

Value Builder::pad(Value x, Value fill, Dims low, Dims high, Dims interior) {
  if (interior.empty()) interior.assign(low.size(), 0);
  return add(Op::pad, {x, fill}, PadAttributes{std::move(low), std::move(high), std::move(interior)});
}

Value Builder::reverse(Value x, Dims dimensions) {
  return add(Op::reverse, {x}, ReverseAttributes{std::move(dimensions)});
}

Value Builder::reduce(ReduceKind kind, Value x, Dims dimensions) {
  std::sort(dimensions.begin(), dimensions.end());
  return add(Op::reduce, {x}, ReduceAttributes{kind, std::move(dimensions)});
}

Value Builder::dot(Value lhs, Value rhs, DotAttributes attributes) {
  return add(Op::dot, {lhs, rhs}, std::move(attributes));
}

Value Builder::broadcast_to(Value x, const Dims& target) {
  if (error_ || dims(x) == target) return x;
  const Dims from = dims(x);
  if (from.size() > target.size()) {
    fail(make_error(ErrorKind::invalid_argument, "'{}': cannot broadcast {} to {}", name_, to_string(from),
                    to_string(target)));
    return {};
  }
  const std::size_t shift = target.size() - from.size();
  Dims kept, mapping;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d] == 1 && target[d + shift] != 1) continue;
    kept.push_back(from[d]);
    mapping.push_back(d + shift);
  }
  return broadcast(reshape(x, kept), target, mapping);
}

Value Builder::broadcast_binary(Op op, Value x, Value y) {
  if (error_) return {};
  Result<Dims> shape = broadcast_shape(dims(x), dims(y));
  if (!shape) {
    fail(shape.error().within(fmt::format("'{}'", name_)));
    return {};
  }
  const Value left = broadcast_to(x, *shape);
  const Value right = broadcast_to(y, *shape);
  return binary(op, left, right);
}

Result<Graph> Builder::finish(std::vector<Value> results) {
  if (error_) return *error_;
  graph_.set_results(std::move(results));
  return std::move(graph_);
}

Result<Dims> broadcast_shape(const Dims& a, const Dims& b) {
  Dims shape(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      return make_error(ErrorKind::invalid_argument, "shapes {} and {} do not broadcast", to_string(a), to_string(b));
    }
    shape[shape.size() - 1 - i] = x == 1 ? y : x;
  }
  return shape;
}

}  // namespace stitch::graph
