// A plan whose kernels load what the one before does not write before they wait for it, on the emulated driver, which
// orders what stands before a wait by what had ended when the kernel began.
#include <gmock/gmock.h>

#include <numeric>

#include "costmodel/analytical.h"
#include "graph/builder.h"
#include "search/partition/fusion_explorer.h"
#include "tests/client/emulated_gpu.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/plans/plan_builder.h"

namespace stitch::client {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::Value;
using testing::HasSubstr;

constexpr std::int64_t elements = 4096;

/// tanh(x)·y + z.
graph::Graph gated() {
  Builder b;
  const Value x = b.parameter(DType::f32, {elements}), y = b.parameter(DType::f32, {elements}),
              z = b.parameter(DType::f32, {elements});
  return tuning::canonical(*b.finish({b.binary(Op::add, b.binary(Op::multiply, b.unary(Op::tanh, x), y), z)}));
}

class UnwaitedPlanEmulated : public OnAnEmulatedGpu {
 protected:
  void SetUp() override {
    OnAnEmulatedGpu::SetUp();
    use_context();
  }

  /// A kernel for each operator.
  tuning::TunedFragment tuned(const graph::Graph& graph) {
    const costmodel::AnalyticalScorer scorer(*find_device("h100"));
    search::KernelCache cache(scorer, {.keep = 4});
    const auto plan = search::unfused_plan(graph, cache);
    EXPECT_TRUE(plan) << plan.error().message;
    EXPECT_GT(plan->unwaited_saving_us, 0);
    auto found = tuning::shared_tuner(tuning::shared_device()).tune({.fragment = graph, .plan = &*plan});
    EXPECT_TRUE(found) << found.error().message;
    return *std::move(found);
  }

  std::unique_ptr<LoadedPlan> load(const api::Plan& plan, const tuning::TunedFragment& from) {
    auto loaded = executor_->load(plan, [&](const Sha256& hash) -> Result<std::string> {
      for (const db::Artifact& artifact : from.bundle.artifacts) {
        if (artifact.hash == hash) return artifact.bytes;
      }
      return make_error(ErrorKind::not_found, "no artifact");
    });
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return *std::move(loaded);
  }

  /// Runs the plan twice in a row, the second time of the first one's result, as a program does: the second run's first
  /// kernel begins while the first run's last one is still at work.
  void run_twice(LoadedPlan& plan, bool captured) {
    CUstream stream = new_stream();
    std::vector<CUdeviceptr> at(5);
    for (CUdeviceptr& address : at) {
      ASSERT_EQ(entry<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&address, elements * 4), CUDA_SUCCESS);
      ASSERT_EQ(entry<decltype(cuMemsetD32)>("cuMemsetD32_v2")(address, 0x3f000000, elements), CUDA_SUCCESS);  // 0.5
    }
    synchronize();
    const auto begin = entry<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2");
    if (captured) {
      ASSERT_EQ(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    }
    StreamTail tail = StreamTail::other;
    const std::vector<std::uint64_t> first = {at[0], at[1], at[2]}, to = {at[3]}, second = {at[3], at[3], at[3]},
                                     last = {at[4]};
    ASSERT_TRUE(plan.launch_behind(tail, first, to, stream).ok());
    ASSERT_TRUE(plan.launch_behind(tail, second, last, stream).ok());
    if (captured) {
      CUgraph graph = nullptr;
      CUgraphExec executable = nullptr;
      ASSERT_EQ(entry<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(stream, &graph), CUDA_SUCCESS);
      ASSERT_EQ(entry<decltype(cuGraphInstantiate)>("cuGraphInstantiateWithFlags")(&executable, graph, 0),
                CUDA_SUCCESS);
      for (int time = 0; time < 2; ++time)
        ASSERT_EQ(entry<decltype(cuGraphLaunch)>("cuGraphLaunch")(executable, stream), CUDA_SUCCESS);
    }
    synchronize();
    std::vector<float> result(elements);
    ASSERT_EQ(entry<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2")(result.data(), at[4], elements * 4), CUDA_SUCCESS);
    const double once = std::tanh(0.5) * 0.5 + 0.5, twice = std::tanh(once) * once + once;
    EXPECT_THAT(result, testing::Each(testing::FloatNear(static_cast<float>(twice), 1e-5F)));
    for (const CUdeviceptr address : at) EXPECT_EQ(entry<decltype(cuMemFree)>("cuMemFree_v2")(address), CUDA_SUCCESS);
  }
};

/// Whether a plan's kernel has loads before its wait.
bool loads_early(const tuning::TunedFragment& tuned, std::size_t launch) {
  for (const db::Artifact& artifact : tuned.bundle.artifacts) {
    if (artifact.hash != tuned.plan.launches[launch].ptx) continue;
    const std::size_t load = artifact.bytes.find("ld.global.cg");
    return load != std::string::npos && load < artifact.bytes.find("griddepcontrol.wait");
  }
  return false;
}

TEST_F(UnwaitedPlanEmulated, KernelsBehindOthersLoadWhatTheseDoNotWrite) {
  const graph::Graph graph = gated();
  const tuning::TunedFragment made = tuned(graph);
  ASSERT_EQ(made.plan.launches.size(), 3);
  for (std::size_t at = 0; at < 3; ++at) {
    EXPECT_TRUE(made.plan.launches[at].dependent) << at;
    EXPECT_EQ(loads_early(made, at), at > 0) << at;
  }
  const auto plan = load(made.plan, made);
  for (const bool captured : {false, true}) run_twice(*plan, captured);
  EXPECT_THAT(findings(), testing::Not(HasSubstr("nothing orders")));
}

// The kernel before the last computes of the first one's result what it should of a parameter, and the other way round.
TEST_F(UnwaitedPlanEmulated, AndNothingElse) {
  const graph::Graph graph = gated();
  const tuning::TunedFragment made = tuned(graph);
  ASSERT_EQ(made.plan.launches.size(), 3);
  api::Plan wrong = made.plan;
  std::vector<api::LaunchArgument>& arguments = wrong.launches[1].arguments;
  const auto parameter = std::ranges::find(arguments, api::LaunchArgument::Kind::parameter, &api::LaunchArgument::kind);
  const auto written = std::ranges::find(made.plan.launches[0].arguments, api::LaunchArgument::Kind::workspace,
                                         &api::LaunchArgument::kind);
  ASSERT_TRUE(parameter != arguments.end() && written != made.plan.launches[0].arguments.end());
  const auto read = std::ranges::find(arguments, *written);
  ASSERT_NE(read, arguments.end());
  std::swap(*parameter, *read);
  const auto plan = load(wrong, made);
  for (const bool captured : {false, true}) {
    run_twice(*plan, captured);
    EXPECT_THAT(findings(),
                testing::AllOf(HasSubstr("before its griddepcontrol.wait, reads"), HasSubstr("nothing orders")));
  }
}

// What is asked for is told by the kernel's place: nothing of the first, and only parameters.
TEST(UnwaitedInputsOfPlans, AreParametersBehindTheFirstKernel) {
  Builder b;
  const Value x = b.parameter(DType::f32, {elements}), y = b.parameter(DType::f32, {elements});
  const Value h = b.unary(Op::tanh, x), sum = b.binary(Op::add, h, y);
  const graph::Graph graph = *b.finish({sum});
  const std::vector<Value> arguments = {h, y, x};
  EXPECT_EQ(search::unwaited_inputs(graph, arguments, 0), 0);
  EXPECT_EQ(search::unwaited_inputs(graph, arguments, 1), 6);
  tuning::BuiltKernel first, second;
  second.generated.unwaited = 1;
  std::vector<tuning::PlannedLaunch> launches(2);
  launches[0].built = &first;
  launches[0].arguments = {x};
  launches[0].results = {h};
  launches[1].built = &second;
  launches[1].arguments = {h, y};
  launches[1].results = {sum};
  const auto refused = tuning::build_plan(graph, launches);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::internal);
  EXPECT_THAT(refused.error().message, HasSubstr("launch 1 loads before it waits"));
}

// A cache that is updated in place: the result may lie where the parameter does.
TEST(UnwaitedInputsOfPlans, AreNotThoseThatAResultUpdates) {
  for (const bool in_place : {false, true}) {
    Builder b;
    const Value cache = b.parameter(DType::f32, {4, 64, 16}), token = b.parameter(DType::f32, {4, 1, 16}),
                at = b.parameter(DType::s32, {}), zero = b.scalar(DType::s32, 0);
    const graph::Graph graph =
        *b.finish({b.add(Op::dynamic_update_slice, {cache, b.unary(Op::tanh, token), zero, at, zero},
                         graph::UpdateAttributes{in_place})});
    EXPECT_EQ(search::unwaited_inputs(graph, std::vector<Value>{cache, token}, 1), in_place ? 2 : 3);
  }
}

}  // namespace
}  // namespace stitch::client
