#pragma once

#include <memory>

#include "profiler/device/quarantine.h"
#include "profiler/measure/timed_device.h"
#include "profiler/runner/process.h"

namespace stitch::profiler {

/// A device that another process owns. A kernel that hangs or faults ends that process, never this one: the launch
/// fails (timeout or runtime, naming the kernel and how the runner ended), the kernel is quarantined, and the next call
/// finds a fresh runner. Sessions that lived in the runner are lost with it; they say so (unavailable) until they are
/// opened again.
///
/// Safe to use from several threads; the runner does one thing at a time.
class RunnerDevice final : public TimedDevice {
 public:
  /// Starts a runner to learn what device it has. `launcher` and `quarantine` must outlive the device and its sessions.
  /// Errors: those of RunnerProcess::start.
  static Result<std::unique_ptr<RunnerDevice>> create(ProcessLauncher& launcher, RunnerOptions options,
                                                      Quarantine& quarantine);
  ~RunnerDevice() override;

  [[nodiscard]] const DeviceIdentity& identity() const override { return identity_; }
  Result<std::unique_ptr<TimedSession>> timed_session() override;
  /// Process id of the runner; 0 between the end of one and the start of the next.
  [[nodiscard]] int runner_id() const;
  /// How many runners there have been.
  [[nodiscard]] int generation() const;

  struct Shared;

 private:
  RunnerDevice(std::shared_ptr<Shared> shared, DeviceIdentity identity)
      : shared_(std::move(shared)), identity_(std::move(identity)) {}
  std::shared_ptr<Shared> shared_;
  DeviceIdentity identity_;
};

}  // namespace stitch::profiler
