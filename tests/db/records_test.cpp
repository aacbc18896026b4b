#include "db/records.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "db/blob.h"
#include "db/trial_records.h"
#include "tests/db/sample_records.h"

namespace stitch::db {
namespace {

using samples::expect_error;

template <class Enum>
void expect_words(std::optional<Enum> (*parse)(std::string_view), std::initializer_list<std::string_view> words) {
  int index = 0;
  for (const std::string_view word : words) {
    const auto value = static_cast<Enum>(index++);
    EXPECT_EQ(to_string(value), word);
    EXPECT_EQ(parse(word), value);
  }
  EXPECT_EQ(to_string(static_cast<Enum>(index)), "invalid") << "a word is missing from this table";
  EXPECT_EQ(parse("Invalid"), std::nullopt);
}

TEST(RecordsTest, EveryWordReadsBack) {
  expect_words(artifact_kind_of, {"source", "ptx", "cubin", "graph", "log", "recording"});
  expect_words(label_of, {"measured", "near", "predicted", "default"});
  expect_words(plan_status_of, {"challenger", "incumbent", "superseded", "withdrawn"});
  expect_words<Outcome>(outcome_of,
                        {"untested", "correct", "constraint", "compile", "timeout", "runtime", "correctness"});
  expect_words(candidate_scope_of, {"kernel", "plan"});
  expect_words(measurement_subject_of, {"plan", "kernel", "schedule"});
  expect_words(measurement_kind_of, {"device time", "event count"});
  expect_words(job_state_of, {"queued", "running", "done", "failed", "cancelled"});
}

TEST(RecordsTest, AnErrorIsAnOutcome) {
  EXPECT_EQ(outcome_of(ErrorKind::constraint), Outcome::constraint);
  EXPECT_EQ(outcome_of(ErrorKind::compile), Outcome::compile);
  EXPECT_EQ(outcome_of(ErrorKind::timeout), Outcome::timeout);
  EXPECT_EQ(outcome_of(ErrorKind::runtime), Outcome::runtime);
  EXPECT_EQ(outcome_of(ErrorKind::correctness), Outcome::correctness);
  EXPECT_EQ(outcome_of(ErrorKind::io), Outcome::runtime);
}

TEST(RecordsTest, IdentityIsWhatAClientGetsNotWhatIsKnownAboutIt) {
  const PlanBundle bundle = samples::bundle(samples::fragment(1), 1);
  const Hash128 id = plan_id(bundle.plan);
  const auto changed = [&](auto change) {
    PlanRecord plan = bundle.plan;
    change(plan);
    return plan_id(plan) != id;
  };
  EXPECT_TRUE(changed([](PlanRecord& p) { p.key.fragment.low ^= 1; }));
  EXPECT_TRUE(changed([](PlanRecord& p) { p.key.target.device += "x"; }));
  EXPECT_TRUE(changed([](PlanRecord& p) { p.key.target.version += "x"; }));
  EXPECT_TRUE(changed([](PlanRecord& p) { p.steps[0].arguments = "[]"; }));
  EXPECT_TRUE(changed([](PlanRecord& p) { p.steps.push_back(p.steps[0]); }));
  EXPECT_TRUE(changed([](PlanRecord& p) { p.document = "{}"; }));
  EXPECT_TRUE(changed([](PlanRecord& p) { p.bytes += 1; }));
  EXPECT_FALSE(changed([](PlanRecord& p) { p.label = Label::measured; }));
  EXPECT_FALSE(changed([](PlanRecord& p) { p.predicted_us = 1; }));
  EXPECT_FALSE(changed([](PlanRecord& p) { p.status = PlanStatus::withdrawn; }));
  EXPECT_FALSE(changed([](PlanRecord& p) { p.provenance.judged = "otherwise"; }));
}

TEST(RecordsTest, Summaries) {
  struct Case {
    std::vector<double> samples;
    SampleSummary expected;
  };
  const Case cases[] = {
      {{}, {0, 0, 0, 0}},          {{5}, {5, 5, 5, 0}},
      {{3, 1, 2}, {2, 2, 1, 0.5}}, {{4, 1, 3, 2}, {2.5, 2.5, 1, std::sqrt(5.0 / 3) / 2.5}},
      {{0, 0}, {0, 0, 0, 0}},
  };
  for (const Case& c : cases) {
    const SampleSummary summary = summarise(c.samples);
    EXPECT_DOUBLE_EQ(summary.mean, c.expected.mean);
    EXPECT_DOUBLE_EQ(summary.median, c.expected.median);
    EXPECT_DOUBLE_EQ(summary.minimum, c.expected.minimum);
    EXPECT_DOUBLE_EQ(summary.rsd, c.expected.rsd);
  }
}

/// One way to spoil a good record, and what validate says to it.
template <class Record>
struct Spoiled {
  void (*spoil)(Record&);
  const char* message;
};

template <class Record, std::size_t N>
void expect_refused(const Record& good, const Spoiled<Record> (&cases)[N]) {
  EXPECT_OK(validate(good));
  for (const Spoiled<Record>& c : cases) {
    Record record = good;
    c.spoil(record);
    expect_error(validate(record), ErrorKind::invalid_argument, c.message);
  }
}

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(RecordsTest, WhatValidationRefuses) {
  const PlanBundle bundle = samples::bundle(samples::fragment(1), 1);
  expect_refused<PlanRecord>(
      bundle.plan, {{[](PlanRecord& p) { p.key.target.device = ""; }, "plan: target: device is empty"},
                    {[](PlanRecord& p) { p.key.target.architecture = ""; }, "architecture is empty"},
                    {[](PlanRecord& p) { p.key.target.toolkit = ""; }, "toolkit is empty"},
                    {[](PlanRecord& p) { p.key.target.version = ""; }, "version is empty"},
                    {[](PlanRecord& p) { p.document = "{'a':1}"; }, "document is not JSON"},
                    {[](PlanRecord& p) { p.steps[0].arguments = ""; }, "arguments of a step is not JSON"},
                    {[](PlanRecord& p) { p.bytes = -1; }, "bytes is negative"},
                    {[](PlanRecord& p) { p.predicted_us = nan; }, "predicted_us is nan, not a time"},
                    {[](PlanRecord& p) { p.predicted_us = -1; }, "predicted_us is -1, not a time"},
                    {[](PlanRecord& p) { p.verified_share = 1.5; }, "verified_share is 1.5, not between 0 and 1"},
                    {[](PlanRecord& p) { p.label = Label::near; }, "neighbour goes with the label near only"},
                    {[](PlanRecord& p) { p.neighbour = Hash128{}; }, "neighbour goes with the label near only"},
                    {[](PlanRecord& p) { p.provenance.tool = ""; }, "plan: provenance: tool is empty"},
                    {[](PlanRecord& p) { p.provenance.wall_us = -1; }, "wall_us is negative"}});
  expect_refused<Kernel>(bundle.kernels[0], {{[](Kernel& k) { k.name = ""; }, "kernel: name is empty"},
                                             {[](Kernel& k) { k.architecture = ""; }, "architecture is empty"},
                                             {[](Kernel& k) { k.resources.registers = -1; }, "a resource is negative"},
                                             {[](Kernel& k) { k.launch.pop_back(); }, "launch is not JSON"}});
  expect_refused<Artifact>(bundle.artifacts[0],
                           {{[](Artifact& a) { a.bytes += 'x'; }, "artifact: hash is not that of its bytes"},
                            {[](Artifact& a) { a.hash.octets[7] ^= 1; }, "artifact: hash is not that of its bytes"}});
  expect_refused<FragmentRecord>(samples::fragment(1),
                                 {{[](FragmentRecord& f) { f.graph = ""; }, "fragment: graph is empty"},
                                  {[](FragmentRecord& f) { f.operator_count = -1; }, "a count is negative"}});
  expect_refused<Device>(samples::gpu(), {{[](Device& d) { d.key = ""; }, "device: key is empty"},
                                          {[](Device& d) { d.kind = "tpu"; }, "none of gpu, emulated, recorded"},
                                          {[](Device& d) { d.constants = "1,"; }, "constants is not JSON"}});
  Workload workload;
  workload.format = "onnx";
  workload.parts = {{samples::hash(1), 1}};
  workload.provenance = samples::provenance();
  expect_refused<Workload>(workload,
                           {{[](Workload& w) { w.format = ""; }, "workload: format is empty"},
                            {[](Workload& w) { w.parts[0].occurrences = 0; }, "occurrences of a part are not positive"},
                            {[](Workload& w) { w.parts.push_back(w.parts[0]); }, "two parts are the same fragment"}});
}

TEST(RecordsTest, WhatValidationRefusesOfTrials) {
  const Candidate candidate = samples::candidate(samples::fragment(1), 1, Outcome::correct);
  expect_refused<Candidate>(candidate,
                            {{[](Candidate& c) { c.key.target.toolkit = ""; }, "candidate: target: toolkit is empty"},
                             {[](Candidate& c) { c.schedule = "{"; }, "schedule is not JSON"},
                             {[](Candidate& c) { c.schedule = "{ }"; }, "schedule_hash is not that of its schedule"},
                             {[](Candidate& c) { c.verified_share = -0.5; }, "verified_share"},
                             {[](Candidate& c) { c.predicted_us = nan; }, "predicted_us is nan"}});
  const MeasurementRecord measurement =
      samples::measurement(MeasurementRecord::Subject::plan, samples::hash(1), {1, 2});
  expect_refused<MeasurementRecord>(
      measurement, {{[](MeasurementRecord& m) { m.samples.clear(); }, "measurement: there are no samples"},
                    {[](MeasurementRecord& m) { m.samples[1] = nan; }, "a sample is nan, not a time"},
                    {[](MeasurementRecord& m) { m.samples[0] = -1; }, "a sample is -1, not a time"},
                    {[](MeasurementRecord& m) { m.device = ""; }, "device is empty"},
                    {[](MeasurementRecord& m) { m.dropped = -1; }, "dropped is negative"},
                    {[](MeasurementRecord& m) { m.temperature_c = nan; }, "is not finite"},
                    {[](MeasurementRecord& m) { m.conditions = ""; }, "conditions is not JSON"}});
  CostModelRecord model;
  model.name = "residual";
  model.bytes = "x";
  model.provenance = samples::provenance();
  expect_refused<CostModelRecord>(model, {{[](CostModelRecord& m) { m.name = ""; }, "model: name is empty"},
                                          {[](CostModelRecord& m) { m.bytes = ""; }, "bytes is empty"},
                                          {[](CostModelRecord& m) { m.accuracy = "?"; }, "accuracy is not JSON"}});
}

TEST(BlobTest, RoundTrips) {
  for (const std::string& bytes :
       {std::string(), std::string("a"), std::string(100'000, '\0'), std::string("\xff\0x", 3)}) {
    const Result<std::string> frame = compress(bytes);
    ASSERT_OK(frame);
    EXPECT_EQ(*decompress(*frame, static_cast<std::int64_t>(bytes.size())), bytes);
  }
}

TEST(BlobTest, DamageIsAnErrorAndNeverALargeAllocation) {
  std::string bytes(5001, 'x');
  bytes.back() = 'y';
  const std::string frame = *compress(bytes);
  expect_error(decompress(frame, 5000), ErrorKind::corrupt, "does not hold 5000 bytes");
  expect_error(decompress(frame, std::int64_t{1} << 40), ErrorKind::corrupt, "is impossible");
  expect_error(decompress(frame, -1), ErrorKind::corrupt, "is impossible");
  expect_error(decompress("no frame at all", 15), ErrorKind::corrupt, "does not hold");
  expect_error(decompress(std::string_view(frame).substr(0, frame.size() - 3), 5001), ErrorKind::corrupt, "zstd");
  for (std::size_t at = 0; at < frame.size(); ++at) {
    std::string damaged = frame;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    const Result<std::string> read = decompress(damaged, 5001);
    if (read) continue;
    EXPECT_EQ(read.error().kind, ErrorKind::corrupt) << at;
  }
}

}  // namespace
}  // namespace stitch::db
