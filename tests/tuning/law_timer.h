#pragma once

#include <cmath>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "base/random.h"
#include "tuning/kernels/kernel_timer.h"
#include "tuning/kernels/kernel_workshop.h"

namespace stitch::tuning {

/// Samples around a median, as a device might give them.
inline profiler::Measurement series(double median, double noise, std::uint64_t seed) {
  profiler::Measurement measurement;
  Random random(seed);
  for (int i = 0; i < 40; ++i) measurement.samples.push_back(median * (1 + noise * (random.uniform() - 0.5)));
  profiler::summarise(measurement, profiler::Verdict::precise);
  measurement.method = "script";
  return measurement;
}

/// A law that predictions know nothing of: 512 threads are best, twice and half as many take twice as long.
inline double by_threads(const search::StitchCandidate& candidate) {
  return 10 * (1 + std::abs(std::log2(candidate.schedule.threads / 512.0))) +
         static_cast<double>(candidate.schedule.cluster);
}

/// A device on which every schedule takes what a made-up law says: no machine without a GPU has times.
class LawTimer final : public KernelTimer {
 public:
  using Law = std::function<Result<double>(const search::StitchCandidate&)>;

  explicit LawTimer(Law of = by_threads) : law(std::move(of)) {
    identity_.key = "GPU-law";
    identity_.kind = "gpu";
    identity_.name = "law";
    identity_.architecture = "sm_90a";
    identity_.sm_count = 132;
  }
  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return identity_; }
  [[nodiscard]] bool has_plans() const override { return plans; }
  [[nodiscard]] bool has_candidate(const Hash128&, const Hash128& schedule) const override {
    return recorded.empty() || recorded.contains(schedule);
  }

  Result<profiler::Measurement> measure_kernel(const BuiltKernel& built) override {
    const std::lock_guard lock(mutex_);
    ++kernels_measured;
    const Result<double> us = law(*built.candidate.scheduled);
    if (!us) return us.error();
    profiler::Measurement measured = series(*us, 0.01, static_cast<std::uint64_t>(kernels_measured));
    measured.cold_l2 = cold_l2;
    return measured;
  }
  /// A challenger, which comes first, is a tenth faster than the plan that is served.
  Result<std::vector<profiler::Measurement>> measure_plans(std::span<const RunnablePlan> asked) override {
    if (!plans) return make_error(ErrorKind::unsupported, "kernels only");
    std::vector<profiler::Measurement> measured;
    for (std::size_t i = 0; i < asked.size(); ++i) measured.push_back(series(i == 0 ? 9.0 : 10.0, 0.01, i));
    return measured;
  }

  Law law;
  bool plans = true;
  bool cold_l2 = true;         ///< what measurements of kernels say of themselves
  std::set<Hash128> recorded;  ///< schedules that can be measured; empty: all
  int kernels_measured = 0;

 private:
  profiler::DeviceIdentity identity_;
  std::mutex mutex_;
};

}  // namespace stitch::tuning
