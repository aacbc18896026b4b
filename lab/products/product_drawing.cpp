#include "lab/products/product_draft.h"

namespace stitch::lab {
namespace {

/// Of which operands, in which type results are, and what f32 may be made of.
struct ProductTypes {
  DType operand = DType::f16, result = DType::f16;
  graph::Constraints constraints;
  [[nodiscard]] std::string text() const {
    const std::string name(graph::to_string(operand));
    switch (constraints.f32_arithmetic()) {
      case graph::F32Arithmetic::f32: return name;
      case graph::F32Arithmetic::tf32: return name + " by TF32";
      case graph::F32Arithmetic::tf32x3: return name + " by 3 TF32";
      case graph::F32Arithmetic::bf16x3: return name + " by 3 bf16";
    }
    return name;
  }
};

ProductTypes draw_product_types(ProductDraft& draft) {
  const auto floating = [&](DType operand) {
    return ProductTypes{operand, draft.one_in(2) ? DType::f32 : draft.half(), {}};
  };
  switch (draft.between(0, 11)) {
    case 0:
    case 1:
    case 2: return {DType::f16, draft.one_in(2) ? DType::f16 : DType::f32, {}};
    case 3:
    case 4:
    case 5: return {DType::bf16, draft.one_in(2) ? DType::bf16 : DType::f32, {}};
    case 6: return {DType::f32, DType::f32, {}};
    case 7: {
      ProductTypes types{DType::f32, DType::f32, {}};
      graph::Constraints& granted = types.constraints;
      *draft.of<bool*>({&granted.tf32, &granted.tf32x3, &granted.bf16x3}) = true;
      return types;
    }
    case 8: return {DType::f64, DType::f64, {}};
    case 9: return {draft.one_in(3) ? DType::u8 : DType::s8, DType::s32, {}};
    case 10: return floating(draft.one_in(3) ? DType::f8e5m2 : DType::f8e4m3);
    default: return draft.one_in(4) ? ProductTypes{DType::s32, DType::s32, {}} : floating(draft.half());
  }
}

struct ProductExtents {
  std::int64_t batch, rows, columns, depth;
};

ProductExtents draw_product_extents(ProductDraft& draft, std::int64_t most = 160) {
  ProductExtents e{draft.one_in(2) ? 1 : draft.between(1, 3), draft.extent(most), draft.extent(most),
                   draft.extent(2 * most)};
  if (draft.one_in(12)) e.depth = 64 * draft.between(8, 16);  // few tiles, deep: splits
  return e;
}

/// [batch, free, depth], or the other way round.
Value product_operand(ProductDraft& draft, DType dtype, std::int64_t batch, std::int64_t free, std::int64_t depth,
                      bool turned) {
  return draft.b.parameter(dtype, turned ? Dims{batch, depth, free} : Dims{batch, free, depth});
}

/// rows × columns: contracted are the last dimensions unless an operand is turned.
Value product_of(ProductDraft& draft, Value left, bool left_turned, Value right, bool right_turned, DType result) {
  return draft.b.dot(left, right, {{0}, {0}, {left_turned ? 1 : 2}, {right_turned ? 1 : 2}, result});
}

/// What follows, by name.
std::vector<Value> with_neighbour(ProductDraft& draft, const std::string& name, Value sum) {
  graph::Builder& b = draft.b;
  const Dims dims = b.dims(sum);
  const DType dtype = b.dtype(sum);
  if (name == "bias") {
    const Value bias = b.broadcast(b.parameter(dtype, {dims[2]}), dims, {2});
    return {b.binary(Op::maximum, b.binary(Op::add, sum, bias), b.filled(dtype, dims, 0))};
  }
  if (name == "activation") return {b.binary(Op::multiply, sum, b.unary(Op::tanh, sum))};
  if (name == "residual") {
    const Value other = b.parameter(dtype, dims);
    return {b.binary(Op::add, b.binary(Op::multiply, sum, b.filled(dtype, dims, 2)), other)};
  }
  if (name == "turned") return {b.transpose(sum, {0, 2, 1})};
  if (name == "scales") {
    const Value wide = b.convert(sum, DType::f32);
    const Value of_row = b.broadcast(b.parameter(DType::f32, {dims[0], dims[1]}), dims, {0, 1});
    const Value of_column = b.broadcast(b.parameter(DType::f32, {dims[2]}), dims, {2});
    return {b.convert(b.binary(Op::multiply, b.binary(Op::multiply, wide, of_row), of_column), DType::bf16)};
  }
  if (name == "several results") {
    return {b.binary(Op::add, sum, b.filled(dtype, dims, 1)), b.binary(Op::multiply, sum, b.filled(dtype, dims, 2))};
  }
  return {sum};
}

}  // namespace

RandomProduct draw_product(ProductDraft& draft, std::int64_t deeper) {
  const ProductTypes types = draw_product_types(draft);
  ProductExtents e = draw_product_extents(draft);
  const bool left_turned = draft.one_in(3), right_turned = draft.one_in(2);
  std::string neighbour =
      draft.of<std::string>({"", "", "bias", "activation", "residual", "turned", "scales", "several results"});
  if (neighbour == "activation" && !graph::is_floating(types.result)) neighbour = "residual";
  if (neighbour == "scales" && types.result == DType::f64) neighbour = "bias";
  e.depth += deeper;
  const Value left = product_operand(draft, types.operand, e.batch, e.rows, e.depth, left_turned);
  const Value right = product_operand(draft, types.operand, e.batch, e.columns, e.depth, right_turned);
  const Value sum = product_of(draft, left, left_turned, right, right_turned, types.result);
  const std::vector<Value> results = with_neighbour(draft, neighbour, sum);
  return finished(draft, results, "product", types.text(), neighbour, types.constraints);
}

RandomProduct draw_normed(ProductDraft& draft) {
  graph::Builder& b = draft.b;
  const DType dtype = draft.one_in(5) ? DType::f32 : draft.half();
  const DType result = draft.one_in(2) ? DType::f32 : draft.half();
  ProductExtents e = draw_product_extents(draft, 128);
  e.columns = std::max<std::int64_t>(1, draft.one_in(3) ? draft.extent(512) : e.columns);
  const bool right_turned = draft.one_in(2);
  const Value left = product_operand(draft, dtype, e.batch, e.rows, e.depth, false);
  const Value right = product_operand(draft, dtype, e.batch, e.columns, e.depth, right_turned);
  Value x = product_of(draft, left, false, right, right_turned, DType::f32);
  const Dims dims = b.dims(x), rows = {dims[0], dims[1]};
  const bool residual = draft.one_in(2), keeps = draft.one_in(3);
  if (residual) x = b.binary(Op::add, x, b.parameter(DType::f32, dims));
  const auto spread = [&](Value row) { return b.broadcast(row, dims, {0, 1}); };
  const auto mean = [&](Value of) {
    const double share = 1.0 / static_cast<double>(dims[2]);
    return b.binary(Op::multiply, b.reduce(graph::ReduceKind::sum, of, {2}), b.filled(DType::f32, rows, share));
  };
  const std::string norm = draft.of<std::string>({"layer norm", "RMS norm", "softmax", "sum of squares"});
  Value made;
  if (norm == "softmax") {
    const Value e_x = b.unary(Op::exp, b.binary(Op::subtract, x, spread(b.reduce(graph::ReduceKind::max, x, {2}))));
    made = b.binary(Op::divide, e_x, spread(b.reduce(graph::ReduceKind::sum, e_x, {2})));
  } else if (norm == "sum of squares") {
    made = b.reduce(graph::ReduceKind::sum, b.binary(Op::multiply, x, x), {2});
  } else {
    const Value from = norm == "layer norm" ? b.binary(Op::subtract, x, spread(mean(x))) : x;
    const Value square = mean(b.binary(Op::multiply, from, from));
    const Value scale = b.unary(Op::rsqrt, b.binary(Op::add, square, b.filled(DType::f32, rows, 0.01)));
    const Value gamma = b.broadcast(b.parameter(DType::f32, {dims[2]}), dims, {2});
    made = b.binary(Op::multiply, b.binary(Op::multiply, from, spread(scale)), gamma);
  }
  std::vector<Value> results = {b.convert(made, result)};
  if (keeps || norm == "sum of squares") results.push_back(b.convert(x, result));
  return finished(draft, results, "normed product", std::string(graph::to_string(dtype)),
                  norm + (residual ? " of a residual" : ""));
}

RandomProduct draw_column_sums(ProductDraft& draft) {
  graph::Builder& b = draft.b;
  const DType dtype = draft.one_in(5) ? DType::f32 : draft.half();
  const DType result = draft.one_in(2) ? DType::f32 : draft.half();
  const ProductExtents e = draw_product_extents(draft);
  const auto group = draft.of<std::int64_t>({16, 32, 64});
  const std::int64_t rows = group * draft.between(1, 192 / group), columns = std::max<std::int64_t>(1, e.columns);
  const bool left_turned = draft.one_in(3), right_turned = draft.one_in(2);
  const Value left = product_operand(draft, dtype, e.batch, rows, e.depth, left_turned);
  const Value right = product_operand(draft, dtype, e.batch, columns, e.depth, right_turned);
  const Value x = product_of(draft, left, left_turned, right, right_turned, DType::f32);
  const auto neighbour = draft.of<std::string>({"", "bias", "activation", "residual"});
  const Value stored = b.convert(with_neighbour(draft, neighbour, x).front(), result);
  const auto sum_of = [&](Value of) {
    return b.reduce(graph::ReduceKind::sum, b.reshape(of, {e.batch * rows / group, group, columns}), {1});
  };
  const Value wide = b.convert(stored, DType::f32);
  std::vector<Value> results = {stored, sum_of(wide)};
  const auto second = draft.of<std::string>({"", "squares", "by another"});
  if (second == "squares") results.push_back(sum_of(b.binary(Op::multiply, wide, wide)));
  if (second == "by another")
    results.push_back(sum_of(b.binary(Op::multiply, wide, b.parameter(DType::f32, b.dims(wide)))));
  return finished(draft, results, "sums of columns", std::string(graph::to_string(dtype)),
                  fmt::format("{}groups of {}", neighbour.empty() ? "" : neighbour + ", ", group));
}

RandomProduct draw_gates(ProductDraft& draft) {
  graph::Builder& b = draft.b;
  const DType dtype = draft.one_in(4) ? DType::f32 : draft.half();
  const ProductExtents e = draw_product_extents(draft, 96);
  const std::int64_t units = 8 * draft.between(1, 12);
  const std::string form = draft.of<std::string>({"slices", "split", "apart"});
  const int gates = form == "apart" ? 2 : draft.of<int>({2, 4});
  const bool turned = draft.one_in(2);
  const Value x = product_operand(draft, dtype, e.batch, e.rows, e.depth, false);
  const auto multiplied = [&](std::int64_t columns) {
    return product_of(draft, x, false, product_operand(draft, dtype, e.batch, columns, e.depth, turned), turned,
                      DType::f32);
  };
  std::vector<Value> each;
  if (form == "apart") {
    each = {multiplied(units), multiplied(units)};
  } else {
    Value all = multiplied(units * gates);
    if (form == "split") all = b.reshape(all, {e.batch, e.rows, gates, units});
    for (int gate = 0; gate < gates; ++gate) {
      if (form == "split") {
        const Value one = b.slice(all, {0, 0, gate, 0}, {e.batch, e.rows, gate + 1, units});
        each.push_back(b.reshape(one, {e.batch, e.rows, units}));
      } else {
        each.push_back(b.slice(all, {0, 0, gate * units}, {e.batch, e.rows, (gate + 1) * units}));
      }
    }
  }
  Value unit = b.binary(Op::multiply, b.unary(Op::tanh, each[0]), each[1]);
  for (std::size_t i = 2; i < each.size(); ++i) unit = b.binary(Op::add, unit, b.unary(Op::logistic, each[i]));
  return finished(draft, {b.convert(unit, dtype)}, "gates", std::string(graph::to_string(dtype)),
                  fmt::format("{} gates, {}", gates, form));
}

RandomProduct draw_merged(ProductDraft& draft) {
  const DType dtype = draft.one_in(5) ? DType::f32 : draft.half();
  const ProductExtents e = draw_product_extents(draft, 128);
  const bool shared_turned = draft.one_in(4);
  const Value shared = product_operand(draft, dtype, e.batch, e.rows, e.depth, shared_turned);
  const auto count = draft.between(2, 4);
  const bool turned = draft.one_in(2);
  std::vector<Value> results;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t columns = std::max<std::int64_t>(1, draft.extent(128));
    const Value own = product_operand(draft, dtype, e.batch, columns, e.depth, turned);
    const Value sum = product_of(draft, shared, shared_turned, own, turned, draft.one_in(3) ? DType::f32 : dtype);
    const std::string neighbour = draft.of<std::string>({"", "bias", "activation", "turned"});
    results.push_back(with_neighbour(draft, neighbour, sum).front());
  }
  return finished(draft, results, "merged products", std::string(graph::to_string(dtype)),
                  fmt::format("{} of one operand", count));
}

}  // namespace stitch::lab
