// Whole programs on host memory: plans on the emulated device under its checks, library calls by OpenBLAS, loops and
// branches turn by turn, all beside the float64 reference of the whole graph.
#include "client/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "client/emulated_executor.h"
#include "import/import.h"
#include "profiler/device/emulated_device.h"
#include "tests/client/program_values.h"
#include "tests/graph/random_graph.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/programs/model_program.h"

namespace stitch::client {
namespace {

using testing::HasSubstr;

/// Runs the program twice on the same memory, so that what the first run left in the arena is seen to do no harm.
Result<std::vector<Memory>> run_twice(ProgramRunner& runner, const std::vector<Memory>& inputs,
                                      StepObserver* observer = nullptr) {
  std::vector<Memory> outputs;
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  for (const Memory& input : inputs) from.emplace_back(input.span());
  for (const api::ProgramPort& port : runner.outputs()) {
    outputs.emplace_back(port.type.bytes());
    to.emplace_back(outputs.back().span());
  }
  STITCH_TRY(runner.run(from, to, observer));
  for (const Memory& output : outputs) std::ranges::fill(output.span(), std::byte{0xa5});
  STITCH_TRY(runner.run(from, to));
  return outputs;
}

profiler::Device& device() { return tuning::shared_device(); }

Result<api::Program> planned(const graph::Graph& graph, tuning::ProductsBy products = tuning::ProductsBy::library) {
  import::Imported model;
  model.graph = graph;
  const tuning::ProgramRequest request{.name = "test", .products = products};
  STITCH_ASSIGN(api::Program program, tuning::outline_program(model, tuning::shared_tuner(device()), request));
  STITCH_TRY(tuning::plan_program(tuning::shared_tuner(device()), request, program));
  return program;
}

/// Who did what, in order.
class Steps final : public StepObserver {
 public:
  Status after(const StepRun& run) override {
    log += fmt::format("{} by {}; ", api::kind_of(run.step), to_string(run.by));
    return {};
  }
  std::string log;
};

void expect_right(const graph::Graph& graph, std::string* log = nullptr,
                  tuning::ProductsBy products = tuning::ProductsBy::library) {
  auto program = planned(graph, products);
  ASSERT_TRUE(program.ok()) << program.error().message;
  EmulatedExecutor executor(device());
  // As a stranger's file: through the document.
  const std::string package = api::encode_program(*program, graph::Encoding::cbor);
  auto runner = ProgramRunner::open_package(package, graph::Encoding::cbor, executor);
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  const std::vector<Memory> inputs = random_inputs((*runner)->program());
  Steps steps;
  const auto outputs = run_twice(**runner, inputs, &steps);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  EXPECT_TRUE((*runner)->fallbacks().empty()) << (*runner)->fallbacks()[0].reason;
  expect_reference(graph, inputs, *outputs);
  if (log != nullptr) *log = steps.log;
}

TEST(ProgramRunnerEmulatedTest, RunsFragmentsBetweenLibraryCalls) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {24, 32}, "x"), w = builder.parameter(DType::f32, {32, 48}, "w");
  const Value b = builder.parameter(DType::f32, {48}, "b"), v = builder.parameter(DType::f32, {48, 16}, "v");
  const Value h =
      builder.binary(Op::add, dot(builder, builder.unary(Op::exp, x), w), builder.broadcast(b, {24, 48}, {1}));
  const Value y = dot(builder, builder.unary(Op::tanh, h), v);
  std::string log;
  expect_right(*builder.finish({builder.unary(Op::exp, y), h}), &log);
  EXPECT_EQ(log,
            "fragment by device; library by library; fragment by device; library by library; fragment by device; ");
}

TEST(ProgramRunnerEmulatedTest, ValuesLieInResultsUntilThoseAreWritten) {
  const auto program = planned(lending_graph());
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_GE(lent_values(*program), 2);
  expect_right(lending_graph());
}

TEST(ProgramRunnerEmulatedTest, WhatACallWritesMayBeSeveralResults) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {24, 24}, "x");
  const Value product = dot(builder, x, x), next = dot(builder, product, x);
  expect_right(*builder.finish({builder.unary(Op::exp, x), x, next, next, builder.reshape(next, {576}), product,
                                builder.unary(Op::tanh, product), product}));
}

// Products between all kinds of operators, values that are several results, pieces that are joined or not.
TEST(ProgramRunnerEmulatedTest, RunsRandomProgramsWithProductsOfEitherKind) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    graph::test::RandomGraphOptions options;
    options.seed = seed;
    options.operators = 40;
    options.dot = 8;
    options.most_extent = 40;
    options.most_elements = 8000;
    for (const auto products : {tuning::ProductsBy::library, tuning::ProductsBy::ours}) {
      SCOPED_TRACE(fmt::format("seed {}, {}", seed, products == tuning::ProductsBy::ours ? "ours" : "the library's"));
      expect_right(graph::test::random_graph(options), nullptr, products);
    }
  }
}

TEST(ProgramRunnerEmulatedTest, RunsLoopsOfKnownCounts) {
  for (const std::int64_t turns : {4, 5}) {  // the last turn ends in the results after either number
    std::string log;
    expect_right(loop_graph(turns, turns), &log);
    EXPECT_THAT(log, HasSubstr("loop by host"));
  }
}

TEST(ProgramRunnerEmulatedTest, RunsLoopsUntilTheirConditionFails) {
  for (const std::int64_t turns : {0, 3, 4}) {
    std::string log;
    expect_right(loop_graph(-1, turns), &log);
    EXPECT_THAT(log, HasSubstr("loop by host"));
  }
}

TEST(ProgramRunnerEmulatedTest, ALoopWithoutEndIsAnError) {
  auto program = planned(loop_graph(-1, 1000));
  ASSERT_TRUE(program.ok()) << program.error().message;
  EmulatedExecutor executor(device());
  ProgramOptions options;
  options.most_trips = 3;
  auto runner = ProgramRunner::open(*std::move(program), executor, {}, options);
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  const auto outputs = run_twice(**runner, random_inputs((*runner)->program()));
  ASSERT_FALSE(outputs.ok());
  EXPECT_EQ(outputs.error().kind, ErrorKind::resource_exhausted);
  EXPECT_THAT(outputs.error().message, HasSubstr("runs more than 3 times"));
}

TEST(ProgramRunnerEmulatedTest, RunsImportedModels) {
  for (const char* file : {"attention", "branches", "counted_loop", "convolutions", "dots", "cross_entropy_gradient"}) {
    SCOPED_TRACE(file);
    auto imported = import::import_file(std::filesystem::path(STITCH_SOURCE_DIR) / "tests/data/hlo" /
                                        (std::string(file) + ".hlo.txt"));
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    auto program = planned(imported->graph);
    ASSERT_TRUE(program.ok()) << program.error().message;
    EmulatedExecutor executor(device());
    auto runner = ProgramRunner::open(*std::move(program), executor);
    ASSERT_TRUE(runner.ok()) << runner.error().message;
    const std::vector<Memory> inputs = random_inputs((*runner)->program());
    const auto outputs = run_twice(**runner, inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    expect_reference(imported->graph, inputs, *outputs);
  }
}

TEST(ProgramRunnerEmulatedTest, WhatNothingElseComputesIsSaid) {
  Builder builder;
  const Value x = builder.parameter(DType::s32, {4, 4}, "x");
  const graph::Graph graph = *builder.finish({builder.dot(x, x, {{}, {}, {1}, {0}, DType::s32})});
  auto program = planned(graph);
  ASSERT_TRUE(program.ok()) << program.error().message;
  EmulatedExecutor executor(device());
  auto runner = ProgramRunner::open(*program, executor);
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  ASSERT_EQ((*runner)->fallbacks().size(), 1U);
  EXPECT_EQ((*runner)->fallbacks()[0].reason,
            "no library of the host computes in s32, and parameter 0 is s32[4,4]; programs made with --products ours "
            "have kernels in the place of libraries");
  const std::vector<Memory> inputs = random_inputs(*program);
  const auto outputs = run_twice(**runner, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  expect_reference(graph, inputs, *outputs);
  const auto refused = ProgramRunner::open(*program, executor, {}, {.allow_reference = false});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
}

TEST(ProgramRunnerEmulatedTest, WithoutItsLibraryOrPlanItFallsBackAndSaysSo) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {4, 4}, "x");
  const graph::Graph graph = *builder.finish({builder.unary(Op::exp, dot(builder, x, x))});
  auto program = planned(graph);
  ASSERT_TRUE(program.ok()) << program.error().message;
  program->fragments[0].plan.reset();
  program->fragments[0].why_none = "it was taken away";
  EmulatedExecutor executor(device());
  auto runner = ProgramRunner::open(*program, executor, {}, {.blas = "libnosuchblas.so"});
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  ASSERT_EQ((*runner)->fallbacks().size(), 2U);
  EXPECT_THAT((*runner)->fallbacks()[0].reason, HasSubstr("libnosuchblas.so"));
  EXPECT_EQ((*runner)->fallbacks()[1].reason, "it was taken away");
  const std::vector<Memory> inputs = random_inputs(*program);
  const auto outputs = run_twice(**runner, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  expect_reference(graph, inputs, *outputs);
}

TEST(ProgramRunnerEmulatedTest, BuffersThatDoNotFitAreNamed) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {4}, "x");
  auto program = planned(*builder.finish({builder.unary(Op::exp, x)}));
  ASSERT_TRUE(program.ok()) << program.error().message;
  EmulatedExecutor executor(device());
  const auto runner = ProgramRunner::open(*program, executor);
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  const Memory in(64), out(64);
  const auto run = [&](std::span<const std::byte> from, std::span<std::byte> to) {
    const std::span<const std::byte> parameters[] = {from};
    const std::span<std::byte> results[] = {to};
    return (*runner)->run(parameters, results);
  };
  EXPECT_TRUE(run(in.span().first(16), out.span().first(16)).ok());
  EXPECT_THAT(run(in.span().first(12), out.span().first(16)).error().message,
              HasSubstr("12 bytes were given, f32[4] has 16"));
  EXPECT_THAT(run(in.span().subspan(4, 16), out.span().first(16)).error().message, HasSubstr("is not 16-byte aligned"));
  EXPECT_THAT((*runner)->run({}, {}).error().message, HasSubstr("0 inputs and 0 outputs were given"));
}

TEST(ProgramRunnerTest, ADamagedArtifactAndAForeignOperatorAreRefused) {
  profiler::EmulatedDevice plain;
  EmulatedExecutor executor(plain);
  Builder builder;
  const Value x = builder.parameter(DType::f32, {4}, "x");
  const TensorType type{DType::f32, {4}};
  const Value y = builder.add(Op::opaque, {x}, graph::OpaqueAttributes{"sort", "", {type}});
  import::Imported model;
  model.graph = *builder.finish({y});
  auto program = tuning::outline_program(model, tuning::shared_tuner(device()), {});
  ASSERT_TRUE(program.ok()) << program.error().message;
  const auto runner = ProgramRunner::open(*program, executor);
  ASSERT_FALSE(runner.ok());
  EXPECT_EQ(runner.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(runner.error().message, HasSubstr("operator 'sort' is nobody's to run here"));
}

// ---- library calls by themselves

void expect_call(const graph::Graph& call) {
  const auto blas = Blas::load();
  ASSERT_TRUE(blas.ok()) << blas.error().message;
  std::vector<Memory> inputs, outputs;
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  for (std::size_t p = 0; p < call.parameters().size(); ++p) {
    const TensorType& type = call.node(call.parameters()[p]).type();
    inputs.emplace_back(type.bytes());
    profiler::InputSource(type, profiler::Distribution::mixed, 3 + p, {})(0, inputs.back().span());
    from.emplace_back(inputs.back().span());
  }
  for (const Value result : call.results()) {
    outputs.emplace_back(call.type(result).bytes());
    to.emplace_back(outputs.back().span());
  }
  const Status status = run_library_call(call, *blas, from, to);
  ASSERT_TRUE(status.ok()) << status.error().message;
  expect_reference(call, inputs, outputs);
}

TEST(HostLibraryTest, ContractionsOfEveryOrderOfDimensions) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    SCOPED_TRACE(graph::to_string(dtype));
    Builder builder;
    const Value a = builder.parameter(dtype, {5, 3, 4, 2}), b = builder.parameter(dtype, {2, 6, 3, 4});
    const Value plain = builder.dot(a, b, {{3}, {0}, {1, 2}, {2, 3}, dtype});
    expect_call(*builder.finish({plain}));
  }
}

TEST(HostLibraryTest, EpiloguesAndLayouts) {
  Builder builder;
  const Value a = builder.parameter(DType::bf16, {6, 4}), b = builder.parameter(DType::bf16, {5, 4});
  const Value bias = builder.parameter(DType::f32, {5});
  const Value product = builder.dot(builder.transpose(builder.slice(a, {1, 0}, {5, 4}), {1, 0}),
                                    builder.transpose(b, {1, 0}), {{}, {}, {0}, {0}, DType::f32});
  const Value scaled = builder.binary(Op::multiply, product, builder.filled(DType::f32, {4, 5}, 0.5));
  const Value sum = builder.binary(Op::add, scaled, builder.broadcast(bias, {4, 5}, {1}));
  const Value positive = builder.binary(Op::maximum, sum, builder.filled(DType::f32, {4, 5}, 0));
  expect_call(*builder.finish({builder.convert(positive, DType::bf16)}));
}

TEST(HostLibraryTest, ConvolutionsWithStridesDilationsAndGroups) {
  graph::ConvolutionAttributes how;
  how.input_spatial = how.kernel_spatial = how.output_spatial = {2, 3};
  struct Case {
    graph::Dims input, kernel, strides, low, high, input_dilation, kernel_dilation;
    std::vector<bool> reversal;
    std::int64_t feature_groups, batch_groups;
  };
  const Case cases[] = {
      {{2, 4, 7, 6}, {8, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {false, false}, 1, 1},
      {{2, 4, 7, 6}, {8, 2, 3, 2}, {2, 1}, {0, 1}, {1, 0}, {1, 1}, {1, 2}, {false, false}, 2, 1},
      {{1, 3, 5, 5}, {6, 1, 3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, {1, 1}, {true, true}, 3, 1},
      {{4, 3, 6, 6}, {8, 3, 2, 2}, {1, 2}, {0, 0}, {0, 0}, {1, 1}, {2, 1}, {false, true}, 1, 2},
  };
  for (const Case& c : cases) {
    how.strides = c.strides;
    how.low = c.low;
    how.high = c.high;
    how.input_dilation = c.input_dilation;
    how.kernel_dilation = c.kernel_dilation;
    how.window_reversal = c.reversal;
    how.feature_groups = c.feature_groups;
    how.batch_groups = c.batch_groups;
    Builder builder;
    const Value x = builder.parameter(DType::f32, c.input), w = builder.parameter(DType::f32, c.kernel);
    const auto graph = builder.finish({builder.add(Op::convolution, {x, w}, how)});
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    expect_call(*graph);
  }
}

TEST(HostLibraryTest, WhatIsNotCoveredIsNamed) {
  Builder builder;
  const Value x = builder.parameter(DType::s8, {4, 4});
  const Status status = covers_library_call(*builder.finish({builder.dot(x, x, {{}, {}, {1}, {0}, DType::s32})}));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::unsupported);
  Builder second;
  const Value a = second.parameter(DType::f32, {4, 4}), b = second.parameter(DType::s8, {4, 4});
  const auto narrow = covers_library_call(*second.finish({dot(second, a, second.convert(b, DType::f32))}));
  ASSERT_FALSE(narrow.ok());
  EXPECT_THAT(narrow.error().message, HasSubstr("no library of the host computes in s8, and parameter 1 is s8[4,4]; "));
  Builder third;
  const Value c = third.parameter(DType::f32, {4, 4});
  const auto other = covers_library_call(*third.finish({third.unary(Op::sin, dot(third, c, c))}));
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("no library of the host computes sin (f32[4,4]); "));
  EXPECT_EQ(Blas::load("libnosuchblas.so").error().kind, ErrorKind::unavailable);
}

}  // namespace
}  // namespace stitch::client
