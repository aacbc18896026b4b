// Tensors made of nothing but their types.
#include "import/aten/rules.h"
#include "import/emit.h"

namespace stitch::import::aten {
namespace {

Values spread(Call& c, Value scalar) {
  const Dims& dims = c.result().dims;
  return {dims.empty() ? scalar : c.b.broadcast(scalar, dims, {})};
}

/// start + step · position along the one dimension of the result.
Values progression(Call& c, double start, double step) {
  Builder& b = c.b;
  if (c.result().rank() != 1) return c.unsupported("a progression that is no vector");
  const DType dtype = c.result().dtype;
  if (graph::is_floating(dtype) && graph::byte_size(dtype) < 4) {
    const Value wide = b.iota(DType::f32, c.result().dims, 0);
    return {emit::add(b, emit::mul(b, wide, step), start)};
  }
  return {emit::add(b, emit::mul(b, b.iota(dtype, c.result().dims, 0), step), start)};
}

}  // namespace

Values full(Call& c) { return spread(c, c.operand(c.has("s") ? "s" : "fill_value", c.result().dtype)); }
Values zeros(Call& c) { return spread(c, c.b.scalar(c.result().dtype, 0.0)); }
Values ones(Call& c) { return spread(c, c.b.scalar(c.result().dtype, 1.0)); }
Values arange(Call& c) { return progression(c, c.number("start", 0.0), c.number("step", 1.0)); }
Values iota(Call& c) { return progression(c, c.number("start", 0.0), c.number("step", 1.0)); }

}  // namespace stitch::import::aten
