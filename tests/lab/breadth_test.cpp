// Random graphs, partitions and schedules on the emulated device, the same in every run unless STITCH_BREADTH_SEED says
// otherwise; and what finds, keeps and shrinks a fault.
#include "lab/breadth/breadth.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/subprocess.h"
#include "base/version.h"
#include "graph/builder.h"
#include "graph/passes/dead_code.h"
#include "graph/print.h"
#include "graph/reference/evaluate_error.h"
#include "graph/verify.h"
#include "lab/breadth/breadth_log.h"
#include "lab/breadth/kernel_batch.h"
#include "lab/breadth/plan_run.h"
#include "lab/breadth/random_graph.h"
#include "lab/breadth/shrinker.h"
#include "lab/breadth/wild_inputs.h"
#include "profiler/device/emulated_device.h"

namespace stitch::lab {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

const codegen::Nvrtc& nvrtc() {
  static const auto loaded = codegen::Nvrtc::load();
  if (!loaded) throw std::runtime_error(loaded.error().message);
  return **loaded;
}

/// The seed of every run, or what STITCH_BREADTH_SEED says: "commit" (that of the commit that is tested) or a number.
constexpr std::uint64_t usual_seed = 1;
std::uint64_t seed_of_this_run() {
  const char* given = std::getenv("STITCH_BREADTH_SEED");
  if (given == nullptr) return usual_seed;
  if (std::string_view(given) != "commit") return std::strtoull(given, nullptr, 10);
  ProcessOptions git;
  git.arguments = {"git", "-C", STITCH_SOURCE_DIR, "rev-parse", "HEAD"};
  RealProcessLauncher launcher;
  const Result<ProcessOutput> output = run_process(launcher, git, "", deadline_in(60));
  const std::string commit = output && output->status.success() ? output->standard_output : std::string(tool_version);
  return Hasher().text(commit).finish().high >> 24;  // short enough to type
}

/// What is wrong at the usual seed and not mended yet. A commit that mends one takes it off.
const std::map<std::int64_t, std::string_view> open_cases = {};

class BreadthEmulated : public testing::TestWithParam<int> {};

TEST_P(BreadthEmulated, RandomKernelsAreRight) {
  constexpr std::int64_t graphs = 4 * cases_per_device;
  const std::uint64_t seed = seed_of_this_run();
  const BreadthReport report = check_range(nvrtc(), seed, GetParam() * graphs, graphs);
  std::printf("seed %llu, from %lld: %lld graphs, %lld kernels, %lld refused, %lld of %lld elements compared\n",
              static_cast<unsigned long long>(seed), static_cast<long long>(GetParam() * graphs),
              static_cast<long long>(report.graphs), static_cast<long long>(report.kernels),
              static_cast<long long>(report.refused), static_cast<long long>(report.compared),
              static_cast<long long>(report.elements));
  EXPECT_EQ(report.graphs, graphs);
  EXPECT_GT(report.right, graphs * 9 / 10);
  EXPECT_GT(report.compared, report.elements / 2);
  std::map<std::int64_t, std::string> failures(report.failures.begin(), report.failures.end());
  if (seed == usual_seed) {
    for (const auto& [number, why] : open_cases) {
      const bool is_here = number / graphs == GetParam();
      EXPECT_EQ(failures.erase(number), std::size_t{is_here}) << "case " << number << " is right now: " << why;
    }
  }
  for (const auto& [number, why] : failures) {
    ADD_FAILURE() << why << "\nstitch conformance random --seed " << seed << " --from " << number << " --count 1";
  }
  if (failures.empty()) return;
  const auto check = [](std::span<const BreadthCase> cases) { return check_cases(nvrtc(), cases); };
  const ShrunkCase found = shrink(check, breadth_case(seed, failures.begin()->first));
  ADD_FAILURE() << "the first of them, smaller: " << found.verdict.why << "\n" << graph::to_text(found.smallest.graph);
}

INSTANTIATE_TEST_SUITE_P(Ranges, BreadthEmulated, testing::Range(0, 16));

/// exp(x) - x, which a kernel that adds instead gets wrong.
graph::Graph difference() {
  graph::Builder b;
  const graph::Value x = b.parameter(graph::DType::f32, {5, 33});
  auto graph = b.finish({b.binary(graph::Op::subtract, b.unary(graph::Op::exp, x), x)});
  return std::move(*graph);
}

/// The plan's kernels, compiled.
std::vector<profiler::KernelImage> images_of(const RandomPlan& plan) {
  std::vector<const codegen::GeneratedKernel*> kernels;
  for (const codegen::GeneratedKernel& kernel : plan.kernels) kernels.push_back(&kernel);
  std::vector<profiler::KernelImage> images;
  for (auto& image : compile_batch(nvrtc(), kernels, plan.architecture)) {
    if (!image) throw std::runtime_error(image.error().message);
    images.push_back(std::move(*image));
  }
  return images;
}

TEST(BreadthOfOneEmulated, AWrongKernelIsFound) {
  const graph::Graph graph = difference();
  Result<RandomPlan> plan = random_plan(graph, *find_device("h100"), 3, "difference");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto verdict_of = [&](const RandomPlan& of) {
    profiler::EmulatedDevice device;
    const auto verdict = run_plan(device, of, images_of(of), wild_inputs(graph, Wildness::plain, 1));
    EXPECT_TRUE(verdict.ok()) << verdict.error().message;
    return *verdict;
  };
  const PlanVerdict right = verdict_of(*plan);
  EXPECT_EQ(right.failure, "");
  EXPECT_EQ(right.compared, 5 * 33);
  std::string& source = plan->kernels.back().source;
  const std::size_t at = source.find(" - ", source.find("const f32 subtract_"));
  ASSERT_NE(at, std::string::npos) << source;
  source.replace(at, 3, " + ");
  EXPECT_THAT(verdict_of(*plan).failure, StartsWith("result 0 at "));
}

/// Rows of extremes, updates into 40 rows: integer atomics on floats, whose order has to be right for negative numbers,
/// infinities, zeros and NaN of either sign, in the table as in the updates.
TEST(BreadthOfOneEmulated, ScattersOfExtremesAreRight) {
  for (const graph::DType dtype : {graph::DType::f16, graph::DType::bf16, graph::DType::f32, graph::DType::f64}) {
    for (const graph::ReduceKind kind : {graph::ReduceKind::max, graph::ReduceKind::min}) {
      graph::Builder b;
      const graph::Value table = b.parameter(dtype, {40, 3}), index = b.parameter(graph::DType::s32, {900});
      const graph::Value updates = b.parameter(dtype, {900, 3});
      const auto made = b.finish({b.add(graph::Op::scatter, {table, index, updates},
                                        graph::ScatterAttributes{{1}, {0}, {0}, {}, {}, 1, kind, false})});
      ASSERT_TRUE(made.ok()) << made.error().message;
      const Result<RandomPlan> plan = random_plan(*made, *find_device("h100"), 3, "extremes");
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      ASSERT_THAT(plan->kernels[0].source, HasSubstr("combine_atomically"));
      const std::vector<profiler::KernelImage> images = images_of(*plan);
      for (const Wildness wildness : {Wildness::plain, Wildness::notable, Wildness::all_bits}) {
        for (std::uint64_t seed = 1; seed <= 3; ++seed) {
          profiler::EmulatedDevice device;
          const auto verdict = run_plan(device, *plan, images, wild_inputs(*made, wildness, seed));
          ASSERT_TRUE(verdict.ok()) << verdict.error().message;
          EXPECT_EQ(verdict->failure, "") << graph::to_string(dtype) << " " << graph::to_string(kind);
        }
      }
    }
  }
}

TEST(BreadthOfOneEmulated, AnErrorIsThatOfItsKernel) {
  codegen::GeneratedKernel right, wrong;
  right.name = "right";
  right.source = "#include \"stitch/kernel.cuh\"\nextern \"C\" __global__ void right(float* x) { *x = 1; }\n";
  wrong.name = "wrong";
  wrong.source = "#include \"stitch/kernel.cuh\"\nextern \"C\" __global__ void wrong(float* x) { *x = y; }\n";
  const auto images = compile_batch(nvrtc(), {&right, &wrong}, "sm_90a");
  ASSERT_EQ(images.size(), 2U);
  ASSERT_TRUE(images[0].ok()) << images[0].error().message;
  EXPECT_THAT(images[0]->ptx, HasSubstr(".visible .entry right("));
  ASSERT_FALSE(images[1].ok());
  EXPECT_THAT(images[1].error().message, HasSubstr("identifier \"y\" is undefined"));
}

TEST(Breadth, AModuleIsCutDownToOneEntry) {
  const std::string ptx =
      ".version 8.0\n.global .u32 table;\n.visible .entry a(\n.param x\n)\n{\nret;\n\n}\n.visible .entry "
      "ab(\n)\n{\nret;\n}\n";
  EXPECT_EQ(ptx_of_entry(ptx, "a"),
            ".version 8.0\n.global .u32 table;\n.visible .entry a(\n.param x\n)\n{\nret;\n\n}\n");
  EXPECT_EQ(ptx_of_entry(ptx, "ab"), ".version 8.0\n.global .u32 table;\n.visible .entry ab(\n)\n{\nret;\n}\n");
  // Inline assembly has braces of its own, at the beginning of lines, too.
  const std::string scoped = ".visible .entry a(\n)\n{\n{\nset;\n}\nret;\n}\n", other = ".visible .entry b(\n)\n{\n}\n";
  EXPECT_EQ(ptx_of_entry(scoped + other, "a"), scoped);
  EXPECT_EQ(ptx_of_entry(scoped + other, "b"), other);
}

TEST(Breadth, GraphsAreValidAndRepeatThemselves) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const graph::Graph graph = random_graph(seed);
    const Status valid = graph::verify(graph);
    ASSERT_TRUE(valid.ok()) << "seed " << seed << ": " << valid.error().message;
    ASSERT_FALSE(graph.results().empty()) << "seed " << seed;
    ASSERT_EQ(graph::to_text(graph), graph::to_text(random_graph(seed))) << "seed " << seed;
  }
}

TEST(Breadth, NothingGrowsOutOfAnEmptyTensor) {
  // This one had reduced [0,1031,1031,1031] over its empty dimension: 2 GB of ones.
  const graph::Graph graph = breadth_case(19, 56931).graph;
  for (graph::NodeId id = 0; id < graph.size(); ++id)
    for (const graph::TensorType& type : graph.node(id).results) EXPECT_LT(type.elements(), 1 << 20) << id;
}

TEST(Breadth, EveryOperatorOfKernelsAndEveryTypeIsDrawn) {
  std::set<graph::Op> operators;
  std::set<graph::DType> dtypes;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const graph::Graph graph = random_graph(seed);
    for (const graph::Node& node : graph.nodes()) {
      operators.insert(node.op);
      for (const graph::TensorType& type : node.results) dtypes.insert(type.dtype);
    }
  }
  for (const graph::OpInfo& row : graph::op_table()) {
    using graph::OpCategory;
    const bool boundary = row.category == OpCategory::contraction || row.category == OpCategory::boundary ||
                          row.category == OpCategory::control;
    if (row.op == graph::Op::associative_scan) continue;  // its combiners are functions: tests/codegen/scans_test.cpp
    EXPECT_EQ(operators.contains(row.op), !boundary) << row.name;
  }
  for (const graph::DTypeInfo& row : graph::dtype_table()) EXPECT_TRUE(dtypes.contains(row.dtype)) << row.name;
}

TEST(Breadth, NotableInputsHaveThemAll) {
  graph::Builder b;
  const graph::Value x = b.parameter(graph::DType::bf16, {4096}), n = b.parameter(graph::DType::s8, {4096});
  const auto graph = b.finish({x, n});
  const auto inputs = wild_inputs(*graph, Wildness::notable, 7);
  const auto has = [&](const auto& is) { return std::ranges::any_of(inputs[0].floats, is); };
  EXPECT_TRUE(has([](double v) { return std::isnan(v); }));
  EXPECT_TRUE(has([](double v) { return std::isinf(v) && v > 0; }));
  EXPECT_TRUE(has([](double v) { return std::isinf(v) && v < 0; }));
  EXPECT_TRUE(has([](double v) { return v == 0 && std::signbit(v); }));
  EXPECT_TRUE(has([](double v) { return v == graph::largest_finite(graph::DType::bf16); }));
  EXPECT_EQ(std::ranges::max(inputs[1].integers), 127);
  EXPECT_EQ(std::ranges::min(inputs[1].integers), -128);
  const auto again = wild_inputs(*graph, Wildness::notable, 7);
  for (std::size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(graph::to_bytes(inputs[i]), graph::to_bytes(again[i]));
}

/// Wrong is every graph with a tanh that a result needs.
std::vector<CaseVerdict> no_tanh(std::span<const BreadthCase> cases) {
  std::vector<CaseVerdict> verdicts;
  for (const BreadthCase& each : cases) {
    CaseVerdict& verdict = verdicts.emplace_back();
    graph::Graph needed = each.graph;
    if (!graph::remove_dead_code(needed, {})) throw std::runtime_error("no dead code is to be found");
    for (const graph::Node& node : needed.nodes()) {
      if (node.op == graph::Op::tanh) {
        verdict.outcome = CaseVerdict::Outcome::wrong;
        verdict.why = fmt::format("result 0 at 3: {} instead of 1 ± 0", each.graph.size());
      }
    }
  }
  return verdicts;
}

TEST(Breadth, AWrongGraphShrinksToTheOperatorAtFault) {
  int wrong = 0;
  for (std::uint64_t seed = 0; wrong < 5; ++seed) {
    const BreadthCase drawn{random_graph(seed), *find_device("h100"), seed};
    if (no_tanh({&drawn, 1}).front().outcome == CaseVerdict::Outcome::right) continue;
    ++wrong;
    const ShrunkCase found = shrink(no_tanh, drawn);
    const Status valid = graph::verify(found.smallest.graph);
    ASSERT_TRUE(valid.ok()) << valid.error().message;
    ASSERT_EQ(found.smallest.graph.size(), 2) << graph::to_text(found.smallest.graph);
    EXPECT_EQ(found.smallest.graph.node(1).op, graph::Op::tanh);
  }
}

TEST(Breadth, FaultsAreToldApartByWhatTheyAreNotWhere) {
  const auto fault = [](const std::string& why) {
    CaseVerdict verdict;
    verdict.outcome = CaseVerdict::Outcome::wrong;
    verdict.why = why;
    return fault_class(verdict);
  };
  EXPECT_EQ(fault("result 0 at 17: 1 instead of 2 ± 0"), fault("result 3 at 0: nan instead of 2 ± 1e-6"));
  EXPECT_EQ(fault("kernel 0: race: x"), fault("kernel 3: race: y"));
  EXPECT_NE(fault("kernel 0: race: x"), fault("kernel 0: out_of_bounds: x"));
  EXPECT_NE(fault("compile: compile: x"), fault("run: timeout: x"));
}

BreadthReport report_of(std::int64_t number, CaseVerdict verdict) {
  BreadthReport report;
  report.add(number, verdict);
  return report;
}

TEST(BreadthLog, GoesOnWhereItEnded) {
  const auto folder = TemporaryFolder::make("breadth");
  ASSERT_TRUE(folder.ok());
  const auto path = folder->path() / "log";
  CaseVerdict right, wrong;
  right.operators["add f32"] = 2;
  wrong.outcome = CaseVerdict::Outcome::wrong;
  wrong.why = "result 0 \xff";
  {
    const auto log = BreadthLog::open(path, 5);
    ASSERT_TRUE(log.ok()) << log.error().message;
    ASSERT_TRUE((*log)->add(0, report_of(7, right)).ok());
    ASSERT_TRUE((*log)->add(64, report_of(65, wrong)).ok());
  }
  std::ofstream(path, std::ios::app) << "{\"from\": 128, \"gra";  // killed while it was written
  {
    const auto log = BreadthLog::open(path, 5);
    ASSERT_TRUE(log.ok()) << log.error().message;
    EXPECT_TRUE((*log)->has(0));
    EXPECT_TRUE((*log)->has(64));
    EXPECT_FALSE((*log)->has(128));
    ASSERT_TRUE((*log)->add(128, report_of(130, right)).ok());
  }
  const auto log = BreadthLog::open(path, 5);
  ASSERT_TRUE(log.ok()) << log.error().message;
  const BreadthReport& total = (*log)->total();
  EXPECT_EQ(total.graphs, 3);
  EXPECT_EQ(total.right, 2);
  EXPECT_EQ(total.operators.at("add f32"), 4);
  ASSERT_TRUE(total.failures.contains(65));
  const auto other = BreadthLog::open(path, 6);
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("is the log of seed 5, not of 6"));
}

TEST(BreadthLog, RefusesWhatIsNone) {
  const auto folder = TemporaryFolder::make("breadth");
  ASSERT_TRUE(folder.ok());
  const auto path = folder->path() / "log";
  std::ofstream(path) << "{\"seed\": 5}\n{\"from\": 0}\n";
  const auto log = BreadthLog::open(path, 5);
  ASSERT_FALSE(log.ok());
  EXPECT_THAT(log.error().message, AnyOf(HasSubstr("line 2: a breadth report that cannot be read")));
}

}  // namespace
}  // namespace stitch::lab
