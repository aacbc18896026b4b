#include "library/device_memory.h"

#include <gtest/gtest.h>

#include "tests/library/emulated_gpu.h"

namespace stitch::library {
namespace {

class DeviceMemoryEmulated : public OnAnEmulatedDriver {};

TEST_F(DeviceMemoryEmulated, IsGivenBackOnceWhoeverHasIt) {
  use_context();
  {
    DeviceMemory memory(*driver_);
    EXPECT_EQ(memory.bytes(), 0);
    ASSERT_TRUE(memory.make(64).ok());
    const CUdeviceptr first = memory.address();
    EXPECT_NE(first, 0U);
    ASSERT_TRUE(memory.make(256).ok()) << "instead of what it had";
    EXPECT_NE(memory.address(), first);
    EXPECT_EQ(memory.bytes(), 256);
    const DeviceMemory moved(std::move(memory));
    EXPECT_EQ(moved.bytes(), 256);
    EXPECT_EQ(memory.address(), 0U);
    EXPECT_EQ(memory.bytes(), 0);
    DeviceMemory nothing(*driver_);
    ASSERT_TRUE(nothing.make(0).ok());
    EXPECT_NE(nothing.address(), 0U) << "an address all the same";
  }
  EXPECT_EQ(findings(), "") << "nothing was freed twice";
}

}  // namespace
}  // namespace stitch::library
