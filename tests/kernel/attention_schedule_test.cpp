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
}

}  // namespace
}  // namespace stitch::kernel
