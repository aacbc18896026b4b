#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "profiler/measure/recording.h"
#include "tuning/kernels/kernel_timer.h"

namespace stitch::tuning {

/// Replays a recording: what a candidate took, or how it failed, where it was recorded. Its identity is of kind
/// "recorded", with the name, driver and size of the device that was recorded. Safe to use from several threads.
class RecordedTimer final : public KernelTimer {
 public:
  /// Errors: those of profiler::read_recording; version_mismatch (recorded with another code generator: its schedules
  /// are other kernels).
  static Result<std::unique_ptr<RecordedTimer>> open(const FileSystem& files, const std::filesystem::path& path);

  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return identity_; }
  [[nodiscard]] const profiler::Recording& recording() const { return recording_; }

  /// Errors: the failure that was recorded; not_found (the recording lacks the kernel or the candidate).
  Result<profiler::Measurement> measure_kernel(const BuiltKernel& built) override;
  [[nodiscard]] bool has_candidate(const Hash128& kernel, const Hash128& schedule) const override {
    return index_.candidate(kernel, schedule) != nullptr;
  }
  [[nodiscard]] bool has_plans() const override { return false; }
  /// Always unsupported: a recording has kernels, no plans.
  Result<std::vector<profiler::Measurement>> measure_plans(std::span<const RunnablePlan> plans) override;

 private:
  RecordedTimer(profiler::Recording recording, std::string file, const Hash128& hash);

  const profiler::Recording recording_;
  const profiler::RecordingIndex index_;
  const std::string file_;
  profiler::DeviceIdentity identity_;
};

}  // namespace stitch::tuning
