#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "client/cuda_executor.h"

namespace stitch::client {

/// An executor on the emulated driver, and the driver's own entries, as the program around libstitch calls them. What
/// the driver finds is kept from standard error.
class OnAnEmulatedGpu : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("STITCH_EMULATED_QUIET");
    library_ = ::dlopen(STITCH_EMULATED_DRIVER, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
    auto created = CudaExecutor::create(0, STITCH_EMULATED_DRIVER);
    ASSERT_TRUE(created.ok()) << created.error().message;
    executor_ = *std::move(created);
  }

  /// What the driver has found since the last call, races and unordered accesses among it: each message once.
  std::string findings() {
    synchronize();
    return said_.take();
  }

  template <class Function>
  Function* entry(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  /// Makes the device's primary context current on this thread, as the CUDA runtime does.
  void use_context() {
    CUcontext context = nullptr;
    ASSERT_EQ(entry<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(entry<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context), CUDA_SUCCESS);
  }
  CUstream new_stream() {
    CUstream stream = nullptr;
    EXPECT_EQ(entry<decltype(cuStreamCreate)>("cuStreamCreate")(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
  }
  void synchronize() { ASSERT_EQ(entry<decltype(cuCtxSynchronize)>("cuCtxSynchronize")(), CUDA_SUCCESS); }

  /// Standard error, as long as this lives.
  class Captured {
   public:
    Captured() { testing::internal::CaptureStderr(); }
    Captured(const Captured&) = delete;
    Captured& operator=(const Captured&) = delete;
    ~Captured() { testing::internal::GetCapturedStderr(); }
    std::string take() {
      std::string text = testing::internal::GetCapturedStderr();
      testing::internal::CaptureStderr();
      return text;
    }
  };

  Captured said_;
  void* library_ = nullptr;
  std::unique_ptr<CudaExecutor> executor_;
};

}  // namespace stitch::client
