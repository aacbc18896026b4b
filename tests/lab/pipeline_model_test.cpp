// What the analytical pipeline model says of spaces that were measured on GPUs.
#include "lab/spaces/pipeline_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

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

class PipelineModel : public testing::TestWithParam<const char*> {};

/// Nothing of it was fitted to them: all that is asked is that it is better than knowing nothing.
TEST_P(PipelineModel, RanksWhatWasMeasured) {
  const RecordedSpace recorded = space_named(GetParam());
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
  EXPECT_GT(costmodel::spearman(predicted, measured), 0.25);
}

INSTANTIATE_TEST_SUITE_P(Spaces, PipelineModel,
                         testing::Values("gemm_rtx3090.json.gz", "gemm_rtx2080ti.json.gz", "convolution_a100.json.gz",
                                         "convolution_a6000.json.gz"),
                         [](const auto& each) {
                           return std::string(each.param).substr(0, std::string(each.param).find('.'));
                         });

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
