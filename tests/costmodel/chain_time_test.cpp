#include "costmodel/contraction/chain_time.h"

#include <gtest/gtest.h>

#include "tests/kernel/chain_graph.h"

namespace stitch::costmodel {
namespace {

using graph::DType;
using kernel::ChainSchedule;
using kernel::ProductChain;
using kernel::test::ChainCase;
using Kind = ChainCase::Kind;

const DeviceSpec h100 = *find_device("h100");

ProductChain chain_of(const ChainCase& each) { return *kernel::derive_chain(kernel::test::chain_graph(each)); }

AttentionTime time_of(const ProductChain& chain, const DeviceSpec& device = h100) {
  const ChainSchedule schedule = *kernel::default_schedule(chain, device);
  return chain_time(chain, schedule, kernel::chain_walk(chain, schedule), device);
}

TEST(ChainTime, GrowsWithWhatThereIsToDo) {
  const ProductChain once = chain_of({"", Kind::queries, {4, 16}, 1024, 1024, 64, 64}),
                     twice = chain_of({"", Kind::queries, {8, 16}, 1024, 1024, 64, 64}),
                     longer = chain_of({"", Kind::queries, {4, 16}, 1024, 2048, 64, 64});
  EXPECT_NEAR(time_of(twice).total / time_of(once).total, 2, 0.3);
  EXPECT_NEAR(time_of(longer).total / time_of(once).total, 2, 0.3);
}

TEST(ChainTime, AMaskOfPositionsHalvesIt) {
  for (const Kind kind : {Kind::queries, Kind::keys_and_values}) {
    const ProductChain all = chain_of({"", kind, {4, 16}, 2048, 2048, 64, 64}),
                       causal = chain_of({"", kind, {4, 16}, 2048, 2048, 64, 64, DType::f16, true});
    EXPECT_NEAR(time_of(causal).turns / time_of(all).turns, 0.5, 0.05);
    EXPECT_LT(time_of(causal).total, 0.7 * time_of(all).total);
  }
}

/// What is bound to be true of any prediction: no less than its limits and the launch.
TEST(ChainTime, IsNoLessThanItsLimits) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    for (const char* target : {"a100", "l4", "h100", "rtx4090"}) {
      const ProductChain chain = chain_of({"", Kind::keys_and_values, {2, 8}, 512, 512, 64, 64, dtype});
      const AttentionTime time = time_of(chain, *find_device(target));
      for (const auto& [name, us] : time.limits()) EXPECT_GE(time.total, us + time.launch) << name << " " << target;
      EXPECT_GE(time.loop, time.multiply);
      EXPECT_GE(time.dram_bytes * 1.0001, static_cast<double>(chain.least_bytes())) << target;
    }
  }
}

/// Scores that go through memory take longer, the more the longer rows are.
TEST(ChainTime, IsLessThanStepByStep) {
  double before = 0;
  for (const std::int64_t length : {512, 1024, 2048}) {
    const ProductChain chain =
        chain_of({"", Kind::keys_and_values, {4, 16}, length, length, 64, 64, DType::bf16, true});
    const double gain = unfused_chain_us(chain, h100) / time_of(chain).total;
    EXPECT_GT(gain, 1.5);
    EXPECT_GE(gain, 0.9 * before);
    before = gain;
  }
}

}  // namespace
}  // namespace stitch::costmodel
