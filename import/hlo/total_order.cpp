#include "import/hlo/total_order.h"

#include <array>
#include <cstdint>

#include "graph/literal.h"

namespace stitch::import::hlo {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::Value;

Value total_order_key(Builder& builder, Value x, DType bits) {
  const Value word = builder.bitcast(x, bits);
  const graph::Dims dims = builder.dims(word);
  const Value zero = builder.filled(bits, dims, 0);
  // The highest integer as integers: as a double, 2^63 - 1 would be rounded.
  const std::int64_t highest = ~std::uint64_t{0} >> (65 - graph::byte_size(bits) * 8);
  Value mask = builder.constant(graph::dense_integers({bits, {}}, std::array{highest}));
  if (!dims.empty()) mask = builder.broadcast(mask, dims, {});
  const Value flipped = builder.binary(Op::bit_xor, word, mask);
  return builder.select(builder.compare(graph::Comparison::lt, word, zero), flipped, word);
}

std::optional<DType> signed_of_size(int bytes) {
  switch (bytes) {
    case 1: return DType::s8;
    case 2: return DType::s16;
    case 4: return DType::s32;
    case 8: return DType::s64;
    default: return std::nullopt;
  }
}

}  // namespace stitch::import::hlo
