#include "kernel/attention/attention_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel/attention_graph.h"

namespace stitch::kernel {
namespace {

using graph::DType;
using test::attention_graph;
using testing::HasSubstr;

class AttentionScheduleTest : public testing::Test {
 protected:
  /// What is violated once the schedule is changed; empty: nothing.
  std::string violated(const std::function<void(AttentionSchedule&)>& change) const {
    AttentionSchedule changed = schedule;
    change(changed);
    const Status legal = check_legality(problem, changed, device);
    return legal ? "" : legal.error().message;
  }
  const DeviceSpec device = *find_device("h100");
  const AttentionProblem problem = *derive_attention(attention_graph({"", {2, 4}, 200, 300, 64, 64, DType::f16}));
  const AttentionSchedule schedule = *default_schedule(problem, device);
};

TEST_F(AttentionScheduleTest, TheDefaultIsLegalAndPrinted) {
  EXPECT_EQ(violated([](AttentionSchedule&) {}), "");
  EXPECT_EQ(to_string(schedule),
            "mma_m16n8k16 rows 64 keys 64 warp 16 stages 2 split 1 copy 16/16/16 store 8 blocks 1");
}

TEST_F(AttentionScheduleTest, EveryRuleIsChecked) {
  EXPECT_THAT(violated([](auto& s) { s.block_rows = 48; }), HasSubstr("tiles of 48"));
  EXPECT_THAT(violated([](auto& s) { s.block_keys = 8; }), HasSubstr("tiles of 8"));
  EXPECT_THAT(violated([](auto& s) { s.warp_rows = 128; }), HasSubstr("warps of 128"));
  EXPECT_THAT(violated([](auto& s) { s.stages = 6; }), HasSubstr("6 stages of a loop of 5 turns"));
  EXPECT_THAT(violated([](auto& s) {
                s.stages = 1;
                s.split = 6;
              }),
              HasSubstr("split 6 times"));
  EXPECT_THAT(violated([](auto& s) { s.key_copy = 32; }), HasSubstr("copies"));
  EXPECT_THAT(violated([](auto& s) { s.store = 16; }), HasSubstr("stores"));
  EXPECT_THAT(violated([](auto& s) { s.blocks_per_sm = 16; }), Not(testing::IsEmpty()));
  EXPECT_THAT(violated([](auto& s) {
                s.block_rows = s.block_keys = 256;
                s.warp_rows = 64;
              }),
              Not(testing::IsEmpty()));
  const auto deep = derive_attention(attention_graph({"", {2}, 16, 16, 300, 16, DType::f16}));
  EXPECT_THAT(default_schedule(*deep, device).error().message, HasSubstr("depth 300"));
}

/// By wgmma: 64 rows or 128 of a warpgroup, stages, and tiles that it can read.
TEST_F(AttentionScheduleTest, WarpgroupsHaveRulesOfTheirOwn) {
  AttentionSchedule together = schedule;
  together.instruction = warpgroup_instruction_for(problem, device).value();
  const auto legality = [&](const AttentionProblem& of, const std::function<void(AttentionSchedule&)>& change,
                            const DeviceSpec& on) {
    AttentionSchedule changed = together;
    change(changed);
    fit_accesses(of, changed);
    const Status legal = check_legality(of, changed, on);
    return legal ? std::string() : legal.error().message;
  };
  const auto broken = [&](const std::function<void(AttentionSchedule&)>& change) {
    return legality(problem, change, device);
  };
  EXPECT_EQ(broken([](auto&) {}), "");
  EXPECT_EQ(broken([](auto& s) { s.overlaps = true; }), "");
  EXPECT_EQ(broken([](auto& s) { s.block_rows = 192; }), "") << "three warpgroups";
  EXPECT_THAT(broken([](auto& s) { s.block_rows = 96; }), HasSubstr("96 rows of warpgroups that have 64"));
  EXPECT_THAT(broken([](auto& s) { s.warp_rows = 32; }), HasSubstr("64 rows of warpgroups that have 128"));
  EXPECT_THAT(broken([](auto& s) { s.block_rows = 512; }), HasSubstr("512 rows, at most 256"));
  EXPECT_THAT(broken([](auto& s) { s.block_keys = 16; }), HasSubstr("16 keys by wgmma"));
  EXPECT_THAT(broken([](auto& s) { s.stages = 1; }), HasSubstr("1 stage"));
  EXPECT_THAT(broken([](auto& s) {
                s.block_rows = 192;
                s.blocks_per_sm = 3;
              }),
              HasSubstr("registers"));
  EXPECT_THAT(violated([](auto& s) { s.overlaps = true; }), HasSubstr("by wgmma alone"));
  EXPECT_THAT(legality(
                  problem, [](auto&) {}, *find_device("a100")),
              HasSubstr("wgmma_m64k16 on sm_80"));
  test::AttentionCase lines{"", {2}, 64, 64, 32, 32, DType::f16};
  lines.lines_of_keys = true;
  const auto turned = *derive_attention(attention_graph(lines));
  EXPECT_EQ(legality(
                turned, [](auto&) {}, device),
            "");
  EXPECT_THAT(legality(
                  turned, [](auto& s) { s.block_keys = 32; }, device),
              HasSubstr("panels of 32 elements"));
  const auto f32 = *derive_attention(attention_graph({"", {2}, 64, 64, 32, 32, DType::f32}));
  EXPECT_FALSE(warpgroup_instruction_for(f32, device));
  EXPECT_FALSE(warpgroup_instruction_for(problem, *find_device("b200")));
}

TEST_F(AttentionScheduleTest, ShapeFollows) {
  const AttentionShape shape = shape_of(problem, schedule);
  EXPECT_EQ(shape.warps, 4);
  EXPECT_EQ(shape.row_tiles, 4);
  EXPECT_EQ(shape.key_tiles, 5);
  EXPECT_EQ(shape.blocks, 32);
  EXPECT_EQ(shape.query_bytes, 64 * 64 * 2);
  EXPECT_EQ(shape.shared_bytes, 64 * 64 * 2 * (1 + 2 * 2));
  EXPECT_EQ(shape.weight_bytes, 0) << "they stay in registers";
  const auto plain = *derive_attention(attention_graph({"", {2}, 64, 64, 32, 32, DType::f32}));
  EXPECT_GT(shape_of(plain, *default_schedule(plain, device)).weight_bytes, 0);
}

TEST_F(AttentionScheduleTest, AHashHoldsEveryField) {
  std::set<std::string> hashes = {schedule_hash(schedule).hex()};
  const auto add = [&](const std::function<void(AttentionSchedule&)>& change) {
    AttentionSchedule changed = schedule;
    change(changed);
    EXPECT_TRUE(hashes.insert(schedule_hash(changed).hex()).second) << to_string(changed);
  };
  add([](auto& s) { s.instruction = ContractionInstruction::cuda_core; });
  add([](auto& s) { s.block_rows *= 2; });
  add([](auto& s) { s.block_keys *= 2; });
  add([](auto& s) { s.warp_rows *= 2; });
  add([](auto& s) { ++s.stages; });
  add([](auto& s) { ++s.split; });
  add([](auto& s) { s.query_copy = 8; });
  add([](auto& s) { s.key_copy = 8; });
  add([](auto& s) { s.value_copy = 8; });
  add([](auto& s) { s.store = 4; });
  add([](auto& s) { ++s.blocks_per_sm; });
  add([](auto& s) { s.skips = false; });
  add([](auto& s) { s.overlaps = true; });
}

}  // namespace
}  // namespace stitch::kernel
