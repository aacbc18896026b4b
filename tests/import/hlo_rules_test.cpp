// What each operator becomes, as a table of texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/print.h"
#include "import/import.h"
#include "tests/import/hlo_text.h"

namespace stitch::import {
namespace {

using testing::HasSubstr;

struct RuleRow {
  std::string_view instructions;  ///< of the entry; x, y, i, … are the parameters below
  std::string_view expected;      ///< the nodes behind the parameters, one per line, and the results
};

/// Parameters that every row may use.
constexpr std::string_view parameters = R"(  x = f32[4,8] parameter(0)
  y = f32[4,8] parameter(1)
  i = s32[4,8] parameter(2)
  p = pred[4,8] parameter(3)
  h = bf16[4,8] parameter(4)
  s = f32[] parameter(5)
  k = s32[] parameter(6)
  v = f32[8] parameter(7)
)";
constexpr int parameter_count = 8;

constexpr std::string_view computations = R"(sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(b, a)
}
or {
  a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT r = pred[] or(a, b)
}
replace {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}
wide_sum {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  wa = f32[] convert(a)
  wb = f32[] convert(b)
  c = f32[] add(wa, wb)
  ROOT r = bf16[] convert(c)
}
ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE
}
sum_and_max {
  a = f32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = s32[] parameter(3)
  e = f32[] add(a, c)
  f = s32[] maximum(d, b)
  ROOT r = (f32[], s32[]) tuple(e, f)
}
arg_max {
  a = f32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = s32[] parameter(3)
  gt = pred[] compare(a, c), direction=GT
  ne = pred[] compare(a, a), direction=NE
  o = pred[] or(gt, ne)
  w = f32[] select(o, a, c)
  eq = pred[] compare(a, c), direction=EQ
  lt = pred[] compare(b, d), direction=LT
  both = pred[] and(eq, lt)
  o2 = pred[] or(o, both)
  q = s32[] select(o2, b, d)
  ROOT r = (f32[], s32[]) tuple(w, q)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
greater_total {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER
}
second_canonical {
  u = f32[] parameter(0)
  v = f32[] parameter(1)
  a = f32[] parameter(2)
  b = f32[] parameter(3)
  z = f32[] constant(0)
  n = f32[] constant(nan)
  a0 = pred[] compare(a, z), direction=EQ
  a1 = f32[] select(a0, z, a)
  a2 = pred[] compare(a, a), direction=NE
  a3 = f32[] select(a2, n, a1)
  b0 = pred[] compare(b, z), direction=EQ
  b1 = f32[] select(b0, z, b)
  b2 = pred[] compare(b, b), direction=NE
  b3 = f32[] select(b2, n, b1)
  ROOT r = pred[] compare(a3, b3), direction=LT, type=TOTALORDER
}
square_plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] multiply(a, a)
  two = f32[] constant(2)
  d = f32[] add(c, two)
  ROOT r = f32[] multiply(d, b)
}
)";

std::string entry(std::string_view instructions) {
  return module_text(fmt::format("{}{}", parameters, instructions), fmt::format("{}{}", log_add_text, computations));
}

/// The nodes behind the parameters (values %0 … %7), and what is returned.
std::string printed(const graph::Graph& graph) {
  std::string text;
  for (graph::NodeId id = parameter_count; id < graph.size(); ++id) text += graph::to_text(graph, id) + "\n";
  text += "return";
  for (const graph::Value& value : graph.results()) {
    text += value.result == 0 ? fmt::format(" %{}", value.node) : fmt::format(" %{}.{}", value.node, value.result);
  }
  return text;
}

void expect_rows(std::span<const RuleRow> rows) {
  for (const RuleRow& row : rows) {
    const Imported imported = import_good(entry(row.instructions));
    EXPECT_EQ(printed(imported.graph), row.expected) << row.instructions;
    EXPECT_TRUE(imported.boundaries.empty()) << row.instructions;
  }
}

// A comparator is told by what it says of pairs of samples: plain, jax's with one zero and one NaN, IEEE's total order.
TEST(HloRules, Sorts) {
  const RuleRow rows[] = {
      {R"(  ROOT r = f32[4,8] sort(x), dimensions={1}, to_apply=less)",
       R"(%8 = sort f32[4,8] %0 {dimension=1, descending=false, count=8}
return %8)"},
      {R"(  ROOT r = (f32[4,8], f32[4,8]) sort(y, x), dimensions={0}, is_stable=true, to_apply=second_canonical)",
       R"(%8 = sort (f32[4,8], f32[4,8]) %0, %1 {dimension=0, descending=false, count=4}
return %8.1 %8)"},
      {R"(  ROOT r = (f32[4,3], s32[4,3]) topk(x), k=3, largest=true)",
       R"(%8 = iota s32[4,8] {dimension=1}
%9 = sort (f32[4,3], s32[4,3]) %0, %8 {dimension=1, descending=true, count=3}
return %9 %9.1)"},
      {R"(  ROOT r = f32[4,8] sort(x), dimensions={1}, to_apply=greater_total)",
       R"(%8 = bitcast-convert s32[4,8] %0
%9 = constant s32[] {0}
%10 = broadcast s32[4,8] %9 {dims=[4,8], mapping=[]}
%11 = constant s32[] {2147483647}
%12 = broadcast s32[4,8] %11 {dims=[4,8], mapping=[]}
%13 = xor s32[4,8] %8, %12
%14 = compare pred[4,8] %8, %10 {direction=lt}
%15 = select s32[4,8] %14, %13, %8
%16 = sort (s32[4,8], f32[4,8]) %15, %0 {dimension=1, descending=true, count=8}
return %16.1)"},
  };
  expect_rows(rows);
}

TEST(HloRules, Elementwise) {
  const RuleRow rows[] = {
      {R"(  ROOT r = f32[4,8] add(x, y))",
       R"(%8 = add f32[4,8] %0, %1
return %8)"},
      {R"(  ROOT r = f32[4,8] exponential-minus-one(x))",
       R"(%8 = expm1 f32[4,8] %0
return %8)"},
      {R"(  ROOT r = f32[4,8] round-nearest-even(x))",
       R"(%8 = round-even f32[4,8] %0
return %8)"},
      {R"(  ROOT r = f32[4,8] round-nearest-afz(x))",
       R"(%8 = round-away f32[4,8] %0
return %8)"},
      {R"(  ROOT r = s32[4,8] popcnt(i))",
       R"(%8 = popcount s32[4,8] %2
return %8)"},
      {R"(  ROOT r = f32[4,8] asinh(x))",
       R"(%8 = asinh f32[4,8] %0
return %8)"},
      {R"(  ROOT r = pred[4,8] is-finite(x))",
       R"(%8 = is-finite pred[4,8] %0
return %8)"},
      {R"(  ROOT r = pred[4,8] add(p, p))",
       R"(%8 = or pred[4,8] %3, %3
return %8)"},
      {R"(  ROOT r = pred[4,8] multiply(p, p))",
       R"(%8 = and pred[4,8] %3, %3
return %8)"},
      {R"(  ROOT r = pred[4,8] not(p))",
       R"(%8 = not pred[4,8] %3
return %8)"},
      {R"(  ROOT r = pred[4,8] compare(x, y), direction=LT)",
       R"(%8 = compare pred[4,8] %0, %1 {direction=lt}
return %8)"},
      {R"(  ROOT r = pred[4,8] compare(i, i), direction=NE, type=TOTALORDER)",
       R"(%8 = compare pred[4,8] %2, %2 {direction=ne}
return %8)"},
      {R"(  ROOT r = pred[4,8] compare(x, y), direction=GE, type=TOTALORDER)",
       R"(%8 = bitcast-convert s32[4,8] %0
%9 = constant s32[] {0}
%10 = broadcast s32[4,8] %9 {dims=[4,8], mapping=[]}
%11 = constant s32[] {2147483647}
%12 = broadcast s32[4,8] %11 {dims=[4,8], mapping=[]}
%13 = xor s32[4,8] %8, %12
%14 = compare pred[4,8] %8, %10 {direction=lt}
%15 = select s32[4,8] %14, %13, %8
%16 = bitcast-convert s32[4,8] %1
%17 = constant s32[] {0}
%18 = broadcast s32[4,8] %17 {dims=[4,8], mapping=[]}
%19 = constant s32[] {2147483647}
%20 = broadcast s32[4,8] %19 {dims=[4,8], mapping=[]}
%21 = xor s32[4,8] %16, %20
%22 = compare pred[4,8] %16, %18 {direction=lt}
%23 = select s32[4,8] %22, %21, %16
%24 = compare pred[4,8] %15, %23 {direction=ge}
return %24)"},
      {R"(  ROOT r = bf16[4,8] convert(x))",
       R"(%8 = convert bf16[4,8] %0
return %8)"},
      {R"(  ROOT r = f32[4,8] convert(x))", R"(return %0)"},
      {R"(  ROOT r = s32[4,8] bitcast-convert(x))",
       R"(%8 = bitcast-convert s32[4,8] %0
return %8)"},
      {R"(  ROOT r = f32[4,8] select(p, x, y))",
       R"(%8 = select f32[4,8] %3, %0, %1
return %8)"},
      {R"(  c = pred[] constant(true)
  ROOT r = f32[4,8] select(c, x, y))",
       R"(%8 = constant pred[] {true}
%9 = broadcast pred[4,8] %8 {dims=[4,8], mapping=[]}
%10 = select f32[4,8] %9, %0, %1
return %10)"},
      {R"(  ROOT r = f32[4,8] clamp(s, x, s))",
       R"(%8 = broadcast f32[4,8] %5 {dims=[4,8], mapping=[]}
%9 = broadcast f32[4,8] %5 {dims=[4,8], mapping=[]}
%10 = clamp f32[4,8] %8, %0, %9
return %10)"},
      {R"(  ROOT r = s32[4,8] shift-left(i, i))",
       R"(%8 = shift-left s32[4,8] %2, %2
return %8)"},
      {R"(  ROOT r = s32[4,8] count-leading-zeros(i))",
       R"(%8 = constant s32[] {1}
%9 = broadcast s32[4,8] %8 {dims=[4,8], mapping=[]}
%10 = shift-right-logical s32[4,8] %2, %9
%11 = or s32[4,8] %2, %10
%12 = constant s32[] {2}
%13 = broadcast s32[4,8] %12 {dims=[4,8], mapping=[]}
%14 = shift-right-logical s32[4,8] %11, %13
%15 = or s32[4,8] %11, %14
%16 = constant s32[] {4}
%17 = broadcast s32[4,8] %16 {dims=[4,8], mapping=[]}
%18 = shift-right-logical s32[4,8] %15, %17
%19 = or s32[4,8] %15, %18
%20 = constant s32[] {8}
%21 = broadcast s32[4,8] %20 {dims=[4,8], mapping=[]}
%22 = shift-right-logical s32[4,8] %19, %21
%23 = or s32[4,8] %19, %22
%24 = constant s32[] {16}
%25 = broadcast s32[4,8] %24 {dims=[4,8], mapping=[]}
%26 = shift-right-logical s32[4,8] %23, %25
%27 = or s32[4,8] %23, %26
%28 = not s32[4,8] %27
%29 = popcount s32[4,8] %28
return %29)"},
      {R"(  ROOT r = f32[4,8] map(x, y), dimensions={0,1}, to_apply=square_plus)",
       R"(%8 = multiply f32[4,8] %0, %0
%9 = constant f32[] {2}
%10 = broadcast f32[4,8] %9 {dims=[4,8], mapping=[]}
%11 = add f32[4,8] %8, %10
%12 = multiply f32[4,8] %11, %1
return %12)"},
      {R"(  ROOT r = f32[4,8] reduce-precision(x), exponent_bits=8, mantissa_bits=23)", R"(return %0)"},
      {R"(  ROOT r = f32[4,8] reduce-precision(x), exponent_bits=8, mantissa_bits=7)",
       R"(%8 = bitcast-convert u32[4,8] %0
%9 = constant u32[] {1}
%10 = broadcast u32[4,8] %9 {dims=[4,8], mapping=[]}
%11 = constant u32[] {16}
%12 = broadcast u32[4,8] %11 {dims=[4,8], mapping=[]}
%13 = shift-right-logical u32[4,8] %8, %12
%14 = and u32[4,8] %13, %10
%15 = constant u32[] {32767}
%16 = broadcast u32[4,8] %15 {dims=[4,8], mapping=[]}
%17 = add u32[4,8] %14, %16
%18 = constant u32[] {4294901760}
%19 = broadcast u32[4,8] %18 {dims=[4,8], mapping=[]}
%20 = add u32[4,8] %8, %17
%21 = and u32[4,8] %20, %19
%22 = bitcast-convert f32[4,8] %21
%23 = is-nan pred[4,8] %0
%24 = select f32[4,8] %23, %0, %22
return %24)"},
      {R"(  ROOT r = bf16[4,8] reduce-precision(h), exponent_bits=5, mantissa_bits=7)",
       R"(%8 = bitcast-convert u16[4,8] %4
%9 = constant u16[] {32640}
%10 = broadcast u16[4,8] %9 {dims=[4,8], mapping=[]}
%11 = and u16[4,8] %8, %10
%12 = constant u16[] {18176}
%13 = broadcast u16[4,8] %12 {dims=[4,8], mapping=[]}
%14 = compare pred[4,8] %11, %13 {direction=gt}
%15 = constant u16[] {14336}
%16 = broadcast u16[4,8] %15 {dims=[4,8], mapping=[]}
%17 = compare pred[4,8] %11, %16 {direction=le}
%18 = constant u16[] {32768}
%19 = broadcast u16[4,8] %18 {dims=[4,8], mapping=[]}
%20 = and u16[4,8] %8, %19
%21 = constant u16[] {32640}
%22 = broadcast u16[4,8] %21 {dims=[4,8], mapping=[]}
%23 = or u16[4,8] %20, %22
%24 = select u16[4,8] %14, %23, %8
%25 = select u16[4,8] %17, %20, %24
%26 = bitcast-convert bf16[4,8] %25
%27 = is-nan pred[4,8] %4
%28 = select bf16[4,8] %27, %4, %26
return %28)"},
  };
  expect_rows(rows);
}

TEST(HloRules, Layout) {
  const RuleRow rows[] = {
      {R"(  ROOT r = f32[2,2] constant({{1, 2}, {3, 4}}))",
       R"(%8 = constant f32[2,2] {[1, 2, 3, 4]}
return %8)"},
      {R"(  ROOT r = f32[2,2] constant({{1, 1}, {1, 1}}))",
       R"(%8 = constant f32[] {1}
%9 = broadcast f32[2,2] %8 {dims=[2,2], mapping=[]}
return %9)"},
      {R"(  ROOT r = s32[3,5] iota(), iota_dimension=1)",
       R"(%8 = iota s32[3,5] {dimension=1}
return %8)"},
      {R"(  ROOT r = f32[3,4,8] broadcast(x), dimensions={1,2})",
       R"(%8 = broadcast f32[3,4,8] %0 {dims=[3,4,8], mapping=[1,2]}
return %8)"},
      {R"(  ROOT r = f32[8,2,4] broadcast(x), dimensions={2,0})",
       R"(%8 = transpose f32[8,4] %0 {permutation=[1,0]}
%9 = broadcast f32[8,2,4] %8 {dims=[8,2,4], mapping=[0,2]}
return %9)"},
      {R"(  ROOT r = f32[32] reshape(x))",
       R"(%8 = reshape f32[32] %0
return %8)"},
      {R"(  ROOT r = f32[4,8] reshape(x))", R"(return %0)"},
      {R"(  ROOT r = f32[2,16]{1,0} bitcast(x))",
       R"(%8 = reshape f32[2,16] %0
return %8)"},
      {R"(  ROOT r = f32[8,4] transpose(x), dimensions={1,0})",
       R"(%8 = transpose f32[8,4] %0 {permutation=[1,0]}
return %8)"},
      {R"(  ROOT r = f32[2,3] slice(x), slice={[1:3], [0:6:2]})",
       R"(%8 = slice f32[2,3] %0 {starts=[1,0], limits=[3,6], strides=[1,2]}
return %8)"},
      {R"(  ROOT r = f32[4,16] concatenate(x, y), dimensions={1})",
       R"(%8 = concatenate f32[4,16] %0, %1 {dimension=1}
return %8)"},
      {R"(  ROOT r = f32[4,8] concatenate(x), dimensions={1})", R"(return %0)"},
      {R"(  ROOT r = f32[6,14] pad(x, s), padding=1_1x0_-1_1)",
       R"(%8 = pad f32[6,14] %0, %5 {low=[1,0], high=[1,-1], interior=[0,1]}
return %8)"},
      {R"(  ROOT r = f32[4,8] reverse(x), dimensions={1})",
       R"(%8 = reverse f32[4,8] %0 {dimensions=[1]}
return %8)"},
      {R"(  ROOT r = s32[] get-dimension-size(x), dimensions={1})",
       R"(%8 = constant s32[] {8}
return %8)"},
  };
  expect_rows(rows);
}

TEST(HloRules, Indexing) {
  const RuleRow rows[] = {
      {R"(  ROOT r = f32[2,8] dynamic-slice(x, k, k), dynamic_slice_sizes={2,8})",
       R"(%8 = dynamic-slice f32[2,8] %0, %6, %6 {sizes=[2,8]}
return %8)"},
      {R"(  kk = s32[2] constant({1, 2})
  ROOT r = f32[2,8] dynamic-slice(x, kk), dynamic_slice_sizes={2,8})",
       R"(%8 = constant s32[2] {[1, 2]}
%9 = slice s32[1] %8 {starts=[0], limits=[1], strides=[1]}
%10 = reshape s32[] %9
%11 = slice s32[1] %8 {starts=[1], limits=[2], strides=[1]}
%12 = reshape s32[] %11
%13 = dynamic-slice f32[2,8] %0, %10, %12 {sizes=[2,8]}
return %13)"},
      {R"(  ROOT r = f32[8] dynamic-slice(v, k), dynamic_slice_sizes={8})",
       R"(%8 = dynamic-slice f32[8] %7, %6 {sizes=[8]}
return %8)"},
      {R"(  u = f32[1,8] reshape(v)
  ROOT r = f32[4,8] dynamic-update-slice(x, u, k, k))",
       R"(%8 = reshape f32[1,8] %7
%9 = dynamic-update-slice f32[4,8] %0, %8, %6, %6 {in_place=false}
return %9)"},
      {R"(  ROOT r = f32[4,8,8] gather(x, i), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,8}, indices_are_sorted=true)",
       R"(%8 = gather f32[4,8,8] %0, %2 {offset_dims=[2], collapsed_slice_dims=[0], start_index_map=[0], operand_batching_dims=[], start_indices_batching_dims=[], index_vector_dim=2, slice_sizes=[1,8]}
return %8)"},
      {R"(  ind = s32[3,1] iota(), iota_dimension=0
  u = f32[3,8] broadcast(v), dimensions={1}
  ROOT r = f32[4,8] scatter(x, ind, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=replace)",
       R"(%8 = iota s32[3,1] {dimension=0}
%9 = broadcast f32[3,8] %7 {dims=[3,8], mapping=[1]}
%10 = scatter f32[4,8] %0, %8, %9 {update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], input_batching_dims=[], scatter_indices_batching_dims=[], index_vector_dim=1, combiner=replace, unique_indices=true}
return %10)"},
  };
  expect_rows(rows);
}

TEST(HloRules, Reductions) {
  const RuleRow rows[] = {
      {R"(  z = f32[] constant(0)
  ROOT r = f32[4] reduce(x, z), dimensions={1}, to_apply=sum)",
       R"(%8 = constant f32[] {0}
%9 = reduce f32[4] %0 {kind=sum, dimensions=[1]}
return %9)"},
      {R"(  z = f32[] constant(-inf)
  ROOT r = f32[] reduce(x, z), dimensions={1,0}, to_apply=max)",
       R"(%8 = constant f32[] {-inf}
%9 = reduce f32[] %0 {kind=max, dimensions=[0,1]}
return %9)"},
      {R"(  z = f32[] constant(-1)
  ROOT r = f32[4] reduce(x, z), dimensions={1}, to_apply=max)",
       R"(%8 = constant f32[] {-1}
%9 = reduce f32[4] %0 {kind=max, dimensions=[1]}
%10 = broadcast f32[4] %8 {dims=[4], mapping=[]}
%11 = maximum f32[4] %9, %10
return %11)"},
      {R"(  ROOT r = f32[4] reduce(x, s), dimensions={1}, to_apply=sum)",
       R"(%8 = reduce f32[4] %0 {kind=sum, dimensions=[1]}
%9 = broadcast f32[4] %5 {dims=[4], mapping=[]}
%10 = add f32[4] %8, %9
return %10)"},
      {R"(  z = pred[] constant(false)
  ROOT r = pred[8] reduce(p, z), dimensions={0}, to_apply=or)",
       R"(%8 = constant pred[] {false}
%9 = reduce pred[8] %3 {kind=or, dimensions=[0]}
return %9)"},
      {R"(  z = f32[] constant(0)
  c = bf16[] convert(z)
  ROOT r = bf16[4] reduce(h, c), dimensions={1}, to_apply=wide_sum)",
       R"(%8 = constant f32[] {0}
%9 = convert bf16[] %8
%10 = reduce bf16[4] %4 {kind=sum, dimensions=[1]}
return %10)"},
      {R"(  z = f32[] constant(0)
  w = s32[] constant(-2147483648)
  ROOT r = (f32[4], s32[4]) reduce(x, i, z, w), dimensions={1}, to_apply=sum_and_max)",
       R"(%8 = constant f32[] {0}
%9 = constant s32[] {-2147483648}
%10 = reduce f32[4] %0 {kind=sum, dimensions=[1]}
%11 = reduce s32[4] %2 {kind=max, dimensions=[1]}
return %10 %11)"},
      {R"(  z = f32[] constant(-inf)
  w = s32[] constant(0)
  n = s32[8] iota(), iota_dimension=0
  m = s32[4,8] broadcast(n), dimensions={1}
  ROOT r = (f32[4], s32[4]) reduce(x, m, z, w), dimensions={1}, to_apply=arg_max)",
       R"(%8 = constant f32[] {-inf}
%9 = constant s32[] {0}
%10 = iota s32[8] {dimension=0}
%11 = broadcast s32[4,8] %10 {dims=[4,8], mapping=[1]}
%12 = arg-reduce (f32[4], s32[4]) %0 {kind=max, dimension=1, index_dtype=s32, last=false}
return %12 %12.1)"},
      {R"(  z = f32[] constant(-inf)
  ROOT r = f32[4,4] reduce-window(x, z), window={size=1x3 stride=1x2 pad=0_0x0_1}, to_apply=max)",
       R"(%8 = constant f32[] {-inf}
%9 = reduce-window f32[4,4] %0 {kind=max, sizes=[1,3], strides=[1,2], low=[0,0], high=[0,1], base_dilation=[1,1], window_dilation=[1,1]}
return %9)"},
      {R"(  ROOT r = f32[4,8] reduce-window(x, s), window={size=1x3 pad=0_0x1_1}, to_apply=max)",
       R"(%8 = reduce-window f32[4,8] %0 {kind=max, sizes=[1,3], strides=[1,1], low=[0,1], high=[0,1], base_dilation=[1,1], window_dilation=[1,1]}
%9 = broadcast f32[4,8] %5 {dims=[4,8], mapping=[]}
%10 = maximum f32[4,8] %8, %9
return %10)"},
      {R"(  z = f32[] constant(0)
  ROOT r = f32[4,8] reduce-window(x, z), window={size=1x8 pad=0_0x7_0}, to_apply=sum)",
       R"(%8 = constant f32[] {0}
%9 = scan f32[4,8] %0 {kind=sum, dimension=1, reverse=false, exclusive=false}
return %9)"},
      {R"(  z = f32[] constant(0)
  ROOT r = f32[4,8] reduce-window(x, z), window={size=1x8 pad=0_0x0_7}, to_apply=sum)",
       R"(%8 = constant f32[] {0}
%9 = scan f32[4,8] %0 {kind=sum, dimension=1, reverse=true, exclusive=false}
return %9)"},
      {R"(  z = f32[] constant(0)
  ROOT r = f32[4,8] reduce-window(x, z), window={size=4x1 pad=4_-1x0_0}, to_apply=sum)",
       R"(%8 = constant f32[] {0}
%9 = scan f32[4,8] %0 {kind=sum, dimension=0, reverse=false, exclusive=true}
return %9)"},
      {R"(  z = f32[] constant(-inf)
  ROOT r = f32[4,8] reduce-window(x, z), window={size=1x8 pad=0_0x0_7}, to_apply=log_add)",
       R"(%8 = constant f32[] {-inf}
%9 = associative-scan f32[4,8] %0 {dimension=1, reverse=true}
return %9)"},
      {R"(  z = f32[] constant(0)
  ROOT r = f32[4,8] reduce-window(x, z), window={size=1x7 pad=0_0x6_0}, to_apply=sum)",
       R"(%8 = constant f32[] {0}
%9 = reduce-window f32[4,8] %0 {kind=sum, sizes=[1,7], strides=[1,1], low=[0,6], high=[0,0], base_dilation=[1,1], window_dilation=[1,1]}
return %9)"},
      {R"(  z = f32[] constant(0)
  w = f32[2,4] slice(y), slice={[0:2], [0:4]}
  ROOT r = f32[4,8] select-and-scatter(x, w, z), window={size=2x2 stride=2x2}, select=ge, scatter=sum)",
       R"(%8 = constant f32[] {0}
%9 = slice f32[2,4] %1 {starts=[0,0], limits=[2,4], strides=[1,1]}
%10 = select-and-scatter f32[4,8] %0, %9 {select=max, sizes=[2,2], strides=[2,2], low=[0,0], high=[0,0]}
return %10)"},
      {R"(  w = f32[2,4] slice(y), slice={[0:2], [0:4]}
  ROOT r = f32[4,8] select-and-scatter(x, w, s), window={size=2x2 stride=2x2}, select=ge, scatter=sum)",
       R"(%8 = slice f32[2,4] %1 {starts=[0,0], limits=[2,4], strides=[1,1]}
%9 = select-and-scatter f32[4,8] %0, %8 {select=max, sizes=[2,2], strides=[2,2], low=[0,0], high=[0,0]}
%10 = broadcast f32[4,8] %5 {dims=[4,8], mapping=[]}
%11 = add f32[4,8] %9, %10
return %11)"},
  };
  expect_rows(rows);
}

TEST(HloRules, Contractions) {
  const RuleRow rows[] = {
      {R"(  ROOT r = f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}, operand_precision={highest,highest})",
       R"(%8 = dot f32[4,4] %0, %1 {lhs_batch=[], rhs_batch=[], lhs_contracting=[1], rhs_contracting=[1], result=f32}
return %8)"},
      {R"(  ROOT r = f32[4] dot(h, h), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1})",
       R"(%8 = dot f32[4] %4, %4 {lhs_batch=[0], rhs_batch=[0], lhs_contracting=[1], rhs_contracting=[1], result=f32}
return %8)"},
      {R"(  a = f32[1,6,4] constant({...})
  w = f32[2,4,3] constant({...})
  ROOT r = f32[1,3,2] convolution(a, w), window={size=3 stride=2 pad=1_1 rhs_reversal=1}, dim_labels=b0f_oi0->b0f, feature_group_count=1)",
       R"(%8 = parameter f32[1,6,4]
%9 = parameter f32[2,4,3]
%10 = convolution f32[1,3,2] %8, %9 {input_batch=0, input_feature=2, input_spatial=[1], kernel_input_feature=1, kernel_output_feature=0, kernel_spatial=[2], output_batch=0, output_feature=2, output_spatial=[1], strides=[2], low=[1], high=[1], input_dilation=[1], kernel_dilation=[1], window_reversal=[true], feature_groups=1, batch_groups=1, result=f32}
return %10)"},
  };
  expect_rows(rows);
}

TEST(HloRules, Structure) {
  const RuleRow rows[] = {
      {R"(  a = (f32[4,8], s32[]) tuple(x, k)
  b = ((f32[4,8], s32[]), f32[]) tuple(a, s)
  c = ((f32[4,8], s32[]), f32[]) opt-barrier(b)
  d = (f32[4,8], s32[]) get-tuple-element(c), index=0
  e = f32[4,8] get-tuple-element(d), index=0
  tok = token[] after-all()
  f = f32[4,8] add-dependency(e, tok)
  ROOT r = f32[4,8] negate(f))",
       R"(%8 = negate f32[4,8] %0
return %8)"},
      {R"(  ROOT r = f32[4,8] copy(x))", R"(return %0)"},
  };
  expect_rows(rows);
}

TEST(HloRules, WhatDoesNotFitIsAnErrorWithItsPlace) {
  struct Row {
    std::string_view instruction, message;
  };
  const Row rows[] = {
      {"f32[4,8] add(x, i)", "line 113, column 8: add 'r': operand 1 is s32, operand 0 is f32"},
      {"f32[4,8] add(x, v)", "add 'r': operand 1 has shape f32[8], operand 0 has f32[4,8]"},
      {"f32[4,8] add(x)", "add 'r': 1 operands are given"},
      {"f32[4,7] add(x, y)", "add 'r': declared as f32[4,7], but the operands give f32[4,8]"},
      {"(f32[4,8]) add(x, y)", "add 'r': the declared shape is no array"},
      {"f32[4,8] shift-left(x, y)", "operand 0 is f32, which shift-left does not take"},
      {"pred[4,8] compare(x, y)", "compare 'r' lacks the attribute 'direction'"},
      {"pred[4,8] compare(x, y), direction=UP", "unknown direction 'UP'"},
      {"f32[4,9] reshape(x)", "[4,9] has 36 elements, the operand f32[4,8] has 32"},
      {"f32[4,8] broadcast(v), dimensions={0}", "operand dimension 0 of extent 8 becomes dimension 0 of extent 4"},
      {"f32[4,8] broadcast(v), dimensions={1,0}", "attribute 'dimensions' does not fit"},
      {"f32[8,4] transpose(x), dimensions={1,1}", "attribute 'permutation'"},
      {"f32[3,8] slice(x), slice={[2:5], [0:8]}", "is out of range in dimension 0"},
      {"f32[4,8] concatenate(x, y), dimensions={0,1}", "attribute 'dimensions' names no single dimension"},
      {"f32[4,8] pad(x, s), padding=0_0", "attribute 'padding' does not fit the operand"},
      {"f32[4,8] pad(x, s), padding=0_0x0_0_2000000000000", "is out of range"},
      {"f32[4] iota()", "lacks the attribute 'iota_dimension'"},
      {"f32[2,8] dynamic-slice(x, k), dynamic_slice_sizes={2,8}", "1 start indices for rank 2"},
      {"f32[4] reduce(x), dimensions={1}, to_apply=sum", "1 operands are given"},
      {"f32[4] reduce(x, k), dimensions={1}, to_apply=sum", "the operands are not tensors and as many initial scalars"},
      {"f32[4] reduce(x, s), dimensions={1}", "lacks the attribute 'to_apply'"},
      {"f32[4] reduce(x, s), dimensions={2}, to_apply=sum", "2 is not a dimension of rank 2"},
      {"f32[4] reduce(x, s), dimensions={1}, to_apply=summ", "there is no computation 'summ'"},
      {"f32[4,8] reduce-window(x, s), window={size=1x1x1}, to_apply=max", "3 dimensions where 2 are"},
      {"f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "contracted dimension 0 is 8 on the left, 4 on the right"},
      {"f32[4,8] convolution(x, y), dim_labels=bf_io->bf", "input features 8"},
      {"f32[4,8] convolution(x, y), window={size=3}, dim_labels=b0f_0io->b0f",
       "attribute 'dim_labels' does not fit the operands"},
      {"f32[4,8] get-tuple-element(x), index=0", "the operand has no element 0"},
      {"(f32[4,8], s32[]) tuple(x)", "the operands are not the elements of the declared shape"},
      {"(s32[], f32[4,8]) tuple(x, k)", "declared as s32[], but the operands give f32[4,8]"},
      {"f32[4,8] reduce-precision(x), exponent_bits=0, mantissa_bits=7", "there is no such precision"},
      {"f32[4,8] scatter(x, i, y, y), to_apply=sum", "the operands are not tensors, indices, updates"},
  };
  for (const Row& row : rows) {
    const Error error = import_bad(entry(fmt::format("  ROOT r = {}", row.instruction)));
    EXPECT_EQ(error.kind, ErrorKind::parse) << error.message;
    EXPECT_THAT(error.message, HasSubstr(row.message)) << row.instruction;
    EXPECT_THAT(error.message, HasSubstr("line 113, column ")) << row.instruction;
  }
}

}  // namespace
}  // namespace stitch::import
