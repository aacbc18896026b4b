// Losses over class indices. The wanted class is picked by comparing positions, which fuses with the softmax before
// it, where a gather would need the whole tensor in memory first.
#include "import/emit.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

/// Loss from log-probabilities [N, C, d...] and targets [N, d...].
Result<Value> negative_log_likelihood(Call& c, Value log_probability) {
  STITCH_ASSIGN(const std::string reduction, c.node.text("reduction", "mean"));
  STITCH_ASSIGN(const std::int64_t ignored, c.node.integer("ignore_index", 0));
  const bool ignores = c.node.has("ignore_index");
  const Dims dims = c.dims(log_probability);
  const Value target = c.in(1);
  const std::int64_t rank = dims.size();
  const Dims around = other_axes(rank, {1});
  if (c.rank(target) != rank - 1) return Call::wrong("input 1 has another rank than the scores' classes leave");
  if (graph::is_integer(c.dtype(target))) c.note_range(target, 0, dims[1] - 1);
  const Value hot = c.b.compare(Comparison::eq, c.b.iota(c.dtype(target), dims, 1), spread(c.b, target, dims, around));
  const Value zero = like(c.b, log_probability, 0.0);
  Value loss = c.b.unary(Op::negate, c.b.reduce(ReduceKind::sum, c.b.select(hot, log_probability, zero), {1}));
  Value weight;
  if (c.has(2)) {
    const Value weights = spread(c.b, c.b.convert(c.in(2), c.dtype(log_probability)), dims, {1});
    weight = c.b.reduce(ReduceKind::sum, c.b.select(hot, weights, zero), {1});
  }
  if (ignores) {
    const Value counts = compare(c.b, Comparison::ne, target, ignored);
    const Value one = c.has(2) ? weight : like(c.b, loss, 1.0);
    weight = c.b.select(counts, one, like(c.b, loss, 0.0));
    // A row of infinities that does not count must not count.
    loss = c.b.select(counts, loss, like(c.b, loss, 0.0));
  }
  const bool weighted = c.has(2) || ignores;
  if (weighted) loss = mul(c.b, loss, weight);
  if (reduction == "none") return loss;
  const Dims all = first_axes(rank - 1);
  const Value total = c.b.reduce(ReduceKind::sum, loss, all);
  if (reduction == "sum") return total;
  if (reduction != "mean") return Call::wrong("attribute 'reduction' is '{}'", reduction);
  if (weighted) return div(c.b, total, c.b.reduce(ReduceKind::sum, weight, all));
  return div(c.b, total, graph::element_count(c.dims(loss)));
}

}  // namespace

Result<Values> negative_log_likelihood_loss(Call& c) {
  STITCH_TRY(c.need_rank(0, 2));
  STITCH_ASSIGN(const Value loss, negative_log_likelihood(c, widen(c.b, c.in(0))));
  return Values{c.b.convert(loss, c.dtype(c.in(0)))};
}

Result<Values> softmax_cross_entropy_loss(Call& c) {
  STITCH_TRY(c.need_rank(0, 2));
  const Value log_probability = log_softmax_of(c.b, widen(c.b, c.in(0)), 1);
  STITCH_ASSIGN(const Value loss, negative_log_likelihood(c, log_probability));
  const DType dtype = c.dtype(c.in(0));
  return Values{c.b.convert(loss, dtype), c.wants(1) ? c.b.convert(log_probability, dtype) : Value{}};
}

}  // namespace stitch::import::onnx
