#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "profiler/measure/measure_kernel.h"
#include "profiler/measure/timed_device.h"
#include "tuning/kernels/kernel_timer.h"

namespace stitch::tuning {

struct TimerOptions {
  profiler::KernelMeasureOptions kernel;
  int plan_rounds = 2;  ///< how often each plan's turn comes
};

/// Times kernels, plans and library calls on a device. What was lost with a process that somebody asked to end is begun
/// again on the next one. Safe to use from several threads: one measures at a time.
class DeviceTimer final : public KernelTimer {
 public:
  explicit DeviceTimer(profiler::TimedDevice& device, TimerOptions options = {})
      : device_(device), options_(std::move(options)) {}
  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return device_.identity(); }
  Result<profiler::Measurement> measure_kernel(const BuiltKernel& built) override;
  Result<std::vector<profiler::Measurement>> measure_plans(std::span<const RunnablePlan> plans) override;
  [[nodiscard]] bool has_calls() const override { return true; }
  Result<profiler::MeasuredCall> measure_call(const graph::Graph& call) override;

 private:
  Result<std::vector<profiler::Measurement>> measure_in(profiler::TimedSession& session,
                                                        std::span<const RunnablePlan> plans) const;

  profiler::TimedDevice& device_;
  const TimerOptions options_;
  std::mutex mutex_;  ///< kernels that run side by side would slow each other down
};

}  // namespace stitch::tuning
