// Programmatic dependent launch: what a kernel touches before it waits for the one before it, or without waiting.
#include <gmock/gmock.h>

#include "tests/driver/misuse_program.h"

namespace stitch::driver::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// Every kernel adds the word at `from` to that at `to`. `waits` before all of it, `late` between the load and the
/// store, `never` does not; `eager` lets its dependents go before it waits.
constexpr const char* adding_kernels = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry waits(.param .u64 to, .param .u64 from) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
  griddepcontrol.wait; griddepcontrol.launch_dependents;
  ld.global.u32 %r1, [%rd2]; ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r1, %r2; st.global.u32 [%rd1], %r3; ret;
}
.visible .entry late(.param .u64 to, .param .u64 from) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
  ld.global.u32 %r1, [%rd2];
  griddepcontrol.wait; griddepcontrol.launch_dependents;
  ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r1, %r2; st.global.u32 [%rd1], %r3; ret;
}
.visible .entry never(.param .u64 to, .param .u64 from) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
  griddepcontrol.launch_dependents;
  ld.global.u32 %r1, [%rd2]; ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r1, %r2; st.global.u32 [%rd1], %r3; ret;
}
.visible .entry eager(.param .u64 to, .param .u64 from) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
  griddepcontrol.launch_dependents; griddepcontrol.wait;
  ld.global.u32 %r1, [%rd2]; ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r1, %r2; st.global.u32 [%rd1], %r3; ret;
}
)";

struct Launch {
  const char* kernel;
  int to, from;  ///< words, each in an allocation of its own
  bool dependent = true;
};

struct Case {
  const char* name;
  std::vector<Launch> launches;
  const char* finding;  ///< empty: none
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class DependentLaunch : public testing::TestWithParam<std::tuple<Case, bool>> {};

/// The launches on one stream, or in a graph captured from it.
void run(Program& program, const std::vector<Launch>& launches, bool captured) {
  CUmodule module = nullptr;
  CU(cuModuleLoadData)(&module, adding_kernels);
  std::vector<CUdeviceptr> words;
  for (int i = 0; i < 5; ++i) {
    words.push_back(program.allocate(4));
    CU(cuMemsetD32)(words.back(), 1, 1);
  }
  Program::wait();
  if (captured) CU(cuStreamBeginCapture)(program.a, CU_STREAM_CAPTURE_MODE_GLOBAL);
  for (const Launch& launch : launches) {
    CUfunction function = nullptr;
    CU(cuModuleGetFunction)(&function, module, launch.kernel);
    void* parameters[] = {&words[launch.to], &words[launch.from]};
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    const CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, program.a, &attribute, launch.dependent ? 1U : 0U};
    CU(cuLaunchKernelEx)(&config, function, parameters, nullptr);
  }
  if (captured) {
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    CU(cuStreamEndCapture)(program.a, &graph);
    CU(cuGraphInstantiate)(&executable, graph, 0);
    CU(cuGraphLaunch)(executable, program.a);
  }
  Program::wait();
  for (const CUdeviceptr word : words) CU(cuMemFree)(word);
}

TEST_P(DependentLaunch, Table) {
  const auto& [c, captured] = GetParam();
  const std::string found = findings_of([&](Program& program) { run(program, c.launches, captured); });
  if (*c.finding == '\0') {
    EXPECT_THAT(found, IsEmpty());
  } else {
    EXPECT_THAT(found, HasSubstr("unordered_access: " + std::string(c.finding)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DependentLaunch,
    testing::Combine(
        testing::Values(
            Case{"AChainThatWaits", {{"waits", 1, 0, false}, {"waits", 2, 1}, {"waits", 0, 2}, {"waits", 1, 0}}, ""},
            Case{"ALoadBeforeTheWait", {{"waits", 1, 0, false}, {"late", 2, 1}}, "kernel late on "},
            Case{"OfWhatNobodyWrites", {{"waits", 1, 0, false}, {"late", 2, 3}}, ""},
            Case{
                "OfWhatTheOneBeforeThePredecessorWrote", {{"waits", 1, 0, false}, {"waits", 3, 4}, {"late", 2, 1}}, ""},
            Case{"WhoseDependentsMayGoBeforeItWaits",
                 {{"waits", 1, 0, false}, {"eager", 3, 4}, {"late", 2, 1}},
                 "kernel late on "},
            Case{"NoWait", {{"waits", 1, 0, false}, {"never", 2, 1}}, "kernel never on "},
            Case{"AnOrdinaryLaunchBehindThat",
                 {{"waits", 1, 0, false}, {"never", 3, 4}, {"waits", 2, 1, false}, {"waits", 0, 2}},
                 ""},
            Case{"NoWaitAndNotDependent", {{"waits", 1, 0, false}, {"never", 2, 1, false}}, ""}),
        testing::Bool()),
    [](const auto& info) {
      return std::string(std::get<0>(info.param).name) + (std::get<1>(info.param) ? "InAGraph" : "");
    });

TEST(DependentLaunchMessage, SaysThatItWasBeforeTheWait) {
  EXPECT_THAT(findings_of([](Program& program) {
                run(program, {{"waits", 1, 0, false}, {"late", 2, 1}}, false);
              }),
              testing::ContainsRegex("kernel late on stream [0-9]+, before its griddepcontrol.wait, reads byte 0 of "
                                     "cuMemAlloc [0-9]+ \\(4 bytes\\), which kernel waits on stream [0-9]+ writes, and "
                                     "nothing orders the two"));
}

}  // namespace
}  // namespace stitch::driver::test
