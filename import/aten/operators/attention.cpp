// Attention as PyTorch has it in one call, and its gradient, which makes the weights again from what the call kept.
#include <cmath>

#include "import/aten/rules.h"
#include "import/emit.h"

namespace stitch::import::aten {
namespace {

/// lhs · rhs with two batch dimensions, contracting these of the others' (2 or 3), in f32 for narrower types.
Value heads_product(Call& c, Value lhs, Value rhs, std::int64_t lhs_contracting, std::int64_t rhs_contracting) {
  graph::DotAttributes a;
  a.lhs_batch = a.rhs_batch = {0, 1};
  a.lhs_contracting = {lhs_contracting};
  a.rhs_contracting = {rhs_contracting};
  a.result = c.wide_dtype();
  return c.b.dot(lhs, rhs, std::move(a));
}

/// Queries [B, H, M, D], keys [B, H, N, D], values [B, H, N, E] and what is done to their scores.
struct Heads {
  Value queries, keys, values;
  double scale = 1.0;
  bool may_be_empty = false;  ///< rows of which a mask leaves nothing
};

/// Nothing where the case is not lowered, which the call then says.
std::optional<Heads> heads_of(Call& c) {
  Heads h{c.tensor("query"), c.tensor("key"), c.tensor("value")};
  const Dims &queries = c.b.dims(h.queries), &keys = c.b.dims(h.keys), &values = c.b.dims(h.values);
  if (queries.size() != 4 || keys.size() != 4 || values.size() != 4) {
    c.wrong("query", "a tensor of 4 dimensions, as keys and values are");
  } else if (queries[1] != keys[1] || queries[1] != values[1] || queries[0] != keys[0]) {
    c.unsupported("heads that share keys");
  } else if (c.number("dropout_p", 0.0) != 0.0) {
    c.unsupported("dropout of the weights");
  }
  if (c.b.failed()) return std::nullopt;
  h.scale = c.number("scale", 1.0 / std::sqrt(static_cast<double>(queries[3])));
  h.may_be_empty = c.has("attn_mask");
  return h;
}

/// scale · Q Kᵀ + mask; −∞ where a causal mask hides a key.
Value logits(Call& c, const Heads& h) {
  Builder& b = c.b;
  Value scores = emit::mul(b, heads_product(c, h.queries, h.keys, 3, 3), h.scale);
  if (c.has("attn_mask")) scores = emit::add(b, scores, c.operand("attn_mask", c.wide_dtype()));
  if (!c.flag("is_causal", false)) return scores;
  const Dims dims = b.dims(scores);
  const Value row = b.iota(DType::s32, dims, 2), column = b.iota(DType::s32, dims, 3);
  return emit::select(b, emit::compare(b, graph::Comparison::le, column, row), scores,
                      emit::like(b, scores, -std::numeric_limits<double>::infinity()));
}

/// x, with 0 for NaN where rows may be empty.
Value filled(Call& c, const Heads& h, Value x) {
  return h.may_be_empty ? emit::select(c.b, c.b.unary(Op::is_nan, x), emit::like(c.b, x, 0.0), x) : x;
}

}  // namespace

/// Results: the output; by row, the logarithm of the sum of exponentials.
Values attention(Call& c) {
  Builder& b = c.b;
  const std::optional<Heads> h = heads_of(c);
  if (!h) return {c.tensor("query"), c.tensor("query")};
  const Value of = logits(c, *h);
  const Value greatest = emit::reduce_keep(b, ReduceKind::max, of, {3});
  const Value exponentials = emit::exp(b, emit::sub(b, of, greatest));
  const Value sum = emit::reduce_keep(b, ReduceKind::sum, exponentials, {3});
  const Value weights = filled(c, *h, emit::div(b, exponentials, sum));
  const Value output = heads_product(c, b.convert(weights, b.dtype(h->values)), h->values, 3, 2);
  return {output, b.reshape(emit::add(b, greatest, emit::log(b, sum)), c.result(1).dims)};
}

/// Results: the gradients of queries, keys and values (Dao et al. 2022, algorithm 4: dS = P ∘ (dO Vᵀ − rows(dO ∘ O))).
Values attention_backward(Call& c) {
  Builder& b = c.b;
  const std::optional<Heads> h = heads_of(c);
  const Value gradient = c.tensor("grad_out"), output = c.tensor("out");
  if (!h) return {gradient, gradient, gradient};
  const auto by_row = [&](Value x) {
    Dims dims = b.dims(h->queries);
    dims[3] = 1;
    return b.reshape(x, dims);
  };
  const Value logarithm = by_row(c.operand("logsumexp", c.wide_dtype()));
  const Value weights = filled(c, *h, emit::exp(b, emit::sub(b, logits(c, *h), logarithm)));
  const Value narrow = b.convert(weights, b.dtype(h->values));
  const Value of_weights = heads_product(c, gradient, h->values, 3, 3);
  const Value inner = emit::mul(b, emit::widen(b, gradient), emit::widen(b, output));
  const Value rows = emit::reduce_keep(b, ReduceKind::sum, inner, {3});
  const Value of_scores = emit::mul(b, emit::mul(b, weights, emit::sub(b, of_weights, rows)), h->scale);
  const Value narrow_scores = b.convert(of_scores, b.dtype(h->queries));
  return {heads_product(c, narrow_scores, h->keys, 3, 2), heads_product(c, narrow_scores, h->queries, 2, 2),
          heads_product(c, narrow, gradient, 2, 2)};
}

}  // namespace stitch::import::aten
