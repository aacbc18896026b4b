#pragma once

#include <span>
#include <vector>

#include "api/protocol.h"
#include "base/result.h"
#include "profiler/device/device.h"
#include "profiler/measure/measure_call.h"
#include "tuning/kernels/built_kernel.h"

namespace stitch::tuning {

/// A plan with the machine code of its launches: what it takes to run it.
struct RunnablePlan {
  const graph::Graph* fragment = nullptr;  ///< canonical
  const api::Plan* plan = nullptr;
  std::vector<profiler::KernelImage> images;  ///< by launch
};

/// Where times come from: a GPU (tuning/kernels/device_timer.h), or a recording of one
/// (tuning/kernels/recorded_timer.h).
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
  /// Whole plans of one fragment, each as one CUDA graph or as its only kernel, measured in turns, so that a change of
  /// the device's clocks meets them alike. Errors: as above; unsupported (has_plans is false).
  virtual Result<std::vector<profiler::Measurement>> measure_plans(std::span<const RunnablePlan> plans) = 0;

  /// Whether a library's calls can be measured, where the library is; a recording has kernels only.
  [[nodiscard]] virtual bool has_calls() const { return false; }
  /// What the library takes for a call, given the graph of what it computes (api::ProgramCall::graph), under the same
  /// conditions as a kernel. Errors: as above; unsupported (has_calls is false, or no library has such a call).
  virtual Result<profiler::MeasuredCall> measure_call(const graph::Graph& /*call*/) {
    return make_error(ErrorKind::unsupported, "there are no libraries here");
  }
};

}  // namespace stitch::tuning
