#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "profiler/measure/measure_kernel.h"
#include "profiler/measure/timed_device.h"
#include "tuning/kernels/kernel_timer.h"

namespace stitch::tuning {

/// A plan on a session's device, ready to be timed: kernels loaded, buffers allocated (parameters filled, workspace as
/// the first run needs it).
class PlanOnDevice {
 public:
  /// `session` must outlive it; `rotations` sets of parameters and results, as many as `most_bytes` allow. Errors:
  /// those of load and allocate.
  static Result<PlanOnDevice> prepare(profiler::TimedSession& session, const RunnablePlan& plan,
                                      const profiler::KernelMeasureOptions& options);
  PlanOnDevice(PlanOnDevice&&) noexcept = default;
  PlanOnDevice& operator=(PlanOnDevice&&) = delete;
  ~PlanOnDevice();

  /// One run of everything, sampled until the stopping rule is content: as a CUDA graph, or (of a plan that is one
  /// kernel) as that kernel.
  Result<profiler::Measurement> measure(const profiler::MeasureOptions& options, bool as_graph);

 private:
  explicit PlanOnDevice(profiler::TimedSession& session) : session_(&session) {}
  struct Set {
    std::vector<profiler::BufferHandle> parameters, results;
    profiler::BufferHandle workspace;
  };
  Result<Set> allocate(const api::Plan& plan, const std::vector<profiler::InputSource>& inputs);
  [[nodiscard]] std::vector<profiler::PlanStep> steps(const api::Plan& plan,
                                                      const std::vector<profiler::KernelHandle>& kernels,
                                                      const Set& set) const;

  profiler::TimedSession* session_;
  std::vector<profiler::BufferHandle> buffers_;  ///< all, to be freed
  std::vector<std::vector<profiler::PlanStep>> rotations_;
};

}  // namespace stitch::tuning
