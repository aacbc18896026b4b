#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "profiler/device/device.h"
#include "profiler/measure/measurement.h"

// Devices that also measure. What they share with every other device is in profiler/device/device.h.
namespace stitch::profiler {

/// A kernel with the buffers it is launched on.
struct PlannedLaunch {
  KernelHandle kernel;
  LaunchShape shape;
  std::vector<LaunchValue> arguments;
  bool dependent = false;  ///< may begin while the launch before it still runs (programmatic stream serialisation)
};

/// A copy on the device, from the start of one buffer to the start of another.
struct PlannedCopy {
  BufferHandle from, to;
  std::int64_t bytes = 0;
};

/// A library's call that a session has made ready.
struct CallHandle {
  int id = -1;
};

/// Who computes it, and how.
struct PreparedCall {
  CallHandle call;
  std::string library;  ///< "cuBLASLt 13.0.0"
  int copies = 0;       ///< on the device, before the library's own kernels
};

/// A library's call with the buffers that it reads and writes.
struct PlannedCall {
  CallHandle call;
  std::vector<BufferHandle> parameters;  ///< as its graph has them
  BufferHandle result;
};

using PlanStep = std::variant<PlannedLaunch, PlannedCopy, PlannedCall>;

/// What one sample runs, and how often to take one.
struct MeasureTask {
  /// The same steps on different buffers; samples take them in turns, so that no sample finds what the last one left
  /// in a cache. At least one; each with exactly one launch or call, unless it is a plan that runs as a CUDA graph.
  std::vector<std::vector<PlanStep>> rotations;
  /// The steps, in order, as one CUDA graph: a sample is the time from its first step's start to its last one's end.
  bool cuda_graph = false;
  MeasureOptions options;
};

/// A session that measures.
class TimedSession : public Session {
 public:
  /// Runs the task until its stopping rule is content. Buffers keep what the last sample left in them. Errors: those of
  /// launch; unsupported (the device tells no time); unavailable (every sample was taken while the device throttled).
  virtual Result<Measurement> measure(const MeasureTask& task) = 0;
  /// Makes a library's call ready, given the graph of what it computes (api::ProgramCall::graph): loads the library,
  /// if it is the first, and chooses an algorithm as a program does that runs it (library/graph_calls.h). Errors:
  /// unsupported (the device calls no libraries, or no library has a call for this), unavailable (the library is not
  /// there), what libraries fail for.
  virtual Result<PreparedCall> prepare(const graph::Graph& /*call*/) {
    return make_error(ErrorKind::unsupported, "this device calls no libraries");
  }
  /// Whether the process that it lived in is gone, and with it all that it had: another session has another one.
  [[nodiscard]] virtual bool is_gone() const { return false; }
};

class TimedDevice : public Device {
 public:
  virtual Result<std::unique_ptr<TimedSession>> timed_session() = 0;
  Result<std::unique_ptr<Session>> session() override {
    auto opened = timed_session();
    if (!opened) return opened.error();
    return std::unique_ptr<Session>(std::move(*opened));
  }
  /// Whether a fault made the device useless to this process: its sessions are lost, and only a new process helps.
  [[nodiscard]] virtual bool lost() const { return false; }
};

/// What every device refuses alike. Errors: invalid_argument (no rotation, a rotation of other length than the first,
/// more than one step without a graph, a copy without a graph).
Status check_task(const MeasureTask& task);

/// A measurement of the task that has no samples yet: what of it is said by the task alone.
Measurement begin_measurement(const MeasureTask& task);

/// Bounds that hold for any device: dimensions and shared memory are not negative or absurd. Errors: constraint.
Status check_shape(const LaunchShape& shape);

}  // namespace stitch::profiler
