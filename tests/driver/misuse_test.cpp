// What programs do wrong, each with a right one beside it: the report of a process of its own is read.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/driver/open_driver.h"

namespace stitch::driver::test {
namespace {

using testing::HasSubstr;

constexpr const char* fill_kernel = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 x, .param .u32 value) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [value]; mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1; ret;
}
)";

/// A process's view of the driver: a device, a kernel and two streams that nothing orders.
struct Program {
  CUcontext context = nullptr;
  CUfunction fill = nullptr;
  CUstream a = nullptr, b = nullptr;

  Program() {
    CU(cuInit)(0);
    CU(cuDevicePrimaryCtxRetain)(&context, 0);
    CU(cuCtxSetCurrent)(context);
    CUmodule module = nullptr;
    CU(cuModuleLoadData)(&module, fill_kernel);
    CU(cuModuleGetFunction)(&fill, module, "fill");
    CU(cuStreamCreate)(&a, CU_STREAM_NON_BLOCKING);
    CU(cuStreamCreate)(&b, CU_STREAM_NON_BLOCKING);
  }
  [[nodiscard]] CUdeviceptr allocate(std::size_t bytes) const {
    CUdeviceptr address = 0;
    CU(cuMemAlloc)(&address, bytes);
    return address;
  }
  /// Writes 32 words.
  void write(CUdeviceptr address, CUstream stream, bool overlapping = false) const {
    unsigned value = 1;
    void* parameters[] = {&address, &value};
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    const CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, stream, &attribute, overlapping ? 1U : 0U};
    CU(cuLaunchKernelEx)(&config, fill, parameters, nullptr);
  }
  static void wait() { CU(cuCtxSynchronize)(); }
};

/// The findings of a program: it runs in a child, whose report is read.
std::string findings_of(const std::function<void(Program&)>& body) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("stitch-misuse-{}.json", ::getpid());
  ::setenv("STITCH_EMULATED_REPORT", path.c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    Program program;
    body(program);
    std::exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::ifstream file(path);
  const auto document = nlohmann::json::parse(file, nullptr, false);
  EXPECT_FALSE(document.is_discarded());
  std::filesystem::remove(path);
  std::string lines;
  for (const auto& finding : document["findings"]) {
    lines += fmt::format("{}: {}\n", finding["kind"].get<std::string>(), finding["message"].get<std::string>());
  }
  return lines;
}

TEST(Misuse, UnorderedStreamsOnTheSameMemory) {
  EXPECT_THAT(findings_of([](Program& program) {
                const CUdeviceptr x = program.allocate(128);
                program.write(x, program.a);
                program.write(x, program.b);
                Program::wait();
                CU(cuMemFree)(x);
              }),
              AllOf(HasSubstr("unordered_access: kernel fill on stream"), HasSubstr("and nothing orders the two")));
  EXPECT_EQ(findings_of([](Program& program) {
              const CUdeviceptr x = program.allocate(256);
              program.write(x, program.a);
              program.write(x + 128, program.b);  // other bytes
              CUevent event = nullptr;
              CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING);
              CU(cuEventRecord)(event, program.a);
              CU(cuStreamWaitEvent)(program.b, event, 0);
              program.write(x, program.b);
              Program::wait();
              program.write(x, program.a);  // the host has waited
              Program::wait();
              CU(cuMemFree)(x);
            }),
            "");
}

TEST(Misuse, TheDefaultStreamOrdersBlockingOnesAlone) {
  const auto program_with = [](unsigned flags) {
    return [flags](Program& program) {
      CUstream stream = nullptr;
      CU(cuStreamCreate)(&stream, flags);
      const CUdeviceptr x = program.allocate(128);
      program.write(x, stream);
      program.write(x, nullptr);
      program.write(x, stream);
      Program::wait();
      CU(cuMemFree)(x);
    };
  };
  EXPECT_EQ(findings_of(program_with(CU_STREAM_DEFAULT)), "");
  EXPECT_THAT(findings_of(program_with(CU_STREAM_NON_BLOCKING)), HasSubstr("unordered_access: "));
}

TEST(Misuse, AKernelThatOverlapsAndDoesNotWait) {
  EXPECT_THAT(findings_of([](Program& program) {
                const CUdeviceptr x = program.allocate(128);
                program.write(x, program.a);
                program.write(x, program.a, true);
                Program::wait();
                CU(cuMemFree)(x);
              }),
              HasSubstr("unordered_access: "));
}

TEST(Misuse, FreedMemory) {
  EXPECT_THAT(findings_of([](Program& program) {
                const CUdeviceptr x = program.allocate(128);
                CU(cuMemFree)(x);
                program.write(x, program.a);
                EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
              }),
              AllOf(HasSubstr("freed_memory: "), HasSubstr("which was freed")));
  EXPECT_THAT(findings_of([](Program& program) {
                const CUdeviceptr x = program.allocate(128);
                CU(cuMemFree)(x);
                EXPECT_EQ(CU(cuMemFree)(x), CUDA_ERROR_INVALID_VALUE);
              }),
              HasSubstr("freed_memory: CUDA_ERROR_INVALID_VALUE: cuMemFree of cuMemAlloc 1, which was freed before"));
  EXPECT_THAT(findings_of([](Program& program) {
                CUdeviceptr x = 0;
                CU(cuMemAllocAsync)(&x, 128, program.a);
                program.write(x, program.a);
                CU(cuMemFreeAsync)(x, program.b);
                Program::wait();
              }),
              HasSubstr("unordered_access: free on stream"));
}

TEST(Misuse, LeaksAreNamed) {
  EXPECT_THAT(findings_of([](Program& program) { static_cast<void>(program.allocate(128)); }),
              HasSubstr("leak: cuMemAlloc 1 (128 bytes) was never freed"));
}

TEST(Misuse, WhatTheKernelDoesIsReported) {
  EXPECT_THAT(findings_of([](Program& program) {
                const CUdeviceptr x = program.allocate(64);
                program.write(x, program.a);
                EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
              }),
              AllOf(HasSubstr("kernel: kernel fill on stream"), HasSubstr("out_of_bounds"),
                    HasSubstr("past the end of buffer \"cuMemAlloc 1\" (64 bytes)")));
}

}  // namespace
}  // namespace stitch::driver::test
