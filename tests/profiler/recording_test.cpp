#include "profiler/measure/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "profiler/measure/sample_comparison.h"
#include "tests/base/test_folder.h"

namespace stitch::profiler {
namespace {

using testing::AllOf;
using testing::HasSubstr;

RecordedCandidate right(std::uint64_t schedule, double median) {
  RecordedCandidate candidate;
  candidate.schedule = {7, schedule};
  candidate.predicted_us = median * 0.875;
  candidate.registers = 40;
  candidate.shared_bytes = 4096;
  candidate.spill_bytes = 16;
  candidate.median = median;
  candidate.noise = 0.015625;
  candidate.samples = {median - 0.5, median, median + 0.25};
  candidate.features = {1, 0.25};
  return candidate;
}

RecordedCandidate wrong(std::uint64_t schedule, ErrorKind kind) {
  RecordedCandidate candidate;
  candidate.schedule = {7, schedule};
  candidate.failure = make_error(kind, "result 0 at [3]: 1 instead of 2 µs");
  return candidate;
}

Recording sample() {
  Recording recording;
  recording.tool = "0.1.0";
  recording.generator = "0.1.0-0123456789ab";
  recording.target = "h100";
  recording.architecture = "sm_90a";
  recording.toolkit = "13.0";
  recording.scorer = "analytical v1";
  recording.verification = "mixed, small";
  recording.method = "CUPTI activity";
  recording.when_us = 1790000000000000;
  recording.device = {"GPU-1", "gpu", "NVIDIA H100 80GB HBM3", "sm_90a", "580.95 (CUDA 13.0)", 132, 85000000000};
  recording.feature_names = {"waves", "occupancy"};
  RecordedKernel kernel;
  kernel.key = {1, 2};
  kernel.name = "softmax";
  kernel.occurrences = 12;
  kernel.graph = std::string("\0\xff graph", 8);
  kernel.legal = 7818;
  kernel.whole = true;
  kernel.wanted = 9;
  kernel.candidates = {right(1, 12.5),
                       right(2, 10.25),
                       wrong(3, ErrorKind::constraint),
                       wrong(4, ErrorKind::compile),
                       wrong(5, ErrorKind::timeout),
                       wrong(6, ErrorKind::runtime),
                       wrong(7, ErrorKind::correctness)};
  recording.kernels = {kernel, kernel};
  recording.kernels[1].key = {1, 3};
  recording.kernels[1].wanted = 7;
  return recording;
}

/// The bytes of a file whose document was changed; its checksum is right.
std::string changed(const std::function<void(Recording&)>& change) {
  Recording recording = sample();
  change(recording);
  return *encode_recording(recording);
}

std::string error_of(const Result<Recording>& result) {
  return result ? "fine" : fmt::format("{}: {}", to_string(result.error().kind), result.error().message);
}

TEST(Recording, ComesBackAsItWas) {
  const Recording written = sample();
  const auto bytes = encode_recording(written);
  ASSERT_TRUE(bytes);
  const auto read = decode_recording(*bytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->kernels, written.kernels);
  EXPECT_EQ(*encode_recording(*read), *bytes);
  EXPECT_EQ(read->device.driver, "580.95 (CUDA 13.0)");
  EXPECT_EQ(read->when_us, written.when_us);
  EXPECT_FALSE(read->kernels[0].complete());
  EXPECT_TRUE(read->kernels[1].complete());
}

TEST(Recording, CountsAreNoTimes) {
  Recording counts = sample();
  counts.kind = Measurement::Kind::event_count;
  counts.unit = "sectors";
  counts.method = "emulator counters";
  const auto read = decode_recording(*encode_recording(counts));
  ASSERT_TRUE(read);
  const Measurement measurement = replayed(*read, read->kernels[0].candidates[0]);
  EXPECT_EQ(measurement.kind, Measurement::Kind::event_count);
  EXPECT_EQ(measurement.unit, "sectors");
  EXPECT_EQ(measurement.method, "recording of emulator counters");
}

TEST(Recording, KeptSamplesHaveTheMedianAndSpreadOfAll) {
  Measurement many;
  for (int i = 0; i < 400; ++i) many.samples.push_back(100 + (i * 37 % 400) * 0.05);  // 100 … 120, shuffled
  summarise(many, Verdict::stable);
  RecordedCandidate candidate;
  keep_samples(many, candidate);
  ASSERT_EQ(candidate.samples.size(), Recording::most_samples);
  EXPECT_TRUE(std::is_sorted(candidate.samples.begin(), candidate.samples.end()));
  EXPECT_NEAR(median_of(candidate.samples), many.median, 0.1);
  EXPECT_NEAR(trimmed_deviation(candidate.samples), many.noise, 0.1 * many.noise);
  const Measurement again = replayed(sample(), candidate);
  EXPECT_EQ(again.median, many.median);
  EXPECT_EQ(again.noise, many.noise);
  // They still tell a faster candidate from a slower one.
  std::vector<double> faster = candidate.samples;
  for (double& each : faster) each *= 0.8;
  EXPECT_EQ(compare_samples(candidate.samples, faster).verdict, Comparison::faster);

  Measurement few;
  few.samples = {3, 1, 2};
  summarise(few, Verdict::out_of_time);
  keep_samples(few, candidate);
  EXPECT_THAT(candidate.samples, testing::ElementsAre(1, 2, 3));
}

TEST(Recording, IndexFindsByKernelAndSchedule) {
  const Recording recording = sample();
  const RecordingIndex index(recording);
  EXPECT_EQ(index.kernel({1, 3}), &recording.kernels[1]);
  EXPECT_EQ(index.kernel({1, 4}), nullptr);
  EXPECT_EQ(index.candidate({1, 3}, {7, 2}), &recording.kernels[1].candidates[1]);
  EXPECT_EQ(index.candidate({1, 3}, {7, 99}), nullptr);
  EXPECT_EQ(index.candidate({1, 4}, {7, 2}), nullptr);
}

TEST(Recording, IsKnownByItsFirstBytes) {
  const std::string bytes = *encode_recording(sample());
  EXPECT_TRUE(is_recording(bytes));
  EXPECT_TRUE(is_recording(std::string_view(bytes).substr(0, 8))) << "damaged, and still one";
  for (std::size_t size = 0; size < 8; ++size) EXPECT_FALSE(is_recording(std::string_view(bytes).substr(0, size)));
  EXPECT_FALSE(is_recording(R"({"device_name": "NVIDIA A100", "cache": {}})"));
  EXPECT_FALSE(is_recording(" " + bytes));
}

TEST(Recording, WhatIsDamagedIsSaid) {
  const std::string bytes = *encode_recording(sample());
  for (std::size_t size = 0; size < bytes.size(); size += 7)
    EXPECT_THAT(error_of(decode_recording(bytes.substr(0, size))), HasSubstr("corrupt: recording: ")) << size;
  for (std::size_t at = 0; at < bytes.size(); at += 5) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_FALSE(decode_recording(damaged)) << at;
  }
  EXPECT_THAT(error_of(decode_recording("a text file of more than forty-eight bytes, which is no recording")),
              HasSubstr("it does not begin as one"));
  EXPECT_THAT(error_of(decode_recording(bytes + "x")), HasSubstr("bytes of payload, not"));
  std::string newer = bytes;
  newer[8] = 9;
  EXPECT_THAT(error_of(decode_recording(newer)), "version_mismatch: recording: format 9; this program reads 1");
}

TEST(Recording, WhatIsWrongInsideIsNamed) {
  const struct {
    std::function<void(Recording&)> change;
    const char* message;
  } cases[] = {
      {[](Recording& r) { r.kernels[1].candidates[2].failure.reset(); },
       "kernels[1].candidates[2]: no samples, and no failure"},
      {[](Recording& r) { r.kernels[0].candidates[4].samples = {1}; },
       "kernels[0].candidates[4]: samples of a failure"},
      {[](Recording& r) { r.kernels[0].candidates[1].samples[0] = -1; }, "kernels[0].candidates[1]: -1 is no amount"},
      {[](Recording& r) { r.kernels[0].candidates[0].samples.resize(17, 1); }, "kernels[0].candidates[0]: 17 samples"},
      {[](Recording& r) { r.kernels[0].candidates[0].features.push_back(1); },
       "kernels[0].candidates[0]: 3 features, 2 have names"},
      {[](Recording& r) { r.kernels[0].candidates[3].failure->kind = ErrorKind::io; },
       "kernels[0].candidates[3]: unknown outcome 'io'"},
      {[](Recording& r) { r.kernels[1].occurrences = -4; }, "kernels[1]: -4 is no count"},
      {[](Recording& r) { r.device.sm_count = -1; }, "device: -1 is no count"},
  };
  for (const auto& each : cases) {
    EXPECT_THAT(error_of(decode_recording(changed(each.change))),
                AllOf(HasSubstr("parse: recording: "), HasSubstr(each.message)));
  }
}

TEST(Recording, ReadingIsBounded) {
  const std::string bytes = *encode_recording(sample());
  EXPECT_THAT(error_of(decode_recording(bytes, {100, 1 << 20})), HasSubstr("resource_exhausted: recording: "));
  EXPECT_THAT(error_of(decode_recording(bytes, {1 << 20, 100})), HasSubstr("when decompressed, more than 100"));
}

/// The bytes of a file whose header says another size of its document.
std::string with_raw_bytes(std::string bytes, std::uint64_t raw_bytes) {
  constexpr std::size_t place = 40;
  std::memcpy(bytes.data() + place, &raw_bytes, sizeof raw_bytes);
  return bytes;
}

TEST(Recording, AHeaderAsksForNoMoreThanItsPayloadCanBe) {
  const std::string bytes = *encode_recording(sample());
  constexpr std::size_t header = 48;
  std::uint64_t raw = 0;
  std::memcpy(&raw, bytes.data() + header - sizeof raw, sizeof raw);
  ASSERT_TRUE(decode_recording(with_raw_bytes(bytes, raw)));
  EXPECT_EQ(
      error_of(decode_recording(with_raw_bytes(bytes, std::uint64_t{1} << 30))),
      fmt::format("corrupt: recording: its header says {} bytes when decompressed, its {} bytes of payload cannot "
                  "be more than {}",
                  1 << 30, bytes.size() - header, (bytes.size() - header) / 4 * (128 << 10)));
  EXPECT_THAT(error_of(decode_recording(with_raw_bytes(bytes, ~std::uint64_t{0}))), HasSubstr("cannot be more than"));
  EXPECT_EQ(error_of(decode_recording(with_raw_bytes(bytes, raw + 1))),
            fmt::format("corrupt: recording: its payload is {} bytes, its header says {}", raw, raw + 1));
  EXPECT_EQ(error_of(decode_recording(with_raw_bytes(bytes, raw - 1))),
            fmt::format("corrupt: recording: its payload is more than the {} bytes of its header", raw - 1));
  EXPECT_THAT(error_of(decode_recording(with_raw_bytes(bytes, 0))), HasSubstr("more than the 0 bytes of its header"));
}

TEST(Recording, FilesAreNamed) {
  const TestFolder folder;
  RealFileSystem files;
  const auto path = folder / "space.stitchrec";
  EXPECT_EQ(read_recording(files, path).error().kind, ErrorKind::not_found);
  ASSERT_TRUE(write_recording(files, path, sample()));
  EXPECT_EQ(read_recording(files, path)->kernels, sample().kernels);
  ASSERT_TRUE(files.publish(path, "STITCHR\n"));
  EXPECT_THAT(error_of(read_recording(files, path)), HasSubstr(path.string() + ": recording: 8 bytes are no header"));
}

}  // namespace
}  // namespace stitch::profiler
