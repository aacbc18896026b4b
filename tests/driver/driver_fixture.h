#pragma once

#include <string>
#include <vector>

#include "tests/driver/open_driver.h"

namespace stitch::driver::test {

/// add_one(x, n): x[i] += 1; spin(flag): until *flag != 0; wild(x): a store far away; trap.
inline constexpr const char* kernels = R"(
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 counter = 5;
.visible .entry add_one(.param .u64 x, .param .u32 n) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1; @%p1 bra done;
  mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r6, [%rd3]; add.u32 %r7, %r6, 1; st.global.u32 [%rd3], %r7;
done: ret;
}
.visible .entry bump() {
  .reg .b32 %r<3>; .reg .b64 %rd<2>;
  mov.u64 %rd1, counter; ld.global.u32 %r1, [%rd1]; add.u32 %r2, %r1, 1; st.global.u32 [%rd1], %r2; ret;
}
.visible .entry wild(.param .u64 x) {
  .reg .b32 %r<2>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, 1; st.global.u32 [%rd1+1048576], %r1; ret;
}
)";

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
