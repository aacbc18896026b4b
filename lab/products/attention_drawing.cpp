#include <cmath>
#include <limits>

#include "lab/products/product_draft.h"

namespace stitch::lab {
namespace {

/// An attention of [batch, heads, rows, depth], heads of which share keys and values, and its parts.
class AttentionDrawing {
 public:
  explicit AttentionDrawing(ProductDraft& draft)
      : draft_(draft),
        b_(draft.b),
        dtype_(draft.one_in(6) ? DType::f32 : draft.half()),
        group_(draft.one_in(3) ? 2 : 1),
        batch_(draft.between(1, 2)),
        heads_(group_ * draft.between(1, 2)),
        rows_(draft.one_in(6) ? draft.between(1, 4) : std::max<std::int64_t>(1, draft.extent(128))),
        keys_(std::max<std::int64_t>(1, draft.extent(160))),
        depth_(draft.of<std::int64_t>({16, 32, 64, 64, 64, 80, 96, 128, 40, 24})),
        mask_(draft.of<std::string>(
            {"", "causal", "causal", "window", "bias", "mask of keys", "lengths", "causal lengths", "segments"})),
        drops_(draft.one_in(4)) {}

  RandomProduct attention() {
    const std::int64_t width = draft_.one_in(5) ? 16 * draft_.between(1, 6) : depth_;
    const Value queries = operand(rows_, depth_, 1), keys = operand(keys_, depth_, group_);
    const Value values = operand(keys_, width, group_);
    const Value logits = masked(scaled(b_.dot(queries, keys, {{0, 1}, {0, 1}, {3}, {3}, dtype_})));
    const Value greatest = b_.reduce(graph::ReduceKind::max, logits, {3});
    const Value exponentials = b_.unary(Op::exp, b_.binary(Op::subtract, logits, repeated(greatest)));
    const Value sum = b_.reduce(graph::ReduceKind::sum, exponentials, {3});
    const Value weights = b_.convert(dropped(b_.binary(Op::divide, exponentials, repeated(sum))), dtype_);
    Value result = b_.dot(weights, values, {{0, 1}, {0, 1}, {3}, {2}, dtype_});
    // Heads beside one another, as the next product takes them.
    if (draft_.one_in(3)) result = b_.transpose(result, {0, 2, 1, 3});
    std::vector<Value> results = {result};
    if (draft_.one_in(4)) results.insert(results.end(), {greatest, sum});
    return finished(draft_, results, "attention", name(), neighbour());
  }

  /// Of queries, or of keys and values, scores computed again (Dao et al. 2022, Algorithm 4).
  RandomProduct gradients() {
    group_ = 1;
    if (mask_ == "mask of keys") mask_ = "causal";
    const bool of_keys = draft_.one_in(2);
    const Value queries = operand(rows_, depth_, 1), keys = operand(keys_, depth_, 1);
    const Value values = operand(keys_, depth_, 1), gradient = operand(rows_, depth_, 1);
    const auto of_row = [&] { return b_.parameter(DType::f32, {batch_, heads_, rows_}); };
    const Value greatest = of_row(), inverse = of_row(), relative = of_row();
    const Value logits = masked(scaled(b_.dot(queries, keys, {{0, 1}, {0, 1}, {3}, {3}, dtype_})));
    const Value weights = b_.binary(
        Op::multiply, b_.unary(Op::exp, b_.binary(Op::subtract, logits, repeated(greatest))), repeated(inverse));
    const Value left = dropped(weights);
    Value slopes = dropped(b_.convert(b_.dot(gradient, values, {{0, 1}, {0, 1}, {3}, {3}, dtype_}), DType::f32));
    slopes = scaled(b_.binary(Op::multiply, weights, b_.binary(Op::subtract, slopes, repeated(relative))));
    slopes = b_.convert(slopes, dtype_);
    std::vector<Value> results = {b_.dot(slopes, keys, {{0, 1}, {0, 1}, {3}, {2}, dtype_})};
    if (of_keys) {
      results = {b_.dot(slopes, queries, {{0, 1}, {0, 1}, {2}, {2}, dtype_}),
                 b_.dot(b_.convert(left, dtype_), gradient, {{0, 1}, {0, 1}, {2}, {2}, dtype_})};
    }
    return finished(draft_, results, "attention's gradients", name(),
                    (of_keys ? "of keys and values" : "of queries") + (mask_.empty() ? "" : ", " + mask_) +
                        (drops_ ? ", dropout" : ""));
  }

 private:
  [[nodiscard]] Dims scores() const { return {batch_, heads_, rows_, keys_}; }
  [[nodiscard]] std::string name() const { return std::string(graph::to_string(dtype_)); }
  [[nodiscard]] std::string neighbour() const {
    std::string all = mask_;
    const auto add = [&](bool has, std::string_view name) {
      if (has) all += fmt::format("{}{}", all.empty() ? "" : ", ", name);
    };
    add(group_ > 1, "grouped heads");
    add(drops_, "dropout");
    return all;
  }
  Value repeated(Value of_rows) { return b_.broadcast(of_rows, scores(), {0, 1, 2}); }

  Value operand(std::int64_t rows, std::int64_t columns, std::int64_t group) {
    const std::int64_t own = heads_ / group;
    const bool inside = draft_.one_in(3);
    Value value = b_.parameter(dtype_, inside ? Dims{batch_, rows, own, columns} : Dims{batch_, own, rows, columns});
    if (inside) value = b_.transpose(value, {0, 2, 1, 3});
    if (group == 1) return value;
    const Value wide = b_.broadcast(value, {batch_, own, group, rows, columns}, {0, 1, 3, 4});
    return b_.reshape(wide, {batch_, heads_, rows, columns});
  }

  Value scaled(Value scores_of) {
    const double scale = 1 / std::sqrt(static_cast<double>(depth_));
    return b_.binary(Op::multiply, b_.convert(scores_of, DType::f32), b_.filled(DType::f32, scores(), scale));
  }

  /// Every fourth weight, by bits of philox for its place and a key.
  Value dropped(Value weights) {
    constexpr double kept = 0.75;
    if (!drops_) return weights;
    if (drawn_.node < 0) {
      const Dims line = {batch_ * heads_ * rows_ * keys_};
      const auto filled = [&](double number) { return b_.filled(DType::u32, line, number); };
      const Value key = b_.broadcast(b_.parameter(DType::u32, {}), line, {}), place = b_.iota(DType::u32, line, 0);
      const Value block = b_.binary(Op::shift_right_logical, place, filled(2));
      const Value words = b_.add(Op::philox4x32, {key, filled(0), block, filled(0), filled(0), filled(0)});
      Value bits = {words.node, 3};
      for (std::int32_t i = 2; i >= 0; --i) {
        const Value is_own = b_.compare(graph::Comparison::eq, b_.binary(Op::bit_and, place, filled(3)), filled(i));
        bits = b_.select(is_own, {words.node, i}, bits);
      }
      drawn_ = b_.reshape(b_.compare(graph::Comparison::lt, bits, filled(std::floor(kept * 4294967296.0))), scores());
    }
    const Value grown = b_.binary(Op::multiply, weights, b_.filled(DType::f32, scores(), 1 / kept));
    return b_.select(drawn_, grown, b_.filled(DType::f32, scores(), 0));
  }

  /// By numbers of batches, or of their rows and keys.
  Value shown_by_numbers(Value logits, const Value& hidden) {
    const auto numbers = [&](std::int64_t count, std::int64_t along) {
      const Dims dims = along < 0 ? Dims{batch_} : Dims{batch_, count};
      return b_.broadcast(b_.parameter(DType::s32, dims), scores(), along < 0 ? Dims{0} : Dims{0, along});
    };
    const Value key = b_.iota(DType::s32, scores(), 3);
    if (mask_ == "segments")
      return b_.select(b_.compare(graph::Comparison::eq, numbers(rows_, 2), numbers(keys_, 3)), logits, hidden);
    Value seen = b_.compare(graph::Comparison::lt, key, numbers(1, -1));
    if (mask_ == "causal lengths")
      seen = b_.binary(Op::bit_and, seen, b_.compare(graph::Comparison::ge, b_.iota(DType::s32, scores(), 2), key));
    return b_.select(seen, logits, hidden);
  }

  Value masked(Value logits) {
    if (mask_.empty()) return logits;
    const Dims plane = {rows_, keys_};
    if (mask_ == "bias")
      return b_.binary(Op::add, logits, b_.broadcast(b_.parameter(DType::f32, plane), scores(), {2, 3}));
    const Value hidden = b_.filled(DType::f32, scores(), -1e9);
    if (mask_ == "mask of keys") {
      const Value mask = b_.broadcast(b_.parameter(DType::pred, {batch_, keys_}), scores(), {0, 3});
      return b_.select(mask, logits, hidden);
    }
    if (mask_ == "segments" || mask_.ends_with("lengths")) return shown_by_numbers(logits, hidden);
    // The last row sees the last key.
    const Value row =
        b_.binary(Op::add, b_.iota(DType::s32, plane, 0),
                  b_.filled(DType::s32, plane, static_cast<double>(std::max<std::int64_t>(0, keys_ - rows_))));
    const Value key = b_.iota(DType::s32, plane, 1);
    Value seen = b_.compare(graph::Comparison::ge, row, key);
    if (mask_ == "window") {
      const Value near = b_.compare(graph::Comparison::lt, b_.binary(Op::subtract, row, key),
                                    b_.filled(DType::s32, plane, static_cast<double>(draft_.between(1, 64))));
      seen = b_.binary(Op::bit_and, seen, near);
    }
    return b_.select(b_.broadcast(seen, scores(), {2, 3}), logits, hidden);
  }

  ProductDraft& draft_;
  graph::Builder& b_;
  DType dtype_;
  std::int64_t group_, batch_, heads_, rows_, keys_, depth_;
  std::string mask_;
  bool drops_;
  Value drawn_ = {-1, 0};  ///< a dropout's mask
};

}  // namespace

RandomProduct draw_attention(ProductDraft& draft) { return AttentionDrawing(draft).attention(); }

RandomProduct draw_gradients(ProductDraft& draft) { return AttentionDrawing(draft).gradients(); }

RandomProduct draw_chain(ProductDraft& draft) {
  graph::Builder& b = draft.b;
  const DType dtype = draft.half();
  const std::int64_t batch = draft.between(1, 2), rows = std::max<std::int64_t>(1, draft.extent(128));
  const std::int64_t hidden = std::max<std::int64_t>(1, draft.extent(256));
  const std::int64_t depth = 16 * draft.between(1, 8), width = 16 * draft.between(1, 8);
  const Value x = b.parameter(dtype, {batch, rows, depth}), first = b.parameter(dtype, {batch, hidden, depth});
  const Value second = b.parameter(dtype, {batch, hidden, width});
  const Value made = b.convert(b.dot(x, first, {{0}, {0}, {2}, {2}, dtype}), DType::f32);
  const Value active = b.convert(b.binary(Op::multiply, made, b.unary(Op::logistic, made)), dtype);
  return finished(draft, {b.dot(active, second, {{0}, {0}, {2}, {1}, dtype})}, "chain of products",
                  std::string(graph::to_string(dtype)), "activation");
}

}  // namespace stitch::lab
