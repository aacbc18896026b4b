#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "api/protocol.h"
#include "base/result.h"
#include "codegen/compiler.h"
#include "profiler/measure/measure_kernel.h"
#include "profiler/measure/timed_device.h"
#include "search/schedule/kernel_cache.h"

namespace stitch::tuning {

struct BuiltKernel;

/// A plan with the machine code of its launches: what it takes to run it.
struct RunnablePlan {
  const graph::Graph* fragment = nullptr;  ///< canonical
  const api::Plan* plan = nullptr;
  std::vector<profiler::KernelImage> images;  ///< by launch
};

/// Where times come from: a GPU, or a recording of one.
class KernelTimer {
 public:
  virtual ~KernelTimer() = default;
  [[nodiscard]] virtual const profiler::DeviceIdentity& identity() const = 0;

  /// The time of one candidate of a kernel. Errors: timeout, runtime, unavailable (no device, every sample throttled),
  /// not_found (a recording without this candidate).
  virtual Result<profiler::Measurement> measure_kernel(const BuiltKernel& built) = 0;

  /// Whether a candidate of a kernel can be measured at all; a recording has those that were recorded.
  [[nodiscard]] virtual bool has_candidate(const Hash128& /*kernel*/, const Hash128& /*schedule*/) const {
    return true;
  }

  /// Whether whole plans can be measured; a recording has kernels only.
  [[nodiscard]] virtual bool has_plans() const { return true; }
  /// Whole plans of one fragment, each as one CUDA graph, measured in turns, so that a change of the device's clocks
  /// meets them alike. Errors: as above; unsupported (has_plans is false).
  virtual Result<std::vector<profiler::Measurement>> measure_plans(std::span<const RunnablePlan> plans) = 0;
};

struct TimerOptions {
  profiler::KernelMeasureOptions kernel;
  int plan_rounds = 2;  ///< how often each plan's turn comes
};

/// Times kernels and plans on a device. Safe to use from several threads: one measures at a time.
class DeviceTimer final : public KernelTimer {
 public:
  explicit DeviceTimer(profiler::TimedDevice& device, TimerOptions options = {})
      : device_(device), options_(std::move(options)) {}
  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return device_.identity(); }
  Result<profiler::Measurement> measure_kernel(const BuiltKernel& built) override;
  Result<std::vector<profiler::Measurement>> measure_plans(std::span<const RunnablePlan> plans) override;

 private:
  profiler::TimedDevice& device_;
  const TimerOptions options_;
  std::mutex mutex_;  ///< kernels that run side by side would slow each other down
};

/// The image of a built kernel, as a device loads it.
profiler::KernelImage image_of(const BuiltKernel& built);

}  // namespace stitch::tuning
