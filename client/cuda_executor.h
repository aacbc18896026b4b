#pragma once

#include <memory>
#include <string>

#include "client/executor.h"

namespace stitch::client {

struct CudaContext;

/// Runs plans on a GPU, in the device's primary context (the one that the CUDA runtime uses, so that a program's own
/// pointers and streams are good here).
class CudaExecutor final : public Executor {
 public:
  /// `device`: as CUDA numbers the GPUs that this process sees; executors of several, unlike ones too, may be used side
  /// by side, and each gets the plans of its own class. Errors: unavailable (no driver, no such device).
  static Result<std::unique_ptr<CudaExecutor>> create(int device = 0, const std::string& library = "libcuda.so.1");

  [[nodiscard]] std::optional<DeviceTraits> traits() const override;
  Result<std::unique_ptr<LoadedPlan>> load(const api::Plan& plan, const ArtifactSource& artifacts) override;

  /// What all that it has loaded lives in.
  [[nodiscard]] const std::shared_ptr<const CudaContext>& context() const { return context_; }

 private:
  explicit CudaExecutor(std::shared_ptr<const CudaContext> context) : context_(std::move(context)) {}
  std::shared_ptr<const CudaContext> context_;
};

}  // namespace stitch::client
