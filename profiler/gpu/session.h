#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "library/graph_calls.h"
#include "profiler/gpu/context.h"
#include "profiler/gpu/memory.h"
#include "profiler/measure/timed_device.h"

namespace stitch::profiler {

/// Kernels and buffers on a GPU, through the driver. A kernel that faults loses the whole context (GpuDevice::lost);
/// one that hangs never returns: whoever owns the process ends it (profiler/runner/process.h).
class GpuSession final : public TimedSession {
 public:
  explicit GpuSession(std::shared_ptr<GpuContext> gpu) : gpu_(gpu), memory_(std::move(gpu)) {}
  GpuSession(const GpuSession&) = delete;
  GpuSession& operator=(const GpuSession&) = delete;
  ~GpuSession() override;

  /// The cubin, or the PTX where there is no cubin or it is for another GPU; the driver compiles that.
  Result<KernelHandle> load(const KernelImage& image) override;
  Result<BufferHandle> allocate(std::string name, std::int64_t bytes, Fill fill, Access access) override;
  Status free(BufferHandle buffer) override { return memory_.free(buffer); }
  Status read(BufferHandle buffer, std::int64_t offset, std::span<std::byte> into) override {
    return memory_.read(buffer, offset, into);
  }
  Status write(BufferHandle buffer, std::int64_t offset, std::span<const std::byte> from) override {
    return memory_.write(buffer, offset, from);
  }
  /// Findings are damaged red zones and read-only buffers. A choice of blocks is unsupported.
  Result<LaunchResult> launch(KernelHandle kernel, const LaunchShape& shape, std::span<const LaunchValue> arguments,
                              std::span<const std::uint64_t> blocks) override;
  Result<Measurement> measure(const MeasureTask& task) override;
  Result<PreparedCall> prepare(const graph::Graph& call) override;
  [[nodiscard]] bool samples_blocks() const override { return false; }
  [[nodiscard]] std::vector<WrittenRange> written(BufferHandle) const override { return {}; }

 private:
  struct Kernel {
    std::string name;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
  };
  /// What a call's buffers must hold, bytes.
  struct Call {
    std::vector<std::int64_t> parameters;
    std::int64_t result = 0;
  };
  Result<CUmodule> load_module(const KernelImage& image);
  Result<CUmodule> load_ptx(const KernelImage& image);
  Result<const Kernel*> find(KernelHandle kernel) const;
  /// Puts a step on the stream.
  Status enqueue(const PlanStep& step);
  Status enqueue(const PlannedLaunch& launch);
  Status enqueue(const PlannedCopy& copy);
  Status enqueue(const PlannedCall& call);

  std::shared_ptr<GpuContext> gpu_;
  GpuMemory memory_;
  std::map<int, Kernel> kernels_;
  int next_ = 0;
  std::unique_ptr<library::GraphCalls> calls_;  ///< null: none was asked for
  std::map<int, Call> prepared_;                ///< by the number there, which is the handle's
};

/// A GPU in this process. Only stitch-runner makes one.
class GpuDevice final : public TimedDevice {
 public:
  /// Errors: those of GpuContext::open.
  static Result<std::unique_ptr<TimedDevice>> create(const GpuOptions& options);
  [[nodiscard]] const DeviceIdentity& identity() const override { return gpu_->identity; }
  Result<std::unique_ptr<TimedSession>> timed_session() override;
  [[nodiscard]] bool lost() const override { return gpu_->lost(); }
  /// Why it cannot measure; empty where CUPTI was loaded.
  [[nodiscard]] const std::string& no_cupti() const { return gpu_->no_cupti; }

 private:
  explicit GpuDevice(std::shared_ptr<GpuContext> gpu) : gpu_(std::move(gpu)) {}
  std::shared_ptr<GpuContext> gpu_;
};

}  // namespace stitch::profiler
