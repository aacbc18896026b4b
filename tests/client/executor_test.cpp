#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "client/cuda_executor.h"
#include "client/emulated_executor.h"
#include "profiler/device/emulated_device.h"

namespace stitch::client {
namespace {

using api::LaunchArgument;
using testing::HasSubstr;

struct alignas(16) Block {
  std::byte bytes[80]{};
};

/// One launch that copies parameter 0 to result 0, and a result that is a copy of it.
api::Plan copying_plan() {
  api::Plan plan;
  plan.target.architecture = "sm_90a";
  plan.parameters = {{graph::DType::u8, {64}}};
  plan.results = {{graph::DType::u8, {64}}, {graph::DType::u8, {64}}};
  api::KernelLaunch launch;
  launch.cubin = sha256("cubin");
  launch.ptx = sha256("ptx");
  launch.name = "copy";
  launch.blocks = 4;
  launch.threads = 128;
  launch.cluster = 2;
  launch.cooperative = true;
  launch.shared_bytes = 100'000;
  launch.arguments = {{LaunchArgument::Kind::parameter, 0},
                      {LaunchArgument::Kind::result, 0},
                      {LaunchArgument::Kind::workspace, 256},
                      {LaunchArgument::Kind::integer, 64}};
  plan.launches = {launch};
  plan.copies = {{{LaunchArgument::Kind::result, 0}, 1, 64}};
  plan.workspace_bytes = 512;
  plan.zeroed = {{256, 256}};
  return plan;
}

Result<std::string> artifact(const Sha256& hash) {
  return hash == sha256("cubin") ? std::string("the cubin") : std::string("the ptx");
}

TEST(BufferContractTest, SaysWhatIsWrong) {
  const api::Plan plan = copying_plan();
  Block memory[3];
  const auto in = [&](std::size_t offset, std::size_t size) {
    return std::vector<std::span<const std::byte>>{{memory[0].bytes + offset, size}};
  };
  const std::vector<std::span<std::byte>> good = {{memory[1].bytes, 64}, {memory[2].bytes, 64}};
  EXPECT_TRUE(check_buffers(plan, in(0, 64), good).ok());
  EXPECT_EQ(check_buffers(plan, in(0, 63), good).error().message, "parameter 0: 63 bytes were given, u8[64] has 64");
  EXPECT_THAT(check_buffers(plan, in(8, 64), good).error().message, HasSubstr("is not 16-byte aligned"));
  EXPECT_EQ(check_buffers(plan, in(0, 64), {good.data(), 1}).error().message, "1 results were given, the plan has 2");
  const std::uint64_t addresses[] = {256, 264};
  EXPECT_EQ(check_addresses(plan, {addresses, 1}, addresses).error().message,
            "result 1: address 0x108 is not 16-byte aligned");
}

TEST(CudaExecutorTest, WithoutADriverItSaysSo) {
  const auto executor = CudaExecutor::create(0, "libnosuchdriver.so.1");
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(executor.error().message, HasSubstr("no CUDA driver on this machine: libnosuchdriver.so.1"));
  const auto other = CudaExecutor::create(0, "libfmt.so.9");
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("has no cuInit"));
}

class FakeDriverTest : public testing::Test {
 protected:
  void SetUp() override {
    library_ = ::dlopen(STITCH_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
    reinterpret_cast<void (*)()>(::dlsym(library_, "stitch_fake_clear"))();
    auto created = CudaExecutor::create(0, STITCH_FAKE_DRIVER);
    ASSERT_TRUE(created.ok()) << created.error().message;
    executor_ = *std::move(created);
  }
  std::string log() const { return reinterpret_cast<const char* (*)()>(::dlsym(library_, "stitch_fake_log"))(); }

  void* library_ = nullptr;
  std::unique_ptr<CudaExecutor> executor_;
};

TEST_F(FakeDriverTest, ThePlanIsLaunchedAsItSays) {
  auto loaded = executor_->load(copying_plan(), artifact);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  Block memory[3];
  std::memset(memory[0].bytes, 7, 64);
  const std::vector<std::span<const std::byte>> in = {{memory[0].bytes, 64}};
  const std::vector<std::span<std::byte>> out = {{memory[1].bytes, 64}, {memory[2].bytes, 64}};
  ASSERT_TRUE((*loaded)->run(in, out).ok());
  EXPECT_EQ(std::memcmp(memory[0].bytes, memory[1].bytes, 64), 0);
  EXPECT_EQ(std::memcmp(memory[0].bytes, memory[2].bytes, 64), 0);
  loaded->reset();
  executor_.reset();
  EXPECT_EQ(log(),
            "retain\nload the cubin\nshared 100000\n"
            "launch copy grid 4 block 128 shared 100000 stream (nil)\ncluster 2\ncooperative 1\n"
            "workspace starts with 0\nfree\nfree\nfree\nunload\nfree\nrelease\n");
}

TEST_F(FakeDriverTest, SharedMemoryIsAskedForUnlessThereIsNone) {
  api::Plan plan = copying_plan();
  plan.launches[0].shared_bytes = 40'000;  // with 10,000 bytes of static memory, more than is had without asking
  ASSERT_TRUE(executor_->load(plan, artifact).ok());
  EXPECT_THAT(log(), HasSubstr("shared 40000\n"));
  reinterpret_cast<void (*)()>(::dlsym(library_, "stitch_fake_clear"))();
  plan.launches[0].shared_bytes = 0;
  ASSERT_TRUE(executor_->load(plan, artifact).ok());
  EXPECT_THAT(log(), testing::Not(HasSubstr("shared ")));
}

TEST_F(FakeDriverTest, LaunchesOnTheCallersStreamAndMemory) {
  auto loaded = executor_->load(copying_plan(), artifact);
  ASSERT_TRUE(loaded.ok());
  Block memory[3];
  std::memset(memory[0].bytes, 9, 64);
  const std::uint64_t in[] = {reinterpret_cast<std::uintptr_t>(memory[0].bytes)};
  const std::uint64_t out[] = {reinterpret_cast<std::uintptr_t>(memory[1].bytes),
                               reinterpret_cast<std::uintptr_t>(memory[2].bytes)};
  ASSERT_TRUE((*loaded)->launch(in, out, reinterpret_cast<void*>(0x1230)).ok());
  EXPECT_THAT(log(), HasSubstr("stream 0x1230"));
  EXPECT_EQ(memory[2].bytes[63], std::byte{9});
}

/// Of the log, how each kernel was launched: "d" dependent, "-" as usual.
std::string launches_of(const std::string& log) {
  std::string launches;
  for (std::size_t at = 0; at < log.size(); at = log.find('\n', at) + 1) {
    if (log.compare(at, 7, "launch ") == 0) launches += '-';
    if (log.compare(at, 12, "dependent 1\n") == 0) launches.back() = 'd';
  }
  return launches;
}

TEST_F(FakeDriverTest, OnlyBehindAKernelIsOneThatWaitsLaunchedDependent) {
  api::Plan plan = copying_plan();
  plan.launches.assign(3, plan.launches[0]);
  plan.launches[0].dependent = plan.launches[1].dependent = true;  // the last one does not wait
  Block memory[3];
  const auto address = [&](int i) { return std::uint64_t{reinterpret_cast<std::uintptr_t>(memory[i].bytes)}; };
  const std::uint64_t in[] = {address(0)}, apart[] = {address(1), address(2)}, alike[] = {address(1), address(1)};
  const auto launched = [&](LoadedPlan& loaded, StreamTail tail, Addresses out, StreamTail left) {
    reinterpret_cast<void (*)()>(::dlsym(library_, "stitch_fake_clear"))();
    EXPECT_TRUE(loaded.launch_behind(tail, in, out, nullptr).ok());
    EXPECT_EQ(tail, left);
    return launches_of(log());
  };
  auto loaded = executor_->load(plan, artifact);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(launched(**loaded, StreamTail::other, apart, StreamTail::other), "-d-") << "it ends with a copy";
  EXPECT_EQ(launched(**loaded, StreamTail::kernel, alike, StreamTail::kernel), "dd-");
  plan.copies[0].before = true;
  plan.copies[0].from = {LaunchArgument::Kind::parameter, 0};
  auto updates = executor_->load(plan, artifact);
  ASSERT_TRUE(updates.ok()) << updates.error().message;
  EXPECT_EQ(launched(**updates, StreamTail::kernel, apart, StreamTail::kernel), "-d-") << "it begins with a copy";
  reinterpret_cast<void (*)()>(::dlsym(library_, "stitch_fake_clear"))();
  EXPECT_TRUE((*loaded)->launch(in, apart, nullptr).ok());
  EXPECT_EQ(launches_of(log()), "-d-") << "of what stands in a caller's stream nothing is known";

  // The third of the driver's GPUs is of compute capability 8.0, and has no clusters.
  auto older = CudaExecutor::create(2, STITCH_FAKE_DRIVER);
  ASSERT_TRUE(older.ok()) << older.error().message;
  for (api::KernelLaunch& launch : plan.launches) launch.cluster = 1;
  auto there = (*older)->load(plan, artifact);
  ASSERT_TRUE(there.ok()) << there.error().message;
  EXPECT_EQ(launched(**there, StreamTail::kernel, alike, StreamTail::kernel), "---");
}

TEST_F(FakeDriverTest, ForeignKernelsAndDevicesAreNamed) {
  const auto foreign = [](const Sha256&) -> Result<std::string> { return std::string("other"); };
  const auto loaded = executor_->load(copying_plan(), foreign);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error(),
            (Error{ErrorKind::unsupported, "copy: kernel copy was compiled for sm_90a, this GPU is sm_90"}));
  EXPECT_EQ(CudaExecutor::create(5, STITCH_FAKE_DRIVER).error().message,
            "cuDeviceGet: CUDA_ERROR_OTHER (as the test wanted)");
}

struct Need {
  const char* name;
  std::function<void(api::KernelLaunch&)> more;
  const char* why;
};

TEST_F(FakeDriverTest, WhatAGpuCannotLaunchIsRefusedBeforeItIsFetched) {
  auto smaller = CudaExecutor::create(2, STITCH_FAKE_DRIVER);  // an A100
  ASSERT_TRUE(smaller.ok()) << smaller.error().message;
  reinterpret_cast<void (*)()>(::dlsym(library_, "stitch_fake_clear"))();
  const Need needs[] = {
      {"shared memory", [](auto& launch) { launch.shared_bytes = 200'000; },
       "kernel copy needs 200000 bytes of shared memory a block, a100-80gb has 166912"},
      {"clusters", [](auto& launch) { launch.cluster = 2; },
       "kernel copy has clusters of 2 blocks, a100-80gb allows 1"},
      {"a grid barrier", [](auto& launch) { launch.blocks = 132; },
       "kernel copy has a barrier over 132 blocks, which a100-80gb with 108 SMs may not hold at once"}};
  api::Plan plan = copying_plan();
  plan.target.device = "h100";
  plan.launches[0].cluster = 1;
  for (const Need& need : needs) {
    SCOPED_TRACE(need.name);
    api::Plan other = plan;
    need.more(other.launches[0]);
    const auto loaded = (*smaller)->load(other, [](const Sha256&) -> Result<std::string> {
      ADD_FAILURE() << "nothing is to be fetched";
      return std::string();
    });
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().kind, ErrorKind::constraint);
    EXPECT_EQ(loaded.error().message,
              std::string(need.why) + ": the plan is for h100; ask a server, or make a package, for a100-80gb");
  }
  EXPECT_EQ(log(), "");
  EXPECT_TRUE((*smaller)->load(plan, artifact).ok()) << "with less it runs";
  // Of a GPU of which the driver says nothing nobody knows what it cannot do.
  plan.launches[0].shared_bytes = 1 << 20;
  EXPECT_TRUE(executor_->load(plan, artifact).ok());
}

TEST(EmulatedExecutorTest, RefusesWhatItCannotRun) {
  profiler::EmulatedDevice device;
  EmulatedExecutor executor(device);
  const auto loaded = executor.load(copying_plan(), artifact);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::parse) << loaded.error().message;
  const auto absent = [](const Sha256&) -> Result<std::string> { return make_error(ErrorKind::not_found, "gone"); };
  EXPECT_EQ(executor.load(copying_plan(), absent).error().message, "gone");
}

TEST(EmulatedExecutorTest, RunsKernelsCopiesAndWorkspace) {
  // result 0 = workspace word (zero at first, counted up by every run) + parameter 0
  constexpr const char* counting = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry copy(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)
{
  .reg .b64 %rd<8>;
  .reg .b32 %r<8>;
  ld.param.u64 %rd1, [p0];
  ld.param.u64 %rd2, [p1];
  ld.param.u64 %rd3, [p2];
  ld.param.u64 %rd4, [p3];
  cvt.u32.u64 %r5, %rd4;
  ld.global.u32 %r1, [%rd1];
  ld.global.u32 %r2, [%rd3];
  add.s32 %r3, %r1, %r2;
  st.global.u32 [%rd2], %r3;
  add.s32 %r4, %r2, %r5;
  st.global.u32 [%rd3], %r4;
  ret;
}
)";
  api::Plan plan = copying_plan();
  plan.parameters = {{graph::DType::s32, {1}}};
  plan.results = {{graph::DType::s32, {1}}, {graph::DType::s32, {1}}};
  plan.copies[0].bytes = 4;
  plan.launches[0].blocks = plan.launches[0].threads = 1;
  plan.launches[0].cluster = 1;
  plan.launches[0].cooperative = false;
  plan.launches[0].shared_bytes = 0;
  profiler::EmulatedDevice device;
  EmulatedExecutor executor(device);
  auto loaded = executor.load(plan, [&](const Sha256&) -> Result<std::string> { return std::string(counting); });
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  alignas(16) std::int32_t in[4] = {1000}, out[4] = {}, copy[4] = {};
  const std::vector<std::span<const std::byte>> inputs = {std::as_bytes(std::span(in, 1))};
  const std::vector<std::span<std::byte>> outputs = {std::as_writable_bytes(std::span(out, 1)),
                                                     std::as_writable_bytes(std::span(copy, 1))};
  for (const int expected : {1000, 1064, 1128}) {
    const Status ran = (*loaded)->run(inputs, outputs);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    EXPECT_EQ(out[0], expected);
    EXPECT_EQ(copy[0], expected);
  }
  EXPECT_EQ((*loaded)->launch({}, {}, nullptr).error().kind, ErrorKind::unsupported);

  // What the checks of the emulated device find is an error: here, a workspace that nobody zeroed.
  plan.zeroed.clear();
  auto unzeroed = executor.load(plan, [&](const Sha256&) -> Result<std::string> { return std::string(counting); });
  const Status found = (*unzeroed)->run(inputs, outputs);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::runtime);
  EXPECT_THAT(found.error().message, HasSubstr("launch 0 (copy): "));
}

}  // namespace
}  // namespace stitch::client
