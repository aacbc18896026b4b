#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "graph/canonical.h"
#include "tests/tuning/law_timer.h"
#include "tuning/kernels/kernel_timer.h"

namespace stitch::tuning {

/// A device on which kernels, plans and library calls take what a test says: no machine without a GPU has times.
class CallTimer final : public KernelTimer {
 public:
  CallTimer() {
    identity_.key = "GPU-calls";
    identity_.kind = "gpu";
    identity_.name = "calls";
    identity_.architecture = "sm_90a";
    identity_.sm_count = 132;
  }
  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return identity_; }
  Result<profiler::Measurement> measure_kernel(const BuiltKernel&) override {
    if (fault) return *fault;
    return series(ours_us, 0.01, 1);
  }
  Result<std::vector<profiler::Measurement>> measure_plans(std::span<const RunnablePlan> plans) override {
    std::vector<profiler::Measurement> measured;
    for (std::size_t i = 0; i < plans.size(); ++i) measured.push_back(series(ours_us, 0.01, i));
    return measured;
  }
  [[nodiscard]] bool has_calls() const override { return true; }
  Result<profiler::MeasuredCall> measure_call(const graph::Graph& call) override {
    const std::lock_guard lock(mutex_);
    ++calls_measured;
    const Result<double> us = library_us(call);
    if (!us) return us.error();
    return profiler::MeasuredCall{"cuBLASLt 13.0.0", series(*us, 0.01, static_cast<std::uint64_t>(calls_measured))};
  }

  double ours_us = 10;              ///< every kernel and plan
  std::optional<Error> fault = {};  ///< what every kernel does instead
  std::function<Result<double>(const graph::Graph& call)> library_us = [](const graph::Graph&) { return 12.0; };
  int calls_measured = 0;

 private:
  profiler::DeviceIdentity identity_;
  std::mutex mutex_;
};

}  // namespace stitch::tuning
