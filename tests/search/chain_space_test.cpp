#include "search/contraction/chain_space.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/kernel/chain_graph.h"

namespace stitch::search {
namespace {

using graph::DType;
using kernel::ChainSchedule;
using kernel::ProductChain;
using kernel::test::ChainCase;
using Kind = ChainCase::Kind;

const DeviceSpec h100 = *find_device("h100");

ProductChain chain_of(const ChainCase& each) { return *kernel::derive_chain(kernel::test::chain_graph(each)); }

std::vector<ChainSchedule> space_of(const ProductChain& chain, const ContractionSpaceOptions& options = {}) {
  std::vector<ChainSchedule> all;
  for_each_chain(chain, h100, options, [&](const ChainSchedule& s, const kernel::KeyWalk&) { all.push_back(s); });
  return all;
}

TEST(ChainSpace, HasEveryLegalScheduleOnce) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    const ProductChain chain = chain_of({"", Kind::queries, {2, 8}, 300, 500, 64, 64, dtype, true});
    std::set<std::string> seen;
    for (const ChainSchedule& s : space_of(chain)) {
      EXPECT_TRUE(kernel::check_legality(chain, s, h100)) << to_string(s);
      EXPECT_TRUE(seen.insert(to_string(s)).second) << to_string(s);
    }
    EXPECT_GT(seen.size(), 50U);
  }
}

TEST(ChainSpace, AblationsLeaveOutStages) {
  const ProductChain chain = chain_of({"", Kind::keys_and_values, {2}, 256, 256, 64, 64, DType::bf16});
  for (const auto& [ablation, most] :
       {std::pair{PipelineAblation::no_pipelining, 1}, std::pair{PipelineAblation::two_stages, 2},
        std::pair{PipelineAblation::none, 3}}) {
    int deepest = 0;
    for (const ChainSchedule& s : space_of(chain, {.ablation = ablation})) {
      deepest = std::max(deepest, s.stages);
      EXPECT_GE(s.stages, is_warpgroup(s.instruction) ? 2 : 1);
    }
    EXPECT_EQ(deepest, most);
  }
}

TEST(ChainSpace, BestOnesAreOrdered) {
  const ProductChain chain = chain_of({"", Kind::queries, {2}, 256, 256, 64, 64});
  const auto rows = [](const ChainSchedule& s, const kernel::KeyWalk&) { return 1.0 * s.block_rows + s.stages; };
  const auto best = best_chains(chain, h100, rows, {.count = 5});
  ASSERT_TRUE(best) << best.error().message;
  ASSERT_EQ(best->best.size(), 5U);
  EXPECT_LE(best->best[0].predicted_us, best->best[1].predicted_us);
  EXPECT_TRUE(is_warpgroup(best->best[2].schedule.instruction)) << "by the other instruction";
  EXPECT_EQ(best->best[0].schedule.block_rows, 16);
  EXPECT_EQ(best->enumerated, std::ssize(space_of(chain)));
}

}  // namespace
}  // namespace stitch::search
