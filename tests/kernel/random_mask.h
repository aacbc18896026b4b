#pragma once

#include <cmath>

#include "graph/builder.h"

namespace stitch::kernel::test {

/// Truth values of `dims`, true with a probability of `kept`, as a dropout has them: word p mod 4 of Philox's block p /
/// 4 for each place p, in the order of a dense tensor. `key`: u32[2].
inline graph::Value random_mask(graph::Builder& b, graph::Value key, const graph::Dims& dims, double kept) {
  using graph::DType;
  using graph::Op;
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) count *= extent;
  const graph::Dims line = {count};
  const auto filled = [&](double number) { return b.filled(DType::u32, line, number); };
  const auto word = [&](std::int64_t i) { return b.broadcast(b.reshape(b.slice(key, {i}, {i + 1}), {}), line, {}); };
  const graph::Value place = b.iota(DType::u32, line, 0);
  const graph::Value block = b.binary(Op::shift_right_logical, place, filled(2));
  const graph::Value words = b.add(Op::philox4x32, {word(0), word(1), block, filled(0), filled(0), filled(0)});
  const graph::Value of_block = b.binary(Op::bit_and, place, filled(3));
  graph::Value bits = {words.node, 3};
  for (std::int32_t i = 2; i >= 0; --i)
    bits = b.select(b.compare(graph::Comparison::eq, of_block, filled(i)), {words.node, i}, bits);
  return b.reshape(b.compare(graph::Comparison::lt, bits, filled(std::floor(kept * 4294967296.0))), dims);
}

}  // namespace stitch::kernel::test
