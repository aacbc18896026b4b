// Fragments that are one product of matrices: planned, compiled and proved like any other.
#include "tuning/plans/contraction_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/contraction/contraction_kernel.h"
#include "costmodel/machine_code.h"
#include "graph/literal.h"
#include "kernel/contraction/contraction_rules.h"
#include "profiler/verify/verify_contraction.h"
#include "tests/db/sample_records.h"
#include "tests/kernel/example_graphs.h"
#include "tests/tuning/law_timer.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/contractions/contraction_choice.h"
#include "tuning/kernels/built_kernel.h"
#include "tuning/kernels/training_samples.h"

namespace stitch::tuning {
namespace {

using graph::DType;
using kernel::test::matmul;
using testing::HasSubstr;

TEST(ContractionPlanEmulated, AProductIsTunedLikeAnyFragment) {
  const graph::Graph fragment = canonical(matmul(DType::bf16, 192, 160, 320));
  const auto tuned = shared_tuner(shared_device()).tune({.fragment = fragment, .name = "layer"});
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_EQ(tuned->plan.launches.size(), 1U);
  EXPECT_THAT(tuned->plan.launches[0].description, HasSubstr("mma_m16n8k16"));
  EXPECT_EQ(tuned->plan.verified_share, 1.0);
  EXPECT_GT(tuned->plan.predicted_us, 1);
  EXPECT_GT(tuned->plan.uncertainty_us, 0);
  ASSERT_EQ(tuned->kernels.size(), 1U);
  EXPECT_TRUE(tuned->kernels[0].verification->correct);
  EXPECT_GT(tuned->kernels[0].candidates, 1);
  EXPECT_EQ(tuned->bundle.artifacts.size(), 3U) << "source, PTX and machine code";
  ASSERT_FALSE(tuned->trials.candidates.empty());
  EXPECT_EQ(tuned->trials.candidates.back().outcome, db::Outcome::correct);
}

/// A device with a made-up law: a kernel takes as long as it has registers, µs.
class RegisterTimer final : public KernelTimer {
 public:
  RegisterTimer() { identity_.key = db::samples::gpu().key; }
  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return identity_; }
  [[nodiscard]] bool has_plans() const override { return false; }
  Result<profiler::Measurement> measure_kernel(const BuiltKernel& built) override {
    return series(built.compiled.resources.registers, 0.001, 1);
  }
  Result<std::vector<profiler::Measurement>> measure_plans(std::span<const RunnablePlan>) override {
    return make_error(ErrorKind::unsupported, "kernels only");
  }

 private:
  profiler::DeviceIdentity identity_;
};

// What a runner measures of a product's schedules is what cost models are trained on, as of any other kernel.
TEST(ContractionPlanEmulated, MeasuredSchedulesAreTrainingSamples) {
  const SystemClock clock;
  RealFileSystem files;
  RegisterTimer timer;
  TunerOptions options;
  options.verify.distributions.resize(1);
  options.measured_candidates = 3;
  const auto tuner = Tuner::create(options, shared_device(), &timer, files, clock);
  ASSERT_TRUE(tuner) << tuner.error().message;
  const auto tuned = (*tuner)->tune({.fragment = canonical(matmul(DType::f16, 64, 96, 64)), .name = "layer"});
  ASSERT_TRUE(tuned) << tuned.error().message;
  ASSERT_EQ(tuned->trials.measurements.size(), 3U);

  const TestFolder folder;
  const auto store = db::samples::opened(folder / "stitch.db", clock);
  ASSERT_TRUE(store->put_device(db::samples::gpu()).ok());
  ASSERT_TRUE(store->put_device(db::samples::emulated()).ok());
  ASSERT_TRUE(store->put_fragment(tuned->fragment).ok());
  for (const db::Candidate& candidate : tuned->trials.candidates) {
    const Status recorded = store->record_candidates(std::span(&candidate, 1));
    ASSERT_TRUE(recorded.ok()) << recorded.error().message;
  }
  for (const db::MeasurementRecord& measurement : tuned->trials.measurements) {
    const auto recorded = store->record_measurement(measurement);
    ASSERT_TRUE(recorded.ok()) << recorded.error().message;
  }
  const auto set = samples_of_store(*store, "h100");
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->samples.size(), 3U);
  const auto names = costmodel::feature_names();
  const auto registers = std::ranges::find(names, "registers") - names.begin();
  for (const costmodel::TrainingSample& sample : set->samples) {
    EXPECT_EQ(costmodel::class_of(sample.features), costmodel::KernelClass::product);
    EXPECT_EQ(sample.kernel, tuned->fragment.key);
    EXPECT_EQ(sample.family, tuned->fragment.family);
    EXPECT_GT(sample.analytical_us, 1);
    EXPECT_NEAR(sample.measured, sample.features[registers], 0.01 * sample.measured) << "the law";
  }
  costmodel::TrainingOptions without_accuracy;
  without_accuracy.folds = 0;
  EXPECT_TRUE(costmodel::train_model(*set, without_accuracy).ok());
}

TEST(ContractionPlanEmulated, APredictedOneIsNotVerified) {
  const graph::Graph fragment = canonical(matmul(DType::f16, 64, 96, 64, true));
  const auto quick = shared_tuner(shared_device()).predict({.fragment = fragment});
  ASSERT_TRUE(quick) << quick.error().message;
  EXPECT_EQ(quick->plan.label, "predicted");
  EXPECT_EQ(quick->plan.verified_share, 0);
  std::stop_source source;
  source.request_stop();
  const auto stopped = shared_tuner(shared_device()).tune({.fragment = fragment, .stop = source.get_token()});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::cancelled);
}

/// A kernel of a product and its image, compiled for the emulated device.
struct Compiled {
  kernel::ContractionProblem problem;
  kernel::ContractionSchedule schedule;
  codegen::GeneratedKernel kernel;
  codegen::CompiledKernel compiled;

  [[nodiscard]] Result<profiler::Verification> verify() const {
    BuiltKernel built;
    built.generated = kernel;
    built.compiled = compiled;
    profiler::VerifyOptions options;
    options.distributions.resize(2);
    return profiler::verify_kernel(shared_device(), *problem.graph, profiler::execution_of(problem, schedule), kernel,
                                   image_of(built), options);
  }
};

Compiled compiled_of(const graph::Graph& graph, const std::function<void(std::string&)>& change = {},
                     std::optional<kernel::ContractionSchedule> schedule = {}) {
  Compiled made;
  made.problem = *product_of(graph);
  const DeviceSpec device = *find_device("h100");
  made.schedule = schedule ? *schedule : choose_contraction(made.problem, device)->ranked.best.front().schedule;
  made.kernel = *codegen::generate_contraction(made.problem, made.schedule, {.name = "product", .comment = ""});
  if (change) change(made.kernel.source);
  static const auto compiler = *codegen::NvrtcCompiler::create();
  auto compiled = compiler->compile(compile_request(made.kernel.source, device.architecture()));
  EXPECT_TRUE(compiled) << (compiled ? "" : compiled.error().message);
  made.compiled = *std::move(compiled);
  return made;
}

TEST(ContractionVerificationEmulated, ALargeProductIsSampledByTiles) {
  const Compiled large = compiled_of(matmul(DType::f16, 2040, 4096, 512));
  const auto found = large.verify();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->correct) << found->failure;
  EXPECT_LT(found->blocks_run, found->blocks);
  EXPECT_GE(found->blocks_run, 4) << "the corners";
  EXPECT_GT(found->compared, 4096);
  EXPECT_LT(found->share, 0.5);
}

/// With all blocks that have turns of them, which begin and end within others.
TEST(ContractionVerificationEmulated, SharedTurnsAreSampledByTiles) {
  const graph::Graph graph = matmul(DType::f16, 2040, 1288, 512);
  kernel::ContractionSchedule schedule = *kernel::default_schedule(*product_of(graph), *find_device("h100"));
  schedule.streamed = 132;
  const auto found = compiled_of(graph, {}, schedule).verify();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->correct) << found->failure;
  EXPECT_LT(found->blocks_run, found->blocks);
  EXPECT_GE(found->blocks_run, 4);
  EXPECT_GT(found->compared, 4096);
  for (const auto& [text, instead] : {std::pair{"row >= 2040", "row >= 2039"},
                                      {"Streams::first_block(tile), count);", "Streams::first_block(tile), 1);"}}) {
    const Compiled wrong = compiled_of(
        graph,
        [&](std::string& source) {
          const std::size_t at = source.find(text);
          ASSERT_NE(at, std::string::npos);
          source.replace(at, std::string_view(text).size(), instead);
        },
        schedule);
    const auto seen = wrong.verify();
    ASSERT_TRUE(seen) << seen.error().message;
    EXPECT_FALSE(seen->correct) << text;
  }
}

/// What NVVM makes of a store of 16 bytes is the machine code's to say: it once became four, for a pointer whose
/// alignment it could not see, and kernels that store much took a quarter longer on an H100.
TEST(ContractionPlanEmulated, ResultsAreStoredSixteenBytesAtOnce) {
  for (const auto [rows, columns, depth] : {std::array{4096, 4096, 4096}, {8192, 256, 64}, {512, 2304, 768}}) {
    const Compiled made = compiled_of(matmul(DType::f16, rows, columns, depth));
    const auto code = costmodel::read_machine_code(made.compiled.cubin, "product");
    ASSERT_TRUE(code) << code.error().message;
    // The maps that a kernel keeps are stored 8 bytes at once.
    EXPECT_GE(code->store_bytes, 12 * code->stores) << to_string(made.schedule);
  }
}

TEST(ContractionVerificationEmulated, WhatASampledTileDoesNotWriteIsFound) {
  const Compiled wrong = compiled_of(matmul(DType::f16, 2040, 4096, 512), [](std::string& source) {
    const std::size_t at = source.find("row >= 2040");
    ASSERT_NE(at, std::string::npos);
    source.replace(at, 11, "row >= 2039");
  });
  const auto found = wrong.verify();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(found->correct);
  EXPECT_THAT(found->failure, HasSubstr("elements were written instead of"));
}

/// Of several products in one kernel each has its corners run, and the elements of its tiles are counted by its own
/// columns.
TEST(ContractionVerificationEmulated, SeveralLargeProductsAreSampledByTiles) {
  graph::Builder b;
  const graph::Value x = b.parameter(DType::f16, {2040, 512});
  std::vector<graph::Value> results;
  for (const std::int64_t columns : {2048, 1000, 520})
    results.push_back(b.dot(x, b.parameter(DType::f16, {512, columns}), {{}, {}, {1}, {0}, DType::f16}));
  const graph::Graph products = kernel::test::finished(b, results);
  const auto found = compiled_of(products).verify();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->correct) << found->failure;
  EXPECT_LT(found->blocks_run, found->blocks);
  EXPECT_GE(found->blocks_run, 12);
  const auto wrong = compiled_of(products, [](std::string& source) {
                       const std::size_t at = source.find("column >= 520");
                       ASSERT_NE(at, std::string::npos);
                       source.replace(at, 13, "column >= 512");
                     }).verify();
  ASSERT_TRUE(wrong) << wrong.error().message;
  EXPECT_FALSE(wrong->correct);
}

TEST(ContractionPlanEmulated, WhatIsMoreThanAnEpilogueIsNoProduct) {
  graph::Builder b;
  const graph::Value sum =
      b.dot(b.parameter(DType::f16, {64, 64}), b.parameter(DType::f16, {64, 64}), {{}, {}, {1}, {0}, DType::f32});
  std::vector<double> values(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const graph::ConstantAttributes table = graph::dense({DType::f32, {64}}, values);
  const graph::Value added = b.add(graph::Op::add, {sum, b.broadcast(b.constant(table), {64, 64}, {1})});
  const graph::Graph with_table = kernel::test::finished(b, {added});
  EXPECT_FALSE(product_of(with_table)) << "a table in the epilogue";
  EXPECT_FALSE(shared_tuner(shared_device()).is_product(with_table));
  EXPECT_FALSE(shared_tuner(shared_device()).predict({.fragment = canonical(with_table)}));
  graph::Builder reduced;
  const graph::Value x = reduced.parameter(DType::f32, {64, 64});
  const graph::Value product = reduced.dot(x, reduced.parameter(DType::f32, {64, 64}), {{}, {}, {1}, {0}, DType::f32});
  const graph::Value sums = reduced.reduce(graph::ReduceKind::sum, x, {1});
  EXPECT_FALSE(product_of(kernel::test::finished(
      reduced, {reduced.add(graph::Op::add, {product, reduced.broadcast(sums, {64, 64}, {0})})})));
  graph::Builder symmetric;
  const graph::Value y = symmetric.parameter(DType::f32, {64, 64});
  const graph::Value square = symmetric.dot(y, y, {{}, {}, {1}, {0}, DType::f32});
  EXPECT_FALSE(product_of(kernel::test::finished(
      symmetric, {symmetric.add(graph::Op::add, {square, symmetric.transpose(square, {1, 0})})})))
      << "the product at two places";
}

TEST(ContractionPlanEmulated, BatchInvariantOnesSplitNoDepth) {
  graph::Graph deep = canonical(matmul(DType::bf16, 16, 16, 4096));
  const auto free = choose_contraction(*product_of(deep), *find_device("h100"), space_under({}, 1));
  const auto bound =
      choose_contraction(*product_of(deep), *find_device("h100"), space_under({.batch_invariant = true}, 1));
  EXPECT_GT(free->ranked.best[0].schedule.split, 1);
  EXPECT_EQ(bound->ranked.best[0].schedule.split, 1);
  for (const char* target : {"a100", "l4", "h100"}) {
    const auto uneven = product_of(canonical(matmul(DType::bf16, 4096, 480, 4096)));
    const DeviceSpec device = *find_device(target);
    const auto chosen = choose_contraction(*uneven, device, space_under({.batch_invariant = true}, 64));
    for (const auto& each : chosen->ranked.best) EXPECT_EQ(each.schedule.streamed, 0) << to_string(each.schedule);
  }
  graph::Graph large = canonical(matmul(DType::bf16, 4096, 4096, 4096, true));
  const auto multiplies = [&](const graph::Constraints& constraints) {
    return choose_contraction(*product_of(large), *find_device("h100"), space_under(constraints, 1))
        ->ranked.best[0]
        .schedule.instruction;
  };
  EXPECT_EQ(multiplies({}), kernel::ContractionInstruction::wgmma_m64k16);
  EXPECT_EQ(multiplies({.batch_invariant = true}), kernel::ContractionInstruction::mma_m16n8k16)
      << "what 16 rows are multiplied by, 4096 are";
}

TEST(ContractionVerificationEmulated, WrongKernelsAreFound) {
  const graph::Graph graph = matmul(DType::f16, 100, 72, 136);
  const auto broken = [&](const std::string& text, const std::string& instead) {
    const Compiled wrong = compiled_of(graph, [&](std::string& source) {
      const std::size_t at = source.find(text);
      ASSERT_NE(at, std::string::npos) << text;
      source.replace(at, text.size(), instead);
    });
    const auto found = wrong.verify();
    EXPECT_TRUE(found) << found.error().message;
    return found && !found->correct;
  };
  EXPECT_TRUE(compiled_of(graph).verify()->correct);
  EXPECT_TRUE(broken("rows = 100, depth = 136", "rows = 100, depth = 128")) << "what is behind the edge is zero";
  EXPECT_TRUE(broken("row >= 100", "row >= 99")) << "not every element is written";
  EXPECT_TRUE(broken("cores.multiply(", "if (threadIdx.x != 5) cores.multiply("));
}

}  // namespace
}  // namespace stitch::tuning
