#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/file.h"
#include "base/result.h"
#include "base/subprocess.h"
#include "profiler/device/device.h"
#include "profiler/device/quarantine.h"
#include "profiler/measure/timed_device.h"
#include "tuning/kernels/device_timer.h"

namespace stitch::tuning {

/// Whether a device of this name can be asked for. Errors: invalid_argument, with the names that there are.
Status check_device_name(std::string_view name);
/// The number of "gpu:N"; one that is too large for any is the largest int. Nothing: another name.
std::optional<int> gpu_number(std::string_view name);

struct DeviceOptions {
  /// "emulated"; "emulated:counts", the same behind stitch-runner, where the sectors that a kernel moves stand in for
  /// the time that nothing here can tell; "gpu:N", the N-th GPU of the driver; "recorded:FILE", verified on the
  /// emulated device, with times from a recording (profiler/measure/recording.h).
  std::string name = "emulated";
  std::filesystem::path quarantine;  ///< file of what killed a runner (profiler/device/quarantine.h); empty: not kept
  std::string runner;                ///< program; empty: $STITCH_RUNNER, or stitch-runner beside this one
  TimerOptions timing;
};

/// Where plans are verified, and measured where that is possible.
class DeviceSet {
 public:
  /// `files` and `clock` must outlive it. Errors: invalid_argument (no such kind of device), unavailable (no GPU; the
  /// driver's words), and those of RunnerDevice::create and RecordedTimer::open.
  static Result<std::unique_ptr<DeviceSet>> open(const DeviceOptions& options, FileSystem& files, const Clock& clock);

  [[nodiscard]] profiler::Device& verifier() const { return *verifier_; }
  [[nodiscard]] KernelTimer* timer() const { return timer_.get(); }  ///< null: nothing is measured
  /// The device that measures; null for none, also of a recording.
  [[nodiscard]] profiler::TimedDevice* timed() const { return timed_; }
  /// The same if it is a GPU.
  [[nodiscard]] profiler::TimedDevice* gpu() const {
    return timed_ != nullptr && timed_->identity().kind == "gpu" ? timed_ : nullptr;
  }

 private:
  DeviceSet() = default;
  std::unique_ptr<ProcessLauncher> launcher_;
  std::unique_ptr<profiler::Quarantine> quarantine_;
  std::unique_ptr<profiler::Device> verifier_;
  profiler::TimedDevice* timed_ = nullptr;
  std::unique_ptr<KernelTimer> timer_;
};

}  // namespace stitch::tuning
