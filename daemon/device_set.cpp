#include "daemon/device_set.h"

#include <cstdlib>

#include "daemon/recorded_timer.h"
#include "profiler/emulated_device.h"
#include "profiler/runner_device.h"

namespace stitch::daemon {

Result<std::unique_ptr<DeviceSet>> DeviceSet::open(const DeviceOptions& options, FileSystem& files,
                                                   const Clock& clock) {
  std::unique_ptr<DeviceSet> set(new DeviceSet());
  if (options.name == "emulated") {
    set->verifier_ = std::make_unique<profiler::EmulatedDevice>();
    return set;
  }
  if (constexpr std::string_view recorded = "recorded:"; options.name.starts_with(recorded)) {
    set->verifier_ = std::make_unique<profiler::EmulatedDevice>();
    STITCH_ASSIGN(set->timer_, RecordedTimer::open(files, options.name.substr(recorded.size())));
    return set;
  }
  const bool counts = options.name == "emulated:counts";
  if (!counts && !options.name.starts_with("gpu:")) {
    return make_error(
        ErrorKind::invalid_argument,
        "device '{}': there are 'emulated', 'emulated:counts', 'gpu:N' (gpu:0 is the first) and 'recorded:FILE'",
        options.name);
  }
  set->launcher_ = std::make_unique<RealProcessLauncher>();
  set->quarantine_ = std::make_unique<profiler::Quarantine>(files, clock, options.quarantine);
  STITCH_TRY(set->quarantine_->load());
  profiler::RunnerOptions runner;
  runner.program =
      options.runner.empty() ? profiler::default_runner_program(std::getenv("STITCH_RUNNER")) : options.runner;
  runner.arguments = {"--device", counts ? "emulated" : options.name};
  TimerOptions timing = options.timing;
  if (counts) {
    runner.arguments.emplace_back("--counts");
    runner.launch_seconds = 600;                       // an emulator takes its time
    timing.plan_rounds = timing.kernel.rotations = 1;  // and counts the same every time
  }
  STITCH_ASSIGN(auto device, profiler::RunnerDevice::create(*set->launcher_, runner, *set->quarantine_));
  set->timed_ = device.get();
  set->timer_ = std::make_unique<DeviceTimer>(*device, timing);
  set->verifier_ = std::move(device);
  return set;
}

}  // namespace stitch::daemon
