#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "codegen/compile/compiler.h"
#include "profiler/device/device.h"
#include "tuning/kernels/kernel_timer.h"

namespace stitch::tuning {

/// What was done to make plans. Whoever is served what is stored has none of it done.
struct WorkCounts {
  std::int64_t compiled = 0;   ///< sources that NVRTC was given; not those that the artifact cache had
  std::int64_t verified = 0;   ///< kernels that were run on a device beside the reference
  std::int64_t measured = 0;   ///< kernels, whole plans and library calls that were timed
  std::int64_t predicted = 0;  ///< plans that were begun, to be served before anybody has verified them
  std::int64_t tuned = 0;      ///< plans that were begun, to be verified, and measured where there is a timer

  WorkCounts& operator+=(const WorkCounts& other);
  bool operator==(const WorkCounts&) const = default;
};

/// Counts the work of one tuner as it is begun: what fails, or is stopped, was done as well. Safe to use from any
/// thread.
class WorkCounter {
 public:
  void count(std::int64_t WorkCounts::*kind, std::int64_t by = 1);
  [[nodiscard]] WorkCounts counts() const;

 private:
  mutable std::mutex mutex_;  ///< guards counts_
  WorkCounts counts_;
};

// What the work is done with, and counted. Each refers to another of its kind, which must outlive it, as the counter
// must.

class CountingCompiler final : public codegen::Compiler {
 public:
  CountingCompiler(codegen::Compiler& compiler, WorkCounter& work) : compiler_(compiler), work_(work) {}
  Result<codegen::CompiledKernel> compile(const codegen::CompileRequest& request) override;
  [[nodiscard]] Hash128 key(const codegen::CompileRequest& request) const override { return compiler_.key(request); }

 private:
  codegen::Compiler& compiler_;
  WorkCounter& work_;
};

/// Kernels are verified in sessions of their own (profiler/verify/verify.h).
class CountingVerifier final : public profiler::Device {
 public:
  CountingVerifier(profiler::Device& device, WorkCounter& work) : device_(device), work_(work) {}
  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return device_.identity(); }
  Result<std::unique_ptr<profiler::Session>> session() override;

 private:
  profiler::Device& device_;
  WorkCounter& work_;
};

class CountingTimer final : public KernelTimer {
 public:
  CountingTimer(KernelTimer& timer, WorkCounter& work) : timer_(timer), work_(work) {}
  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return timer_.identity(); }
  Result<profiler::Measurement> measure_kernel(const BuiltKernel& built) override;
  [[nodiscard]] bool has_candidate(const Hash128& kernel, const Hash128& schedule) const override {
    return timer_.has_candidate(kernel, schedule);
  }
  [[nodiscard]] bool has_plans() const override { return timer_.has_plans(); }
  Result<std::vector<profiler::Measurement>> measure_plans(std::span<const RunnablePlan> plans) override;
  [[nodiscard]] bool has_calls() const override { return timer_.has_calls(); }
  Result<profiler::MeasuredCall> measure_call(const graph::Graph& call) override;

 private:
  KernelTimer& timer_;
  WorkCounter& work_;
};

}  // namespace stitch::tuning
