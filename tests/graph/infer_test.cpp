#include "graph/infer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "graph/literal.h"

namespace stitch::graph {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 40;  // elements of a tensor

TensorType type(std::string_view text) { return *parse_tensor_type(text); }

std::vector<TensorType> types(std::string_view list) {
  std::vector<TensorType> result;
  while (!list.empty()) {
    const std::size_t space = list.find(' ');
    result.push_back(type(list.substr(0, space)));
    list = space == std::string_view::npos ? "" : list.substr(space + 1);
  }
  return result;
}

/// One rule: operands as "f32[4] f32[4]"; `expected` is the result types, or with "!" in front part of the error.
struct Case {
  Op op;
  std::string operands;
  Attributes attributes;
  std::string expected;
};

void PrintTo(const Case& c, std::ostream* out) { *out << to_string(c.op) << " " << c.operands << " -> " << c.expected; }

class Infer : public ::testing::TestWithParam<Case> {};

TEST_P(Infer, Rule) {
  const Case& c = GetParam();
  const Result<std::vector<TensorType>> result = infer(c.op, types(c.operands), c.attributes);
  if (c.expected.starts_with("!")) {
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(result.error().message, ::testing::HasSubstr(c.expected.substr(1)));
    EXPECT_EQ(result.error().kind, ErrorKind::invalid_argument);
  } else {
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(*result, types(c.expected));
  }
}

/// Whatever the operator, also of one that is yet to come: its row says which types it takes.
TEST(InferElementwise, TakesWhatTheDomainOfTheRowSays) {
  for (const DTypeInfo& type : dtype_table()) {
    const DType dtype = type.dtype;
    for (const OpInfo& row : op_table()) {
      if (!is_elementwise(row.op) || row.op == Op::select || makes_random_bits(row.op)) continue;
      const std::vector<TensorType> operands(row.min_operands, TensorType{dtype, {3}});
      const Result<std::vector<TensorType>> result = infer(row.op, operands, default_attributes(row.op));
      if (row.op != Op::bitcast_convert) {
        EXPECT_EQ(result.ok(), takes(row.domain, dtype)) << row.name << " of " << to_string(dtype);
      }
      if (result.ok()) {
        EXPECT_EQ(result->front().dims, Dims{3}) << row.name;
      }
    }
  }
}

const NoAttributes none;
using R = ReduceKind;

INSTANTIATE_TEST_SUITE_P(
    Elementwise, Infer,
    ::testing::Values(
        Case{Op::add, "f32[4,8] f32[4,8]", none, "f32[4,8]"}, Case{Op::exp, "bf16[]", none, "bf16[]"},
        Case{Op::add, "f32[4] f32[8]", none, "!operand 1 has shape f32[8], operand 0 has f32[4]"},
        Case{Op::add, "f32[4] f16[4]", none, "!operand 1 is f16, operand 0 is f32"},
        Case{Op::add, "pred[4] pred[4]", none, "!operand 0 is pred, which add does not take"},
        Case{Op::exp, "s32[4]", none, "!operand 0 is s32, which exp does not take"},
        Case{Op::bit_and, "pred[2] pred[2]", none, "pred[2]"},
        Case{Op::bit_and, "f32[2] f32[2]", none, "!operand 0 is f32, which and does not take"},
        Case{Op::shift_left, "pred[2] pred[2]", none, "!which shift-left does not take"},
        Case{Op::maximum, "pred[2] pred[2]", none, "pred[2]"},
        Case{Op::add, "f32[4]", none, "!takes 2 operands, 1 are given"},
        Case{Op::exp, "f32[4] f32[4]", none, "!takes 1 operands, 2 are given"},
        Case{Op::exp, "f32[4]", ReshapeAttributes{{4}}, "!has attributes of another operator"},
        Case{Op::compare, "s8[3] s8[3]", CompareAttributes{Comparison::lt}, "pred[3]"},
        Case{Op::is_nan, "f16[3]", none, "pred[3]"}, Case{Op::is_nan, "s8[3]", none, "!does not take"},
        Case{Op::select, "pred[3] s64[3] s64[3]", none, "s64[3]"},
        Case{Op::select, "u8[3] s64[3] s64[3]", none, "!operand 0 is u8, not pred"},
        Case{Op::select, "pred[3] s64[3] s32[3]", none, "!operand 2 is s32, operand 1 is s64"},
        Case{Op::select, "pred[] s64[3] s64[3]", none, "!operand 1 has shape s64[3]"},
        Case{Op::clamp, "f32[2] f32[2] f32[2]", none, "f32[2]"},
        Case{Op::convert, "f32[2]", ConvertAttributes{DType::pred}, "pred[2]"},
        Case{Op::bitcast_convert, "f32[2]", ConvertAttributes{DType::s32}, "s32[2]"},
        Case{Op::bitcast_convert, "f32[2]", ConvertAttributes{DType::s64},
             "!attribute 'dtype': s64 and f32 differ in size"},
        Case{Op::threefry2x32, "u32[2] u32[2] u32[2] u32[2]", none, "u32[2] u32[2]"},
        Case{Op::threefry2x32, "s32[2] s32[2] s32[2] s32[2]", none, "!operands are s32, not u32"},
        Case{Op::philox4x32, "u32[2] u32[2] u32[2] u32[2] u32[2] u32[2]", none, "u32[2] u32[2] u32[2] u32[2]"},
        Case{Op::philox4x32, "s32[2] s32[2] s32[2] s32[2] s32[2] s32[2]", none, "!operands are s32, not u32"}));

INSTANTIATE_TEST_SUITE_P(
    Sources, Infer,
    ::testing::Values(
        Case{Op::parameter, "", ParameterAttributes{type("f32[2,0]")}, "f32[2,0]"},
        Case{Op::parameter, "", ParameterAttributes{{DType::f32, {-1}}}, "!result: negative extent in [-1]"},
        Case{Op::parameter, "f32[]", ParameterAttributes{}, "!takes 0 operands"},
        Case{Op::constant, "", splat(type("f32[3]"), 1), "f32[3]"},
        Case{Op::constant, "", ConstantAttributes{type("f32[3]"), std::vector<std::byte>(11)},
             "!attribute 'data' has 11 bytes, f32[3] needs 12"},
        Case{Op::iota, "", IotaAttributes{type("s32[3,4]"), 1}, "s32[3,4]"},
        Case{Op::iota, "", IotaAttributes{type("s32[3,4]"), 2},
             "!attribute 'dimension': 2 is not a dimension of rank 2"},
        Case{Op::iota, "", IotaAttributes{type("s32[]"), 0}, "!0 is not a dimension of rank 0"},
        Case{Op::iota, "", IotaAttributes{type("pred[3]"), 0}, "!is not a number"},
        Case{Op::opaque, "f32[2] s8[]", OpaqueAttributes{"sort", "", {type("f32[2]"), type("s32[2]")}},
             "f32[2] s32[2]"},
        Case{Op::opaque, "", OpaqueAttributes{"big", "", {{DType::f32, {1 << 30, 1 << 30}}}}, "!too many elements"},
        Case{Op::opaque, "", OpaqueAttributes{"2^72", "", {{DType::f32, {most, most >> 8}}}}, "!too many elements"},
        Case{Op::opaque, "", OpaqueAttributes{"empty", "", {{DType::f32, {most, 0, 2}}}}, "!too many elements"},
        Case{Op::opaque, "", OpaqueAttributes{"most", "", {{DType::pred, {1, most, 1, 0}}}},
             "pred[1,1099511627776,1,0]"}));

INSTANTIATE_TEST_SUITE_P(
    Layout, Infer,
    ::testing::Values(
        Case{Op::broadcast, "f32[3]", BroadcastAttributes{{2, 3, 4}, {1}}, "f32[2,3,4]"},
        Case{Op::broadcast, "f32[]", BroadcastAttributes{{2, 0}, {}}, "f32[2,0]"},
        Case{Op::broadcast, "f32[3]", BroadcastAttributes{{2, 3}, {0}},
             "!operand dimension 0 of extent 3 becomes dimension 0 of extent 2"},
        Case{Op::broadcast, "f32[1]", BroadcastAttributes{{2}, {0}}, "!of extent 1 becomes dimension 0 of extent 2"},
        Case{Op::broadcast, "f32[2,3]", BroadcastAttributes{{3, 2}, {1, 0}}, "!is not increasing"},
        Case{Op::broadcast, "f32[2,2]", BroadcastAttributes{{2, 2}, {1, 1}}, "!dimension 1 appears twice"},
        Case{Op::broadcast, "f32[2,2]", BroadcastAttributes{{2, 2}, {1}}, "!'mapping' has 1 entries for rank 2"},
        Case{Op::broadcast, "f32[]", BroadcastAttributes{{-2}, {}}, "!negative extent"},
        Case{Op::reshape, "f32[2,6]", ReshapeAttributes{{3, 4}}, "f32[3,4]"},
        Case{Op::reshape, "f32[1,1]", ReshapeAttributes{{}}, "f32[]"},
        Case{Op::reshape, "f32[0,5]", ReshapeAttributes{{7, 0}}, "f32[7,0]"},
        Case{Op::reshape, "f32[2,6]", ReshapeAttributes{{5}}, "![5] has 5 elements, the operand f32[2,6] has 12"},
        Case{Op::reshape, "f32[1]", ReshapeAttributes{{-1, -1}}, "!negative extent"},
        Case{Op::transpose, "f32[2,3,4]", TransposeAttributes{{2, 0, 1}}, "f32[4,2,3]"},
        Case{Op::transpose, "f32[2,3]", TransposeAttributes{{0, 0}}, "!'permutation': dimension 0 appears twice"},
        Case{Op::transpose, "f32[2,3]", TransposeAttributes{{0, 2}}, "!2 is not a dimension of rank 2"},
        Case{Op::transpose, "f32[2,3]", TransposeAttributes{{0}}, "!has 1 entries for rank 2"},
        Case{Op::slice, "f32[10,4]", SliceAttributes{{1, 0}, {10, 4}, {3, 1}}, "f32[3,4]"},
        Case{Op::slice, "f32[10]", SliceAttributes{{4}, {4}, {1}}, "f32[0]"},
        Case{Op::slice, "f32[10]", SliceAttributes{{0}, {10}, {INT64_MAX}}, "f32[1]"},
        Case{Op::slice, "f32[10]", SliceAttributes{{0}, {10}, {0}}, "!attribute 'strides': 0 in dimension 0"},
        Case{Op::slice, "f32[10]", SliceAttributes{{5}, {4}, {1}}, "!slice [5:4] is out of range"},
        Case{Op::slice, "f32[10]", SliceAttributes{{0}, {11}, {1}}, "!slice [0:11] is out of range"},
        Case{Op::slice, "f32[10]", SliceAttributes{{0}, {10}, {}}, "!'strides' has 0 entries"},
        Case{Op::concatenate, "f32[2,3] f32[2,5]", ConcatenateAttributes{1}, "f32[2,8]"},
        Case{Op::concatenate, "f32[2,3] f32[3,5]", ConcatenateAttributes{1}, "!operand 1 is f32[3,5]"},
        Case{Op::concatenate, "f32[2,3] s32[2,3]", ConcatenateAttributes{1}, "!operand 1 is s32[2,3]"},
        Case{Op::concatenate, "f32[2] f32[2,1]", ConcatenateAttributes{0}, "!operand 1 is f32[2,1]"},
        Case{Op::concatenate, "f32[] f32[]", ConcatenateAttributes{0}, "!0 is not a dimension of f32[]"},
        Case{Op::pad, "f32[3] f32[]", PadAttributes{{1}, {2}, {1}}, "f32[8]"},
        Case{Op::pad, "f32[3] f32[]", PadAttributes{{-1}, {-2}, {0}}, "f32[0]"},
        Case{Op::pad, "f32[0] f32[]", PadAttributes{{1}, {2}, {5}}, "f32[3]"},
        Case{Op::pad, "f32[3] f32[]", PadAttributes{{-2}, {-2}, {0}}, "!padding leaves extent -1"},
        Case{Op::pad, "f32[3] f32[1]", PadAttributes{{0}, {0}, {0}}, "!operand 1 is f32[1], not a scalar of f32"},
        Case{Op::pad, "f32[3] f16[]", PadAttributes{{0}, {0}, {0}}, "!operand 1 is f16[]"},
        Case{Op::pad, "f32[3] f32[]", PadAttributes{{0}, {0}, {-1}}, "!attribute 'interior': -1"},
        Case{Op::pad, "f32[3] f32[]", PadAttributes{{INT64_MAX}, {1}, {0}}, "!attribute 'low': 9223372036854775807"},
        Case{Op::pad, "f32[3] f32[]", PadAttributes{{0}, {0}, {1LL << 40}}, "!attribute 'interior'"},
        Case{Op::reverse, "f32[3,4]", ReverseAttributes{{1}}, "f32[3,4]"},
        Case{Op::reverse, "f32[3,4]", ReverseAttributes{{2}}, "!'dimensions': 2 is not a dimension"},
        Case{Op::dynamic_slice, "f32[8,4] s32[] u64[]", DynamicSliceAttributes{{2, 4}}, "f32[2,4]"},
        Case{Op::dynamic_slice, "f32[8,4] s32[]", DynamicSliceAttributes{{2, 4}}, "!1 start indices for rank 2"},
        Case{Op::dynamic_slice, "f32[8] f32[]", DynamicSliceAttributes{{2}},
             "!operand 1 is f32[], not an integer scalar"},
        Case{Op::dynamic_slice, "f32[8] s32[]", DynamicSliceAttributes{{9}}, "!attribute 'sizes': 9"},
        Case{Op::dynamic_update_slice, "f32[8] f32[2] s32[]", UpdateAttributes{}, "f32[8]"},
        Case{Op::dynamic_update_slice, "f32[8] f32[9] s32[]", UpdateAttributes{}, "!does not fit"},
        Case{Op::dynamic_update_slice, "f32[8] f16[2] s32[]", UpdateAttributes{}, "!operand 1 is f16[2]"},
        Case{Op::dynamic_update_slice, "f32[8] f32[2]", UpdateAttributes{}, "!0 start indices for rank 1"}));

GatherAttributes rows() { return {{1}, {0}, {0}, {}, {}, 1, {1, 6}}; }
template <class A, class Change>
A changed(A a, Change change) {
  change(a);
  return a;
}

INSTANTIATE_TEST_SUITE_P(
    Gather, Infer,
    ::testing::Values(Case{Op::gather, "f32[9,6] s32[4]", rows(), "f32[4,6]"},
                      Case{Op::gather, "f32[9,6] s32[4,1]", rows(), "f32[4,6]"},
                      Case{Op::gather, "f32[9,6] s32[4,2]", rows(),
                           "!index vectors have 2 entries, 'start_index_map' names 1"},
                      Case{Op::gather, "f32[9,6] f32[4]", rows(), "!operand 1 is f32[4], not integer"},
                      Case{Op::gather, "f32[9,6] s32[]", rows(), "!attribute 'index_vector_dim': 1 for indices s32[]"},
                      Case{Op::gather, "f32[9,6] s32[4]",
                           changed(rows(),
                                   [](auto& a) {
                                     a.slice_sizes = {1, 7};
                                   }),
                           "!attribute 'slice_sizes': 7 in dimension 1"},
                      Case{Op::gather, "f32[9,6] s32[4]",
                           changed(rows(),
                                   [](auto& a) {
                                     a.slice_sizes = {2, 6};
                                   }),
                           "!collapsed dimension 0 has 2"},
                      Case{Op::gather, "f32[9,6] s32[4]", changed(rows(), [](auto& a) { a.offset_dims = {}; }),
                           "!'offset_dims' has 0 entries for 1 window dimensions"},
                      Case{Op::gather, "f32[9,6] s32[4]", changed(rows(), [](auto& a) { a.offset_dims = {2}; }),
                           "!'offset_dims': 2 is not a dimension of rank 2"},
                      Case{Op::gather, "f32[9,6,5] s32[4]", GatherAttributes{{2, 1}, {0}, {0}, {}, {}, 1, {1, 6, 5}},
                           "!'offset_dims': [2,1] is not sorted"},
                      Case{Op::gather, "f32[4,9,6] s32[4,3,1]", GatherAttributes{{2}, {1}, {1}, {0}, {0}, 2, {1, 1, 6}},
                           "f32[4,3,6]"},
                      Case{Op::gather, "f32[5,9,6] s32[4,3,1]", GatherAttributes{{2}, {1}, {1}, {0}, {0}, 2, {1, 1, 6}},
                           "!dimension 0 has extent 5, the indices have 4"},
                      Case{Op::gather, "f32[4,9,6] s32[4,3,1]", GatherAttributes{{2}, {1}, {1}, {0}, {2}, 2, {1, 1, 6}},
                           "!2 is the index vector dimension"},
                      Case{Op::gather, "f32[4,9,6] s32[4,3,1]", GatherAttributes{{2}, {1}, {0}, {0}, {0}, 2, {1, 1, 6}},
                           "!dimension 0 is also in"},
                      Case{Op::gather, "f32[4,9,6] s32[4,3,1]", GatherAttributes{{2}, {1}, {1}, {0}, {}, 2, {1, 1, 6}},
                           "!differ in length"},
                      Case{Op::gather, "f32[1048576,1048576] s32[1048576,1]",
                           GatherAttributes{{1}, {0}, {0}, {}, {}, 1, {1, 1048576}}, "f32[1048576,1048576]"},
                      Case{Op::gather, "f32[2,1048576] s32[1048577,1]",
                           GatherAttributes{{1}, {0}, {0}, {}, {}, 1, {1, 1048576}}, "!too many elements"}));

ScatterAttributes add_rows() { return {{1}, {0}, {0}, {}, {}, 1, R::sum, false}; }

INSTANTIATE_TEST_SUITE_P(
    Scatter, Infer,
    ::testing::Values(
        Case{Op::scatter, "f32[9,6] s32[4] f32[4,6]", add_rows(), "f32[9,6]"},
        Case{Op::scatter, "f32[9,6] s32[4] f32[4,5]", add_rows(), "f32[9,6]"},
        Case{Op::scatter, "f32[9,6] s32[4] f32[4,7]", add_rows(), "!window does not fit"},
        Case{Op::scatter, "f32[9,6] s32[4] f32[3,6]", add_rows(), "!does not match the indices"},
        Case{Op::scatter, "f32[9,6] s32[4] f16[4,6]", add_rows(), "!operand 2 is f16, operand 0 is f32"},
        Case{Op::scatter, "f32[9,6] s32[4,2] f32[4,6]", add_rows(), "!'scatter_dims_to_operand_dims' names 1"},
        Case{Op::scatter, "pred[9,6] s32[4] pred[4,6]", add_rows(), "!attribute 'combiner': sum does not combine pred"},
        Case{Op::scatter, "f32[9,6] s32[4] f32[4,6]", changed(add_rows(), [](auto& a) { a.combiner = R::bit_or; }),
             "!or does not combine f32"},
        Case{Op::scatter, "f32[9,6] s32[4] f32[4,6]", changed(add_rows(), [](auto& a) { a.combiner = R::replace; }),
             "f32[9,6]"},
        Case{Op::scatter, "f32[9,6] s32[4] f32[4,6]", changed(add_rows(), [](auto& a) { a.update_window_dims = {}; }),
             "!'update_window_dims' has 0 entries for 1 window dimensions"},
        Case{Op::scatter, "f32[9,6] s32[4] f32[4,6]",
             changed(add_rows(),
                     [](auto& a) {
                       a.inserted_window_dims = {0, 1};
                       a.update_window_dims = {1};
                     }),
             "!has 1 entries for 0 window dimensions"},
        // A dimension both inserted and batching must not be counted twice.
        Case{Op::scatter, "f32[4,6] s32[4,1] f32[4,6]", ScatterAttributes{{1}, {0}, {}, {0}, {0}, 1, R::sum, false},
             "!names 0 dimensions"},
        Case{Op::scatter, "f32[4,6] s32[4,0] f32[4,6]", ScatterAttributes{{1}, {0}, {}, {0}, {0}, 1, R::sum, false},
             "!dimension 0 is also in"}));

ReduceWindowAttributes pool() { return {R::max, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, {1, 1}}; }

INSTANTIATE_TEST_SUITE_P(
    Reductions, Infer,
    ::testing::Values(
        Case{Op::reduce, "f32[2,3,4]", ReduceAttributes{R::sum, {0, 2}}, "f32[3]"},
        Case{Op::reduce, "f32[2,0]", ReduceAttributes{R::max, {1}}, "f32[2]"},
        Case{Op::reduce, "f32[2]", ReduceAttributes{R::sum, {}}, "f32[2]"},
        Case{Op::reduce, "pred[2]", ReduceAttributes{R::max, {0}}, "pred[]"},
        Case{Op::reduce, "pred[2]", ReduceAttributes{R::sum, {0}}, "!sum does not combine pred"},
        Case{Op::reduce, "f32[2]", ReduceAttributes{R::bit_xor, {0}}, "!xor does not combine f32"},
        Case{Op::reduce, "f32[2]", ReduceAttributes{R::replace, {0}}, "!replace does not reduce"},
        Case{Op::reduce, "f32[2,3]", ReduceAttributes{R::sum, {1, 0}}, "!is not sorted"},
        Case{Op::reduce, "f32[2,3]", ReduceAttributes{R::sum, {1, 1}}, "!appears twice"},
        Case{Op::reduce, "f32[2,3]", ReduceAttributes{R::sum, {-1}}, "!-1 is not a dimension"},
        Case{Op::arg_reduce, "f32[2,3]", ArgReduceAttributes{R::min, 1, DType::u32, false}, "f32[2] u32[2]"},
        Case{Op::arg_reduce, "f32[2,0]", ArgReduceAttributes{R::min, 1, DType::u32, false},
             "!the reduced dimension 1 is empty"},
        Case{Op::arg_reduce, "f32[2,3]", ArgReduceAttributes{R::sum, 1, DType::u32, false},
             "!sum is neither max nor min"},
        Case{Op::arg_reduce, "f32[2,3]", ArgReduceAttributes{R::max, 1, DType::f32, false}, "!f32 is no integer"},
        Case{Op::arg_reduce, "pred[2,3]", ArgReduceAttributes{R::max, 1, DType::s32, false}, "!operand 0 is pred"},
        Case{Op::max_exp_sum, "f32[2,3,4]", MaxExpSumAttributes{{0, 2}}, "f32[3] f32[3]"},
        Case{Op::max_exp_sum, "f64[2,3]", MaxExpSumAttributes{}, "f64[2,3] f64[2,3]"},
        Case{Op::max_exp_sum, "f32[0,3]", MaxExpSumAttributes{{1}}, "f32[0] f32[0]"},
        Case{Op::max_exp_sum, "f32[2,0]", MaxExpSumAttributes{{1}}, "!dimension 1 of operand 0 is empty"},
        Case{Op::max_exp_sum, "f32[2,3]", MaxExpSumAttributes{{1, 0}}, "!is not sorted"},
        Case{Op::max_exp_sum, "f32[2,3]", MaxExpSumAttributes{{2}}, "!2 is not a dimension"},
        Case{Op::max_exp_sum, "bf16[2,3]", MaxExpSumAttributes{{1}}, "!operand 0 is bf16"},
        Case{Op::max_exp_sum, "s32[2,3]", MaxExpSumAttributes{{1}}, "!operand 0 is s32"},
        Case{Op::reduce_window, "f32[5,6]", pool(), "f32[2,3]"},
        Case{Op::reduce_window, "f32[5,6]",
             changed(pool(),
                     [](auto& a) {
                       a.low = {1, 0};
                     }),
             "f32[3,3]"},
        Case{Op::reduce_window, "f32[5,6]",
             changed(pool(),
                     [](auto& a) {
                       a.sizes = {6, 1};
                     }),
             "f32[0,3]"},
        Case{Op::reduce_window, "f32[5,6]",
             changed(pool(),
                     [](auto& a) {
                       a.base_dilation = {3, 1};
                     }),
             "f32[6,3]"},
        Case{Op::reduce_window, "f32[5,6]",
             changed(pool(),
                     [](auto& a) {
                       a.window_dilation = {3, 1};
                     }),
             "f32[1,3]"},
        Case{Op::reduce_window, "f32[5,6]",
             changed(pool(),
                     [](auto& a) {
                       a.strides = {0, 1};
                     }),
             "!must be positive"},
        Case{Op::reduce_window, "f32[5,6]", changed(pool(), [](auto& a) { a.high = {0}; }), "!'high' has 1 entries"},
        Case{Op::reduce_window, "f32[5,6]",
             changed(pool(),
                     [](auto& a) {
                       a.base_dilation = {1LL << 40, 1};
                     }),
             "!dilated extent in dimension 0 is out of range"},
        Case{Op::reduce_window, "f32[5,6]",
             changed(pool(),
                     [](auto& a) {
                       a.low = {INT64_MIN, 1};
                     }),
             "!attribute 'low'"},
        Case{Op::select_and_scatter, "f32[4,6] f32[2,3]",
             SelectAndScatterAttributes{R::max, {2, 2}, {2, 2}, {0, 0}, {0, 0}}, "f32[4,6]"},
        Case{Op::select_and_scatter, "f32[4,6] f32[2,2]",
             SelectAndScatterAttributes{R::max, {2, 2}, {2, 2}, {0, 0}, {0, 0}}, "!the windows give f32[2,3]"},
        Case{Op::select_and_scatter, "f32[4,6] f32[2,3]",
             SelectAndScatterAttributes{R::sum, {2, 2}, {2, 2}, {0, 0}, {0, 0}}, "!neither max nor min"},
        Case{Op::sort, "f32[4,6]", SortAttributes{1, false, 6}, "f32[4,6]"},
        Case{Op::sort, "bf16[4,6] s32[4,6] pred[4,6]", SortAttributes{0, true, 2}, "bf16[2,6] s32[2,6] pred[2,6]"},
        Case{Op::sort, "f32[4,0]", SortAttributes{1, true, 0}, "f32[4,0]"},
        Case{Op::sort, "f32[4,6]", SortAttributes{2, true, 2}, "!2 is not a dimension"},
        Case{Op::sort, "f32[4,6]", SortAttributes{1, true, 7}, "!attribute 'count': 7 of 6 elements"},
        Case{Op::sort, "f32[4,6]", SortAttributes{1, true, -1}, "!attribute 'count': -1 of 6 elements"},
        Case{Op::sort, "f32[4,6] s32[4,5]", SortAttributes{1, true, 2},
             "!operand 1 has shape s32[4,5], operand 0 has f32[4,6]"},
        Case{Op::scan, "f32[4,6]", ScanAttributes{R::sum, 1, false, true}, "f32[4,6]"},
        Case{Op::scan, "f32[4,6]", ScanAttributes{R::sum, 2, false, true}, "!2 is not a dimension"},
        Case{Op::scan, "f32[4,6]", ScanAttributes{R::replace, 1, false, true}, "!replace does not reduce"}));

ConvolutionAttributes conv2d() {
  ConvolutionAttributes a;
  a.input_spatial = a.kernel_spatial = a.output_spatial = {2, 3};
  a.strides = {1, 1};
  a.low = {0, 0};
  a.high = {0, 0};
  a.input_dilation = {1, 1};
  a.kernel_dilation = {1, 1};
  return a;
}

INSTANTIATE_TEST_SUITE_P(
    Contractions, Infer,
    ::testing::Values(
        Case{Op::dot, "f32[4,8] f32[8,5]", DotAttributes{{}, {}, {1}, {0}, DType::f32}, "f32[4,5]"},
        Case{Op::dot, "bf16[2,4,8] bf16[2,5,8]", DotAttributes{{0}, {0}, {2}, {2}, DType::f32}, "f32[2,4,5]"},
        Case{Op::dot, "f32[8] f32[8]", DotAttributes{{}, {}, {0}, {0}, DType::f32}, "f32[]"},
        Case{Op::dot, "s8[4] s8[5]", DotAttributes{{}, {}, {}, {}, DType::s32}, "s32[4,5]"},
        Case{Op::dot, "f32[4,8] f32[7,5]", DotAttributes{{}, {}, {1}, {0}, DType::f32},
             "!is 8 on the left, 7 on the right"},
        Case{Op::dot, "f32[2,8] f32[3,8]", DotAttributes{{0}, {0}, {1}, {1}, DType::f32}, "!batch dimension 0 is 2"},
        Case{Op::dot, "f32[4,8] f32[8,5]", DotAttributes{{}, {}, {1}, {}, DType::f32}, "!differ in length"},
        Case{Op::dot, "f32[4,8] f32[8,5]", DotAttributes{{1}, {0}, {1}, {0}, DType::f32}, "!dimension 1 appears twice"},
        Case{Op::dot, "f32[4,8] s32[8,5]", DotAttributes{{}, {}, {1}, {0}, DType::f32}, "!mix integers and floats"},
        Case{Op::dot, "f32[4,8] f32[8,5]", DotAttributes{{}, {}, {1}, {0}, DType::s32}, "!mix integers and floats"},
        Case{Op::dot, "pred[4] pred[4]", DotAttributes{{}, {}, {0}, {0}, DType::pred}, "!operand 0 is pred"},
        Case{Op::dot, "f32[2097152] f32[2097152]", DotAttributes{{}, {}, {}, {}, DType::f32}, "!too many elements"},
        Case{Op::convolution, "f32[2,3,8,8] f32[5,3,3,3]", conv2d(), "f32[2,5,6,6]"},
        Case{Op::convolution, "f32[2,3,8,8] f32[5,4,3,3]", conv2d(), "!input features 3"},
        Case{Op::convolution, "f32[2,6,8,8] f32[4,3,3,3]", changed(conv2d(), [](auto& a) { a.feature_groups = 2; }),
             "f32[2,4,6,6]"},
        Case{Op::convolution, "f32[2,6,8,8] f32[5,3,3,3]", changed(conv2d(), [](auto& a) { a.feature_groups = 2; }),
             "!are not divided by 2 groups"},
        Case{Op::convolution, "f32[4,3,8,8] f32[4,3,3,3]", changed(conv2d(), [](auto& a) { a.batch_groups = 2; }),
             "f32[2,4,6,6]"},
        Case{Op::convolution, "f32[3,3,8,8] f32[4,3,3,3]", changed(conv2d(), [](auto& a) { a.batch_groups = 2; }),
             "!batch 3 is not divided by 2"},
        Case{Op::convolution, "f32[2,3,8,8] f32[5,3,3,3]", changed(conv2d(), [](auto& a) { a.feature_groups = 0; }),
             "!must be positive"},
        Case{Op::convolution, "f32[2,3,8,8] f32[5,3,3,3]",
             changed(conv2d(), [](auto& a) { a.window_reversal = {true}; }), "!'window_reversal' has 1 entries"},
        Case{Op::convolution, "f32[2,3,8,8] f32[5,3,3,3]", changed(conv2d(), [](auto& a) { a.input_batch = 1; }),
             "!appears twice"},
        Case{Op::convolution, "f32[2,3,8] f32[5,3,3]", conv2d(), "!do not fit 2 spatial dimensions"},
        Case{Op::convolution, "f32[2,3,8,8] f32[5,3,3,3]", changed(conv2d(), [](auto& a) { a.strides = {1}; }),
             "!'strides' has 1 entries"}));

// ---- control flow: regions

std::shared_ptr<const Graph> region(std::string_view parameters, std::string_view results) {
  Graph graph;
  for (const TensorType& t : types(parameters)) {
    EXPECT_TRUE(graph.add(Op::parameter, {}, ParameterAttributes{t}).ok());
  }
  std::vector<Value> values;
  for (const TensorType& t : types(results)) values.push_back(*graph.add(Op::constant, {}, splat(t, 0)));
  graph.set_results(std::move(values));
  return std::make_shared<const Graph>(std::move(graph));
}

std::string infer_text(Op op, std::string_view operands, const Attributes& attributes,
                       std::vector<std::shared_ptr<const Graph>> regions) {
  const Result<std::vector<TensorType>> result = infer(op, types(operands), attributes, region_types(regions));
  if (!result) return result.error().message;
  std::string text;
  for (const TensorType& t : *result) text += to_string(t) + " ";
  return text;
}

TEST(InferControl, Loops) {
  const auto body = region("s32[] f32[4]", "s32[] f32[4]"), decide = region("s32[] f32[4]", "pred[]");
  const auto loop = [&](auto first, auto second) {
    return infer_text(Op::loop, "s32[] f32[4]", LoopAttributes{}, {first, second});
  };
  EXPECT_EQ(loop(body, decide), "s32[] f32[4] ");
  EXPECT_EQ(loop(decide, body), "the body's results are not the types it carries");
  EXPECT_EQ(loop(body, body), "the condition does not return one pred[]");
  EXPECT_EQ(loop(body, region("s32[]", "pred[]")), "condition takes 1 parameters, 2 are given");
  EXPECT_EQ(loop(region("s32[] f32[5]", "s32[] f32[5]"), decide), "body: parameter 1 is f32[5], f32[4] is given");
  EXPECT_EQ(loop(nullptr, decide), "body is missing");
  EXPECT_EQ(infer_text(Op::loop, "s32[]", LoopAttributes{}, {body}), "has 1 regions instead of body and condition");
  EXPECT_EQ(infer_text(Op::loop, "s32[] f32[4]", LoopAttributes{-2}, {body, decide}), "attribute 'trip_count': -2");
  EXPECT_EQ(infer_text(Op::exp, "f32[]", NoAttributes{}, {body}), "has regions, which exp does not take");
}

TEST(InferControl, Conditionals) {
  const auto branch = region("f32[4]", "f32[4] s8[]"), other = region("f32[4]", "f32[4]");
  const auto conditional = [&](std::string_view operands, std::vector<std::shared_ptr<const Graph>> branches) {
    return infer_text(Op::conditional, operands, NoAttributes{}, std::move(branches));
  };
  EXPECT_EQ(conditional("pred[] f32[4]", {branch, branch}), "f32[4] s8[] ");
  EXPECT_EQ(conditional("s32[] f32[4]", {branch, branch, branch}), "f32[4] s8[] ");
  EXPECT_EQ(conditional("pred[] f32[4]", {branch, branch, branch}),
            "has 3 branches for a pred selector, which needs 2");
  EXPECT_EQ(conditional("pred[] f32[4]", {branch, other}), "branches 0 and 1 return different types");
  EXPECT_EQ(conditional("f32[] f32[4]", {branch, branch}), "operand 0 is f32[], not a scalar selector");
  EXPECT_EQ(conditional("pred[1] f32[4]", {branch, branch}), "operand 0 is pred[1], not a scalar selector");
  EXPECT_EQ(conditional("pred[] f32[4]", {}), "has no branches");
  EXPECT_EQ(conditional("pred[]", {branch, branch}), "branch 0 takes 1 parameters, 0 are given");
}

TEST(InferControl, RegionResultsThatDoNotExist) {
  Graph graph;
  graph.set_results({{5, 0}});
  const auto broken = std::make_shared<const Graph>(std::move(graph));
  EXPECT_EQ(infer_text(Op::conditional, "s32[]", NoAttributes{}, {broken}), "branch 0: result 5.0 does not exist");
}

}  // namespace
}  // namespace stitch::graph
