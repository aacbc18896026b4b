#include "lab/products/grouped_matmul.h"
#include "lab/products/product_draft.h"
#include "lab/products/scaled_matmul.h"

namespace stitch::lab {
namespace {

/// Of a side of a product: its free and its contracted dimension among [batch, free, depth] or, turned, [batch, depth,
/// free].
struct Side {
  std::int64_t batch, free, depth;
  bool turned;
  [[nodiscard]] Dims dims() const { return turned ? Dims{batch, depth, free} : Dims{batch, free, depth}; }
  [[nodiscard]] std::int64_t free_axis() const { return turned ? 2 : 1; }
  [[nodiscard]] std::int64_t depth_axis() const { return turned ? 1 : 2; }
};

const std::vector<std::string>& ways_to_compute() {
  static const std::vector<std::string> all = {"converted", "activation", "scales of depth", "norm", "mask", "bytes"};
  return all;
}

/// An operand of type `dtype` that is computed so from what is in memory.
Value computed_side(ProductDraft& draft, const std::string& way, DType dtype, const Side& side) {
  graph::Builder& b = draft.b;
  const Dims dims = side.dims();
  const DType stored = way == "bytes" ? DType::s8 : way == "converted" && dtype != DType::f32 ? DType::f32 : dtype;
  const Value x = b.parameter(stored, dims);
  if (way == "mask") return b.select(b.parameter(DType::pred, dims), x, b.filled(dtype, dims, 0));
  const auto along_depth = [&] {
    return b.broadcast(b.parameter(DType::f32, {side.depth}), dims, {side.depth_axis()});
  };
  const auto along_free = [&] {
    return b.broadcast(b.parameter(DType::f32, {side.batch, side.free}), dims, {0, side.free_axis()});
  };
  Value y = b.convert(x, DType::f32);
  if (way == "converted" && stored == dtype) y = b.binary(Op::add, y, b.filled(DType::f32, dims, 1));
  if (way == "activation") y = b.binary(Op::multiply, y, b.unary(Op::logistic, y));
  if (way == "scales of depth") y = b.binary(Op::multiply, y, along_depth());
  if (way == "bytes") y = b.binary(Op::multiply, y, along_free());
  if (way == "norm") {
    y = b.binary(Op::multiply, b.binary(Op::subtract, y, along_free()), along_free());
    y = b.binary(Op::multiply, y, along_depth());
  }
  return b.convert(y, dtype);
}

Value with_bias(ProductDraft& draft, Value sum, bool has_bias) {
  if (!has_bias) return sum;
  graph::Builder& b = draft.b;
  const Dims dims = b.dims(sum);
  return b.binary(Op::add, sum, b.broadcast(b.parameter(b.dtype(sum), {dims[2]}), dims, {2}));
}

}  // namespace

RandomProduct draw_computed(ProductDraft& draft) {
  const DType dtype = draft.one_in(5) ? DType::f32 : draft.half();
  const std::int64_t batch = draft.one_in(3) ? 2 : 1, depth = draft.extent(320);
  const Side left{batch, draft.extent(128), depth, draft.one_in(3)};
  const Side right{batch, draft.extent(128), depth, draft.one_in(2)};
  const std::string way = draft.of<std::string>(ways_to_compute());
  const std::string side = draft.of<std::string>({"left", "left", "right", "both"});
  const auto operand = [&](const Side& each, bool computed) {
    return computed ? computed_side(draft, way, dtype, each) : draft.b.parameter(dtype, each.dims());
  };
  const Value x = operand(left, side != "right"), w = operand(right, side != "left");
  const Value sum = draft.b.dot(x, w, {{0}, {0}, {left.depth_axis()}, {right.depth_axis()}, DType::f32});
  return finished(draft, {with_bias(draft, sum, draft.one_in(2))}, "computing product",
                  std::string(graph::to_string(dtype)), fmt::format("{}, {}", way, side));
}

RandomProduct draw_scaled(ProductDraft& draft) {
  ScaledMatmul m;
  m.batch = draft.one_in(4) ? 2 : 1;
  m.rows = draft.extent(160);
  m.columns = draft.extent(160);
  m.part = draft.of<std::int64_t>({32, 64, 128, 128, 128});
  m.by_parts = draft.one_in(2);
  m.depth = draft.one_in(3) && !m.by_parts ? draft.between(m.part + 1, 4 * m.part) : m.part * draft.between(2, 6);
  m.column_block = draft.of<std::int64_t>({1, 32, 128, 128});
  m.left = draft.one_in(4) ? DType::s8 : draft.one_in(5) ? DType::f8e5m2 : DType::f8e4m3;
  m.right = m.left == DType::s8 ? DType::s8 : DType::f8e4m3;
  m.scaled = !m.by_parts && draft.one_in(4) ? DType::bf16 : DType::f32;
  m.right_turned = draft.one_in(3);
  m.result = draft.one_in(2) ? DType::f32 : DType::bf16;
  m.epilogue = draft.of<std::string>({"", "", "bias"});
  return finished(
      draft, results_of(draft.b, m), "scaled product", std::string(graph::to_string(m.left)),
      fmt::format("{} of {}{}", m.by_parts ? "parts" : "operands", m.part, m.epilogue.empty() ? "" : ", bias"));
}

RandomProduct draw_summed(ProductDraft& draft) {
  const DType dtype = draft.one_in(5) ? DType::f32 : draft.half();
  const std::int64_t batch = draft.one_in(3) ? 2 : 1, rows = draft.extent(128), columns = draft.extent(128);
  const std::int64_t count = draft.between(2, 4);
  const bool left_turned = draft.one_in(3), right_turned = draft.one_in(2), same = draft.one_in(2);
  const DType result = draft.one_in(2) ? DType::f32 : dtype;
  std::int64_t depth = draft.extent(160);
  Value sum;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0 && !same) depth = draft.one_in(2) ? draft.extent(160) : 16 * draft.between(1, 10);
    const Side left{batch, rows, depth, left_turned}, right{batch, columns, depth, right_turned};
    const Value product = draft.b.dot(draft.b.parameter(dtype, left.dims()), draft.b.parameter(dtype, right.dims()),
                                      {{0}, {0}, {left.depth_axis()}, {right.depth_axis()}, result});
    sum = i == 0 ? product : draft.b.binary(Op::add, sum, product);
  }
  return finished(draft, {with_bias(draft, sum, draft.one_in(2))}, "summed products",
                  std::string(graph::to_string(dtype)), fmt::format("{} products", count));
}

RandomProduct draw_grouped(ProductDraft& draft) {
  GroupedMatmul m;
  m.dtype = draft.one_in(5) ? DType::f32 : draft.half();
  m.rows = draft.between(2, 160);
  m.depth = draft.one_in(2) ? 16 * draft.between(1, 8) : draft.between(1, 128);
  m.columns = draft.extent(128);
  m.groups = draft.between(1, 5);
  m.gradient = draft.one_in(3);
  m.batched = m.gradient && draft.one_in(2);
  m.gathered = !m.batched && draft.one_in(3);
  m.scaled = !m.gradient && draft.one_in(3);
  std::string neighbour = m.gradient ? "gradient of matrices" : m.scaled ? "numbers of rows" : "";
  if (m.gathered) neighbour += neighbour.empty() ? "gathered rows" : ", gathered rows";
  return finished(draft, results_of(draft.b, m), "grouped product", std::string(graph::to_string(m.dtype)), neighbour);
}

}  // namespace stitch::lab
