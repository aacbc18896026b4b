// The linker of modules.
#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "tests/driver/driver_fixture.h"

namespace stitch::driver::test {
namespace {

using testing::HasSubstr;

/// run(out): stores twice(scale), both of which are somewhere else.
constexpr const char* user = R"(
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 result) twice(.param .b32 value);
.extern .global .align 4 .u32 scale;
.visible .entry run(.param .u64 out) {
  .reg .b32 %r<3>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out]; mov.u64 %rd2, scale; ld.global.u32 %r1, [%rd2];
  { .param .b32 value; st.param.b32 [value], %r1; .param .b32 result;
    call.uni (result), twice, (value); ld.param.b32 %r2, [result]; }
  st.global.u32 [%rd1], %r2; ret;
}
)";
constexpr const char* provider = R"(
.version 8.3
.target sm_80
.address_size 64
.visible .global .align 4 .u32 scale = 21;
.visible .func (.param .b32 result) twice(.param .b32 value) {
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [value]; add.u32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret;
}
)";

class DriverLinker : public DriverFixture {
 protected:
  void SetUp() override {
    DriverFixture::SetUp();
    values_ = {errors_.data(), reinterpret_cast<void*>(errors_.size())};
    ASSERT_CU(CU(cuLinkCreate)(options_.size(), options_.data(), values_.data(), &linker_));
  }
  void TearDown() override {
    EXPECT_CU(CU(cuLinkDestroy)(linker_));
    EXPECT_EQ(CU(cuLinkDestroy)(linker_), CUDA_ERROR_INVALID_HANDLE);
    DriverFixture::TearDown();
  }
  CUresult add(const char* ptx, const char* name, CUjitInputType type = CU_JIT_INPUT_PTX) {
    return CU(cuLinkAddData)(linker_, type, const_cast<char*>(ptx), std::strlen(ptx) + 1, name, 0, nullptr, nullptr);
  }
  CUlinkState linker_ = nullptr;
  std::array<char, 500> errors_{};
  std::array<CUjit_option, 2> options_ = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values_{};
};

TEST_F(DriverLinker, WhatOneModuleDeclaresAnotherDefines) {
  ASSERT_CU(add(user, "user.ptx"));
  const std::string path = testing::TempDir() + "stitch_link_test.ptx";
  std::ofstream(path) << provider;
  ASSERT_CU(CU(cuLinkAddFile)(linker_, CU_JIT_INPUT_PTX, path.c_str(), 0, nullptr, nullptr));
  EXPECT_EQ(CU(cuLinkAddFile)(linker_, CU_JIT_INPUT_PTX, "/nowhere", 0, nullptr, nullptr), CUDA_ERROR_FILE_NOT_FOUND);
  void* image = nullptr;
  std::size_t bytes = 0;
  ASSERT_CU(CU(cuLinkComplete)(linker_, &image, &bytes)) << errors_.data();
  EXPECT_EQ(std::strlen(static_cast<const char*>(image)) + 1, bytes);
  CUdeviceptr out = 0;
  ASSERT_CU(CU(cuMemAlloc)(&out, 4));
  void* parameters[] = {&out};
  const CUfunction run = kernel(static_cast<const char*>(image), "run");
  ASSERT_CU(CU(cuLaunchKernel)(run, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_EQ(read(out, 1)[0], 42U);
  EXPECT_CU(CU(cuMemFree)(out));
}

TEST_F(DriverLinker, WhatIsMissingOrThereTwiceIsNamed) {
  void* image = nullptr;
  EXPECT_EQ(CU(cuLinkComplete)(linker_, &image, nullptr), CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(errors_.data(), HasSubstr("nothing to link"));
  ASSERT_CU(add(user, "user.ptx"));
  ASSERT_CU(add("\n.version 8.0\n.target sm_80\n.address_size 64\n", "empty.ptx"));
  EXPECT_EQ(CU(cuLinkComplete)(linker_, &image, nullptr), CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(errors_.data(), HasSubstr("undefined reference to 'scale' in user.ptx"));
  ASSERT_CU(add(provider, "one.ptx"));
  ASSERT_CU(add(provider, "two.ptx"));
  EXPECT_EQ(CU(cuLinkComplete)(linker_, &image, nullptr), CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(errors_.data(), HasSubstr("'twice' is defined in one.ptx and in two.ptx"));
}

TEST_F(DriverLinker, WhatCannotBeLinkedIsRefusedAtOnce) {
  EXPECT_EQ(add("!<arch>", "lib.a", CU_JIT_INPUT_LIBRARY), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(errors_.data(), HasSubstr("lib.a: the emulated driver links PTX"));
  ASSERT_CU(add(user, "user.ptx"));
  ASSERT_CU(add("\n.version 8.0\n.target sm_90\n.address_size 64\n", "newer.ptx"));
  void* image = nullptr;
  EXPECT_EQ(CU(cuLinkComplete)(linker_, &image, nullptr), CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(errors_.data(), HasSubstr("newer.ptx is for sm_90, and those before it for sm_80"));
}

TEST_F(DriverLinker, AnInputThatIsNoPtxIsNamed) {
  ASSERT_CU(add(user, "user.ptx"));
  ASSERT_CU(add("nonsense", "bad.ptx"));
  void* image = nullptr;
  EXPECT_EQ(CU(cuLinkComplete)(linker_, &image, nullptr), CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(errors_.data(), testing::StartsWith("bad.ptx: "));
}

}  // namespace
}  // namespace stitch::driver::test
