// Random bits of an element's place, on the emulated device: neighbours of a vector share a block where their places
// follow one another, and do not where places are looked up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::Value;
using testing::HasSubstr;
using testing::Not;

/// Word p mod 4 of Philox's block p / 4, for each place p.
Value bits_of(Builder& b, Value places, Value key) {
  const Dims dims = b.dims(places);
  const Value wide = b.broadcast(key, dims, {});
  const Value block = b.binary(Op::shift_right_logical, places, b.filled(DType::u32, dims, 2));
  const Value words = b.add(Op::philox4x32, {wide, wide, block, wide, wide, wide});
  const Value word = b.binary(Op::bit_and, places, b.filled(DType::u32, dims, 3));
  Value bits = {words.node, 3};
  for (std::int32_t i = 2; i >= 0; --i)
    bits = b.select(b.compare(graph::Comparison::eq, word, b.filled(DType::u32, dims, i)), {words.node, i}, bits);
  return bits;
}

Bytes key() { return bytes_of(DType::u32, std::vector<double>{0x13198a2e}); }

bool has_vectors(const kernel::KernelProgram& program) {
  const kernel::GroupProgram& group = program.phases[0].groups[0];
  const int axis = group.mapping.vector_axis;
  return axis >= 0 && group.extent(axis, kernel::Level::vector) == 4;
}

TEST(RandomBitsEmulated, OfPlacesThatFollowOneAnotherAreShared) {
  Builder b;
  const Value k = b.parameter(DType::u32, {});
  const Value places = b.iota(DType::u32, {4096}, 0);
  const KernelCase each = make_case(b.finish({bits_of(b, places, k)}), has_vectors);
  EXPECT_THAT(each.kernel.source, HasSubstr(" | v"));
  expect_right(each, {key()});
}

TEST(RandomBitsEmulated, OfPlacesThatAreLookedUpAreEachTheirOwn) {
  constexpr std::int64_t rows = 40, picked = 256;
  Builder b;
  const Value k = b.parameter(DType::u32, {}), at = b.parameter(DType::s32, {picked, 4, 1});
  const Value table = b.reshape(b.iota(DType::u32, {rows * 4}, 0), {rows, 4});
  graph::GatherAttributes by_element;
  by_element.collapsed_slice_dims = {0};
  by_element.start_index_map = {0};
  by_element.operand_batching_dims = {1};
  by_element.start_indices_batching_dims = {1};
  by_element.index_vector_dim = 2;
  by_element.slice_sizes = {1, 1};
  const Value places = b.add(Op::gather, {table, at}, by_element);
  const KernelCase each = make_case(b.finish({bits_of(b, places, k)}), has_vectors);
  EXPECT_THAT(each.kernel.source, Not(HasSubstr(" | v")));
  std::vector<double> chosen(picked * 4);
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = static_cast<double>(i * 7 % rows);
  expect_right(each, {key(), bytes_of(DType::s32, chosen)});
}

}  // namespace
}  // namespace stitch::codegen::test
