#pragma once

#include "client/executor.h"
#include "profiler/device/device.h"

namespace stitch::client {

/// Runs plans through the device interface: on the emulated device, where there is no GPU. It gives the right results
/// and reports races, stray accesses and reads of what was never written; its time says nothing.
class EmulatedExecutor final : public Executor {
 public:
  /// `device` must outlive it and what it loads.
  explicit EmulatedExecutor(profiler::Device& device) : device_(device) {}
  Result<std::unique_ptr<LoadedPlan>> load(const api::Plan& plan, const ArtifactSource& artifacts) override;

 private:
  profiler::Device& device_;
};

}  // namespace stitch::client
