#include "costmodel/contraction/product_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "costmodel/contraction/chain_time.h"
#include "graph/builder.h"
#include "kernel/contraction/contraction_rules.h"
#include "tests/costmodel/usual_schedule.h"
#include "tests/kernel/attention_graph.h"
#include "tests/kernel/chain_graph.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::costmodel {
namespace {

using graph::DType;
using kernel::AttentionProblem;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::ProductChain;
using kernel::test::matmul;
using test::usual;

const DeviceSpec h100 = *find_device("h100");

/// A row by the names of its columns.
std::map<std::string_view, float> named(const KernelFeatures& features) {
  const std::vector<float> row = to_row(features);
  std::map<std::string_view, float> columns;
  for (std::size_t i = 0; i < row.size(); ++i) columns[feature_columns()[i].name] = row[i];
  return columns;
}

KernelFeatures features_of(const ContractionProblem& problem, const ContractionSchedule& schedule,
                           const CompiledFacts* compiled = nullptr) {
  return product_features(problem, schedule, contraction_time(problem, schedule, h100), h100, compiled);
}

KernelFeatures features_of(const AttentionProblem& problem) {
  const kernel::AttentionSchedule schedule = *kernel::default_schedule(problem, h100);
  return product_features(problem, schedule,
                          attention_time(problem, schedule, kernel::key_walk(problem, schedule), h100), h100);
}

KernelFeatures features_of(const ProductChain& chain) {
  const kernel::ChainSchedule schedule = *kernel::default_schedule(chain, h100);
  return product_features(chain, schedule, chain_time(chain, schedule, kernel::chain_walk(chain, schedule), h100),
                          h100);
}

const ContractionProblem problem = *kernel::derive_contraction(matmul(DType::f16, 1024, 768, 2048));

TEST(ProductFeatures, AreThoseOfProblemScheduleAndTime) {
  auto row = named(features_of(problem, usual(problem)));
  const std::map<std::string_view, double> expected = {
      {"kernel_class", 1},
      {"product_batch", 1},
      {"product_rows", 1024},
      {"product_columns", 768},
      {"product_depth", 2048},
      {"left_bytes", 2},
      {"accumulator_bytes", 4},
      {"tile_rows", 128},
      {"tile_columns", 128},
      {"tile_depth", 32},
      {"warp_tile_rows", 64},
      {"lane_results", 128},
      {"stages", 4},
      {"fragment_stages", 2},
      {"split", 1},
      {"raster", 8},
      {"threads", 128},
      {"blocks", 48},
      {"tiles", 48},
      {"turns", 64},
      {"tile_efficiency", 1},
      {"instruction_products", 2048},
      {"product_instructions", 1024.0 * 768 * 2048 / 2048},
  };
  for (const auto& [name, value] : expected) EXPECT_EQ(row[name], static_cast<float>(value)) << name;
  EXPECT_NEAR(row["product_us"], contraction_time(problem, usual(problem), h100).total, 1e-3);
  EXPECT_GT(row["loop_limit"], 0.1);
  EXPECT_LT(row["loop_limit"], 1);
  for (const char* other : {"groups", "sweeps", "sector_bytes", "product_width", "special_limit", "registers"})
    EXPECT_TRUE(std::isnan(row[other])) << other;
}

// Every property of a schedule that a runner may vary moves a column of its own.
TEST(ProductFeatures, TellSchedulesApart) {
  struct Case {
    std::string_view column;
    std::function<void(ContractionSchedule&)> change;
  };
  const std::vector<Case> cases = {
      {"tile_rows", [](auto& s) { s.block_rows = 256; }},
      {"tile_columns", [](auto& s) { s.block_columns = 64; }},
      {"tile_depth", [](auto& s) { s.block_depth = 64; }},
      {"warp_tile_rows", [](auto& s) { s.warp_rows = 32; }},
      {"warp_tile_columns", [](auto& s) { s.warp_columns = 32; }},
      {"stages", [](auto& s) { s.stages = 3; }},
      {"fragment_stages", [](auto& s) { s.fragment_stages = 1; }},
      {"split", [](auto& s) { s.split = 2; }},
      {"raster", [](auto& s) { s.group = 1; }},
      {"left_copy", [](auto& s) { s.left_copy = 8; }},
      {"right_copy", [](auto& s) { s.right_copy = 8; }},
      {"computed_operands", [](auto& s) { s.right_realigned = true; }},
      {"store_elements", [](auto& s) { s.store = 1; }},
      {"planned_blocks", [](auto& s) { s.blocks_per_sm = 2; }},
      {"streamed", [](auto& s) { s.streamed = 132; }},
  };
  auto before = named(features_of(problem, usual(problem)));
  for (const Case& each : cases) {
    ContractionSchedule changed = usual(problem);
    each.change(changed);
    auto after = named(features_of(problem, changed));
    EXPECT_NE(before[each.column], after[each.column]) << each.column;
  }
}

TEST(ProductFeatures, SeeLayoutsAndWhatIsFused) {
  graph::Builder b;
  const graph::Value x = b.parameter(DType::f16, {1024, 2048}), w = b.parameter(DType::f16, {2048, 768}, "w");
  const graph::Value bias = b.parameter(DType::f32, {768}, "bias");
  const graph::Value sum = b.dot(x, w, {{}, {}, {1}, {0}, DType::f32});
  const graph::Value shifted = b.binary(graph::Op::add, sum, b.broadcast(bias, {1024, 768}, {1}));
  const ContractionProblem fused =
      *kernel::derive_contraction(kernel::test::finished(b, {b.unary(graph::Op::tanh, shifted)}));
  auto plain = named(features_of(problem, usual(problem))), behind = named(features_of(fused, usual(fused)));
  EXPECT_GT(behind["epilogue_operators"], plain["epilogue_operators"]);
  EXPECT_GT(behind["epilogue_bytes"], plain["epilogue_bytes"]);
  const ContractionProblem other_side = kernel::turned(problem);
  auto turned = named(features_of(other_side, usual(other_side)));
  EXPECT_EQ(turned["left_turned"], plain["right_turned"]);
  EXPECT_EQ(turned["right_turned"], plain["left_turned"]);
  EXPECT_NE(plain["left_turned"], plain["right_turned"]);
}

TEST(ProductFeatures, HaveWhatTheCompilerSaid) {
  const CompiledFacts compiled = {168, 65536, 24};
  auto row = named(features_of(problem, usual(problem), &compiled));
  EXPECT_EQ(row["registers"], 168);
  EXPECT_EQ(row["spill_bytes"], 24);
  EXPECT_EQ(row["compiled_warps"], 12) << "three blocks of four warps: 168 registers of 128 threads";
  EXPECT_TRUE(std::isnan(row["sass_instructions"]));
}

// All classes: numbers that training takes, and of every column of the device.
TEST(ProductFeatures, AreFiniteAndWithinTheirKind) {
  using kernel::test::AttentionCase;
  using kernel::test::ChainCase;
  const auto attention = *kernel::derive_attention(
      kernel::test::attention_graph({"", {4, 16}, 1024, 1024, 64, 64, DType::f16, kernel::test::Mask::causal}));
  const auto chain = *kernel::derive_chain(
      kernel::test::chain_graph({"", ChainCase::Kind::keys_and_values, {4, 16}, 512, 512, 64, 64}));
  const std::vector<std::pair<KernelClass, KernelFeatures>> rows = {
      {KernelClass::product, features_of(problem, usual(problem))},
      {KernelClass::attention, features_of(attention)},
      {KernelClass::chain, features_of(chain)}};
  for (const auto& [kernel_class, features] : rows) {
    EXPECT_EQ(features.kernel_class, static_cast<double>(kernel_class));
    EXPECT_GT(features.product_instructions, 0);
    EXPECT_GT(features.parameter_bytes, 0);
    const std::vector<float> row = to_row(features);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const FeatureColumn& column = feature_columns()[i];
      EXPECT_FALSE(std::isinf(row[i])) << column.name;
      if (column.kind == FeatureKind::constant) {
        EXPECT_FALSE(std::isnan(row[i])) << column.name;
      }
      if (std::isnan(row[i])) continue;
      EXPECT_GE(row[i], 0) << column.name;
      if (column.kind == FeatureKind::share) {
        EXPECT_LE(row[i], 1 + 1e-6) << column.name;
      }
    }
  }
}

}  // namespace
}  // namespace stitch::costmodel
