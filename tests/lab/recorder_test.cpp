#include "lab/recording/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "tests/base/test_folder.h"
#include "tests/tuning/sample_fragments.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/devices/device_set.h"

// Candidate spaces recorded on the emulated device behind a real runner: its figures are counts.
namespace stitch::lab {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class RecorderEmulated : public testing::Test {
 protected:
  void SetUp() override {
    tuning::DeviceOptions where;
    where.name = "emulated:counts";
    where.runner = std::string(STITCH_BINARY_DIR) + "/bin/stitch-runner";
    auto opened = tuning::DeviceSet::open(where, files_, clock_);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    devices_ = *std::move(opened);
    compiler_ = *codegen::NvrtcCompiler::create();
  }

  Status record(int candidates, std::stop_token stop = {}, double seconds_of_kernel = 0) {
    RecorderOptions options;
    options.seconds_of_kernel = seconds_of_kernel;
    options.space = {candidates, 16};
    options.verify.distributions.resize(1);
    Recorder recorder(tuning::shared_tuner(tuning::shared_device()), *compiler_, tuning::shared_device(),
                      *devices_->timer(), files_, clock_, options);
    report_ = {};
    return recorder.record(model_, "softmax.json", path_, {}, stop, report_);
  }
  profiler::Recording read() {
    auto recording = profiler::read_recording(files_, path_);
    EXPECT_TRUE(recording.ok()) << (recording ? "" : recording.error().message);
    return recording.value_or({});
  }

  TestFolder folder_;
  std::filesystem::path path_ = folder_ / "softmax.record";
  RealFileSystem files_;
  SystemClock clock_;
  std::unique_ptr<tuning::DeviceSet> devices_;
  std::unique_ptr<codegen::NvrtcCompiler> compiler_;
  std::string model_ = graph::encode(tuning::samples::softmax(16, 256), graph::Encoding::json);
  RecordingReport report_;
};

TEST_F(RecorderEmulated, EveryCandidateIsJudgedAndTheNextCallGoesOn) {
  const Status first = record(4);
  ASSERT_TRUE(first.ok()) << first.error().message;
  ASSERT_EQ(report_.kernels.size(), 1U);
  EXPECT_TRUE(report_.complete());
  EXPECT_EQ(report_.kernels[0].before, 0);
  const profiler::Recording four = read();
  EXPECT_EQ(four.kind, profiler::Measurement::Kind::event_count);
  EXPECT_EQ(four.unit, "sectors");
  EXPECT_EQ(four.method, "emulator counters");
  EXPECT_EQ(four.generator, tuning::shared_tuner(tuning::shared_device()).target().version);
  EXPECT_EQ(four.device.kind, "emulated");
  ASSERT_EQ(four.kernels.size(), 1U);
  const profiler::RecordedKernel& kernel = four.kernels[0];
  const auto graph = graph::decode(kernel.graph, graph::Encoding::cbor);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph::canonicalise(*graph)->key, kernel.key);
  ASSERT_EQ(kernel.candidates.size(), 4U);
  for (const profiler::RecordedCandidate& candidate : kernel.candidates) {
    EXPECT_FALSE(candidate.failure) << candidate.failure->message;
    EXPECT_GE(candidate.median, 2 * 16 * 256 * 4 / 32) << "read and written once";
    EXPECT_EQ(candidate.samples.size(), 1U);
    EXPECT_GT(candidate.registers, 0);
    EXPECT_GT(candidate.predicted_us, 0);
  }
  EXPECT_GT(kernel.legal, 100);

  ASSERT_TRUE(record(7).ok());
  EXPECT_EQ(report_.kernels[0].before, 4);
  EXPECT_EQ(report_.kernels[0].recorded, report_.kernels[0].wanted);
  const profiler::Recording more = read();
  ASSERT_GE(more.kernels[0].candidates.size(), 7U);
  EXPECT_TRUE(std::equal(kernel.candidates.begin(), kernel.candidates.end(), more.kernels[0].candidates.begin()));

  const std::string bytes = *files_.read(path_);
  ASSERT_TRUE(record(7).ok());
  EXPECT_EQ(*files_.read(path_), bytes) << "nothing was left to do";
  EXPECT_EQ(nlohmann::json::parse(to_json(report_))["kernels"][0]["recorded"], report_.kernels[0].recorded);
  EXPECT_THAT(to_table(report_), HasSubstr("softmax.json"));
}

TEST_F(RecorderEmulated, AStopLeavesWhatWasThere) {
  std::stop_source stop;
  stop.request_stop();
  ASSERT_TRUE(record(4, stop.get_token()).ok());
  EXPECT_TRUE(report_.kernels.empty());
  EXPECT_FALSE(files_.exists(path_));
}

TEST_F(RecorderEmulated, HoweverLittleTimeThereIsEveryCallGoesOn) {
  for (int call = 1; call <= 3; ++call) {
    ASSERT_TRUE(record(3, {}, 1e-9).ok()) << call;
    ASSERT_EQ(report_.kernels.size(), 1U);
    EXPECT_EQ(report_.kernels[0].recorded, call);
    EXPECT_EQ(report_.complete(), call == 3);
    EXPECT_EQ(read().kernels[0].complete(), call == 3);
  }
}

TEST_F(RecorderEmulated, FilesOfOtherDevicesAreLeftAlone) {
  ASSERT_TRUE(record(1).ok());
  profiler::Recording other = read();
  other.device.key = "GPU-1";
  ASSERT_TRUE(profiler::write_recording(files_, path_, other).ok());
  const Status refused = record(2);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid_argument);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr(path_.string()), HasSubstr("recorded with device GPU-1, this is emulated")));
  EXPECT_EQ(read().device.key, "GPU-1");
  ASSERT_TRUE(files_.publish(path_, "no recording").ok());
  EXPECT_EQ(record(2).error().kind, ErrorKind::corrupt);
}

}  // namespace
}  // namespace stitch::lab
