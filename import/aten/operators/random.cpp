// Random numbers that depend on a seed in memory and on their place alone, so that forward and backward draw the same.
#include "import/aten/rules.h"
#include "import/emit.h"

namespace stitch::import::aten {
namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 34;  // four to each of 2^32 blocks

/// Bits 32 · word to 32 · word + 31 of element i of a vector of s64, for every element of the result.
Value seed_word(Call& c, Value seed, std::int64_t i, int word, const Dims& dims) {
  Builder& b = c.b;
  Value one = b.reshape(b.slice(seed, {i}, {i + 1}), {});
  if (word == 1) one = b.binary(Op::shift_right_logical, one, b.scalar(DType::s64, 32.0));
  return b.broadcast(b.convert(one, DType::u32), dims, {});
}

}  // namespace

// Philox-4x32 with 10 rounds (Salmon et al., SC'11). Element p, in the order of a dense tensor, is word p mod 4 of
// block p / 4: neighbours share a block, and threads have neighbours.
Values random_bits(Call& c) {
  Builder& b = c.b;
  const Value seed = c.tensor("seed");
  const graph::TensorType& type = c.result();
  if (b.type(seed) != graph::TensorType{DType::s64, {2}}) {
    c.wrong("seed", "two elements of s64");
    return {};
  }
  const std::int64_t count = type.elements();
  if (count > most_elements) return c.unsupported("more random numbers than one seed is for");
  const DType places = count > most_elements / 4 ? DType::s64 : DType::u32;
  const Dims line{count};
  const Value place = b.iota(places, line, 0);
  const Value block = b.binary(Op::shift_right_logical, place, emit::like(b, place, 2.0));
  const Value words = b.add(Op::philox4x32, {seed_word(c, seed, 0, 0, line), seed_word(c, seed, 0, 1, line),
                                             b.convert(block, DType::u32), seed_word(c, seed, 1, 0, line),
                                             seed_word(c, seed, 1, 1, line), b.filled(DType::u32, line, 0.0)});
  const Value word = b.binary(Op::bit_and, place, emit::like(b, place, 3.0));
  Value bits = {words.node, 3};
  for (std::int32_t i = 2; i >= 0; --i) {
    bits = b.select(emit::compare(b, graph::Comparison::eq, word, i), {words.node, i}, bits);
  }
  const Value upper = b.binary(Op::shift_right_logical, bits, emit::like(b, bits, 8.0));
  return {b.reshape(b.convert(upper, DType::s32), type.dims)};
}

}  // namespace stitch::import::aten
