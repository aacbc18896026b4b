#include "costmodel/kernel_features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "costmodel/analytical.h"
#include "tests/costmodel/example_kernels.h"
#include "tests/profiler/kernel_case.h"

namespace stitch::costmodel::test {
namespace {

using profiler::test::looked_up, profiler::test::norm_backward, profiler::test::scaled_sum, profiler::test::scattered,
    profiler::test::softmax, profiler::test::transposed;

KernelFeatures features_of(const Kernel& kernel, const CompiledFacts* compiled = nullptr) {
  return kernel_features(*kernel.graph, kernel.program, *find_device("h100"), compiled);
}

// ---- the table ----------------------------------------------------------------------------------------------------

TEST(FeatureColumns, HaveNamesAndMeaningsOnce) {
  std::set<std::string_view> names;
  for (const FeatureColumn& column : feature_columns()) {
    EXPECT_TRUE(names.insert(column.name).second) << column.name;
    EXPECT_FALSE(column.name.empty());
    EXPECT_TRUE(column.kind == FeatureKind::constant || !column.what.empty()) << column.name;
  }
  EXPECT_EQ(feature_names().size(), feature_columns().size());
}

// The names, their order and their meanings are what stored models and recordings rely on. If this fails on purpose,
// raise kernel_features_version: models are trained anew.
TEST(FeatureColumns, AreThoseOfTheirVersion) {
  EXPECT_EQ(kernel_features_version, 5);
  EXPECT_EQ(feature_columns().size(), 150U);
  EXPECT_EQ(feature_set_hash().hex(), "b2de557a512bfe70a3503a6c71de7dcf");
}

// ---- rows ---------------------------------------------------------------------------------------------------------

std::size_t column_named(std::string_view name) {
  return std::ranges::find(feature_columns(), name, &FeatureColumn::name) - feature_columns().begin();
}
/// Columns that only kernels of the matmul class have (product_features_test.cpp).
const std::size_t first_of_products = column_named("product_batch"), last_of_products = column_named("launch_share");

class FeatureRow : public testing::TestWithParam<NamedGraph> {};

TEST_P(FeatureRow, HasANumberForEverythingThatIsKnown) {
  for (const DeviceSpec& device : {*find_device("h100"), *find_device("t4")}) {
    for (const Kernel& kernel : candidates_of(GetParam().graph(), device, 20)) {
      const std::vector<float> row = to_row(kernel_features(*kernel.graph, kernel.program, device));
      ASSERT_EQ(row.size(), feature_columns().size());
      for (std::size_t i = 0; i < row.size(); ++i) {
        const FeatureColumn& column = feature_columns()[i];
        const bool of_products = first_of_products <= i && i <= last_of_products;
        EXPECT_EQ(std::isnan(row[i]), column.compiled || of_products) << column.name;
        EXPECT_FALSE(std::isinf(row[i])) << column.name;
        if (std::isnan(row[i])) continue;
        EXPECT_GE(row[i], 0) << column.name;
        if (column.kind == FeatureKind::share) {
          EXPECT_LE(row[i], 1 + 1e-6) << column.name;
        }
      }
    }
  }
}

// What the analytical model counts and what the row says is the same.
TEST_P(FeatureRow, AgreesWithTheQuantitiesOfTheAnalyticalModel) {
  const DeviceSpec device = *find_device("h100");
  for (const Kernel& kernel : candidates_of(GetParam().graph(), device, 20)) {
    const KernelQuantities quantities = kernel_quantities(*kernel.graph, kernel.program, device);
    EXPECT_EQ(analytical_us(quantities, device, {}), kernel.predicted_us);
    double read = 0, l2 = 0, sectors = 0, instructions = 0, requested = 0;
    for (const PhaseQuantities& phase : quantities.phases) {
      for (const GroupFeatures& group : phase.groups) {
        read += group.dram_read_bytes;
        l2 += group.l2_bytes;
        instructions += group.instructions;
        requested += group.requested_bytes;
        sectors += group.sector_bytes;
        EXPECT_LE(group.requested_bytes, group.sector_bytes * (1 + 1e-9));
        EXPECT_LE(group.wide_instructions + group.index_instructions, group.instructions * (1 + 1e-9));
      }
    }
    const KernelFeatures f = features_of(kernel);
    EXPECT_EQ(f.dram_read_bytes, read);
    EXPECT_EQ(f.l2_bytes, l2);
    EXPECT_EQ(f.instructions, instructions);
    EXPECT_EQ(f.sector_bytes, sectors);
    EXPECT_NEAR(f.sector_efficiency, sectors > 0 ? requested / sectors : 0, 1e-12);
    EXPECT_EQ(f.phases, static_cast<double>(kernel.program.phases.size()));
    EXPECT_EQ(f.resident_blocks, quantities.resident);
    // The scarcest resource leaves as much room as there is use for, or slots run out.
    EXPECT_GE(std::min({f.register_room, f.shared_room, f.thread_room}), 1 - 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, FeatureRow, testing::ValuesIn(kinds_of_kernel()),
                         [](const auto& each) { return each.param.name; });

// ---- single features, by hand -------------------------------------------------------------------------------------

TEST(KernelFeatures, OfAnElementWiseKernel) {
  const KernelFeatures f = features_of(best_of(scaled_sum({1 << 20})));
  EXPECT_EQ(f.parameter_bytes, 3 * 4.0 * (1 << 20));
  EXPECT_EQ(f.dram_reuse, 1);
  EXPECT_EQ(f.sector_efficiency, 1);
  EXPECT_EQ(f.load_width, 16) << "vectors of four floats";
  EXPECT_EQ(f.store_width, 16);
  EXPECT_EQ(f.elements, 1 << 20);
  EXPECT_EQ(f.inner_stride, 4);
  EXPECT_EQ(f.element_bytes, 4);
  EXPECT_EQ(f.reduces + f.partials + f.scans + f.scatters + f.gathers, 0);
  EXPECT_EQ(f.special_share, 0);
  EXPECT_EQ(f.integer_share, 0);
  EXPECT_NEAR(f.dram_us, 3 * 4.0 * (1 << 20) / find_device("h100")->copy_bandwidth() * 1e6, 1e-9);
}

TEST(KernelFeatures, TellKindsOfKernelsApart) {
  EXPECT_GT(features_of(best_of(softmax(1024, 768))).special_share, 0);
  EXPECT_GT(features_of(best_of(dropout_mask(1 << 20))).integer_share, 0.6);
  EXPECT_EQ(features_of(best_of(softmax(1024, 768))).reduces, 2);
  EXPECT_EQ(features_of(best_of(softmax(1024, 768))).reduced_extent, 768);
  EXPECT_EQ(features_of(best_of(looked_up(5000, 96, 3000))).gathers, 1);
  EXPECT_GT(features_of(best_of(looked_up(5000, 96, 3000))).dynamic_share, 0);
  EXPECT_GE(features_of(best_of(scattered(300, 64, 40))).scatters, 1);
  EXPECT_EQ(features_of(best_of(profiler::test::scanned(300, 100))).scans, 1);
  const KernelFeatures two = features_of(best_of(norm_backward(2048, 256)));
  EXPECT_EQ(two.phases, 2);
  EXPECT_EQ(two.grid_barriers + two.last_blocks, 1);
  EXPECT_GT(two.partials, 0);
  EXPECT_GT(two.scratch_bytes, 0);
}

TEST(KernelFeatures, WavesAreTilesOverBlocksSideBySide) {
  for (const Kernel& kernel : candidates_of(scaled_sum({1 << 22}), *find_device("h100"), 20)) {
    const KernelFeatures f = features_of(kernel);
    const double side_by_side = std::min(f.blocks, 132 * f.resident_blocks);
    EXPECT_NEAR(f.waves, f.tiles / side_by_side, 1e-9);
    EXPECT_GT(f.last_wave, 0);
    EXPECT_LE(f.last_wave, 1);
  }
}

// ---- after compilation --------------------------------------------------------------------------------------------

TEST(KernelFeatures, WhatTheCompilerSaysFillsItsColumnsAndNoOthers) {
  const Kernel kernel = best_of(softmax(1024, 768));
  MachineCodeFeatures code;
  code.instructions = 100;
  code.loads = 4;
  code.load_bytes = 64;
  code.loads_before_wait = 3;
  code.by_pipe[Pipe::special] = 10;
  code.loop.instructions = 50;
  code.loop.stall_cycles = 80;
  code.loop.cycles = 700;
  CompiledFacts compiled{48, 4096, 16, nullptr};
  const KernelFeatures without = features_of(kernel), half = features_of(kernel, &compiled);
  compiled.machine_code = &code;
  const KernelFeatures whole = features_of(kernel, &compiled);
  EXPECT_EQ(half.registers, 48);
  EXPECT_EQ(half.spill_bytes, 16);
  EXPECT_GT(half.compiled_warps, 0);
  EXPECT_TRUE(std::isnan(half.sass_instructions));
  EXPECT_EQ(whole.sass_load_width, 16);
  EXPECT_EQ(whole.sass_loads_before_wait, 3);
  EXPECT_EQ(whole.sass_special_share, 0.1);
  EXPECT_EQ(whole.sass_loop_cycles, 700);
  EXPECT_EQ(whole.sass_stall_share, 30.0 / 80);
  const std::vector<float> before = before_compilation(to_row(whole)), plain = to_row(without);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (std::isnan(plain[i])) {
      EXPECT_TRUE(std::isnan(before[i])) << feature_columns()[i].name;
    } else {
      EXPECT_EQ(before[i], plain[i]) << feature_columns()[i].name;
    }
  }
}

// ---- against the events that the emulated device counts -----------------------------------------------------------

struct CountedRequests {
  std::string name;
  std::function<Result<graph::Graph>()> graph;
  profiler::test::Wish wish = profiler::test::any;
  double factor = 1.25;  ///< static requests and efficiency against those of a whole run
};

void PrintTo(const CountedRequests& counted, std::ostream* out) { *out << counted.name; }

class KernelFeaturesEmulated : public testing::TestWithParam<CountedRequests> {};

TEST_P(KernelFeaturesEmulated, AgreeWithTheRequestsOfAWholeRun) {
  const profiler::test::KernelCase each = profiler::test::make_case(GetParam().graph(), GetParam().wish);
  profiler::VerifyOptions options;
  options.work_budget = options.total_budget = std::int64_t{1} << 40;
  options.distributions = {profiler::Distribution::mixed};
  const profiler::Verification run = profiler::test::verify(each, options);
  ASSERT_TRUE(run.correct) << run.failure;
  ASSERT_EQ(run.blocks_run, run.blocks);
  ASSERT_TRUE(run.counters);
  const emulator::Counters& counters = *run.counters;
  const auto near = [&](double counted, double estimated, const char* what) {
    EXPECT_LE(estimated, GetParam().factor * counted) << what;
    EXPECT_GE(estimated, counted / GetParam().factor) << what;
  };
  double loads = 0, stores = 0, barriers = 0;
  for (const PhaseQuantities& phase : kernel_quantities(*each.graph, each.program, *find_device("h100")).phases) {
    for (const GroupFeatures& group : phase.groups) {
      loads += group.load_requests;
      stores += group.store_requests;
      barriers += group.barriers * static_cast<double>(group.tiles);
    }
  }
  near(static_cast<double>(counters.global_loads.requests), loads, "load requests");
  near(static_cast<double>(counters.global_stores.requests), stores, "store requests");
  EXPECT_GE(static_cast<double>(counters.block_barriers), barriers) << "a buffer may need one more";
  // Sectors per request follow from the width of accesses and the waste.
  const KernelFeatures f = kernel_features(*each.graph, each.program, *find_device("h100"));
  near(static_cast<double>(counters.global_loads.sectors + counters.global_stores.sectors) * 32, f.sector_bytes,
       "sectors");
}

INSTANTIATE_TEST_SUITE_P(Kernels, KernelFeaturesEmulated,
                         testing::ValuesIn(std::vector<CountedRequests>{
                             {"element_wise", [] { return scaled_sum({1 << 16}); }},
                             {"bf16",
                              [] {
                                return scaled_sum({300, 256}, graph::DType::bf16);
                              }},
                             {"softmax", [] { return softmax(256, 512); }, profiler::test::one_phase},
                             {"transpose",
                              [] {
                                return transposed({256, 512}, {1, 0});
                              },
                              profiler::test::any, 1.5},
                             {"gather", [] { return looked_up(500, 96, 300); }, profiler::test::any, 1.6},
                         }),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::costmodel::test
