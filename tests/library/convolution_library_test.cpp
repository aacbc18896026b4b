// How plans of cuDNN's are chosen and launched: the emulated library suggests some that nobody may take.
#include "library/convolution_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "library/call_memory.h"
#include "tests/library/emulated_gpu.h"
#include "tests/library/strided_convolutions.h"

namespace stitch::library {
namespace {

using graph::DType;
using graph::StridedConvolution;
using testing::HasSubstr;
using Kind = StridedConvolution::Kind;

class ConvolutionLibraryEmulated : public OnAnEmulatedDriver {
 protected:
  void SetUp() override {
    OnAnEmulatedDriver::SetUp();
    use_context();
    auto opened = ConvolutionLibrary::open(driver_, {STITCH_EMULATED_CUDNN});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    convolutions_ = *std::move(opened);
  }
  void TearDown() override {
    convolutions_.reset();
    for (const CUdeviceptr address : held_) entry<decltype(cuMemFree)>("cuMemFree_v2")(address);
  }

  CUdeviceptr allocate(const std::vector<float>& values) {
    CUdeviceptr address = 0;
    const std::size_t bytes = values.size() * sizeof(float);
    EXPECT_EQ(entry<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&address, bytes), CUDA_SUCCESS);
    EXPECT_EQ(entry<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD_v2")(address, values.data(), bytes), CUDA_SUCCESS);
    held_.push_back(address);
    return address;
  }
  float first_of(CUdeviceptr address) {
    float value = 0;
    synchronize();
    EXPECT_EQ(entry<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2")(&value, address, sizeof(value)), CUDA_SUCCESS);
    return value;
  }

  /// The workspace of what was chosen.
  std::int64_t chosen(const StridedConvolution& how) {
    const auto prepared = convolutions_->prepare(how);
    EXPECT_TRUE(prepared.ok()) << prepared.error().message;
    return convolutions_->workspace_bytes();
  }

  std::unique_ptr<ConvolutionLibrary> convolutions_;
  std::vector<CUdeviceptr> held_;
};

TEST_F(ConvolutionLibraryEmulated, SaysWhatItIs) { EXPECT_EQ(convolutions_->name(), "cuDNN 9.8.0"); }

TEST_F(ConvolutionLibraryEmulated, ALibraryThatIsNotThereIsUnavailable) {
  const auto opened = ConvolutionLibrary::open(driver_, {"libnosuchconvolutions.so.1"});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::unavailable);
}

// The suggestions, in their order (driver/library/backend_descriptor.cpp): TF32 with 4096 bytes of workspace (of f32
// only), one that wants a gigabyte, one in no order with 8192 bytes, one with 4096; in the fallback one with none.
TEST_F(ConvolutionLibraryEmulated, TakesWhatTheCallAllows) {
  EXPECT_EQ(chosen(padded_convolution(DType::f32)), 8192) << "neither TF32 nor a gigabyte";
}
/// Each that will do runs on memory that is there, as the emulated driver sees to, and the fastest is taken.
TEST_F(ConvolutionLibraryEmulated, TakesTheFastestWherePlansAreTimed) {
  int runs = 0;
  const auto take = [&](int fastest) {
    runs = 0;
    convolutions_->time_plans_by([&, fastest](const std::function<Status(CUstream)>& run) -> Result<double> {
      STITCH_TRY(run(nullptr));
      synchronize();
      return runs++ == fastest ? 1.0 : 2.0;
    });
  };
  take(1);
  EXPECT_EQ(chosen(padded_convolution(DType::f32)), 4096) << "the first would be the one with 8192 bytes";
  EXPECT_EQ(runs, 3) << "two of mode A, and the fallback";
  take(0);
  EXPECT_EQ(chosen(padded_convolution(DType::f32)), 8192);
  StridedConvolution how = padded_convolution(DType::f32);
  how.relu = true;
  take(0);
  ASSERT_TRUE(convolutions_->prepare(how).ok());
  EXPECT_GE(runs, 2) << "with a bias of zeros, for which there is memory, too";
}
TEST_F(ConvolutionLibraryEmulated, WhatDoesNotRunIsNotTaken) {
  int runs = 0;
  convolutions_->time_plans_by([&](const std::function<Status(CUstream)>&) -> Result<double> {
    if (runs++ == 0) return make_error(ErrorKind::runtime, "not this one");
    return 1.0;
  });
  EXPECT_EQ(chosen(padded_convolution(DType::f32)), 4096);
}
TEST_F(ConvolutionLibraryEmulated, TakesTf32WhereItIsGranted) {
  StridedConvolution how = padded_convolution(DType::f32);
  how.tf32 = true;
  EXPECT_EQ(chosen(how), 4096);
}
TEST_F(ConvolutionLibraryEmulated, KeepsTheOrderOfSumsWhereItIsAskedFor) {
  StridedConvolution how = padded_convolution(DType::f32);
  how.deterministic = true;
  EXPECT_EQ(chosen(how), 4096);
}
TEST_F(ConvolutionLibraryEmulated, FallsBack) {
  EXPECT_EQ(chosen(padded_convolution(DType::f32, Kind::backward_filter)), 0);
}
TEST_F(ConvolutionLibraryEmulated, WorkspaceIsBounded) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    EXPECT_LE(chosen(padded_convolution(dtype)), most_library_workspace_bytes);
}

/// cuDNN has no ReLU right behind a convolution of f32, but behind a bias it has.
TEST_F(ConvolutionLibraryEmulated, WhatIsFusedWithoutABiasHasOneOfZeros) {
  StridedConvolution how = padded_convolution(DType::f32);
  how.relu = true;
  const auto prepared = convolutions_->prepare(how);
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  ASSERT_TRUE(convolutions_->make_constants().ok());
  const CUdeviceptr x = allocate(std::vector<float>(2 * 8 * 36, 1)), w = allocate(std::vector<float>(16 * 8 * 9, 1));
  const CUdeviceptr against = allocate(std::vector<float>(16 * 8 * 9, -1)),
                    y = allocate(std::vector<float>(2 * 16 * 36));
  const CUdeviceptr workspace = allocate(std::vector<float>(2048));
  ASSERT_TRUE(convolutions_->launch(*prepared, {x, w}, y, workspace, nullptr).ok());
  EXPECT_EQ(first_of(y), 32);
  ASSERT_TRUE(convolutions_->launch(*prepared, {x, against}, y, workspace, nullptr).ok());
  EXPECT_EQ(first_of(y), 0);
}

/// Neither has it anything behind a gradient, which it adds onto what the result holds, though.
TEST_F(ConvolutionLibraryEmulated, WhatIsAddedToAGradientIsCopiedToItsResult) {
  StridedConvolution how = padded_convolution(DType::f32, Kind::backward_data);
  how.scale = 0.5;
  how.addend = how.result();
  how.addend->parameter = 2;
  const auto prepared = convolutions_->prepare(how);
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  EXPECT_EQ(convolutions_->calls(*prepared), 2);
  const CUdeviceptr dy = allocate(std::vector<float>(2 * 16 * 36, 1)), w = allocate(std::vector<float>(16 * 8 * 9, 1));
  const CUdeviceptr more = allocate(std::vector<float>(2 * 8 * 36, 5)), dx = allocate(std::vector<float>(2 * 8 * 36));
  const CUdeviceptr workspace = allocate(std::vector<float>(2048));
  for (int time = 0; time < 2; ++time) {
    const Status launched = convolutions_->launch(*prepared, {dy, w, more}, dx, workspace, nullptr);
    ASSERT_TRUE(launched.ok()) << launched.error().message;
    EXPECT_EQ(first_of(dx), 16 * 4 * 0.5F + 5);
  }
  how.addend->strides[0] += 16;  // with something between its images
  EXPECT_FALSE(convolutions_->prepare(how).ok());
}

/// What only tensor cores compute is refused where they would round, with what was wrong.
TEST_F(ConvolutionLibraryEmulated, SaysWhyNoPlanWillDo) {
  StridedConvolution how = padded_convolution(DType::f32, Kind::backward_data);
  how.relu = true;
  const auto refused = convolutions_->prepare(how);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(refused.error().message, "cuDNN has no plan for it: what it has rounds f32 to TF32");
  how.tf32 = true;
  EXPECT_TRUE(convolutions_->prepare(how).ok());
  StridedConvolution filter = padded_convolution(DType::f16, Kind::backward_filter);
  filter.relu = true;
  const auto large = convolutions_->prepare(filter);
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().message, "cuDNN has no plan for it: what it has wants a workspace of 1073741824 bytes");
}

TEST_F(ConvolutionLibraryEmulated, NothingIsReadyAtOnce) {
  StridedConvolution nothing;
  nothing.output.extents = {0};
  const auto prepared = convolutions_->prepare(nothing);
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(convolutions_->calls(*prepared), 0);
  EXPECT_TRUE(convolutions_->launch(*prepared, {0, 0}, 0, 0, nullptr).ok());
}

/// Ones, of which every sum has as many as the window has positions inside; in TF32 1 + 2^-12 would be 1.
TEST_F(ConvolutionLibraryEmulated, LaunchesOnTheAddressesOfEachRun) {
  const auto prepared = convolutions_->prepare(padded_convolution(DType::f32));
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  EXPECT_EQ(convolutions_->calls(*prepared), 1);
  const float fine = 1 + 0x1p-12F;
  const CUdeviceptr x = allocate(std::vector<float>(2 * 8 * 36, fine)), w = allocate(std::vector<float>(16 * 8 * 9, 1));
  const CUdeviceptr y = allocate(std::vector<float>(2 * 16 * 36)), z = allocate(std::vector<float>(2 * 16 * 36));
  const CUdeviceptr workspace = allocate(std::vector<float>(2048));
  CUstream stream = new_stream();
  for (const CUdeviceptr to : {y, y, z}) {
    const Status launched = convolutions_->launch(*prepared, {x, w}, to, workspace, stream);
    ASSERT_TRUE(launched.ok()) << launched.error().message;
    EXPECT_EQ(first_of(to), 32 * fine);
  }
  const Status overlapping = convolutions_->launch(*prepared, {x, w}, x, workspace, stream);
  ASSERT_FALSE(overlapping.ok());
  EXPECT_EQ(overlapping.error().kind, ErrorKind::runtime);
  EXPECT_THAT(overlapping.error().message,
              HasSubstr("cudnnBackendExecute: CUDNN_STATUS_BAD_PARAM: the result lies where an operand does"));
}

}  // namespace
}  // namespace stitch::library
