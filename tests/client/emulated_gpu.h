#pragma once

#include <memory>

#include "client/cuda_executor.h"
#include "tests/library/emulated_gpu.h"

namespace stitch::client {

/// An executor on the emulated driver, and the driver's own entries, as the program around libstitch calls them.
class OnAnEmulatedGpu : public library::OnAnEmulatedDriver {
 protected:
  void SetUp() override {
    OnAnEmulatedDriver::SetUp();
    auto created = CudaExecutor::create(0, STITCH_EMULATED_DRIVER);
    ASSERT_TRUE(created.ok()) << created.error().message;
    executor_ = *std::move(created);
  }

  std::unique_ptr<CudaExecutor> executor_;
};

}  // namespace stitch::client
