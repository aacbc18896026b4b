// Which graphs are products whose depth is scaled part by part.
#include "kernel/contraction/scaled_contraction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/depth_scales.h"
#include "tests/kernel/scaled_graphs.h"

namespace stitch::kernel::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto f8 = DType::f8e4m3, s8 = DType::s8, bf16 = DType::bf16, f32 = DType::f32;

ContractionProblem scaled(const Graph& graph) {
  auto problem = derive_scaled(graph);
  if (!problem) throw std::runtime_error(problem.error().message);
  return *std::move(problem);
}
std::string refusal(const Graph& graph) {
  const auto problem = derive_scaled(graph);
  return problem ? to_string(*problem) : problem.error().message;
}
const DeviceSpec& h100() {
  static const DeviceSpec device = *find_device("h100");
  return device;
}

TEST(ScaledContraction, IsTheProductOfWhatIsInMemory) {
  for (const bool by_parts : {false, true}) {
    const ContractionProblem p = scaled(graph_of({"", 1, 100, 256, 1024, f8, f8, by_parts}));
    EXPECT_EQ(to_string(p), "f8e4m3 1×[100,1024]·[256,1024]ᵀ scaled by 128 of depth → f32") << by_parts;
    EXPECT_EQ(p.left.parameter, 0);
    EXPECT_EQ(p.right.parameter, 2);
    EXPECT_EQ(p.left.dtype, f8);
    EXPECT_EQ(p.contracted, 1024);
    EXPECT_EQ(p.accumulator, f32);
    EXPECT_EQ(widest_access(p.left), 16);
    EXPECT_THAT(p.scales->reads, ElementsAre(1, 3));
    EXPECT_EQ(p.scales->depth, 128);
    EXPECT_EQ(p.scales->same_rows, 1);
    EXPECT_EQ(p.scales->same_columns, by_parts ? 128 : 128);
    EXPECT_EQ(p.scales->bytes, 4 * (100 * 8 + 2 * 8));
    EXPECT_EQ(p.whole()->parameters().size(), 4U);
    EXPECT_EQ(p.least_bytes(), 100 * 1024 + 256 * 1024 + 4 * (100 * 8 + 2 * 8) + 4 * 100 * 256);
    EXPECT_EQ(instruction_for(p, h100()), ContractionInstruction::mma_m16n8k32_f8);
  }
}

TEST(ScaledContraction, SumsIntegersExactlyWithinAPart) {
  for (const bool by_parts : {false, true}) {
    const ContractionProblem p = scaled(graph_of({"", 2, 64, 64, 512, s8, s8, by_parts, 64, 1, f32, true, bf16}));
    EXPECT_EQ(to_string(p), by_parts ? "s8 2×[64,512]·[512,64] scaled by 64 of depth → bf16 with epilogue"
                                     : "s8 2×[64,512]·[512,64] scaled by 64 of depth → bf16 with epilogue");
    EXPECT_EQ(types_of(p).accumulator, DType::s32);
    EXPECT_EQ(p.accumulator, f32) << "of what is scaled";
    EXPECT_EQ(instruction_for(p, h100()), ContractionInstruction::mma_m16n8k32);
    EXPECT_EQ(p.scales->same_columns, 1);
  }
}

TEST(ScaledContraction, HasALastPartThatIsShorter) {
  const ContractionProblem p = scaled(graph_of({"", 1, 33, 70, 200, s8, s8, false}));
  EXPECT_EQ(p.contracted, 200);
  EXPECT_EQ(p.scales->depth, 128);
}

TEST(ScaledContraction, MayHaveOneScaledOperand) {
  Builder b;
  const Value x = b.parameter(bf16, {1, 64, 256}), w = b.parameter(bf16, {1, 32, 256});
  const Value sw = repeated(b, b.parameter(bf16, {1, 32, 4}), 32, 256, 1, 64);
  const ContractionProblem p =
      scaled(finished(b, {b.dot(x, b.binary(Op::multiply, w, sw), {{0}, {0}, {2}, {2}, f32})}));
  EXPECT_EQ(p.scales->depth, 64);
  const auto elements = scale_elements(p);
  ASSERT_TRUE(elements) << elements.error().message;
  EXPECT_TRUE(elements->of_row.empty());
  EXPECT_EQ(elements->of_column.size(), 1U);
}

TEST(ScaledContraction, HasASecondSumOfEachResult) {
  const ContractionProblem p = scaled(graph_of({"", 1, 256, 256, 1024}));
  ContractionProblem plain = p;
  plain.scales.reset();
  const auto schedule = default_schedule(p, h100());
  ASSERT_TRUE(schedule) << schedule.error().message;
  const ContractionShape shape = shape_of(p, *schedule), unscaled = shape_of(plain, *schedule);
  EXPECT_EQ(shape.row_factors, schedule->warp_rows / 8);
  EXPECT_EQ(shape.column_factors, 1) << "128 columns have the same";
  EXPECT_EQ(shape.registers - unscaled.registers, shape.accumulators + shape.row_factors + 1);
}

TEST(ScaledContraction, NeedsTilesThatDivideItsParts) {
  const ContractionProblem p = scaled(graph_of({"", 1, 256, 256, 1024, s8, s8, false, 64}));
  ContractionSchedule s = *default_schedule(p, h100());
  s.block_depth = 128;
  s.stages = s.fragment_stages = 1;
  EXPECT_THAT(check_legality(p, s, h100()).error().message, HasSubstr("scales: tiles of 128 in parts of 64"));
  s.block_depth = 32;
  s.split = 32;
  EXPECT_THAT(check_legality(p, s, h100()).error().message, HasSubstr("scales: a depth of 32 for a block"));
  s.split = 16;
  EXPECT_TRUE(check_legality(p, s, h100()));
}

TEST(ScaledContraction, HasAHashOfItsOwn) {
  const ContractionProblem of_operands = scaled(graph_of({"", 1, 64, 64, 512}));
  const ContractionProblem by_parts = scaled(graph_of({"", 1, 64, 64, 512, f8, f8, true}));
  const ContractionProblem smaller = scaled(graph_of({"", 1, 64, 64, 512, f8, f8, false, 64}));
  EXPECT_NE(contraction_hash(of_operands), contraction_hash(by_parts));
  EXPECT_NE(contraction_hash(of_operands), contraction_hash(smaller));
  EXPECT_EQ(of_operands, scaled(graph_of({"", 1, 64, 64, 512})));
}

TEST(ScaledContraction, RefusesWhatIsNone) {
  EXPECT_THAT(refusal(graph_of({"", 1, 64, 64, 512, f8, s8})), HasSubstr("f8e4m3 by s8, scaled"));
  EXPECT_THAT(refusal(graph_of({"", 1, 64, 64, 512, f8, f8, false, 16})), HasSubstr("less than 32 of depth"));
  EXPECT_THAT(refusal(graph_of({"", 1, 64, 64, 128})), HasSubstr("the same along the whole depth"));
  {
    Builder b;  // not scaled
    const Value x = b.parameter(f8, {64, 128}), w = b.parameter(f8, {64, 128});
    EXPECT_THAT(refusal(finished(b, {b.dot(x, w, {{}, {}, {1}, {1}, f32})})), HasSubstr("no scales"));
  }
  {
    Builder b;  // a zero point
    const Value x = b.convert(b.parameter(s8, {64, 128}), f32), w = b.convert(b.parameter(s8, {64, 128}), f32);
    const Value moved = b.binary(Op::subtract, x, b.parameter(f32, {64, 128}));
    EXPECT_THAT(refusal(finished(b, {b.dot(moved, w, {{}, {}, {1}, {1}, f32})})), HasSubstr("no narrow tensor"));
  }
  {
    Builder b;  // a scale of row and column together
    const Value x = b.parameter(f8, {4, 64, 128}), w = b.parameter(f8, {4, 32, 128});
    const Value dots = b.dot(x, w, {{0}, {0}, {2}, {2}, f32});
    const Value y = b.reduce(ReduceKind::sum, b.binary(Op::multiply, dots, b.parameter(f32, {4, 64, 32})), {0});
    EXPECT_THAT(refusal(finished(b, {y})), HasSubstr("row and column together"));
  }
  {
    Builder b;  // sums of parts that are results, too
    const Value x = b.parameter(f8, {4, 64, 128}), w = b.parameter(f8, {4, 32, 128});
    const Value dots = b.dot(x, w, {{0}, {0}, {2}, {2}, f32});
    const Value s = b.broadcast(b.parameter(f32, {4, 64}), {4, 64, 32}, {0, 1});
    const Value scaled = b.binary(Op::multiply, dots, s);
    const Value y = b.reduce(ReduceKind::sum, scaled, {0});
    EXPECT_FALSE(derive_scaled(finished(b, {y, scaled})));
  }
}

}  // namespace
}  // namespace stitch::kernel::test
