#include "cuda/device_traits.h"

#include <gtest/gtest.h>

#include "base/device_class.h"

namespace stitch::cuda {
namespace {

TEST(CudaDeviceTraits, AreWhatTheDriverReports) {
  const auto driver = DriverApi::load(DriverUse::run_plans, STITCH_FAKE_DRIVER);
  ASSERT_TRUE(driver.ok()) << driver.error().message;
  const DeviceTraits silent = read_traits(**driver, 0), h100 = read_traits(**driver, 1),
                     a100 = read_traits(**driver, 2);
  EXPECT_FALSE(silent.known());
  EXPECT_EQ(silent.compute_major, 9);
  // No entry tells this driver's memory, which programs that only run plans do without.
  EXPECT_EQ(h100, (DeviceTraits{9, 0, 132, 52'428'800, 233'472, 232'448, 2048, 32, 2'619'000, 5120, 0, ""}));
  EXPECT_EQ(classify(h100)->spec.name, "h100") << "whose name is ACME Accelerator";
  EXPECT_EQ(classify(a100)->spec.name, "a100-80gb");
}

}  // namespace
}  // namespace stitch::cuda
