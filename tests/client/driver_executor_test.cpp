// Plans on a whole CUDA driver, the emulated one: loaded, run, captured, and replaced while one is in flight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "tests/client/emulated_gpu.h"

namespace stitch::client {
namespace {

using api::LaunchArgument;
using testing::HasSubstr;

/// Adds `addend` to 64 words.
std::string add_kernel(unsigned addend) {
  return fmt::format(R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 from, .param .u64 to) {{
  .reg .b32 %r<4>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to]; mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r2, [%rd4]; add.u32 %r3, %r2, {}; st.global.u32 [%rd5], %r3; ret;
}}
)",
                     addend);
}

api::Plan adding_plan() {
  api::Plan plan;
  plan.target.architecture = "sm_90a";
  plan.parameters = {{graph::DType::u32, {64}}};
  plan.results = {{graph::DType::u32, {64}}};
  api::KernelLaunch launch;
  launch.cubin = sha256("cubin");
  launch.ptx = sha256("ptx");
  launch.name = "add";
  launch.threads = 64;
  launch.arguments = {{LaunchArgument::Kind::parameter, 0}, {LaunchArgument::Kind::result, 0}};
  plan.launches = {launch};
  return plan;
}

struct alignas(16) Words {
  std::array<unsigned, 64> values{};
};

class DriverExecutorEmulated : public OnAnEmulatedGpu {
 protected:
  /// A plan whose cubin is for another GPU, as far as this driver can tell, and whose PTX adds `addend`.
  std::unique_ptr<LoadedPlan> load(unsigned addend, bool has_workspace = false) {
    const auto artifacts = [&](const Sha256& hash) -> Result<std::string> {
      if (hash == sha256("ptx")) return add_kernel(addend);
      std::string elf = "\177ELF";
      elf.resize(64);
      return elf;
    };
    api::Plan plan = adding_plan();
    if (has_workspace) {
      plan.workspace_bytes = 256;
      plan.zeroed = {{0, 64}};
    }
    auto loaded = executor_->load(plan, artifacts);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return loaded.ok() ? *std::move(loaded) : nullptr;
  }
};

TEST_F(DriverExecutorEmulated, RunsAPlanFromItsPtx) {
  const auto plan = load(3);
  ASSERT_NE(plan, nullptr);
  Words in, out;
  in.values.fill(4);
  const std::vector<std::span<const std::byte>> parameters = {std::as_bytes(std::span(in.values))};
  const std::vector<std::span<std::byte>> results = {std::as_writable_bytes(std::span(out.values))};
  const Status run = plan->run(parameters, results);
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_THAT(out.values, testing::Each(7U));
}

TEST_F(DriverExecutorEmulated, WithoutPtxItSaysWhatItWasCompiledFor) {
  const auto artifacts = [](const Sha256& hash) -> Result<std::string> {
    std::string elf = "\177ELF";
    elf.resize(64);
    if (hash == sha256("ptx")) return make_error(ErrorKind::not_found, "no such artifact");
    return elf;
  };
  const auto loaded = executor_->load(adding_plan(), artifacts);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(loaded.error().message, HasSubstr("kernel add was compiled for sm_90a, this GPU is sm_90"));
}

TEST_F(DriverExecutorEmulated, LaunchesInOrderIsCapturedAndReplacedInFlight) {
  use_context();
  CUstream stream = new_stream();
  CUdeviceptr memory = 0, flag = 0;
  ASSERT_EQ(entry<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&memory, 768), CUDA_SUCCESS);
  ASSERT_EQ(entry<decltype(cuMemAllocManaged)>("cuMemAllocManaged")(&flag, 16, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(entry<decltype(cuMemsetD32)>("cuMemsetD32_v2")(memory, 0, 192), CUDA_SUCCESS);
  synchronize();
  const std::uint64_t first[] = {memory}, second[] = {memory + 256}, third[] = {memory + 512};

  // The old plan is in flight, behind something that has not happened yet, while the new one is loaded and follows it.
  auto old_plan = load(10);
  ASSERT_EQ(entry<decltype(cuStreamWaitValue32)>("cuStreamWaitValue32_v2")(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ),
            CUDA_SUCCESS);
  ASSERT_TRUE(old_plan->launch(first, second, stream).ok());
  auto new_plan = load(5);
  ASSERT_TRUE(new_plan->launch(second, third, stream).ok());
  const auto query = entry<decltype(cuStreamQuery)>("cuStreamQuery");
  EXPECT_EQ(query(stream), CUDA_ERROR_NOT_READY);
  *reinterpret_cast<volatile unsigned*>(flag) = 1;
  old_plan.reset();  // waits for what was enqueued with it
  synchronize();
  Words out;
  const auto read = entry<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2");
  ASSERT_EQ(read(out.values.data(), memory + 512, 256), CUDA_SUCCESS);
  EXPECT_THAT(out.values, testing::Each(15U));

  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_EQ(
      entry<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      CUDA_SUCCESS);
  ASSERT_TRUE(new_plan->launch(third, first, stream).ok());
  ASSERT_EQ(entry<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(stream, &graph), CUDA_SUCCESS);
  ASSERT_EQ(entry<decltype(cuGraphInstantiate)>("cuGraphInstantiateWithFlags")(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(entry<decltype(cuGraphLaunch)>("cuGraphLaunch")(executable, stream), CUDA_SUCCESS);
  synchronize();
  ASSERT_EQ(read(out.values.data(), memory, 256), CUDA_SUCCESS);
  EXPECT_THAT(out.values, testing::Each(20U));
}

// A better plan may arrive at any time, also while the program captures.
TEST_F(DriverExecutorEmulated, APlanIsLoadedWhileAStreamIsCaptured) {
  use_context();
  CUstream stream = new_stream();
  CUdeviceptr memory = 0;
  ASSERT_EQ(entry<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&memory, 512), CUDA_SUCCESS);
  ASSERT_EQ(entry<decltype(cuMemsetD32)>("cuMemsetD32_v2")(memory, 0, 128), CUDA_SUCCESS);
  synchronize();
  const std::uint64_t from[] = {memory}, to[] = {memory + 256};
  const auto plan = load(3);
  ASSERT_TRUE(plan->launch(from, to, stream).ok());
  const auto begin = entry<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2");
  ASSERT_EQ(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_TRUE(plan->launch(from, to, stream).ok());
  std::unique_ptr<LoadedPlan> better;
  std::jthread([&] { better = load(5, true); }).join();
  EXPECT_NE(better, nullptr);
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  ASSERT_EQ(entry<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(stream, &graph), CUDA_SUCCESS);
  ASSERT_EQ(entry<decltype(cuGraphInstantiate)>("cuGraphInstantiateWithFlags")(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(entry<decltype(cuGraphLaunch)>("cuGraphLaunch")(executable, stream), CUDA_SUCCESS);
  synchronize();
  Words out;
  ASSERT_EQ(entry<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2")(out.values.data(), memory + 256, 256), CUDA_SUCCESS);
  EXPECT_THAT(out.values, testing::Each(3U));
}

}  // namespace
}  // namespace stitch::client
