#include "cuda/driver_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stitch::cuda {
namespace {

using testing::HasSubstr;

std::shared_ptr<const DriverApi> stand_in() {
  auto driver = DriverApi::load(DriverUse::run_plans, STITCH_FAKE_DRIVER);
  if (!driver) ADD_FAILURE() << driver.error().message;
  return driver ? *driver : nullptr;
}

TEST(DriverApi, WithoutALibraryThereIsNoDriver) {
  for (const DriverUse use : {DriverUse::run_plans, DriverUse::measure}) {
    const auto driver = DriverApi::load(use, "libnosuchdriver.so.1");
    ASSERT_FALSE(driver);
    EXPECT_EQ(driver.error().kind, ErrorKind::unavailable);
    EXPECT_THAT(driver.error().message, HasSubstr("no CUDA driver on this machine: libnosuchdriver.so.1"));
  }
}

TEST(DriverApi, ALibraryWithoutItsEntriesIsNoDriver) {
  for (const DriverUse use : {DriverUse::run_plans, DriverUse::measure}) {
    const auto driver = DriverApi::load(use, "libm.so.6");
    ASSERT_FALSE(driver);
    EXPECT_EQ(driver.error(),
              (Error{ErrorKind::unavailable, "the CUDA driver libm.so.6 is too old: it has no cuInit"}));
  }
}

// The stand-in has what running plans takes, and no more.
TEST(DriverApi, OnlyTheEntriesOfAUseMustBeThere) {
  const auto driver = stand_in();
  ASSERT_NE(driver, nullptr);
  EXPECT_NE(driver->load_module, nullptr);
  EXPECT_NE(driver->push_context, nullptr);
  EXPECT_EQ(driver->begin_capture, nullptr);
  EXPECT_EQ(driver->device_uuid, nullptr);
  const auto measuring = DriverApi::load(DriverUse::measure, STITCH_FAKE_DRIVER);
  ASSERT_FALSE(measuring);
  EXPECT_EQ(measuring.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(measuring.error().message, HasSubstr("is too old: it has no cuDriverGetVersion"));
}

// The stand-in has cuMemAlloc_v2 and no cuMemAlloc, as cuda.h calls it.
TEST(DriverApi, EntriesAreOfTheVersionThatTheHeaderNames) {
  const auto driver = stand_in();
  ASSERT_NE(driver, nullptr);
  CUdeviceptr memory = 0;
  ASSERT_TRUE(driver->check(driver->allocate(&memory, 64), "cuMemAlloc").ok());
  EXPECT_TRUE(driver->check(driver->fill(memory, 3, 64), "cuMemsetD8").ok());
  unsigned char read[64] = {};
  EXPECT_TRUE(driver->check(driver->copy_to_host(read, memory, 64), "cuMemcpyDtoH").ok());
  EXPECT_EQ(read[63], 3);
  EXPECT_TRUE(driver->check(driver->free(memory), "cuMemFree").ok());
}

TEST(DriverErrors, AreInTheDriversWords) {
  const auto driver = stand_in();
  ASSERT_NE(driver, nullptr);
  EXPECT_TRUE(driver->check(CUDA_SUCCESS, "cuInit").ok());
  EXPECT_EQ(driver->check(CUDA_ERROR_NO_BINARY_FOR_GPU, "cuModuleLoadData").error(),
            (Error{ErrorKind::runtime, "cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU (as the test wanted)"}));
  EXPECT_EQ(driver->check(CUDA_ERROR_INVALID_DEVICE, "cuDeviceGet", ErrorKind::unavailable).error().kind,
            ErrorKind::unavailable);
  EXPECT_EQ(driver->check(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc", ErrorKind::unavailable).error().kind,
            ErrorKind::resource_exhausted);
}

TEST(DriverErrors, ThatLoseTheContextAreTold) {
  for (const CUresult sticky : {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_ECC_UNCORRECTABLE}) {
    EXPECT_TRUE(loses_context(sticky)) << sticky;
  }
  EXPECT_TRUE(loses_context(static_cast<CUresult>(226))) << "CUDA_ERROR_CONTAINED";
  for (const CUresult harmless : {CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE,
                                  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE}) {
    EXPECT_FALSE(loses_context(harmless)) << harmless;
  }
}

}  // namespace
}  // namespace stitch::cuda
