#include "daemon/jobs/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

namespace stitch::daemon {
namespace {

using testing::HasSubstr;

TEST(MetricsTest, CountsRequestsAndLookups) {
  Metrics metrics;
  metrics.count_request("/v1/lookup", 200, 0.0001);
  metrics.count_request("/v1/lookup", 200, 0.3);
  metrics.count_request("/v1/lookup", 404, 99);
  metrics.count_lookup(api::LookupAnswer::Source::store);
  for (int i = 0; i < 2; ++i) metrics.count_miss();
  metrics.count_program();
  Gauges gauges;
  gauges.work = {.compiled = 11, .verified = 12, .measured = 13, .predicted = 14, .tuned = 15};
  gauges.store.jobs[0] = 7;
  gauges.store.incumbents_by_label[2] = 3;
  gauges.version = "0.1.0";
  const std::string text = metrics.text(gauges);
  for (const char* line :
       {"stitch_requests_total{route=\"/v1/lookup\",status=\"200\"} 2\n",
        "stitch_requests_total{route=\"/v1/lookup\",status=\"404\"} 1\n",
        "stitch_request_seconds_bucket{route=\"/v1/lookup\",le=\"0.0005\"} 1\n",
        "stitch_request_seconds_bucket{route=\"/v1/lookup\",le=\"0.5\"} 2\n",
        "stitch_request_seconds_bucket{route=\"/v1/lookup\",le=\"+Inf\"} 3\n",
        "stitch_request_seconds_count{route=\"/v1/lookup\"} 3\n", "stitch_lookups_total{source=\"store\"} 1\n",
        "stitch_lookups_total{source=\"pending\"} 0\n", "stitch_lookups_total{source=\"missed\"} 2\n",
        "stitch_serving_misses_total 2\n", "stitch_programs_made_total 1\n", "stitch_kernels_compiled_total 11\n",
        "stitch_kernels_verified_total 12\n", "stitch_measurements_total 13\n", "stitch_plans_predicted_total 14\n",
        "stitch_plans_tuned_total 15\n", "stitch_jobs{state=\"queued\"} 7\n",
        "stitch_store_incumbents{label=\"predicted\"} 3\n", "stitch_build_info{version=\"0.1.0\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MetricsTest, EveryLineIsOfTheFormatAndEveryMetricIsDescribedOnce) {
  Metrics metrics;
  metrics.count_request("/metrics", 200, 1);
  std::istringstream lines(metrics.text({}));
  const std::regex sample(R"(^stitch_[a-z_]+(\{[a-z]+="[^"\\]*"(,[a-z]+="[^"\\]*")*\})? -?[0-9.e+-]+$)");
  const std::regex comment("^# (HELP|TYPE) (stitch_[a-z_]+) .+$");
  std::map<std::string, int> described;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, comment)) {
      ++described[match[1].str() + match[2].str()];
    } else {
      EXPECT_TRUE(std::regex_match(line, sample)) << line;
    }
  }
  EXPECT_GT(described.size(), 10U);
  for (const auto& [name, times] : described) EXPECT_EQ(times, 1) << name;
}

}  // namespace
}  // namespace stitch::daemon
