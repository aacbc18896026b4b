#include "costmodel/analytical.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "search/partition/fusion_explorer.h"
#include "tests/costmodel/example_kernels.h"
#include "tests/graph/random_graph.h"

namespace stitch::costmodel::test {
namespace {

using graph::DType;
using graph::Op;
using profiler::test::scaled_sum;
using profiler::test::softmax;

const std::set<std::string> limits = {"dram",         "l2",       "L1 and shared memory", "issue",
                                      "integer unit", "f64 unit", "special functions",    "latency"};
/// Of these limits one shows: the same instructions are issued and executed.
const std::set<std::string> executions = {"issue", "integer unit", "f64 unit"};

/// "phase 1: dram" → 1, "dram"
std::pair<int, std::string> split(const std::string& name) {
  if (!name.starts_with("phase ")) return {0, name};
  const std::size_t colon = name.find(": ");
  return {std::stoi(name.substr(6)), name.substr(colon + 2)};
}

// ---- explanations -------------------------------------------------------------------------------------------------

class Explanation : public testing::TestWithParam<NamedGraph> {};

// docs/cost-model.md: launch + Σ (largest limit + a share of the others, of issue and units the largest + what is in
// series) + what stands between phases + ramp-up.
TEST_P(Explanation, AddsUpAndNamesWhatBinds) {
  const AnalyticalScorer scorer(*find_device("h100"));
  for (const Kernel& kernel : candidates_of(GetParam().graph(), scorer.device(), 20)) {
    const search::Score score = scorer.explain(*kernel.graph, kernel.program);
    EXPECT_EQ(score.us, scorer.predict_us(*kernel.graph, kernel.program));
    EXPECT_EQ(score.us, kernel.predicted_us);
    std::map<int, std::map<std::string, double>> phases;
    double rest = 0, most = 0;
    std::string binding;
    for (const search::ScoreTerm& term : score.terms) {
      EXPECT_TRUE(std::isfinite(term.us) && term.us >= 0) << term.name;
      const auto [phase, limit] = split(term.name);
      if (limits.contains(limit)) {
        EXPECT_TRUE(phases[phase].emplace(limit, term.us).second) << term.name << " twice";
      } else {
        EXPECT_THAT(limit, testing::AnyOf("launch", "cooperative launch", "launch of clusters", "grid barrier",
                                          "last block", "gate", "gate opens", "in series", "ramp-up and drain"));
        rest += term.us;
        if (limit != "launch") continue;
      }
      if (term.us > most) {
        most = term.us;
        binding = term.name;
      }
    }
    EXPECT_EQ(phases.size(), kernel.program.phases.size());
    double us = rest;
    for (const auto& [phase, parts] : phases) {
      double sum = 0, largest = 0, execution = 0;
      for (const auto& [name, part] : parts) {
        EXPECT_GT(part, 0) << name << ": a limit that is none";
        (executions.contains(name) ? execution = std::max(execution, part) : sum += part);
        largest = std::max(largest, part);
      }
      us += largest + AnalyticalConstants().overlap * (sum + execution - largest);
    }
    EXPECT_NEAR(score.us, us, 1e-9 * us);
    EXPECT_EQ(score.binding, binding);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Explanation, testing::ValuesIn(kinds_of_kernel()),
                         [](const auto& each) { return each.param.name; });

// ---- devices ------------------------------------------------------------------------------------------------------

class EveryDevice : public testing::TestWithParam<DeviceSpec> {};

TEST_P(EveryDevice, HasAFiniteTimeForEveryKernel) {
  for (const NamedGraph& named : kinds_of_kernel()) {
    const Kernel kernel = best_of(named.graph(), GetParam());
    EXPECT_TRUE(std::isfinite(kernel.predicted_us)) << named.name;
    EXPECT_GT(kernel.predicted_us, GetParam().launch_us) << named.name;
    EXPECT_LT(kernel.predicted_us, 1e5) << named.name;
  }
}

// Nothing moves bytes faster than the device can, and a plain copy comes close.
TEST_P(EveryDevice, IsNotFasterThanItsMemory) {
  const Kernel kernel = best_of(scaled_sum({1 << 26}), GetParam());
  const double least = 3 * 4.0 * (1 << 26) / GetParam().reachable_bandwidth() * 1e6;
  EXPECT_GT(kernel.predicted_us, least);
  EXPECT_LT(kernel.predicted_us, 1.3 * least + GetParam().launch_us);
}

INSTANTIATE_TEST_SUITE_P(Devices, EveryDevice, testing::ValuesIn(known_devices().begin(), known_devices().end()),
                         [](const auto& each) {
                           std::string name = each.param.name;
                           std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
                           return name;
                         });

// ---- a better device is never slower ------------------------------------------------------------------------------

struct Improvement {
  std::string name;
  void (*apply)(DeviceSpec&);
  bool always_shows = false;  ///< in every kernel's time
};

void PrintTo(const Improvement& improvement, std::ostream* out) { *out << improvement.name; }

class BetterDevice : public testing::TestWithParam<Improvement> {};

TEST_P(BetterDevice, IsAsFast) {
  const DeviceSpec plain = *find_device("h100");
  DeviceSpec better = plain;
  GetParam().apply(better);
  bool shown = false;
  for (const NamedGraph& named : kinds_of_kernel()) {
    for (const Kernel& kernel : candidates_of(named.graph(), plain, 5)) {
      const double before = AnalyticalScorer(plain).predict_us(*kernel.graph, kernel.program);
      const double after = AnalyticalScorer(better).predict_us(*kernel.graph, kernel.program);
      EXPECT_LE(after, before * (1 + 1e-12)) << named.name;
      if (GetParam().always_shows) {
        EXPECT_LT(after, before) << named.name;
      }
      shown = shown || after < before;
    }
  }
  EXPECT_TRUE(shown) << "no kernel is faster";
}

INSTANTIATE_TEST_SUITE_P(
    Figures, BetterDevice,
    testing::Values(Improvement{"dram_bandwidth", [](DeviceSpec& d) { d.dram_bandwidth *= 2; }},
                    Improvement{"copy_fraction", [](DeviceSpec& d) { d.copy_fraction = 1; }},
                    Improvement{"l2_bandwidth", [](DeviceSpec& d) { d.l2_bandwidth *= 2; }, true},
                    Improvement{"launch", [](DeviceSpec& d) { d.launch_us /= 2; }, true},
                    Improvement{"dram_latency", [](DeviceSpec& d) { d.dram_latency /= 2; }, true},
                    Improvement{"grid_barrier", [](DeviceSpec& d) { d.grid_barrier_us /= 2; }},
                    Improvement{"block_barrier", [](DeviceSpec& d) { d.block_barrier_cycles /= 2; }},
                    Improvement{"cluster_latency", [](DeviceSpec& d) { d.cluster_latency /= 2; }},
                    Improvement{"shared_latency", [](DeviceSpec& d) { d.shared_latency /= 2; }},
                    Improvement{"shared_bandwidth", [](DeviceSpec& d) { d.shared_bytes_per_clock *= 2; }},
                    Improvement{"integer_lanes", [](DeviceSpec& d) { d.int32_lanes_per_sm *= 2; }},
                    Improvement{"f64_lanes", [](DeviceSpec& d) { d.fp64_lanes_per_sm *= 2; }},
                    Improvement{"special_functions", [](DeviceSpec& d) { d.special_lanes_per_sm *= 2; }},
                    Improvement{"clock", [](DeviceSpec& d) { d.clock_hz *= 2; }, true}),
    [](const auto& each) { return each.param.name; });

// ---- more work is never faster ------------------------------------------------------------------------------------

struct Growth {
  std::string name;
  std::function<Result<graph::Graph>(int step)> graph;  ///< of growing work
  int steps;
};

void PrintTo(const Growth& growth, std::ostream* out) { *out << growth.name; }

/// The first `step` + 1 of these on one input.
Result<graph::Graph> more_operators(int step) {
  constexpr std::array ops = {Op::negate, Op::exp, Op::tanh, Op::erf, Op::log1p, Op::cos};
  graph::Builder b;
  graph::Value x = b.parameter(DType::f32, {1 << 22});
  for (int i = 0; i <= step; ++i) x = b.unary(ops[i], x);
  return b.finish({x});
}

Result<graph::Graph> more_operands(int step) {
  graph::Builder b;
  graph::Value x = b.parameter(DType::f32, {1 << 22});
  for (int i = 0; i < step; ++i) x = b.binary(Op::add, x, b.parameter(DType::f32, {1 << 22}));
  return b.finish({x});
}

Result<graph::Graph> more_results(int step) {
  graph::Builder b;
  const graph::Value x = b.parameter(DType::f32, {1 << 22});
  std::vector<graph::Value> results;
  for (int i = 0; i <= step; ++i) results.push_back(b.binary(Op::multiply, x, b.filled(DType::f32, {1 << 22}, i + 2)));
  return b.finish(results);
}

std::vector<Growth> growths() {
  return {
      {"elements", [](int step) { return scaled_sum({std::int64_t{1000} << (2 * step)}); }, 8},
      {"bytes_an_element",
       [](int step) {
         return scaled_sum({1 << 22}, std::array{DType::bf16, DType::f32, DType::f64}[step]);
       },
       3},
      {"rows", [](int step) { return softmax(1024 << (2 * step), 1024); }, 4},
      {"columns", [](int step) { return softmax(8192, 256 << (2 * step)); }, 4},
      {"operators", more_operators, 6},
      {"operands", more_operands, 5},
      {"results", more_results, 5},
  };
}

class MoreWork : public testing::TestWithParam<Growth> {};

TEST_P(MoreWork, IsNotFaster) {
  double before = 0;
  for (int step = 0; step < GetParam().steps; ++step) {
    const double us = best_of(GetParam().graph(step)).predicted_us;
    EXPECT_GE(us, before) << "step " << step;
    before = us;
  }
}

INSTANTIATE_TEST_SUITE_P(Growths, MoreWork, testing::ValuesIn(growths()),
                         [](const auto& each) { return each.param.name; });

// ---- what binds ---------------------------------------------------------------------------------------------------

std::string binding(Result<graph::Graph> graph) {
  const Kernel kernel = best_of(std::move(graph));
  return AnalyticalScorer(*find_device("h100")).explain(*kernel.graph, kernel.program).binding;
}

TEST(AnalyticalScorer, KnowsWhatBindsPlainKernels) {
  EXPECT_EQ(binding(scaled_sum({1 << 26})), "dram");
  graph::Builder b;
  graph::Value x = b.parameter(DType::bf16, {1 << 24});
  graph::Value y = b.convert(x, DType::f32);
  for (int i = 0; i < 12; ++i) y = b.unary(Op::erf, y);
  EXPECT_EQ(binding(b.finish({b.convert(y, DType::bf16)})), "issue");
  EXPECT_EQ(binding(dropout_mask(1 << 24)), "integer unit");
}

// ---- plans --------------------------------------------------------------------------------------------------------

/// Each tensor divided by its own norm.
Result<graph::Graph> normalised(const std::vector<std::int64_t>& sizes) {
  graph::Builder b;
  std::vector<graph::Value> results;
  for (const std::int64_t size : sizes) {
    const graph::Value x = b.parameter(DType::f32, {size});
    const graph::Value squares = b.reduce(graph::ReduceKind::sum, b.binary(Op::multiply, x, x), {0});
    results.push_back(b.binary(Op::multiply, x, b.broadcast(b.unary(Op::rsqrt, squares), {size}, {})));
  }
  return b.finish(results);
}

// However little the groups beside it have to do: what one block reads and writes goes through one SM.
TEST(AnalyticalScorer, WaitsForTheLongestTile) {
  const DeviceSpec device = *find_device("h100");
  int alone = 0;
  for (const Kernel& kernel : candidates_of(normalised({1 << 22, 768, 768, 768}), device)) {
    double longest = 0;
    for (const PhaseQuantities& phase : kernel_quantities(*kernel.graph, kernel.program, device).phases) {
      for (const GroupFeatures& group : phase.groups) {
        const double bytes = (group.dram_read_bytes + group.dram_write_bytes) / static_cast<double>(group.tiles);
        longest = std::max(longest, bytes / 64 / device.clock_hz * 1e6);
      }
    }
    EXPECT_GE(kernel.predicted_us, longest);
    alone += longest > 100 ? 1 : 0;
  }
  EXPECT_GT(alone, 0) << "a candidate that gives the large tensor to one block";
}

TEST(AnalyticalScorer, TensorsOfAllSizesEndWhereTheyShould) {
  const Kernel kernel = best_of(normalised({1 << 22, 768, 768, 768}));
  ASSERT_GT(kernel.program.phases.size(), 1U);
  // The large tensor's norm is spread over the device; the small ones take a block each, once.
  std::vector<std::int64_t> tiles;
  for (const kernel::GroupProgram& group : kernel.program.phases[0].groups) tiles.push_back(group.tiles);
  EXPECT_EQ(std::ranges::count(tiles, 1), 3);
  EXPECT_GT(*std::ranges::max_element(tiles), 60);
  EXPECT_LT(kernel.predicted_us, 25) << "48 MB";
}

class AnalyticalPlan : public testing::TestWithParam<int> {};

TEST_P(AnalyticalPlan, IsAsFastAsUnfused) {
  graph::test::RandomGraphOptions options;
  options.seed = static_cast<std::uint64_t>(GetParam());
  options.operators = 14;
  const graph::Graph fragment = graph::test::random_graph(options);
  const AnalyticalScorer scorer(*find_device("h100"));
  search::KernelCache cache(scorer, {});
  const auto unfused = search::unfused_plan(fragment, cache);
  const auto fused = search::explore_fusion(fragment, cache, {});
  ASSERT_TRUE(unfused && fused);
  EXPECT_LE(fused->predicted_us, unfused->predicted_us + 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnalyticalPlan, testing::Range(1, 13));

}  // namespace
}  // namespace stitch::costmodel::test
