// What contractions are made of graphs, and which schedules they may have.
#include "kernel/contraction/contraction_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

using graph::Op;
using testing::HasSubstr;

TEST(ContractionProblems, ReadOperandsWhereTheyLie) {
  const auto plain = derive_contraction(matmul(DType::f16, 64, 48, 32));
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->rows, 64);
  EXPECT_EQ(plain->columns, 48);
  EXPECT_EQ(plain->contracted, 32);
  EXPECT_EQ(contiguity(plain->left), Contiguity::contracted);
  EXPECT_EQ(contiguity(plain->right), Contiguity::free);
  EXPECT_EQ(widest_access(plain->left), 16);
  EXPECT_EQ(to_string(*plain), "f16 1×[64,32]·[32,48] → f32");
  const auto turned = derive_contraction(matmul(DType::f16, 64, 48, 32, true));
  EXPECT_EQ(contiguity(turned->right), Contiguity::contracted) << "the transpose is no copy";
  const auto odd = derive_contraction(matmul(DType::f16, 64, 47, 33));
  EXPECT_EQ(widest_access(odd->left), 2);
  EXPECT_EQ(widest_access(odd->right), 2);
  EXPECT_EQ(widest_access(odd->result).elements, 1);
}

TEST(ContractionProblems, EqualOnesHaveOneName) {
  const auto hash = [](const Graph& graph) { return contraction_hash(*derive_contraction(graph)); };
  EXPECT_EQ(hash(matmul(DType::f16, 64, 48, 32)), hash(matmul(DType::f16, 64, 48, 32, false, "another name")));
  EXPECT_NE(hash(matmul(DType::f16, 64, 48, 32)), hash(matmul(DType::bf16, 64, 48, 32)));
  EXPECT_NE(hash(matmul(DType::f16, 64, 48, 32)), hash(matmul(DType::f16, 64, 48, 32, true)));
  EXPECT_NE(hash(matmul(DType::f16, 64, 48, 32)), hash(matmul(DType::f16, 64, 32, 48)));
}

TEST(ContractionProblems, WhatIsNoneIsNamed) {
  const auto refusal = [](Builder& b, Value result) {
    return derive_contraction(finished(b, {result})).error().message;
  };
  Builder none, computed;
  EXPECT_THAT(refusal(none, none.add(Op::exp, {none.parameter(DType::f32, {4})})), HasSubstr("no dot"));
  const Value x = computed.parameter(DType::f32, {4, 4});
  EXPECT_THAT(refusal(computed, computed.dot(computed.add(Op::exp, {x}), x, {{}, {}, {1}, {0}, DType::f32})),
              HasSubstr("is computed, not read from memory"));
}

TEST(ContractionProblems, ThreeProductsOfBf16AreWhereTensorCoresTakeIt) {
  Graph graph = matmul(DType::f32, 256, 256, 256);
  const Hash128 whole = contraction_hash(*derive_contraction(graph));
  graph.constraints.tf32x3 = true;
  const Hash128 by_tf32 = contraction_hash(*derive_contraction(graph));
  graph.constraints = {.bf16x3 = true};
  const ContractionProblem problem = *derive_contraction(graph);
  EXPECT_NE(contraction_hash(problem), whole);
  EXPECT_NE(contraction_hash(problem), by_tf32);
  for (const char* device : {"a100", "l4", "rtx4090", "h100", "b200"})
    EXPECT_EQ(instruction_for(problem, *find_device(device)), ContractionInstruction::mma_m16n8k16_bf16x3) << device;
  const ContractionSchedule schedule = *default_schedule(problem, *find_device("a100"));
  EXPECT_TRUE(check_legality(problem, schedule, *find_device("a100")));
  const Status before = check_legality(problem, schedule, *find_device("t4"));
  ASSERT_FALSE(before);
  EXPECT_EQ(before.error().message, "device: mma_m16n8k16_bf16x3 on sm_75");
  graph.constraints = {};
  const Status ungranted = check_legality(*derive_contraction(graph), schedule, *find_device("a100"));
  ASSERT_FALSE(ungranted);
  EXPECT_THAT(ungranted.error().message, HasSubstr("types: mma_m16n8k16_bf16x3 does not multiply f32 by f32"));
}

struct Illegal {
  const char* rule;
  void (*change)(ContractionSchedule& schedule);
  const char* target = "h100";
};

void PrintTo(const Illegal& each, std::ostream* out) { *out << each.rule; }

class ContractionRules : public testing::TestWithParam<Illegal> {};

TEST_P(ContractionRules, AreSeenToBeBroken) {
  const auto problem = derive_contraction(matmul(DType::f16, 256, 256, 256));
  const DeviceSpec device = *find_device(GetParam().target);
  ContractionSchedule schedule = *default_schedule(*problem, *find_device("h100"));
  ASSERT_TRUE(check_legality(*problem, schedule, *find_device("h100")));
  GetParam().change(schedule);
  const Status legal = check_legality(*problem, schedule, device);
  ASSERT_FALSE(legal) << to_string(schedule);
  EXPECT_EQ(legal.error().message.substr(0, legal.error().message.find(':')), GetParam().rule) << legal.error().message;
}

using S = ContractionSchedule;
INSTANTIATE_TEST_SUITE_P(
    All, ContractionRules,
    testing::Values(
        Illegal{"powers", [](S& s) { s.block_rows = 96; }}, Illegal{"warp-tile", [](S& s) { s.warp_columns = 8; }},
        Illegal{"thread-tile", [](S& s) { s.instruction = ContractionInstruction::cuda_core; }},
        Illegal{"types", [](S& s) { s.instruction = ContractionInstruction::mma_m16n8k32; }},
        Illegal{"device", [](S&) {}, "t4"}, Illegal{"depth", [](S& s) { s.block_depth = 8; }},
        Illegal{"threads", [](S& s) { s.warp_rows = s.warp_columns = 16, s.block_rows = s.block_columns = 128; }},
        Illegal{"stages", [](S& s) { s.stages = 9; }}, Illegal{"fragment-stages", [](S& s) { s.fragment_stages = 3; }},
        Illegal{"copies", [](S& s) { s.left_copy = 32; }}, Illegal{"stores", [](S& s) { s.store = 8; }},
        Illegal{"realigned", [](S& s) { s.left_realigned = true; }},
        Illegal{"split", [](S& s) { s.split = 100, s.stages = 1; }},
        Illegal{"streamed", [](S& s) { s.streamed = 1 << 20; }},
        Illegal{"shared-memory",
                [](S& s) {
                  s.block_depth = 128, s.block_rows = s.block_columns = 256, s.warp_rows = s.warp_columns = 64,
                  s.stages = 2;
                }},
        Illegal{"registers", [](S& s) { s.warp_rows = s.warp_columns = s.block_rows = s.block_columns = 128; }},
        Illegal{"extents", [](S& s) { s.group = 0; }}),
    [](const auto& each) {
      std::string name = each.param.rule;
      std::ranges::replace(name, '-', '_');
      return name;
    });

TEST(ContractionRules, TurnsThatAreSharedAreNotDividedOtherwise) {
  const DeviceSpec h100 = *find_device("h100");
  const auto problem = *derive_contraction(matmul(DType::f16, 256, 320, 512));
  ContractionSchedule s = *default_schedule(problem, h100);
  s.stages = s.fragment_stages = 1;
  const ContractionShape before = shape_of(problem, s);
  s.streamed = 7;
  ASSERT_TRUE(check_legality(problem, s, h100));
  EXPECT_THAT(to_string(s), testing::EndsWith(" streamed 7"));
  const ContractionShape shape = shape_of(problem, s);
  EXPECT_EQ(shape.blocks, 7 + shape.streamed.whole);
  EXPECT_EQ(shape.streamed.tiles + shape.streamed.whole, before.tiles);
  EXPECT_EQ(shape.scratch_bytes, (shape.streamed.tiles + 6) * s.block_rows * s.block_columns * 4);
  EXPECT_EQ(shape.arrivals, shape.streamed.tiles);
  for (const auto& [change, reason] : std::initializer_list<std::pair<void (*)(ContractionSchedule&), const char*>>{
           {[](ContractionSchedule& other) { other.split = 2; }, "streamed: turns of tiles that are split 2 times"},
           {[](ContractionSchedule& other) { other.fragment_stages = 2; }, "streamed: fragments ahead of turns"},
           {[](ContractionSchedule& other) { other.streamed = -1; }, "turns for -1 blocks"},
           {[](ContractionSchedule& other) { other.streamed = 8; }, ""}}) {
    ContractionSchedule other = s;
    change(other);
    EXPECT_NE(schedule_hash(other), schedule_hash(s));
    const Status legal = check_legality(problem, other, h100);
    EXPECT_THAT(legal ? "" : legal.error().message, testing::HasSubstr(reason));
  }
}

}  // namespace
}  // namespace stitch::kernel::test
