// What the analytical pipeline model says of spaces that were measured on GPUs.
#include "lab/spaces/pipeline_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/file.h"
#include "costmodel/ranking_quality.h"
#include "lab/spaces/space_file.h"

namespace stitch::lab {
namespace {

using testing::HasSubstr;

RecordedSpace space_named(const std::string& name) {
  const auto recorded =
      read_recorded_space(RealFileSystem(), std::filesystem::path(STITCH_SOURCE_DIR) / "bench/spaces" / name);
  if (!recorded) throw std::runtime_error(recorded.error().message);
  return *recorded;
}

struct Known {
  const char* space;
  double correlation;
};

class PipelineModel : public testing::TestWithParam<Known> {};

/// Nothing of it was fitted to them. Of the gemms all that is asked is that it is better than knowing nothing.
TEST_P(PipelineModel, RanksWhatWasMeasured) {
  const RecordedSpace recorded = space_named(GetParam().space);
  const auto prior = pipeline_prior(recorded);
  ASSERT_TRUE(prior.ok()) << prior.error().message;
  ASSERT_EQ(prior->log_time.size(), recorded.space.size());
  std::vector<double> predicted, measured;
  for (std::size_t i = 0; i < recorded.trials.size(); ++i) {
    ASSERT_TRUE(std::isfinite(prior->log_time[i])) << recorded.space.describe(i);
    EXPECT_EQ(prior->failed[i], 0);
    if (recorded.trials[i].failure) continue;
    predicted.push_back(prior->log_time[i]);
    measured.push_back(recorded.trials[i].time_us);
  }
  EXPECT_GT(costmodel::spearman(predicted, measured), GetParam().correlation);
}

INSTANTIATE_TEST_SUITE_P(Spaces, PipelineModel,
                         testing::Values(Known{"gemm_rtx3090.json.gz", 0.25}, Known{"gemm_rtx2080ti.json.gz", 0.25},
                                         Known{"convolution_a100.json.gz", 0.85},
                                         Known{"convolution_a6000.json.gz", 0.75}),
                         [](const auto& each) {
                           return std::string(each.param.space).substr(0, std::string(each.param.space).find('.'));
                         });

/// Predicted µs of a convolution's configuration: block, tile, read_only, use_padding, use_shmem.
double convolution_us(const RecordedSpace& recorded, const search::TransferPrior& prior, const std::string& text) {
  for (std::size_t i = 0; i < recorded.space.size(); ++i) {
    if (recorded.space.describe(i) == text) return std::exp(prior.log_time[i]);
  }
  throw std::runtime_error("no " + text);
}

TEST(PipelineModelOfConvolutions, KnowsWhatTheCompilerReadsOnce) {
  const RecordedSpace recorded = space_named("convolution_a6000.json.gz");
  const auto prior = pipeline_prior(recorded);
  ASSERT_TRUE(prior.ok());
  const auto slower = [&](const std::string& one, const std::string& other) {
    return convolution_us(recorded, *prior, one) / convolution_us(recorded, *prior, other);
  };
  const std::string bare = " read_only=0 use_padding=0 use_shmem=0", shared = " read_only=0 use_padding=0 use_shmem=1";
  const std::string block = "block_size_x=32 block_size_y=";
  // Results a row apart share most of their rows, those sixteen rows apart none; as it was measured, 1.995 to 0.626 ms.
  EXPECT_GT(slower(block + "16 tile_size_x=1 tile_size_y=4" + bare, block + "1 tile_size_x=1 tile_size_y=4" + bare), 2);
  // Three rows do not divide the image: a guard before each read, unless they are of shared memory (1.693 to 1.286 ms).
  EXPECT_GT(slower(block + "1 tile_size_x=1 tile_size_y=3" + bare, block + "1 tile_size_x=1 tile_size_y=3" + shared),
            1);
  // Reads by __ldg take registers and addresses (0.953 to 0.603 ms).
  EXPECT_GT(slower("block_size_x=128 block_size_y=1 tile_size_x=2 tile_size_y=4 read_only=1 use_padding=0 use_shmem=0",
                   "block_size_x=128 block_size_y=1 tile_size_x=2 tile_size_y=4" + bare),
            1);
}

/// What the search tries first: among 4,362.
TEST(PipelineModelOfConvolutions, FirstTwentyHoldTheFastest) {
  const RecordedSpace recorded = space_named("convolution_a6000.json.gz");
  const auto prior = pipeline_prior(recorded);
  ASSERT_TRUE(prior.ok());
  std::vector<std::size_t> order;
  double fastest = std::numeric_limits<double>::infinity(), found = fastest;
  for (std::size_t i = 0; i < recorded.trials.size(); ++i) {
    order.push_back(i);
    if (!recorded.trials[i].failure) fastest = std::min(fastest, recorded.trials[i].time_us);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return prior->log_time[i]; });
  for (std::size_t k = 0; k < 20; ++k) {
    const auto& trial = recorded.trials[order[k]];
    if (!trial.failure) found = std::min(found, trial.time_us);
  }
  EXPECT_LT(found, 1.02 * fastest);
}

TEST(PipelineModelErrors, OtherKernelsAndGpusAreUnknown) {
  const auto kernel = pipeline_prior(space_named("pnpoly_rtx3090.json.gz"));
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(kernel.error().message, HasSubstr("knows no kernel with the parameters of"));
  RecordedSpace elsewhere = space_named("convolution_a100.json.gz");
  elsewhere.device = "AMD MI250X";
  const auto device = pipeline_prior(elsewhere);
  ASSERT_FALSE(device.ok());
  EXPECT_THAT(device.error().message, HasSubstr("no figures of 'AMD MI250X'"));
}

}  // namespace
}  // namespace stitch::lab
