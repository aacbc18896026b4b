#include "tuning/kernels/kernel_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "costmodel/analytical.h"
#include "graph/canonical.h"
#include "kernel/program/schedule_hash.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::tuning {
namespace {

class KernelSpaceOf : public testing::Test {
 protected:
  explicit KernelSpaceOf(const graph::Graph& graph = samples::softmax(64, 512))
      : scorer_(*find_device("h100")), form_(*graph::canonicalise(graph)) {}

  std::vector<Hash128> hashes(int candidates) {
    const auto space = kernel_space(form_.graph, form_.key, scorer_, {candidates, 64});
    EXPECT_TRUE(space.ok()) << (space ? "" : space.error().message);
    legal_ = space->legal;
    std::vector<Hash128> all;
    predicted_.clear();
    for (const auto& candidate : space->kernel->candidates) {
      all.push_back(kernel::schedule_hash(candidate.schedule));
      predicted_.push_back(candidate.predicted_us);
      EXPECT_FALSE(candidate.program.phases.empty());
    }
    EXPECT_EQ(std::set<Hash128>(all.begin(), all.end()).size(), all.size());
    return all;
  }

  costmodel::AnalyticalScorer scorer_;
  graph::CanonicalForm form_;
  std::int64_t legal_ = 0;
  std::vector<double> predicted_;
};

TEST_F(KernelSpaceOf, BeginsWithWhatTuningLooksAt) {
  const auto explored = search::explore_stitches(form_.graph, scorer_, {5, false});
  ASSERT_TRUE(explored);
  const auto found = hashes(200);
  ASSERT_EQ(found.size(), 200U);
  for (std::size_t i = 0; i < explored->size(); ++i)
    EXPECT_EQ(found[i], kernel::schedule_hash((*explored)[i].schedule)) << i;
  EXPECT_EQ(found, hashes(200)) << "the same every time";
}

TEST_F(KernelSpaceOf, HasGoodAndBadOnes) {
  const auto some = hashes(300);
  ASSERT_EQ(some.size(), 300U);
  const double worst_of_some = *std::max_element(predicted_.begin(), predicted_.end());
  const auto all = hashes(100'000);
  EXPECT_EQ(static_cast<std::int64_t>(all.size()), legal_) << "where there is room for all, all";
  std::vector<double> ranked = predicted_;
  std::sort(ranked.begin(), ranked.end());
  ASSERT_GT(ranked.size(), 1000U);
  EXPECT_GE(worst_of_some, ranked[ranked.size() * 95 / 100]);
  const std::set<Hash128> known(all.begin(), all.end());
  for (const Hash128& each : some) EXPECT_TRUE(known.contains(each));
}

}  // namespace
}  // namespace stitch::tuning
