#include "tuning/models/model_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stitch::tuning {
namespace {

using testing::HasSubstr;

TEST(ModelReport, IsReadBackFromAServersJob) {
  ModelReport report;
  report.model = "m";
  report.operators = 10;
  report.fragments = 4;
  report.distinct_fragments = 2;
  report.kernels = 3;
  report.launches = 5;
  report.library_calls = 6;
  report.bytes = 7;
  report.launches_unfused = 8;
  report.bytes_unfused = 9;
  report.predicted_us = 1.5;
  report.uncertainty_us = 0.25;
  report.predicted_unfused_us = 2.5;
  report.seconds = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6};
  report.search = {24, 2, 3, 1, 2, 12.5};
  report.boundaries = {{"sort", 3}};
  report.verified_kernels = 2;
  report.wrong_kernels = 1;
  report.failed_candidates = {{"compile", 2}, {"correctness", 1}};
  report.spilling_kernels = {"level 1: stitch_12ab"};
  report.wrong_candidates = {"level 1, kernel 12ab: result 0"};
  report.fault_fragments = {"87108ddd"};
  report.failures = {"level 2: no"};
  EXPECT_EQ(
      to_json(report),
      R"({"model":"m","constraints":"","operators":10,"fragments":4,"distinct_fragments":2,"kernels":3,"launches":5,)"
      R"("library_calls":6,"bytes":7,"launches_unfused":8,"bytes_unfused":9,"predicted_us":1.5,)"
      R"("uncertainty_us":0.25,"predicted_unfused_us":2.5,"seconds":{"import":0.1,"plan":0.2,"codegen":0.3,"verify":0.4,)"
      R"("measure":0.5,"search":0.6},"search":{"trials":24,"failed":2,"kernels":3,"settled":1,"improved":2,)"
      R"("saved_us":12.5},"boundaries":[{"operator":"sort","count":3}],"donations":[],"verified":{"kernels":2,"wrong":1},)"
      R"("failed_candidates":{"compile":2,"correctness":1},"spilling_kernels":["level 1: stitch_12ab"],)"
      R"("wrong_candidates":["level 1, kernel 12ab: result 0"],"fault_fragments":["87108ddd"],"failures":["level 2: no"]})");
  const auto read = model_report_from_json(to_json(report));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(report));
  EXPECT_EQ(to_table(*read), to_table(report));
  nlohmann::json cut = nlohmann::json::parse(to_json(report));
  cut.erase("launches");
  EXPECT_THAT(model_report_from_json(cut.dump()).error().message, HasSubstr("launches"));
  EXPECT_FALSE(model_report_from_json("").ok());
}

TEST(ModelReport, OfAnOlderVersionLacksWhatCameLater) {
  nlohmann::json old = nlohmann::json::parse(to_json({}));
  for (const char* later : {"search", "failed_candidates", "spilling_kernels", "wrong_candidates", "fault_fragments"})
    old.erase(later);
  old["seconds"].erase("measure");
  old["seconds"].erase("search");
  const auto read = model_report_from_json(old.dump());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json({}));
}

}  // namespace
}  // namespace stitch::tuning
