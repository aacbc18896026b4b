#include "tuning/cost_models/scored_recording.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/file.h"

namespace stitch::tuning {
namespace {

using testing::HasSubstr;

/// Two kernels that an H100 has timed.
profiler::Recording measured() {
  const RealFileSystem files;
  auto recording = profiler::read_recording(
      files, STITCH_SOURCE_DIR "/bench/results/gpu/h100-2026-11-26-3/recording-h100.stitchrec");
  EXPECT_TRUE(recording.ok()) << recording.error().message;
  recording->kernels.resize(2);
  return *std::move(recording);
}

costmodel::TrainingOptions quick(int folds) {
  costmodel::TrainingOptions options;
  options.folds = folds;
  options.trees.rounds = 10;
  return options;
}

TEST(ScoredRecording, EveryCandidateKeepsItsTimeAndIsPredictedByModelsOfOtherKernels) {
  profiler::Recording recording = measured();
  recording.kernels[0].candidates[1].failure = make_error(ErrorKind::runtime, "it faulted");
  const auto scored = score_recording(recording, nullptr, quick(2));
  ASSERT_TRUE(scored.ok()) << scored.error().message;
  ASSERT_EQ(scored->size(), 2U);
  for (std::size_t k = 0; k < 2; ++k) {
    const ScoredKernel& kernel = (*scored)[k];
    EXPECT_EQ(kernel.key, recording.kernels[k].key);
    EXPECT_EQ(kernel.kind, costmodel::KernelKind::row_reduction) << kernel.name;
    ASSERT_EQ(kernel.candidates.size(), recording.kernels[k].candidates.size());
    for (std::size_t c = 0; c < kernel.candidates.size(); ++c) {
      const ScoredCandidate& candidate = kernel.candidates[c];
      EXPECT_EQ(candidate.schedule, recording.kernels[k].candidates[c].schedule);
      EXPECT_EQ(candidate.failed, k == 0 && c == 1);
      EXPECT_EQ(candidate.measured_us, candidate.failed ? 0 : recording.kernels[k].candidates[c].median);
      EXPECT_TRUE(candidate.combined_us && candidate.learned_us);
      EXPECT_FALSE(candidate.compiled_us || candidate.combined_compiled_us) << "nothing was compiled";
    }
  }
  // What one kernel is predicted to take does not depend on its own times.
  for (profiler::RecordedCandidate& candidate : recording.kernels[1].candidates) candidate.median *= 3;
  const auto again = score_recording(recording, nullptr, quick(2));
  ASSERT_TRUE(again.ok());
  for (std::size_t c = 0; c < (*scored)[1].candidates.size(); ++c)
    EXPECT_EQ((*again)[1].candidates[c].combined_us, (*scored)[1].candidates[c].combined_us);
  EXPECT_NE((*again)[0].candidates[0].combined_us, (*scored)[0].candidates[0].combined_us);
}

TEST(ScoredRecording, NothingHeldOutIsNoPrediction) {
  const auto scored = score_recording(measured(), nullptr, quick(0));
  ASSERT_TRUE(scored.ok()) << scored.error().message;
  EXPECT_FALSE((*scored)[0].candidates[0].combined_us);
  const nlohmann::json document = to_document((*scored)[0]);
  EXPECT_EQ(document["kind"], "row reduction");
  EXPECT_FALSE(document["candidates"][0].contains("combined"));
  EXPECT_EQ(document["candidates"][0]["analytical"], (*scored)[0].candidates[0].analytical_us);
}

TEST(ScoredRecording, CountsAreNoTimes) {
  profiler::Recording recording = measured();
  recording.kind = profiler::Measurement::Kind::event_count;
  recording.unit = "sectors";
  const auto refused = score_recording(recording, nullptr, quick(2));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("sectors, which are no times"));
}

}  // namespace
}  // namespace stitch::tuning
