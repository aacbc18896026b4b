// Library calls behind stitch-runner, on a GPU or on the emulated driver with the libraries that it has: made ready,
// run and measured as kernels are. The emulated driver tells no times; how a session takes times is seen with a
// stand-in for CUPTI, which are times of nothing.
#include "profiler/measure/measure_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "graph/builder.h"
#include "profiler/gpu/session.h"
#include "tests/base/test_folder.h"
#include "tests/profiler/fake_cupti.h"
#include "tests/profiler/running_device.h"

namespace stitch::profiler::test {
namespace {

using graph::DType;
using graph::Graph;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

Graph product_of(DType dtype, std::int64_t rows = 8, std::int64_t depth = 16, std::int64_t columns = 8) {
  graph::Builder builder;
  const graph::Value a = builder.parameter(dtype, {rows, depth}), b = builder.parameter(dtype, {depth, columns});
  return *builder.finish({builder.dot(a, b, {{}, {}, {1}, {0}, dtype})});
}

Graph convolution_of(DType dtype) {
  graph::Builder builder;
  graph::ConvolutionAttributes how;
  how.input_spatial = how.output_spatial = how.kernel_spatial = {2, 3};
  how.strides = how.input_dilation = how.kernel_dilation = {1, 1};
  how.low = how.high = {1, 1};
  how.window_reversal = {false, false};
  const graph::Value x = builder.parameter(dtype, {1, 8, 6, 6}), w = builder.parameter(dtype, {8, 8, 3, 3});
  return *builder.finish({builder.add(graph::Op::convolution, {x, w}, how)});
}

Fill ones() {
  return Filler([](std::uint64_t, std::span<std::byte> bytes) {
    const float one = 1;
    for (std::size_t i = 0; i + sizeof one <= bytes.size(); i += sizeof one)
      std::memcpy(bytes.data() + i, &one, sizeof one);
  });
}

std::vector<float> floats_of(Session& session, BufferHandle buffer) {
  std::vector<float> values(static_cast<std::size_t>(buffer.bytes) / sizeof(float));
  const Status read = session.read(buffer, 0, std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(read.ok()) << (read ? "" : read.error().message);
  return values;
}

KernelMeasureOptions quickly() {
  KernelMeasureOptions options;
  options.measure.cold_l2 = false;  // to flush what an emulated H100 has takes long
  options.measure.warm_up_us = 0;
  return options;
}

class MeasuredCallsGpu : public testing::Test {
 protected:
  void start(const std::filesystem::path& quarantine = {}) {
    RunnerOptions options = runner_options({"--device", "gpu:0"});
    options.launch_seconds = 10;
    running_ = std::make_unique<RunningDevice>(options, quarantine);
    if (!running_->device) GTEST_SKIP() << running_->error.message;
  }
  void TearDown() override {
    ::unsetenv("STITCH_CUBLAS_LT");
    ::unsetenv("STITCH_CUDNN");
  }
  [[nodiscard]] std::unique_ptr<TimedSession> session() const {
    auto session = running_->device->timed_session();
    EXPECT_TRUE(session) << error_of(session);
    return session ? std::move(*session) : nullptr;
  }
  [[nodiscard]] bool is_emulated() const { return running_->device->identity().emulated; }

  /// Two operands of ones and a result, for a product of f32.
  static PlannedCall on_ones(Session& session, CallHandle call, std::int64_t bytes = 8 * 16 * 4) {
    PlannedCall planned{call, {}, {}};
    for (int p = 0; p < 2; ++p)
      planned.parameters.push_back(*session.allocate("operand", bytes, ones(), Access::read_only));
    planned.result = *session.allocate("result", 8 * 8 * 4, Poison{}, Access::read_write);
    return planned;
  }
  static MeasureTask task_of(const PlannedCall& call, bool cuda_graph = false) {
    MeasureTask task;
    task.rotations = {{call}};
    task.cuda_graph = cuda_graph;
    task.options = quickly().measure;
    task.options.counters = false;
    return task;
  }

  std::unique_ptr<RunningDevice> running_;
};

TEST_F(MeasuredCallsGpu, AreMeasuredWhereThereAreTimes) {
  start();
  if (!running_->device) return;
  for (const auto& [call, library] :
       {std::pair(product_of(DType::f16), "cuBLASLt "), std::pair(product_of(DType::f32), "cuBLASLt "),
        std::pair(convolution_of(DType::f16), "cuDNN ")}) {
    const auto measured = measure_call(*session(), call, quickly());
    if (is_emulated()) {
      EXPECT_EQ(error_of(measured), "unavailable: the CUDA driver is emulated: it tells no times");
      continue;
    }
    if (!measured && measured.error().kind == ErrorKind::unavailable) {
      RecordProperty(library, measured.error().message);  // a GPU without the library
      continue;
    }
    ASSERT_TRUE(measured) << error_of(measured);
    RecordProperty(library, to_text(measured->measurement));
    EXPECT_THAT(measured->library, HasSubstr(library));
    EXPECT_GT(measured->measurement.median, 0);
  }
}

/// What a measurement runs is the call: its result is there afterwards, captured or not.
TEST_F(MeasuredCallsGpu, ComputeWhatTheirGraphsSay) {
  start();
  if (!running_->device) return;
  const auto session = this->session();
  const auto prepared = session->prepare(product_of(DType::f32));
  ASSERT_TRUE(prepared) << error_of(prepared);
  EXPECT_THAT(prepared->library, HasSubstr("cuBLASLt "));
  EXPECT_EQ(prepared->copies, 0);
  for (const bool cuda_graph : {false, true}) {
    const PlannedCall call = on_ones(*session, prepared->call);
    const auto measured = session->measure(task_of(call, cuda_graph));
    EXPECT_TRUE(measured || measured.error().kind == ErrorKind::unavailable) << error_of(measured);
    EXPECT_THAT(floats_of(*session, call.result), Each(16));
  }
  EXPECT_EQ(running_->device->generation(), 1);
}

TEST_F(MeasuredCallsGpu, OnBuffersThatDoNotFitAreRefused) {
  start();
  if (!running_->device) return;
  const auto session = this->session();
  const auto prepared = session->prepare(product_of(DType::f32));
  ASSERT_TRUE(prepared) << error_of(prepared);
  const auto refused = [&](PlannedCall call) { return error_of(session->measure(task_of(call))); };
  EXPECT_THAT(refused(on_ones(*session, prepared->call, 256)),
              HasSubstr("invalid_argument: parameter 0 of call 0: 512 bytes of a buffer that has 256"));
  PlannedCall call = on_ones(*session, prepared->call);
  call.parameters.pop_back();
  EXPECT_THAT(refused(call), HasSubstr("a call of 2 parameters was given 1"));
  call = on_ones(*session, prepared->call);
  call.call.id = 7;
  EXPECT_THAT(refused(call), HasSubstr("call handle 7 was not made ready"));
  call = on_ones(*session, prepared->call);
  call.parameters[0].id = 99;
  call.parameters[0].bytes = 1 << 20;  // what the handle claims is not asked
  EXPECT_THAT(refused(call), HasSubstr("parameter 0 of call 0: buffer handle 99 is not allocated"));
  call = on_ones(*session, prepared->call);
  call.result = *session->allocate("small", 64, Poison{}, Access::read_write);
  call.result.bytes = 1 << 20;
  EXPECT_THAT(refused(call), HasSubstr("result of call 0: 256 bytes of a buffer that has 64"));
  EXPECT_THAT(error_of(session->prepare(product_of(DType::s32))), HasSubstr("unsupported: a product of s32"));
  EXPECT_EQ(running_->device->generation(), 1) << "nothing of that ended the runner";
}

TEST_F(MeasuredCallsGpu, WithoutTheirLibraryAreUnavailableInTheLoadersWords) {
  ::setenv("STITCH_CUBLAS_LT", "libnosuchproducts.so.1", 1);
  ::setenv("STITCH_CUDNN", "libnosuchconvolutions.so.1", 1);
  start();
  if (!running_->device) return;
  EXPECT_THAT(error_of(measure_call(*session(), product_of(DType::f16), quickly())),
              HasSubstr("unavailable: no cuBLASLt: libnosuchproducts.so.1: cannot open shared object file"));
  EXPECT_THAT(error_of(measure_call(*session(), convolution_of(DType::f16), quickly())),
              HasSubstr("unavailable: no cuDNN: libnosuchconvolutions.so.1"));
}

/// A library that ends the process costs a runner and is blamed, by the call; nothing else is lost.
TEST_F(MeasuredCallsGpu, OneThatEndsTheRunnerIsQuarantined) {
  if (!std::filesystem::exists(STITCH_DYING_CUBLAS_LT)) GTEST_SKIP() << "taken elsewhere without its stand-in";
  const TestFolder folder;
  const auto file = folder / "quarantine.json";
  ::setenv("STITCH_CUBLAS_LT", STITCH_DYING_CUBLAS_LT, 1);
  start(file);
  if (!running_->device) return;
  const auto died = measure_call(*session(), product_of(DType::f16), quickly());
  ASSERT_FALSE(died);
  EXPECT_EQ(died.error().kind, ErrorKind::runtime);
  EXPECT_THAT(died.error().message,
              AllOf(HasSubstr("library call dot(f16[8,16], f16[16,8]): "), HasSubstr("signal 6")));
  EXPECT_EQ(running_->device->generation(), 1);
  const auto again = measure_call(*session(), product_of(DType::f16), quickly());
  EXPECT_THAT(error_of(again), AllOf(HasSubstr("runtime: "), HasSubstr("library call dot(f16[8,16], f16[16,8])"),
                                     HasSubstr("quarantine")));
  EXPECT_EQ(running_->device->generation(), 2) << "a fresh runner, which it did not end";
  // Another call is another one's fault, and kernels still have their device.
  const auto session = this->session();
  EXPECT_TRUE(session->prepare(product_of(DType::f16, 16)));
  EXPECT_TRUE(session->allocate("x", 64, Zero{}, Access::read_write));
  // Whoever reads the list later is warned, too.
  RealFileSystem files;
  const SystemClock clock;
  Quarantine later(files, clock, file);
  ASSERT_TRUE(later.load().ok());
  ASSERT_EQ(later.entries().size(), 1U);
  EXPECT_EQ(later.entries()[0].kernel, "library call dot(f16[8,16], f16[16,8])");
}

TEST_F(MeasuredCallsGpu, OfASessionAreTimedByCupti) {
  FakeCupti cupti;
  auto opened = GpuContext::open({});
  if (!opened) GTEST_SKIP() << opened.error().message;
  if (!(*opened)->identity.emulated) GTEST_SKIP() << "the driver is a real one, and so is its CUPTI";
  GpuContext& gpu = **opened;
  gpu.identity.emulated = false;
  gpu.cupti = cupti.api();
  // Every sample begins with a fill of L2, which stands for the call here: two kernels, by the stand-in's clock.
  static FakeCupti* records = nullptr;
  records = &cupti;
  auto driver = std::make_shared<cuda::DriverApi>(*gpu.driver);
  driver->fill_async = [](CUdeviceptr, unsigned char, std::size_t, CUstream) {
    records->ran(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 3000);
    records->ran(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 4000, 500);
    return CUDA_SUCCESS;
  };
  gpu.driver = driver;
  KernelMeasureOptions options = quickly();
  options.measure.cold_l2 = true;
  options.measure.stopping = {.min_samples = 6, .max_samples = 6, .min_time_us = 0, .max_time_us = 1e9};
  GpuSession session(*opened);
  const auto measured = measure_call(session, product_of(DType::f32), options);
  ASSERT_TRUE(measured) << error_of(measured);
  EXPECT_EQ(measured->library, "cuBLASLt 13.0.0");
  EXPECT_THAT(measured->measurement.samples, Each(7.5));
  EXPECT_EQ(measured->measurement.rotation, 3);
  EXPECT_TRUE(measured->measurement.cold_l2);
  EXPECT_FALSE(measured->measurement.cuda_graph);
}

}  // namespace
}  // namespace stitch::profiler::test
