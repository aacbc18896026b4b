// Whole programs on a stream of a GPU, the emulated one: products by kernels of ours, loops unfolded, runs captured.
#include "client/stream_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "api/package_document.h"
#include "base/subprocess.h"
#include "import/import.h"
#include "tests/base/test_folder.h"
#include "tests/client/emulated_gpu.h"
#include "tests/client/program_values.h"
#include "tests/driver/library_path.h"
#include "tests/graph/random_convolution.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/programs/model_program.h"

namespace stitch::client {
namespace {

using testing::HasSubstr;
using tuning::ProductsBy;

/// The program of a graph, plans predicted, its code inside.
Result<api::Program> planned_for_a_stream(const graph::Graph& graph, ProductsBy products = ProductsBy::ours) {
  static SystemClock clock;
  static RealFileSystem files;
  tuning::TunerOptions options;
  options.products = products;
  STITCH_ASSIGN(const auto tuner, tuning::Tuner::create(options, tuning::shared_device(), nullptr, files, clock));
  import::Imported model;
  model.graph = graph;
  return tuning::make_program(model, *tuner, {.name = "test"});
}

class StreamProgramEmulated : public OnAnEmulatedGpu {
 protected:
  void SetUp() override {
    OnAnEmulatedGpu::SetUp();
    use_context();
  }
  void TearDown() override {
    for (const CUdeviceptr address : held_)
      EXPECT_EQ(entry<decltype(cuMemFree)>("cuMemFree_v2")(address), CUDA_SUCCESS);
  }

  CUdeviceptr allocate(std::size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(entry<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&address, std::max<std::size_t>(1, bytes)), CUDA_SUCCESS);
    held_.push_back(address);
    return address;
  }
  void send(CUdeviceptr to, const Memory& from) {
    if (from.bytes == 0) return;
    EXPECT_EQ(entry<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD_v2")(to, from.data, from.bytes), CUDA_SUCCESS);
  }
  std::vector<Memory> fetch(const std::vector<std::uint64_t>& from, const StreamProgram& program) {
    std::vector<Memory> found;
    for (std::size_t r = 0; r < from.size(); ++r) {
      Memory& memory = found.emplace_back(program.outputs()[r].type.bytes());
      if (memory.bytes == 0) continue;
      EXPECT_EQ(entry<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2")(memory.data, from[r], memory.bytes), CUDA_SUCCESS);
    }
    return found;
  }

  /// Opens the graph's program through its document, and runs it twice: on a stream, then twice more as a CUDA graph
  /// that was captured in the mode in which whatever allocates or waits is an error.
  void expect_right(const graph::Graph& graph, std::int64_t operations = -1, ProductsBy products = ProductsBy::ours) {
    auto made = planned_for_a_stream(graph, products);
    ASSERT_TRUE(made.ok()) << made.error().message;
    const std::string package = api::encode_program(*made, graph::Encoding::cbor);
    auto opened = StreamProgram::open_package(package, graph::Encoding::cbor, *executor_, {}, libraries_);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    StreamProgram& program = **opened;
    EXPECT_THAT(program.library(), testing::ContainsRegex(made->calls.empty() ? "no library calls" : library_));
    if (operations >= 0) {
      EXPECT_EQ(program.operations(), operations);
    }
    const std::vector<Memory> inputs = random_inputs(program.program());
    std::vector<std::uint64_t> from, to;
    for (const Memory& input : inputs) send(from.emplace_back(allocate(input.bytes)), input);
    for (const api::ProgramPort& port : program.outputs()) to.push_back(allocate(port.type.bytes()));
    synchronize();
    CUstream stream = new_stream();
    for (int time = 0; time < 2; ++time) {
      const Status launched = program.launch(from, to, stream);
      ASSERT_TRUE(launched.ok()) << launched.error().message;
    }
    synchronize();
    expect_reference(graph, inputs, fetch(to, program));

    CUgraph captured = nullptr;
    CUgraphExec executable = nullptr;
    const auto begin = entry<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2");
    ASSERT_EQ(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    const Status launched = program.launch(from, to, stream);
    ASSERT_EQ(entry<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(stream, &captured), CUDA_SUCCESS);
    ASSERT_TRUE(launched.ok()) << launched.error().message;
    dependent_ = count_dependent(captured);
    const auto instantiate = entry<decltype(cuGraphInstantiate)>("cuGraphInstantiateWithFlags");
    ASSERT_EQ(instantiate(&executable, captured, 0), CUDA_SUCCESS);
    for (const std::uint64_t address : to)
      ASSERT_EQ(entry<decltype(cuMemsetD8)>("cuMemsetD8_v2")(address, 0xa5, 1), CUDA_SUCCESS);
    synchronize();
    for (int time = 0; time < 2; ++time)
      ASSERT_EQ(entry<decltype(cuGraphLaunch)>("cuGraphLaunch")(executable, stream), CUDA_SUCCESS);
    synchronize();
    expect_reference(graph, inputs, fetch(to, program));
    EXPECT_THAT(findings(), testing::Not(HasSubstr("nothing orders")));
  }

  /// Kernels of a graph that may begin before the one before them has ended.
  int count_dependent(CUgraph graph) {
    std::size_t count = 0;
    const auto nodes_of = entry<decltype(cuGraphGetNodes)>("cuGraphGetNodes");
    EXPECT_EQ(nodes_of(graph, nullptr, &count), CUDA_SUCCESS);
    std::vector<CUgraphNode> nodes(count);
    EXPECT_EQ(nodes_of(graph, nodes.data(), &count), CUDA_SUCCESS);
    int dependent = 0;
    for (const CUgraphNode node : nodes) {
      CUkernelNodeAttrValue value{};
      const CUresult got = entry<decltype(cuGraphKernelNodeGetAttribute)>("cuGraphKernelNodeGetAttribute")(
          node, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, &value);
      if (got == CUDA_SUCCESS && value.programmaticStreamSerializationAllowed != 0) ++dependent;
    }
    return dependent;
  }

  Error refusal(const graph::Graph& graph, ProductsBy products, const std::function<void(api::Program&)>& change = {}) {
    auto program = planned_for_a_stream(graph, products);
    if (!program) return program.error();
    if (change) change(*program);
    const auto opened = StreamProgram::open(*std::move(program), *executor_, {}, libraries_);
    return opened.ok() ? Error{ErrorKind::internal, "it was opened"} : opened.error();
  }

  std::string library_ = "cuBLASLt 13.";  ///< of programs with calls
  int dependent_ = 0;                     ///< kernels of the latest captured program that were launched dependent
  StreamLibraries libraries_{{STITCH_EMULATED_CUBLAS_LT}, {STITCH_EMULATED_CUDNN}};
  std::vector<CUdeviceptr> held_;
};

graph::Graph two_products() {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {24, 32}, "x"), w = builder.parameter(DType::f32, {32, 48}, "w");
  const Value b = builder.parameter(DType::f32, {48}, "b"), v = builder.parameter(DType::f32, {48, 16}, "v");
  const Value h =
      builder.binary(Op::add, dot(builder, builder.unary(Op::exp, x), w), builder.broadcast(b, {24, 48}, {1}));
  const Value y = dot(builder, builder.unary(Op::tanh, h), v);
  const Value sums = builder.reduce(graph::ReduceKind::sum, y, {1});
  return *builder.finish({builder.unary(Op::exp, y), h, sums});
}

TEST_F(StreamProgramEmulated, RunsFragmentsAndProducts) { expect_right(two_products()); }

TEST_F(StreamProgramEmulated, ValuesLieInTheCallersResultsUntilThoseAreWritten) {
  for (const ProductsBy products : {ProductsBy::ours, ProductsBy::library}) {
    const auto made = planned_for_a_stream(lending_graph(), products);
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_GE(lent_values(*made), 2);
    expect_right(lending_graph(), -1, products);
  }
}

/// Kernels that stand behind a kernel in a program without loops.
int kernels_behind_kernels(const api::Program& program) {
  int behind = 0;
  bool kernel = false;
  for (const api::ProgramStep& step : program.regions[0].steps) {
    const auto* fragment = std::get_if<api::FragmentStep>(&step.work);
    if (fragment == nullptr) {
      kernel = false;
      continue;
    }
    const int launches = std::ssize(program.fragments[fragment->fragment].plan->launches);
    behind += launches - (kernel ? 0 : 1);
    kernel = true;
  }
  return behind;
}

TEST_F(StreamProgramEmulated, KernelsBehindKernelsAreLaunchedDependent) {
  for (const ProductsBy products : {ProductsBy::ours, ProductsBy::library}) {
    const auto made = planned_for_a_stream(two_products(), products);
    ASSERT_TRUE(made.ok()) << made.error().message;
    for (const api::ProgramFragment& fragment : made->fragments) {
      ASSERT_TRUE(fragment.plan && fragment.plan->copies.empty());
      for (const api::KernelLaunch& launch : fragment.plan->launches) EXPECT_TRUE(launch.dependent) << launch.name;
    }
    expect_right(two_products(), -1, products);
    EXPECT_EQ(dependent_, kernels_behind_kernels(*made));
    EXPECT_EQ(dependent_ > 0, products == ProductsBy::ours) << "behind the library's calls nothing is";
  }
}

TEST_F(StreamProgramEmulated, RunsLoopsOfKnownCounts) {
  for (const std::int64_t turns : {1, 4, 5}) {  // the last turn ends in the results after either number
    SCOPED_TRACE(turns);
    expect_right(loop_graph(turns, turns));
  }
}

TEST_F(StreamProgramEmulated, RunsImportedModels) {
  for (const char* file : {"attention", "counted_loop", "convolutions"}) {
    SCOPED_TRACE(file);
    auto imported = import::import_file(std::filesystem::path(STITCH_SOURCE_DIR) / "tests/data/hlo" /
                                        (std::string(file) + ".hlo.txt"));
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    expect_right(imported->graph);
  }
}

TEST_F(StreamProgramEmulated, HandsItsInputsOn) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {5}, "x");
  expect_right(*builder.finish({x, builder.unary(Op::exp, x)}));
}

TEST_F(StreamProgramEmulated, RunsProductsByALibrary) { expect_right(two_products(), -1, ProductsBy::library); }

/// Attention without its softmax: heads that lie between the elements of a row, as loops that no one stride joins, and
/// a result that is written with its heads side by side.
graph::Graph heads(DType dtype) {
  Builder builder;
  const Value q = builder.parameter(dtype, {2, 6, 3, 8}, "q"), k = builder.parameter(dtype, {2, 6, 3, 8}, "k");
  const Value v = builder.parameter(dtype, {2, 6, 3, 8}, "v"), bias = builder.parameter(dtype, {24}, "bias");
  const Value w = builder.parameter(dtype, {24, 24}, "w"), more = builder.parameter(dtype, {12, 24}, "more");
  const DType sums = dtype == DType::f64 ? DType::f64 : DType::f32;
  const auto product = [&](Value a, Value b, graph::DotAttributes how) {
    how.result = sums;
    const Value out = builder.dot(a, b, how);
    return sums == dtype ? out : builder.convert(out, dtype);
  };
  const Value scores =
      product(builder.transpose(q, {0, 2, 1, 3}), builder.transpose(k, {0, 2, 3, 1}), {{0, 1}, {0, 1}, {3}, {2}, sums});
  const Value weights = builder.unary(Op::tanh, scores);
  const Value mixed = product(weights, builder.transpose(v, {0, 2, 1, 3}), {{0, 1}, {0, 1}, {3}, {2}, sums});
  const Value rows = builder.reshape(builder.transpose(mixed, {0, 2, 1, 3}), {12, 24});
  const Value out = builder.dot(rows, w, {{}, {}, {1}, {0}, dtype});
  const Value biased = builder.binary(Op::add, out, builder.broadcast(bias, {12, 24}, {1}));
  const Value sum = builder.binary(Op::add, biased, more);
  const Value zero = builder.broadcast(builder.scalar(dtype, 0), {12, 24}, {});
  return *builder.finish({builder.binary(Op::maximum, sum, zero), builder.unary(Op::exp, weights)});
}

TEST_F(StreamProgramEmulated, RunsHeadsBiasesAndActivationsByALibrary) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    SCOPED_TRACE(to_string(dtype));
    expect_right(heads(dtype), -1, ProductsBy::library);
  }
}

TEST_F(StreamProgramEmulated, RunsImportedModelsWithALibrary) {
  for (const char* file : {"attention", "counted_loop"}) {
    SCOPED_TRACE(file);
    auto imported = import::import_file(std::filesystem::path(STITCH_SOURCE_DIR) / "tests/data/hlo" /
                                        (std::string(file) + ".hlo.txt"));
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    expect_right(imported->graph, -1, ProductsBy::library);
  }
}

/// What a convolution of one element, with its features first, adds a bias to lies along the other direction.
TEST_F(StreamProgramEmulated, FeaturesFirstWithABiasAreOurs) {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {2, 8, 4, 4}, "x"),
              w = builder.parameter(DType::f32, {16, 8, 1, 1}, "w");
  const Value bias = builder.parameter(DType::f32, {16}, "bias");
  graph::ConvolutionAttributes how;
  how.input_spatial = how.output_spatial = how.kernel_spatial = {2, 3};
  how.strides = how.input_dilation = how.kernel_dilation = {1, 1};
  how.low = how.high = {0, 0};
  how.window_reversal = {false, false};
  const Value y = builder.add(Op::convolution, {x, w}, how);
  const graph::Graph graph = *builder.finish({builder.binary(Op::add, y, builder.broadcast(bias, {2, 16, 4, 4}, {1}))});
  expect_right(graph, -1, ProductsBy::stream);
}

/// A gate behind a product is no reason to leave the library, which has the product alone.
TEST_F(StreamProgramEmulated, ProductsWithLongerEpiloguesStayTheLibrarys) {
  Builder builder;
  const Value x = builder.parameter(DType::f16, {512, 1024}, "x"), w = builder.parameter(DType::f16, {1024, 512}, "w");
  const Value gate = builder.parameter(DType::f16, {512, 512}, "gate");
  const Value y = builder.dot(x, w, {{}, {}, {1}, {0}, DType::f16});
  const graph::Graph graph = *builder.finish({builder.binary(Op::multiply, y, gate)});
  const auto faster = planned_for_a_stream(graph, ProductsBy::faster);
  const auto stream = planned_for_a_stream(graph, ProductsBy::stream);
  ASSERT_TRUE(faster.ok() && stream.ok());
  EXPECT_EQ(stream->calls.size(), faster->calls.size());
}

/// Convolutions by kernels of ours, products by the library.
TEST_F(StreamProgramEmulated, WhatNoLibraryHasIsOurs) {
  auto imported = import::import_file(std::filesystem::path(STITCH_SOURCE_DIR) / "tests/data/hlo/convolutions.hlo.txt");
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  expect_right(imported->graph, -1, ProductsBy::stream);
  Builder builder;
  const Value x = builder.parameter(DType::f32, {256, 512}, "x"), w = builder.parameter(DType::f32, {512, 256}, "w");
  const Value i = builder.parameter(DType::s8, {32, 64}, "i"), j = builder.parameter(DType::s8, {64, 32}, "j");
  const Value sums = builder.dot(i, j, {{}, {}, {1}, {0}, DType::s32});
  const auto made = planned_for_a_stream(*builder.finish({dot(builder, x, w), sums}), ProductsBy::stream);
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->calls.size(), 1U);
  EXPECT_THAT(made->calls[0].description, HasSubstr("f32"));
}

/// Features first, 3×3, padded by one.
graph::ConvolutionAttributes same_convolution(DType result) {
  graph::ConvolutionAttributes how;
  how.input_spatial = how.output_spatial = how.kernel_spatial = {2, 3};
  how.strides = how.input_dilation = how.kernel_dilation = {1, 1};
  how.low = how.high = {1, 1};
  how.window_reversal = {false, false};
  how.result = result;
  return how;
}

/// A block of a residual network: two convolutions, the first with a bias and ReLU, the second with what the block was
/// given added.
graph::Graph residual_block(DType dtype) {
  Builder builder;
  const graph::Dims dims = {2, 4, 6, 5};
  const DType sums = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Value x = builder.parameter(dtype, dims, "x"), bias = builder.parameter(dtype, {4}, "bias");
  const Value w = builder.parameter(dtype, {4, 4, 3, 3}, "w"), v = builder.parameter(dtype, {4, 4, 3, 3}, "v");
  const auto convolved = [&](Value from, Value by) {
    const Value out = builder.add(Op::convolution, {from, by}, same_convolution(sums));
    return sums == dtype ? out : builder.convert(out, dtype);
  };
  const Value zero = builder.broadcast(builder.scalar(dtype, 0), dims, {});
  const Value inner =
      builder.binary(Op::maximum, builder.binary(Op::add, convolved(x, w), builder.broadcast(bias, dims, {1})), zero);
  const Value sum = builder.binary(Op::add, convolved(builder.unary(Op::tanh, inner), v), x);
  return *builder.finish({builder.binary(Op::maximum, sum, zero)});
}

TEST_F(StreamProgramEmulated, RunsConvolutionsWithEpiloguesByALibrary) {
  library_ = "^cuDNN 9.8.0$";
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    SCOPED_TRACE(to_string(dtype));
    expect_right(residual_block(dtype), -1, ProductsBy::library);
  }
}

/// What a graph asks for, the library's calls are asked for.
TEST_F(StreamProgramEmulated, ConvolutionsByALibraryKeepToConstraints) {
  library_ = "^cuDNN 9.8.0$";
  graph::Graph graph = residual_block(DType::f32);
  graph.constraints.deterministic = true;
  const auto made = planned_for_a_stream(graph, ProductsBy::library);
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->calls.size(), 2U);
  for (const api::ProgramCall& call : made->calls) EXPECT_TRUE(call.graph.constraints.deterministic);
  expect_right(graph, -1, ProductsBy::library);
}

/// Windows with strides, dilation, uneven padding, groups, and dilated inputs, which are gradients.
TEST_F(StreamProgramEmulated, RunsImportedConvolutionsByALibrary) {
  library_ = "^cuDNN 9.8.0$";
  auto imported = import::import_file(std::filesystem::path(STITCH_SOURCE_DIR) / "tests/data/hlo/convolutions.hlo.txt");
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  expect_right(imported->graph, -1, ProductsBy::library);
}

TEST_F(StreamProgramEmulated, RunsRandomConvolutionsByALibraryOrSaysWhyNot) {
  library_ = "cuDNN|cuBLASLt";
  Random random(29);
  int run = 0;
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE(i);
    const graph::Graph graph = graph::test::random_convolution(random);
    if (graph.size() == 0) continue;
    const Error refused = refusal(graph, ProductsBy::library);
    if (refused.kind == ErrorKind::internal) {
      ++run;
      expect_right(graph, -1, ProductsBy::library);
    } else {
      EXPECT_EQ(refused.kind, ErrorKind::unsupported);
      EXPECT_THAT(refused.message, HasSubstr("is a library's call: "));
    }
  }
  EXPECT_GT(run, 10);
}

/// The two gradients of a convolution, as XLA spells them, and a product beside them: both libraries, one workspace.
TEST_F(StreamProgramEmulated, RunsGradientsOfConvolutionsByALibrary) {
  library_ = "^cuBLASLt 13.0.0, cuDNN 9.8.0$";
  Builder builder;
  const Value x = builder.parameter(DType::f32, {2, 3, 8, 8}, "x"),
              w = builder.parameter(DType::f32, {4, 3, 3, 3}, "w");
  const Value dy = builder.parameter(DType::f32, {2, 4, 8, 8}, "dy");
  graph::ConvolutionAttributes of_data = same_convolution(DType::f32), of_filter = of_data;
  std::swap(of_data.kernel_input_feature, of_data.kernel_output_feature);
  const Value dx = builder.add(Op::convolution, {dy, builder.reverse(w, {2, 3})}, of_data);
  std::swap(of_filter.input_batch, of_filter.input_feature);
  std::swap(of_filter.kernel_input_feature, of_filter.kernel_output_feature);
  std::swap(of_filter.output_batch, of_filter.output_feature);
  const Value dw = builder.add(Op::convolution, {x, dy}, of_filter);
  const Value product = dot(builder, builder.reshape(x, {6, 64}), builder.parameter(DType::f32, {64, 8}, "p"));
  // What the block's other way contributes: it is copied to the result first, which makes one operation more.
  const Value sum = builder.binary(Op::add, dx, x);
  expect_right(*builder.finish({sum, dw, product}), 4, ProductsBy::library);
}

TEST_F(StreamProgramEmulated, CallsThatNoLibraryHasAreRefused) {
  Builder builder;
  const Value i = builder.parameter(DType::s8, {32, 64}, "i"), j = builder.parameter(DType::s8, {64, 32}, "j");
  const Error integers =
      refusal(*builder.finish({builder.dot(i, j, {{}, {}, {1}, {0}, DType::s32})}), ProductsBy::library);
  EXPECT_EQ(integers.kind, ErrorKind::unsupported);
  EXPECT_THAT(integers.message, HasSubstr("is a library's call: a product of s32; programs made with --products stream "
                                          "do without"));
  libraries_.cudnn = {"libnosuchconvolutions.so.1"};
  const Error window = refusal(residual_block(DType::f32), ProductsBy::library);
  EXPECT_EQ(window.kind, ErrorKind::unsupported);
  EXPECT_THAT(window.message, HasSubstr("is a library's call: no cuDNN: libnosuchconvolutions.so.1: cannot open"));
  EXPECT_THAT(window.message, HasSubstr("; programs made with --products stream do without"));
  libraries_.cublas_lt = {"libnosuchproducts.so.1"};
  const Error call = refusal(two_products(), ProductsBy::library);
  EXPECT_EQ(call.kind, ErrorKind::unsupported);
  EXPECT_THAT(call.message, HasSubstr("is a library's call: no cuBLASLt: libnosuchproducts.so.1: cannot open"));
  EXPECT_THAT(call.message, HasSubstr("; programs made with --products ours do without"));
  EXPECT_THAT(call.message, HasSubstr("step 1 (dot"));
  EXPECT_THAT(call.message, HasSubstr("(and there are others)"));
}

TEST_F(StreamProgramEmulated, WhatTheHostWouldHaveToDoIsRefused) {
  EXPECT_THAT(refusal(loop_graph(-1, 3), ProductsBy::ours).message,
              HasSubstr("the loop ends by a value in device memory"));
  const Error none = refusal(two_products(), ProductsBy::ours, [](api::Program& program) {
    program.fragments[0].plan.reset();
    program.fragments[0].why_none = "it was taken away";
  });
  EXPECT_EQ(none.kind, ErrorKind::unsupported);
  EXPECT_THAT(none.message, HasSubstr("the fragment has no plan: it was taken away"));
  const Error lost =
      refusal(two_products(), ProductsBy::ours, [](api::Program& program) { program.artifacts.clear(); });
  EXPECT_EQ(lost.kind, ErrorKind::not_found);
}

TEST_F(StreamProgramEmulated, MoreThanAMillionOperationsAreRefused) {
  const Error many = refusal(loop_graph(std::int64_t{1} << 30, std::int64_t{1} << 30), ProductsBy::ours);
  EXPECT_EQ(many.kind, ErrorKind::unsupported);
  EXPECT_THAT(many.message, HasSubstr("more than 1048576 kernels, library calls and copies"));
}

TEST_F(StreamProgramEmulated, AddressesThatDoNotFitAreNamed) {
  Builder builder;
  auto made = planned_for_a_stream(*builder.finish({builder.unary(Op::exp, builder.parameter(DType::f32, {4}, "x"))}));
  ASSERT_TRUE(made.ok()) << made.error().message;
  const auto opened = StreamProgram::open(*std::move(made), *executor_);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  StreamProgram& program = **opened;
  const std::uint64_t there = allocate(64), nowhere = 0, odd = there + 4;
  const auto launch = [&](Addresses from, Addresses to) { return program.launch(from, to, nullptr).error(); };
  EXPECT_THAT(launch(std::span(&odd, 1), std::span(&there, 1)).message, HasSubstr("input 0 'x': 0x"));
  EXPECT_THAT(launch(std::span(&there, 1), std::span(&nowhere, 1)).message, HasSubstr("output 0"));
  EXPECT_THAT(launch({}, std::span(&there, 1)).message,
              HasSubstr("0 inputs and 1 outputs were given, the program has 1 and 1"));
}

TEST_F(StreamProgramEmulated, TheExampleGivesTheSameOnAStreamAndStepByStep) {
  auto made = planned_for_a_stream(two_products());
  ASSERT_TRUE(made.ok()) << made.error().message;
  const TestFolder folder;
  std::filesystem::create_directories(folder / "");
  const auto run = [&](const std::string& device, const std::string& document) {
    const std::filesystem::path file = folder / "two_products.program";
    std::ofstream(file, std::ios::binary) << document;
    ProcessOptions options;
    options.arguments = {STITCH_BINARY_DIR "/bin/run_program", file.string(), device};
    options.environment = {driver::test::library_path(std::filesystem::path(STITCH_EMULATED_DRIVER).parent_path()),
                           "STITCH_EMULATED_QUIET=1"};
    RealProcessLauncher launcher;
    const auto ended = run_process(launcher, options, "", deadline_in(120));
    EXPECT_TRUE(ended.ok() && ended->status.success()) << (ended.ok() ? ended->standard_error : "");
    return ended.ok() ? ended->standard_output : "";
  };
  const std::string document = api::encode_program(*made, graph::Encoding::cbor);
  const std::string steps = run("emulated", document), stream = run("cuda", document);
  EXPECT_THAT(steps, HasSubstr("step by step"));
  EXPECT_THAT(stream, HasSubstr("on a stream"));
  const auto outputs = [](const std::string& text) { return text.substr(text.find('\n')); };
  EXPECT_THAT(outputs(steps), HasSubstr("output"));
  EXPECT_EQ(outputs(steps), outputs(stream));
  // The same from a package, of which the program for this class of GPU is taken.
  EXPECT_EQ(run("cuda", api::encode_package({"two products", made->source, {*made}})), stream);
}

}  // namespace
}  // namespace stitch::client
