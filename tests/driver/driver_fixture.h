#pragma once

#include <string>
#include <vector>

#include "tests/driver/open_driver.h"

namespace stitch::driver::test {

/// A context of the emulated driver, and what tests do with kernels and words of memory.
class DriverFixture : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CU(CU(cuInit)(0));
    ASSERT_CU(CU(cuCtxCreate)(&context_, nullptr, 0, 0));
  }
  void TearDown() override { CU(cuCtxDestroy)(context_); }

  /// A kernel of PTX; null, with a failure, if there is none.
  CUfunction kernel(const char* ptx, const char* name) {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_CU(CU(cuModuleLoadData)(&module, ptx)) << log();
    EXPECT_CU(CU(cuModuleGetFunction)(&function, module, name)) << log();
    return function;
  }
  std::vector<unsigned> read(CUdeviceptr address, unsigned count) {
    std::vector<unsigned> values(count);
    EXPECT_CU(CU(cuMemcpyDtoH)(values.data(), address, count * 4));
    return values;
  }
  /// What the driver has logged since the last call.
  std::string log() {
    std::vector<char> text(25600);
    std::size_t size = text.size();
    EXPECT_CU(CU(cuLogsDumpToMemory)(&seen_, text.data(), &size, 0));
    return text.data();
  }

  CUcontext context_ = nullptr;

 private:
  CUlogIterator seen_ = 0;
};

}  // namespace stitch::driver::test
