// Calls by their graphs: which library computes which, one after the other on one workspace that grows.
#include "library/graph_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "tests/library/emulated_gpu.h"

namespace stitch::library {
namespace {

using graph::Builder;
using graph::DType;
using graph::Graph;
using graph::Op;
using testing::Each;
using testing::HasSubstr;

Graph product(DType dtype) {
  Builder builder;
  const graph::Value a = builder.parameter(dtype, {4, 8}), b = builder.parameter(dtype, {8, 4});
  return *builder.finish({builder.dot(a, b, {{}, {}, {1}, {0}, dtype})});
}

Graph convolution() {
  Builder builder;
  graph::ConvolutionAttributes how;
  how.input_spatial = how.output_spatial = how.kernel_spatial = {2, 3};
  how.strides = how.input_dilation = how.kernel_dilation = {1, 1};
  how.low = how.high = {1, 1};
  how.window_reversal = {false, false};
  const graph::Value x = builder.parameter(DType::f32, {1, 2, 6, 6}), w = builder.parameter(DType::f32, {3, 2, 3, 3});
  return *builder.finish({builder.add(Op::convolution, {x, w}, how)});
}

class GraphCallsEmulated : public OnAnEmulatedDriver {
 protected:
  void SetUp() override {
    OnAnEmulatedDriver::SetUp();
    use_context();
  }
  StreamLibraries libraries_{{STITCH_EMULATED_CUBLAS_LT}, {STITCH_EMULATED_CUDNN}};
};

TEST_F(GraphCallsEmulated, EachIsComputedByItsLibrary) {
  GraphCalls calls(driver_, libraries_);
  EXPECT_EQ(calls.name(), "no library calls");
  const auto first = calls.prepare(product(DType::f32)), second = calls.prepare(convolution());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(calls.name_of(*first), "cuBLASLt 13.0.0");
  EXPECT_EQ(calls.name_of(*second), "cuDNN 9.8.0");
  EXPECT_EQ(calls.launches(*first), 1);
  EXPECT_EQ(calls.copies(*first) + calls.copies(*second), 0);
}

TEST_F(GraphCallsEmulated, RunsWhatIsMadeReadyAfterMemoryWasMade) {
  GraphCalls calls(driver_, libraries_);
  const auto first = calls.prepare(product(DType::f32));
  ASSERT_TRUE(first.ok() && calls.make_memory().ok());
  const auto second = calls.prepare(convolution());
  ASSERT_TRUE(second.ok() && calls.make_memory().ok());
  const auto fill = [&](DeviceMemory& memory, std::size_t count, float value) {
    const std::vector<float> values(count, value);
    ASSERT_TRUE(memory.make(static_cast<std::int64_t>(count * sizeof(float))).ok());
    ASSERT_EQ(driver_->copy_to_device(memory.address(), values.data(), count * sizeof(float)), CUDA_SUCCESS);
  };
  DeviceMemory a(*driver_), b(*driver_), c(*driver_);
  fill(a, 72, 1);
  fill(b, 54, 2);
  fill(c, 108, 0);
  ASSERT_TRUE(calls.launch(*first, {a.address(), b.address()}, c.address(), nullptr).ok());
  std::vector<float> sums(16);
  ASSERT_EQ(driver_->copy_to_host(sums.data(), c.address(), sums.size() * sizeof(float)), CUDA_SUCCESS);
  EXPECT_THAT(sums, Each(16)) << "eight times 1 x 2";
  ASSERT_TRUE(calls.launch(*second, {a.address(), b.address()}, c.address(), nullptr).ok());
  ASSERT_EQ(driver_->copy_to_host(sums.data(), c.address(), sums.size() * sizeof(float)), CUDA_SUCCESS);
  EXPECT_EQ(sums[0], 16) << "a corner of the window: four places of two features";
  EXPECT_EQ(sums[7], 36) << "all nine places of it";
  EXPECT_EQ(findings(), "");
}

TEST_F(GraphCallsEmulated, ALibraryThatIsNotThereIsSaidInTheLoadersWords) {
  GraphCalls calls(driver_, {{"libnosuchproducts.so.1"}, {"libnosuchconvolutions.so.1"}});
  for (int time = 0; time < 2; ++time) {
    const auto refused = calls.prepare(product(DType::f32));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
    EXPECT_THAT(refused.error().message, HasSubstr("no cuBLASLt: libnosuchproducts.so.1: cannot open"));
  }
  EXPECT_THAT(calls.prepare(convolution()).error().message, HasSubstr("no cuDNN: libnosuchconvolutions.so.1"));
  EXPECT_EQ(calls.prepare(product(DType::s32)).error().kind, ErrorKind::unsupported);
}

}  // namespace
}  // namespace stitch::library
