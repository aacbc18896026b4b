// Attention and rotary embeddings as operators (opset 23 and later). Scores and probabilities are computed in f32 for
// 16-bit inputs; with fewer key than query heads the queries of a group are rows of one product, so that keys and
// values are never repeated.
#include <algorithm>
#include <cmath>

#include "import/emit.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// batch, heads, length, size of one of the three inputs; 3-D inputs hold the heads side by side.
Result<Value> split_heads(Call& c, std::size_t input, std::int64_t heads) {
  STITCH_TRY(c.need_rank(input, 3, 4));
  const Value x = c.in(input);
  if (c.rank(x) == 4) return x;
  const Dims dims = c.dims(x);
  if (heads < 1 || dims[2] % heads != 0) return Call::wrong("{} heads in {}", heads, graph::to_string(dims));
  return c.b.transpose(c.b.reshape(x, {dims[0], dims[1], heads, dims[2] / heads}), {0, 2, 1, 3});
}

struct Heads {
  Value query, key, value;  ///< batch, heads, length, size
  std::int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, past = 0;
  bool flat = false;  ///< 3-D inputs

  /// batch, key heads, group · queries
  [[nodiscard]] Dims grouped(std::int64_t last) const {
    return {batch, key_heads, heads / std::max<std::int64_t>(key_heads, 1) * queries, last};
  }
};

Result<Heads> read_heads(Call& c) {
  STITCH_ASSIGN(const std::int64_t query_heads, c.node.integer("q_num_heads", 0));
  STITCH_ASSIGN(const std::int64_t key_heads, c.node.integer("kv_num_heads", 0));
  Heads h;
  h.flat = c.rank(c.in(0)) == 3;
  STITCH_ASSIGN(h.query, split_heads(c, 0, query_heads));
  STITCH_ASSIGN(h.key, split_heads(c, 1, key_heads));
  STITCH_ASSIGN(h.value, split_heads(c, 2, key_heads));
  for (const auto& [past, now] : {std::pair{std::size_t{4}, &h.key}, std::pair{std::size_t{5}, &h.value}}) {
    if (!c.has(past)) continue;
    STITCH_TRY(c.need_rank(past, 4, 4));
    h.past = c.dims(c.in(past))[2];
    *now = c.b.concatenate({c.in(past), *now}, 2);
  }
  if (c.b.failed()) return h;
  h.batch = c.dims(h.query)[0];
  h.heads = c.dims(h.query)[1];
  h.queries = c.dims(h.query)[2];
  h.key_heads = c.dims(h.key)[1];
  h.keys = c.dims(h.key)[2];
  if (h.key_heads < 1 || h.heads % h.key_heads != 0 || c.dims(h.value)[1] != h.key_heads) {
    return Call::wrong("{} query heads, {} key heads, {} value heads", h.heads, h.key_heads, c.dims(h.value)[1]);
  }
  return h;
}

/// Query times key, as batch, heads, queries, keys.
Value scores_of(graph::Builder& b, const Heads& h, DType compute) {
  if (b.failed()) return h.query;
  graph::DotAttributes a{{0, 1}, {0, 1}, {3}, {3}, compute};
  const Value scores = b.dot(b.reshape(h.query, h.grouped(b.dims(h.query)[3])), h.key, std::move(a));
  return b.reshape(scores, {h.batch, h.heads, h.queries, h.keys});
}

/// Probabilities times value.
Value weighted_values(graph::Builder& b, const Heads& h, Value probabilities) {
  if (b.failed()) return h.value;
  graph::DotAttributes a{{0, 1}, {0, 1}, {3}, {2}, b.dtype(h.value)};
  const std::int64_t size = b.dims(h.value)[3];
  const Value y = b.dot(b.reshape(probabilities, h.grouped(h.keys)), h.value, std::move(a));
  const Value split = b.reshape(y, {h.batch, h.heads, h.queries, size});
  if (!h.flat) return split;
  return b.reshape(b.transpose(split, {0, 2, 1, 3}), {h.batch, h.queries, h.heads * size});
}

Value masked(graph::Builder& b, Value allowed, Value scores) {
  return select(b, allowed, scores, b.scalar(b.dtype(scores), -INFINITY));
}

struct Masking {
  Value scores;
  bool may_hide_rows = false;  ///< a row may have lost every key
};

/// The bounds that positions give: causal order, a sliding window, keys that are padding.
Result<Masking> mask_positions(Call& c, const Heads& h, Value scores) {
  Masking result{scores, false};
  STITCH_ASSIGN(const std::int64_t causal, c.node.integer("is_causal", 0));
  STITCH_ASSIGN(const std::int64_t left, c.node.integer("left_window_size", -1));
  STITCH_ASSIGN(const std::int64_t right, c.node.integer("right_window_size", -1));
  const Dims plane{c.has(6) ? h.batch : 1, h.queries, h.keys};
  const Value key = c.b.iota(DType::s64, plane, 2);
  // Position of a query among the keys: behind those that were there before.
  Value query = add(c.b, c.b.iota(DType::s64, plane, 1), h.past);
  Value lengths;
  if (c.has(6)) {
    STITCH_TRY(c.need_rank(6, 1, 1));
    lengths = spread(c.b, c.b.convert(c.in(6), DType::s64), plane, {0});
    if (!c.has(4)) query = sub(c.b, c.b.binary(Op::add, c.b.iota(DType::s64, plane, 1), lengths), h.queries);
    result.may_hide_rows = true;
  }
  std::vector<Value> conditions;
  if (causal != 0) conditions.push_back(c.b.compare(Comparison::le, key, query));
  if (left >= 0) conditions.push_back(c.b.compare(Comparison::ge, key, sub(c.b, query, left)));
  if (right >= 0) conditions.push_back(c.b.compare(Comparison::le, key, add(c.b, query, right)));
  if (c.has(6)) conditions.push_back(c.b.compare(Comparison::lt, key, lengths));
  if (conditions.empty()) return result;
  result.may_hide_rows |= left >= 0 || right >= 0;
  Value allowed = conditions[0];
  for (std::size_t i = 1; i < conditions.size(); ++i) allowed = c.b.binary(Op::bit_and, allowed, conditions[i]);
  result.scores = masked(c.b, c.b.reshape(allowed, {plane[0], 1, h.queries, h.keys}), scores);
  return result;
}

/// The mask that is given: what is true stays, or a number to add. A short one hides the keys beyond it.
Result<Value> apply_mask(Call& c, const Heads& h, Value scores) {
  Value mask = c.in(3);
  STITCH_TRY(c.need_rank(3, 1, 4));
  const bool boolean = c.dtype(mask) == DType::pred;
  if (const std::int64_t missing = h.keys - c.dims(mask).back(); missing > 0 && c.dims(mask).back() != 1) {
    Dims low(c.rank(mask), 0), high = low;
    high.back() = missing;
    mask = c.b.pad(mask, c.b.scalar(c.dtype(mask), boolean ? 0.0 : -INFINITY), low, high);
  }
  if (boolean) return masked(c.b, mask, scores);
  return add(c.b, scores, c.b.convert(mask, c.dtype(scores)));
}

/// Softmax over keys; a row without any key gives zeros.
Value probabilities_of(graph::Builder& b, Value scores, bool may_hide_rows) {
  if (!may_hide_rows) return softmax_of(b, scores, 3);
  const Value top = reduce_keep(b, ReduceKind::max, scores, {3});
  const Value hidden = compare(b, Comparison::eq, top, -INFINITY);
  const Value shift = b.select(hidden, like(b, top, 0.0), top);
  const Value powers = exp(b, sub(b, scores, shift));
  const Value total = reduce_keep(b, ReduceKind::sum, powers, {3});
  return div(b, powers, b.select(hidden, like(b, total, 1.0), total));
}

}  // namespace

Result<Values> attention(Call& c) {
  STITCH_ASSIGN(const Heads h, read_heads(c));
  if (c.b.failed()) return Values{};
  const DType dtype = c.dtype(h.query);
  const DType compute = graph::byte_size(dtype) < 4 ? DType::f32 : dtype;
  STITCH_ASSIGN(const double scale, c.node.number("scale", 1.0 / std::sqrt(static_cast<double>(c.dims(h.query)[3]))));
  STITCH_ASSIGN(const double softcap, c.node.number("softcap", 0.0));
  STITCH_ASSIGN(const std::int64_t mode, c.node.integer("qk_matmul_output_mode", 0));
  Value scores = mul(c.b, scores_of(c.b, h, compute), scale);
  Value shown = scores;
  if (softcap > 0) scores = mul(c.b, tanh(c.b, div(c.b, scores, softcap)), softcap);
  if (mode == 1) shown = scores;
  STITCH_ASSIGN(Masking masking, mask_positions(c, h, scores));
  if (c.has(3)) {
    STITCH_ASSIGN(masking.scores, apply_mask(c, h, masking.scores));
    masking.may_hide_rows = true;
  }
  if (mode == 2) shown = masking.scores;
  const Value probabilities = probabilities_of(c.b, masking.scores, masking.may_hide_rows);
  if (mode == 3) shown = probabilities;
  const Value y = weighted_values(c.b, h, c.b.convert(probabilities, c.dtype(h.value)));
  return Values{y, h.key, h.value, c.wants(3) ? c.b.convert(shown, dtype) : Value{}};
}

/// Inputs: x (batch heads length size, or batch length hidden), cosines, sines, positions. With positions the caches
/// are tables of rows, without they are batch length size/2.
Result<Values> rotary_embedding(Call& c) {
  STITCH_TRY(c.need_rank(0, 3, 4));
  STITCH_ASSIGN(const std::int64_t interleaved, c.node.integer("interleaved", 0));
  STITCH_ASSIGN(std::int64_t rotated, c.node.integer("rotary_embedding_dim", 0));
  STITCH_ASSIGN(const std::int64_t heads, c.node.integer("num_heads", 0));
  const Dims given = c.dims(c.in(0));
  const bool flat = given.size() == 3;
  if (flat && (heads < 1 || given[2] % heads != 0)) return Call::wrong("attribute 'num_heads' is {}", heads);
  // Everything in the order batch, length, heads, size.
  const Value x =
      flat ? c.b.reshape(c.in(0), {given[0], given[1], heads, given[2] / heads}) : c.b.transpose(c.in(0), {0, 2, 1, 3});
  const Dims dims = c.dims(x);
  if (rotated == 0) rotated = dims[3];
  if (rotated < 2 || rotated % 2 != 0 || rotated > dims[3]) {
    return Call::wrong("attribute 'rotary_embedding_dim' is {}", rotated);
  }
  const std::int64_t half = rotated / 2;
  const auto cache = [&](std::size_t input) -> Result<Value> {
    Value table = c.in(input);
    if (c.has(3)) {
      STITCH_TRY(c.need_rank(input, 2, 2));
      graph::GatherAttributes a;
      a.collapsed_slice_dims = a.start_index_map = {0};
      a.index_vector_dim = c.rank(c.in(3));
      a.offset_dims = {c.rank(c.in(3))};
      a.slice_sizes = {1, c.dims(table)[1]};
      c.note_range(c.in(3), 0, c.dims(table)[0] - 1);
      table = c.b.add(Op::gather, {table, c.in(3)}, std::move(a));
    }
    return spread(c.b, table, {dims[0], dims[1], dims[2], half}, {0, 1, 3});
  };
  STITCH_ASSIGN(const Value cosine, cache(1));
  STITCH_ASSIGN(const Value sine, cache(2));
  const Value head = slice_axis(c.b, x, 3, 0, rotated);
  const std::int64_t step = interleaved != 0 ? 2 : 1;
  const Value first = slice_axis(c.b, head, 3, 0, interleaved != 0 ? rotated : half, step);
  const Value second = slice_axis(c.b, head, 3, interleaved != 0 ? 1 : half, rotated, step);
  const Value real = sub(c.b, mul(c.b, cosine, first), mul(c.b, sine, second));
  const Value imaginary = add(c.b, mul(c.b, sine, first), mul(c.b, cosine, second));
  Value turned;
  if (interleaved != 0) {
    const Dims pair{dims[0], dims[1], dims[2], half, 1};
    turned = c.b.concatenate({c.b.reshape(real, pair), c.b.reshape(imaginary, pair)}, 4);
    turned = c.b.reshape(turned, {dims[0], dims[1], dims[2], rotated});
  } else {
    turned = c.b.concatenate({real, imaginary}, 3);
  }
  if (rotated < dims[3]) turned = c.b.concatenate({turned, slice_axis(c.b, x, 3, rotated, dims[3])}, 3);
  return Values{flat ? c.b.reshape(turned, given) : c.b.transpose(turned, {0, 2, 1, 3})};
}

}  // namespace stitch::import::onnx
