#include "profiler/measure/sampler.h"

#include <algorithm>

namespace stitch::profiler {
namespace {

void drop(Sampling& sampling, const std::vector<double>& batch, const std::vector<std::string>& throttled) {
  sampling.dropped.insert(sampling.dropped.end(), batch.begin(), batch.end());
  auto& reasons = sampling.dropped_reasons;
  for (const std::string& reason : throttled) {
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) reasons.push_back(reason);
  }
}

/// How many samples to take next, after `batch` of which each took `sample_us` of the clock.
int next_batch(int batch, double sample_us, double left_us, int missing) {
  constexpr int most = 64, growth = 4;
  const double affordable = sample_us > 0 ? left_us / sample_us : most;
  return std::max(1, std::min({most, growth * batch, missing, static_cast<int>(std::clamp(affordable, 1.0, 1e6))}));
}

}  // namespace

Result<Sampling> take_samples(SampleSource& source, const Clock& clock, const MeasureOptions& options) {
  Sampling sampling;
  StoppingRule rule(options.stopping);
  const std::int64_t start = clock.now_us();
  const auto elapsed_us = [&] { return static_cast<double>(clock.now_us() - start); };
  for (int batch = 1; sampling.verdict == Verdict::go_on;) {
    const double before_us = elapsed_us();
    STITCH_ASSIGN(const auto durations, source.take(batch));
    const double sample_us = (elapsed_us() - before_us) / batch;
    const DeviceState state = source.state();
    if (state.throttled.empty()) {
      for (const double duration : durations) rule.add(duration);
    } else {
      drop(sampling, durations, state.throttled);
      source.pause(options.cool_down_us);
    }
    sampling.verdict = rule.verdict(elapsed_us());
    const int missing = options.stopping.max_samples - std::ssize(rule.samples());
    batch = next_batch(batch, sample_us, options.stopping.max_time_us - elapsed_us(), missing);
  }
  sampling.samples.assign(rule.samples().begin(), rule.samples().end());
  return sampling;
}

}  // namespace stitch::profiler
