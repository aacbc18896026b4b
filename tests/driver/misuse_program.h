#pragma once

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/driver/open_driver.h"

namespace stitch::driver::test {

inline constexpr const char* fill_kernel = R"(
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
inline std::string findings_of(const std::function<void(Program&)>& body) {
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

}  // namespace stitch::driver::test
