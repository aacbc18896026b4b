// What programs do wrong, each with a right one beside it: the report of a process of its own is read.
#include <gmock/gmock.h>

#include "tests/driver/misuse_program.h"

namespace stitch::driver::test {
namespace {

using testing::HasSubstr;

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
