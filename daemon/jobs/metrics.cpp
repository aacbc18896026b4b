#include "daemon/jobs/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace stitch::daemon {
namespace {

void head(std::string& text, std::string_view name, std::string_view kind, std::string_view help) {
  fmt::format_to(std::back_inserter(text), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, kind);
}

void single(std::string& text, std::string_view name, std::string_view kind, std::string_view help, double value) {
  head(text, name, kind, help);
  fmt::format_to(std::back_inserter(text), "{} {}\n", name, value);
}

void store_gauges(std::string& text, const db::StoreStatistics& store) {
  const std::pair<std::string_view, std::int64_t> records[] = {
      {"devices", store.devices},     {"fragments", store.fragments},   {"models", store.workloads},
      {"plans", store.plans},         {"incumbents", store.incumbents}, {"kernels", store.kernels},
      {"artifacts", store.artifacts}, {"candidates", store.candidates}, {"measurements", store.measurements},
      {"cost_models", store.models},  {"promotions", store.promotions}};
  head(text, "stitch_store_records", "gauge", "Records in the store.");
  for (const auto& [kind, count] : records) {
    fmt::format_to(std::back_inserter(text), "stitch_store_records{{kind=\"{}\"}} {}\n", kind, count);
  }
  head(text, "stitch_store_incumbents", "gauge", "Plans that are served, by label.");
  for (int i = 0; i < 4; ++i) {
    fmt::format_to(std::back_inserter(text), "stitch_store_incumbents{{label=\"{}\"}} {}\n",
                   db::to_string(static_cast<db::Label>(i)), store.incumbents_by_label[i]);
  }
  const std::pair<std::string_view, std::int64_t> bytes[] = {{"artifacts_raw", store.artifact_raw_bytes},
                                                             {"artifacts_stored", store.artifact_stored_bytes},
                                                             {"file", store.file_bytes},
                                                             {"log", store.log_bytes}};
  head(text, "stitch_store_bytes", "gauge", "Sizes of the store.");
  for (const auto& [kind, count] : bytes) {
    fmt::format_to(std::back_inserter(text), "stitch_store_bytes{{kind=\"{}\"}} {}\n", kind, count);
  }
  head(text, "stitch_jobs", "gauge", "Jobs in the store, by state; queued is the depth of the queue.");
  for (int i = 0; i < 5; ++i) {
    fmt::format_to(std::back_inserter(text), "stitch_jobs{{state=\"{}\"}} {}\n",
                   db::to_string(static_cast<db::JobState>(i)), store.jobs[i]);
  }
}

void answer_counts(std::string& text, const AnswerCache::Counts& answers) {
  const std::pair<std::string_view, std::int64_t> events[] = {{"hit", answers.hits},
                                                              {"checked", answers.checked},
                                                              {"miss", answers.misses},
                                                              {"stale", answers.stale},
                                                              {"eviction", answers.evictions}};
  head(text, "stitch_answer_cache_events_total", "counter",
       "Kept answers of look-ups: given, given after a look at the store, not there, out of date, dropped for room.");
  for (const auto& [event, count] : events) {
    fmt::format_to(std::back_inserter(text), "stitch_answer_cache_events_total{{event=\"{}\"}} {}\n", event, count);
  }
  head(text, "stitch_answer_cache_answers", "gauge", "Answers that are kept.");
  fmt::format_to(std::back_inserter(text), "stitch_answer_cache_answers {}\n", answers.answers);
  head(text, "stitch_answer_cache_bytes", "gauge", "Memory of the answers that are kept, with their requests.");
  fmt::format_to(std::back_inserter(text), "stitch_answer_cache_bytes {}\n", answers.bytes);
}

void work_counts(std::string& text, const tuning::WorkCounts& work) {
  single(text, "stitch_kernels_compiled_total", "counter",
         "Sources that NVRTC was given; not those that the artifact cache had.", static_cast<double>(work.compiled));
  single(text, "stitch_kernels_verified_total", "counter", "Kernels that were run beside the reference.",
         static_cast<double>(work.verified));
  single(text, "stitch_measurements_total", "counter", "Kernels and whole plans that were timed.",
         static_cast<double>(work.measured));
  single(text, "stitch_plans_predicted_total", "counter", "Plans that were begun to be served unverified.",
         static_cast<double>(work.predicted));
  single(text, "stitch_plans_tuned_total", "counter",
         "Plans that were begun to be verified, and measured where that can be done.", static_cast<double>(work.tuned));
}

}  // namespace

void Metrics::count_request(std::string_view route, int status, double seconds) {
  const auto bucket = std::lower_bound(latency_bounds.begin(), latency_bounds.end(), seconds) - latency_bounds.begin();
  const std::lock_guard lock(mutex_);
  ++requests_[{std::string(route), status}];
  auto latency = latencies_.find(route);
  if (latency == latencies_.end()) latency = latencies_.emplace(route, Latency{}).first;
  ++latency->second.counts[bucket];
  latency->second.sum += seconds;
}

void Metrics::count_wrong_kernels(std::int64_t count) {
  const std::lock_guard lock(mutex_);
  wrong_kernels_ += count;
}

void Metrics::count_lookup(api::LookupAnswer::Source source) {
  const std::lock_guard lock(mutex_);
  ++lookups_[static_cast<std::size_t>(source)];
}

void Metrics::count_miss() {
  const std::lock_guard lock(mutex_);
  ++misses_;
}

void Metrics::count_program() {
  const std::lock_guard lock(mutex_);
  ++programs_;
}

std::string Metrics::text(const Gauges& gauges) const {
  std::string text;
  const auto out = std::back_inserter(text);
  head(text, "stitch_build_info", "gauge", "Always 1; the label tells the version.");
  fmt::format_to(out, "stitch_build_info{{version=\"{}\"}} 1\n", gauges.version);
  single(text, "stitch_uptime_seconds", "gauge", "Since the process started to serve.", gauges.uptime_seconds);
  single(text, "stitch_jobs_here", "gauge", "Jobs that this process works on.", gauges.jobs_here);
  single(text, "stitch_predictions_under_way", "gauge", "Predictions started and not finished.",
         gauges.predictions_under_way);
  store_gauges(text, gauges.store);
  answer_counts(text, gauges.answers);
  work_counts(text, gauges.work);

  const std::lock_guard lock(mutex_);
  head(text, "stitch_lookups_total", "counter", "Look-ups by where their answer came from.");
  for (std::size_t i = 0; i < lookups_.size(); ++i) {
    fmt::format_to(out, "stitch_lookups_total{{source=\"{}\"}} {}\n",
                   api::to_string(static_cast<api::LookupAnswer::Source>(i)), lookups_[i]);
  }
  fmt::format_to(out, "stitch_lookups_total{{source=\"missed\"}} {}\n", misses_);
  single(text, "stitch_serving_misses_total", "counter",
         "Look-ups without a plan that were not to be predicted (STITCH_MODE=replay, frozen clients).",
         static_cast<double>(misses_));
  single(text, "stitch_programs_made_total", "counter", "Programs of models that were made, for a request or by a job.",
         static_cast<double>(programs_));
  single(text, "stitch_wrong_kernels_total", "counter",
         "Generated kernels that were wrong, hung or faulted when they were verified; none of them is served.",
         static_cast<double>(wrong_kernels_));
  head(text, "stitch_requests_total", "counter", "HTTP requests by route and status.");
  for (const auto& [key, count] : requests_) {
    fmt::format_to(out, "stitch_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, count);
  }
  head(text, "stitch_request_seconds", "histogram", "Time from a request's last byte to its answer, by route.");
  for (const auto& [route, latency] : latencies_) {
    std::int64_t below = 0;
    for (std::size_t i = 0; i < latency.counts.size(); ++i) {
      below += latency.counts[i];
      const std::string bound = i < latency_bounds.size() ? fmt::format("{}", latency_bounds[i]) : "+Inf";
      fmt::format_to(out, "stitch_request_seconds_bucket{{route=\"{}\",le=\"{}\"}} {}\n", route, bound, below);
    }
    fmt::format_to(
        out, "stitch_request_seconds_sum{{route=\"{0}\"}} {1}\nstitch_request_seconds_count{{route=\"{0}\"}} {2}\n",
        route, latency.sum, below);
  }
  return text;
}

}  // namespace stitch::daemon
