#include "profiler/measure/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace stitch::profiler {
namespace {

using testing::HasSubstr;

Measurement sample() {
  Measurement m;
  m.samples = {10, 11, 10.5, 10.25};
  m.dropped_samples = {14, 15};
  m.dropped_reasons = {"power cap"};
  m.method = "CUPTI activity";
  m.launches = 3;
  m.rotation = 2;
  m.cuda_graph = true;
  m.before = {1980, 2619, 41, 120.5, {}};
  m.after = {1950, 2619, 45, std::nullopt, {"power cap"}};
  m.driver = "580.95.05 (CUDA 13.0)";
  m.toolkit = "CUPTI 130001";
  m.counters = {1e6, 2e6, 0.75};
  summarise(m, Verdict::stable);
  return m;
}

TEST(Measurement, SummaryIsOfTheKeptSamples) {
  const Measurement m = sample();
  EXPECT_EQ(m.median, 10.375);
  EXPECT_EQ(m.mean, 10.4375);
  EXPECT_NEAR(m.noise, 0.0409, 1e-4);
  EXPECT_EQ(m.stopped, "stable noise (noise 4.09 %)");
  EXPECT_EQ(to_text(m),
            "10.38 us (noise 4.09 %, 4 samples, 2 dropped: power cap), cold L2, stable noise (noise 4.09 %)");
}

TEST(Measurement, DocumentsRoundTrip) {
  const Measurement m = sample();
  const auto back = measurement_from(to_document(m));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, m);
  Measurement bare;
  bare.kind = Measurement::Kind::event_count;
  bare.unit = "sectors";
  bare.no_counters = "no permission";
  EXPECT_EQ(*measurement_from(to_document(bare)), bare);
  MeasureOptions options;
  options.stopping.max_samples = 7;
  options.cold_l2 = false;
  options.warm_up_us = 1;
  options.counters = false;
  EXPECT_EQ(*measure_options_from(to_document(options)), options);
}

TEST(Measurement, RefusesWhatIsNone) {
  auto document = to_document(sample());
  document["samples"] = {1.0, -2.0};
  EXPECT_THAT(measurement_from(document).error().message, HasSubstr("a sample of -2 us"));
  document["samples"] = {std::numeric_limits<double>::infinity()};
  EXPECT_THAT(measurement_from(document).error().message, HasSubstr("a sample of inf us"));
  document.erase("samples");
  EXPECT_THAT(measurement_from(document).error().message, HasSubstr("key 'samples' not found"));
  EXPECT_THAT(measure_options_from(nlohmann::json::object()).error().message, HasSubstr("key 'stopping' not found"));
}

TEST(Measurement, ConditionsHoldWhatARecordHasNoColumnFor) {
  const auto document = nlohmann::json::parse(conditions(sample()));
  EXPECT_EQ(document.at("cuda_graph"), true);
  EXPECT_EQ(document.at("rotation"), 2);
  EXPECT_EQ(document.at("power_w"), 120.5);
  EXPECT_EQ(document.at("dropped_samples"), (std::vector<double>{14, 15}));
  EXPECT_EQ(document.at("counters").at("dram_read_bytes"), 1e6);
  EXPECT_EQ(document.at("toolkit"), "CUPTI 130001");
  EXPECT_EQ(mean_of(1980, 1950), 1965);
  EXPECT_EQ(mean_of(std::nullopt, 3), 3);
  EXPECT_EQ(mean_of(std::nullopt, std::nullopt), std::nullopt);
}

}  // namespace
}  // namespace stitch::profiler
