#include "tuning/devices/device_set.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>

#include "profiler/device/emulated_device.h"
#include "profiler/runner/device.h"
#include "tuning/kernels/recorded_timer.h"

namespace stitch::tuning {

namespace {

constexpr std::string_view recorded = "recorded:", gpu = "gpu:";

/// What $STITCH_RUNNER_MEMORY allows a runner, in bytes; 0: whatever there is. Error: invalid_argument (no number).
Result<std::int64_t> runner_memory() {
  const char* const text = std::getenv("STITCH_RUNNER_MEMORY");
  if (text == nullptr || *text == '\0') return 0;
  const std::string_view digits = text;
  std::int64_t bytes = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
  if (error != std::errc() || end != digits.data() + digits.size() || bytes < 0)
    return make_error(ErrorKind::invalid_argument, "STITCH_RUNNER_MEMORY: '{}' is no number of bytes", digits);
  return bytes;
}

}  // namespace

std::optional<int> gpu_number(std::string_view name) {
  if (!name.starts_with(gpu)) return std::nullopt;
  int number = std::numeric_limits<int>::max();  // which from_chars leaves where there are too many digits
  std::from_chars(name.data() + gpu.size(), name.data() + name.size(), number);
  return number;
}

Status check_device_name(std::string_view name) {
  const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  if (name == "emulated" || name == "emulated:counts") return {};
  if (name.starts_with(gpu) && name.size() > gpu.size() && std::ranges::all_of(name.substr(gpu.size()), digit))
    return {};
  if (name.starts_with(recorded) && name.size() > recorded.size()) return {};
  return make_error(
      ErrorKind::invalid_argument,
      "device '{}': there are 'emulated', 'emulated:counts', 'gpu:N' (gpu:0 is the first) and 'recorded:FILE'", name);
}

Result<std::unique_ptr<DeviceSet>> DeviceSet::open(const DeviceOptions& options, FileSystem& files,
                                                   const Clock& clock) {
  STITCH_TRY(check_device_name(options.name));
  std::unique_ptr<DeviceSet> set(new DeviceSet());
  if (options.name == "emulated") {
    set->verifier_ = std::make_unique<profiler::EmulatedDevice>();
    return set;
  }
  if (options.name.starts_with(recorded)) {
    set->verifier_ = std::make_unique<profiler::EmulatedDevice>();
    STITCH_ASSIGN(set->timer_, RecordedTimer::open(files, options.name.substr(recorded.size())));
    return set;
  }
  const bool counts = options.name == "emulated:counts";
  set->launcher_ = std::make_unique<RealProcessLauncher>();
  set->quarantine_ = std::make_unique<profiler::Quarantine>(files, clock, options.quarantine);
  STITCH_TRY(set->quarantine_->load());
  profiler::RunnerOptions runner;
  runner.program =
      options.runner.empty() ? profiler::default_runner_program(std::getenv("STITCH_RUNNER")) : options.runner;
  runner.arguments = {"--device", counts ? "emulated" : options.name};
  STITCH_ASSIGN(const std::int64_t most_memory, runner_memory());
  if (most_memory > 0) runner.arguments.insert(runner.arguments.end(), {"--most-memory", std::to_string(most_memory)});
  TimerOptions timing = options.timing;
  if (counts) {
    runner.arguments.emplace_back("--counts");
    runner.launch_seconds = 600;                       // an emulator takes its time
    timing.plan_rounds = timing.kernel.rotations = 1;  // and counts the same every time
  }
  STITCH_ASSIGN(auto device, profiler::RunnerDevice::create(*set->launcher_, runner, *set->quarantine_));
  if (device->identity().emulated) {
    // A GPU that the driver pretends: kernels are verified on it, and nothing is timed.
    runner.launch_seconds = 600;
    STITCH_ASSIGN(set->verifier_, profiler::RunnerDevice::create(*set->launcher_, runner, *set->quarantine_));
    return set;
  }
  set->timed_ = device.get();
  set->timer_ = std::make_unique<DeviceTimer>(*device, timing);
  set->verifier_ = std::move(device);
  return set;
}

}  // namespace stitch::tuning
