#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "cuda/driver_api.h"

namespace stitch::library {

/// The emulated driver, as a program calls it. What it finds is kept from standard error.
class OnAnEmulatedDriver : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("STITCH_EMULATED_QUIET");
    library_ = ::dlopen(STITCH_EMULATED_DRIVER, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
    auto loaded = cuda::DriverApi::load(cuda::DriverUse::measure, STITCH_EMULATED_DRIVER);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    driver_ = *std::move(loaded);
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
  std::shared_ptr<const cuda::DriverApi> driver_;
};

}  // namespace stitch::library
