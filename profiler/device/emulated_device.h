#pragma once

#include "profiler/device/device.h"

namespace stitch::profiler {

struct EmulatedOptions {
  int host_threads = 0;                                       ///< 0: as many as oneTBB would use
  std::uint64_t instruction_budget = std::uint64_t{1} << 36;  ///< warp instructions of one launch; more is a timeout
  /// Not 0: the order in which blocks start (emulator::LaunchOptions::shuffle_seed); each launch of a session has
  /// another.
  std::uint64_t shuffle_seed = 0;
};

/// Runs the PTX of a kernel on the emulator: results, faults and event counts, never times.
class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(EmulatedOptions options = {});
  [[nodiscard]] const DeviceIdentity& identity() const override { return identity_; }
  Result<std::unique_ptr<Session>> session() override;

 private:
  EmulatedOptions options_;
  DeviceIdentity identity_;
};

}  // namespace stitch::profiler
