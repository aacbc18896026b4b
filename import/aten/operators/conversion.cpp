// Copies and conversions. Values here are contiguous whatever strides they have in PyTorch, and never alias.
#include "import/aten/rules.h"

namespace stitch::import::aten {

Values same(Call& c) { return {c.tensor(c.has("a") ? "a" : "self")}; }

Values convert(Call& c) {
  const Value x = c.tensor(c.has("a") ? "a" : "self");
  return {c.b.convert(x, c.result().dtype)};
}

Values copied(Call& c) { return {c.b.broadcast_to(c.operand("src", c.result().dtype), c.result().dims)}; }

}  // namespace stitch::import::aten
