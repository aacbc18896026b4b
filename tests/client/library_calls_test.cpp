// Which library computes which call, and what is said of those that none computes.
#include "client/library_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "tests/client/emulated_gpu.h"

namespace stitch::client {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using testing::HasSubstr;

class LibraryCallsEmulated : public OnAnEmulatedGpu {
 protected:
  void SetUp() override {
    OnAnEmulatedGpu::SetUp();
    use_context();
  }
  static api::ProgramCall call_of(Builder& builder, graph::Value result) {
    api::ProgramCall call;
    call.description = "a call";
    call.graph = *builder.finish({result});
    return call;
  }
  static api::ProgramCall product(DType dtype) {
    Builder builder;
    const graph::Value a = builder.parameter(dtype, {4, 8}), b = builder.parameter(dtype, {8, 4});
    return call_of(builder, builder.dot(a, b, {{}, {}, {1}, {0}, dtype}));
  }
  static api::ProgramCall convolution(bool strided_gradient = false) {
    Builder builder;
    graph::ConvolutionAttributes how;
    how.input_spatial = how.output_spatial = how.kernel_spatial = {2, 3};
    how.strides = how.input_dilation = how.kernel_dilation = {1, 1};
    if (strided_gradient) how.strides = how.input_dilation = {2, 2};
    how.low = how.high = {1, 1};
    how.window_reversal = {false, false};
    const graph::Value x = builder.parameter(DType::f32, {1, 2, 6, 6}), w = builder.parameter(DType::f32, {3, 2, 3, 3});
    return call_of(builder, builder.add(Op::convolution, {x, w}, how));
  }

  library::StreamLibraries libraries_{{STITCH_EMULATED_CUBLAS_LT}, {STITCH_EMULATED_CUDNN}};
};

TEST_F(LibraryCallsEmulated, EachLibraryIsLoadedWhenItIsNeeded) {
  const std::pair<std::vector<api::ProgramCall>, const char*> cases[] = {
      {{}, "no library calls"},
      {{product(DType::f32)}, "cuBLASLt 13.0.0"},
      {{convolution()}, "cuDNN 9.8.0"},
      {{convolution(), product(DType::f16)}, "cuBLASLt 13.0.0, cuDNN 9.8.0"},
  };
  for (const auto& [program, name] : cases) {
    LibraryCalls calls(executor_->context(), libraries_);
    ASSERT_TRUE(calls.prepare(program).ok());
    EXPECT_EQ(calls.name(), name);
    ASSERT_EQ(calls.calls().size(), program.size());
    for (const DeviceCall& call : calls.calls()) {
      EXPECT_TRUE(call.covered.ok());
      EXPECT_EQ(call.launches, 1);
    }
    EXPECT_EQ(calls.workspace_bytes() > 0, !program.empty());
    EXPECT_TRUE(calls.make_memory().ok());
  }
}

TEST_F(LibraryCallsEmulated, WhatNobodyComputesIsSaidOfTheCall) {
  libraries_.cudnn = {"libnosuchconvolutions.so.1"};
  LibraryCalls calls(executor_->context(), libraries_);
  ASSERT_TRUE(calls.prepare({product(DType::s32), convolution(), convolution(true), product(DType::f32)}).ok());
  const auto said = [&](std::size_t call) {
    const Status& covered = calls.calls()[call].covered;
    EXPECT_FALSE(covered.ok());
    return covered.ok() ? "" : covered.error().message;
  };
  EXPECT_THAT(said(0), HasSubstr("a product of s32; programs made with --products stream do without"));
  EXPECT_THAT(said(1), HasSubstr("no cuDNN: libnosuchconvolutions.so.1"));
  EXPECT_THAT(said(2), HasSubstr("strides of a dilated input; programs made with --products stream do without"));
  EXPECT_TRUE(calls.calls()[3].covered.ok());
  libraries_.cublas_lt = {"libnosuchproducts.so.1"};
  LibraryCalls none(executor_->context(), libraries_);
  ASSERT_TRUE(none.prepare({product(DType::f32)}).ok());
  EXPECT_THAT(none.calls()[0].covered.error().message,
              HasSubstr("no cuBLASLt: libnosuchproducts.so.1: cannot open shared object file: No such file or "
                        "directory; programs made with --products ours do without"));
}

}  // namespace
}  // namespace stitch::client
