// Sources and shape arithmetic: what a tensor's shape gives, and tensors made from a shape.
#include <algorithm>
#include <cmath>

#include "graph/literal.h"
#include "import/emit.h"
#include "import/onnx/families.h"
#include "import/onnx/tensor.h"

namespace stitch::import::onnx {

using namespace emit;

Result<Values> identity(Call& c) { return Values{c.in(0)}; }

Result<Values> constant_rule(Call& c) {
  if (c.node.has("value")) {
    STITCH_ASSIGN(const pb::TensorProto* tensor, c.node.tensor("value"));
    STITCH_ASSIGN(TensorData data, read_tensor(*tensor));
    if (!data.constant) return Call::unsupported("its data is stored outside the file");
    return Values{c.b.constant(std::move(*data.constant))};
  }
  for (const std::string_view name : {"value_float", "value_floats"}) {
    if (!c.node.has(name)) continue;
    if (name == "value_float") {
      STITCH_ASSIGN(const double value, c.node.number(name, 0.0));
      return Values{c.b.scalar(DType::f32, value)};
    }
    STITCH_ASSIGN(const std::vector<double> list, c.node.numbers(name, {}));
    return Values{numbers(c.b, DType::f32, {static_cast<std::int64_t>(list.size())}, list)};
  }
  if (c.node.has("value_int")) {
    STITCH_ASSIGN(const std::int64_t value, c.node.integer("value_int", 0));
    return Values{integers(c.b, DType::s64, {}, {value})};
  }
  if (c.node.has("value_ints")) {
    STITCH_ASSIGN(const Dims list, c.node.integers("value_ints", {}));
    return Values{integers(c.b, DType::s64, {static_cast<std::int64_t>(list.size())}, list)};
  }
  return Call::unsupported("a constant of another kind than a dense tensor of numbers");
}

Result<Values> shape(Call& c) {
  const Dims& dims = c.dims(c.in(0));
  const std::int64_t rank = dims.size();
  STITCH_ASSIGN(std::int64_t start, c.node.integer("start", 0));
  STITCH_ASSIGN(std::int64_t end, c.node.integer("end", rank));
  start = std::clamp<std::int64_t>(start < 0 ? start + rank : start, 0, rank);
  end = std::clamp<std::int64_t>(end < 0 ? end + rank : end, start, rank);
  const Dims part(dims.begin() + start, dims.begin() + end);
  return Values{integers(c.b, DType::s64, {end - start}, part)};
}

Result<Values> size(Call& c) { return Values{integers(c.b, DType::s64, {}, {graph::element_count(c.dims(c.in(0)))})}; }

Result<Values> constant_of_shape(Call& c) {
  STITCH_ASSIGN(const Dims dims, c.need_integers(0));
  Value fill = c.b.scalar(DType::f32, 0.0);
  if (c.node.has("value")) {
    STITCH_ASSIGN(const pb::TensorProto* tensor, c.node.tensor("value"));
    STITCH_ASSIGN(TensorData data, read_tensor(*tensor));
    if (!data.constant || data.type.elements() != 1) return Call::wrong("attribute 'value' is not one element");
    fill = c.b.reshape(c.b.constant(std::move(*data.constant)), {});
  }
  return Values{dims.empty() ? fill : c.b.broadcast(fill, dims, {})};
}

Result<Values> range(Call& c) {
  STITCH_ASSIGN(const std::vector<double> start, c.need_numbers(0));
  STITCH_ASSIGN(const std::vector<double> limit, c.need_numbers(1));
  STITCH_ASSIGN(const std::vector<double> delta, c.need_numbers(2));
  if (start.size() != 1 || limit.size() != 1 || delta.size() != 1) return Call::wrong("inputs must be scalars");
  const double steps = std::ceil((limit[0] - start[0]) / delta[0]);
  if (!(std::abs(steps) < 1e12)) return Call::wrong("from {} to {} by {}", start[0], limit[0], delta[0]);
  const std::int64_t count = std::max(steps, 0.0);
  const DType dtype = c.dtype(c.in(0));
  const Value index = c.b.iota(dtype, {count}, 0);
  const Value first = c.b.broadcast(c.b.reshape(c.in(0), {}), {count}, {});
  const Value step = c.b.broadcast(c.b.reshape(c.in(2), {}), {count}, {});
  return Values{add(c.b, first, mul(c.b, index, step))};
}

Result<Values> eye_like(Call& c) {
  STITCH_TRY(c.need_rank(0, 2, 2));
  STITCH_ASSIGN(const std::int64_t k, c.node.integer("k", 0));
  DType dtype = c.dtype(c.in(0));
  if (c.node.has("dtype")) {
    STITCH_ASSIGN(const std::int64_t code, c.node.integer("dtype", 0));
    const std::optional<DType> given = dtype_of(code);
    if (!given) return Call::unsupported("element type {}", type_name(code));
    dtype = *given;
  }
  const Dims dims = c.dims(c.in(0));
  const Value row = c.b.iota(DType::s64, dims, 0), column = c.b.iota(DType::s64, dims, 1);
  const Value diagonal = c.b.compare(Comparison::eq, add(c.b, row, k), column);
  return Values{c.b.convert(diagonal, dtype)};
}

}  // namespace stitch::import::onnx
