#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "api/protocol.h"
#include "daemon/jobs/answer_cache.h"
#include "db/store_types.h"
#include "tuning/kernels/work_counter.h"

namespace stitch::daemon {

/// Upper bounds of the latency histogram's buckets, seconds; the last bucket is unbounded.
inline constexpr std::array<double, 14> latency_bounds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                          0.1,    0.25,  0.5,    1,     2.5,  5,     10};

/// What is true at the moment of asking.
struct Gauges {
  db::StoreStatistics store;
  AnswerCache::Counts answers;
  tuning::WorkCounts work;
  int jobs_here = 0;  ///< that this process works on
  int predictions_under_way = 0;
  double uptime_seconds = 0;
  std::string version;
};

/// Counts events since the process started. Safe to use from any thread.
class Metrics {
 public:
  void count_request(std::string_view route, int status, double seconds);
  void count_wrong_kernels(std::int64_t count);
  void count_lookup(api::LookupAnswer::Source source);
  /// A look-up that missed and was not to be predicted: whoever asked runs without our kernels.
  void count_miss();
  /// A model's program was made, while somebody waits or in a job.
  void count_program();

  /// Prometheus text exposition format 0.0.4.
  [[nodiscard]] std::string text(const Gauges& gauges) const;

 private:
  struct Latency {
    std::array<std::int64_t, latency_bounds.size() + 1> counts{};  ///< not cumulative
    double sum = 0;
  };

  mutable std::mutex mutex_;  ///< guards everything below
  std::map<std::pair<std::string, int>, std::int64_t, std::less<>> requests_;
  std::map<std::string, Latency, std::less<>> latencies_;
  std::array<std::int64_t, 3> lookups_{};
  std::int64_t misses_ = 0, programs_ = 0, wrong_kernels_ = 0;
};

}  // namespace stitch::daemon
