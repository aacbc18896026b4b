// Products whose depth is scaled part by part, in plans and in programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/simplify.h"
#include "tests/kernel/scaled_graphs.h"
#include "tuning/contractions/contraction_choice.h"
#include "tuning/contractions/product_kernels.h"
#include "tuning/programs/program_builder.h"

namespace stitch::tuning::test {
namespace {

using graph::DType;
using graph::Graph;
using kernel::test::graph_of;
using kernel::test::ScaledMatmul;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr auto f8 = DType::f8e4m3, s8 = DType::s8;

/// As a model's graph is before it is cut.
Graph simplified(const ScaledMatmul& m) {
  Graph graph = graph_of(m);
  EXPECT_TRUE(graph::simplify(graph).ok());
  return graph;
}
ScaledMatmul large(DType dtype, bool by_parts, std::int64_t rows = 4096) {
  return {"", 1, rows, 2048, 7168, dtype, dtype, by_parts};
}
double us_of(const Graph& graph, std::string_view device) {
  const auto kernels = product_kernels(graph, *find_device(device), 1);
  EXPECT_TRUE(kernels) << kernels.error().message;
  return kernels ? kernels->best.front().predicted_us : 0;
}
std::string description_of(const Graph& graph, std::string_view device) {
  const auto kernels = product_kernels(graph, *find_device(device), 1);
  return kernels ? kernels->best.front().description : kernels.error().message;
}

TEST(ScaledProducts, StayWhatTheyAreWhereGraphsAreSimplified) {
  for (const DType dtype : {f8, s8}) {
    for (const bool by_parts : {false, true}) {
      const auto problem = product_of(simplified({"", 1, 96, 256, 1024, dtype, dtype, by_parts}));
      ASSERT_TRUE(problem) << problem.error().message;
      ASSERT_TRUE(problem->scales) << to_string(*problem);
      EXPECT_EQ(problem->scales->depth, 128);
    }
  }
}

TEST(ScaledProducts, AreTakenWhereTensorCoresTakeWhatIsScaled) {
  const Graph of_f8 = simplified(large(f8, false));
  EXPECT_THAT(description_of(of_f8, "h100"), HasSubstr("scaled by 128 of depth"));
  // No f8 there, and what is dequantised is f32: CUDA cores either way.
  EXPECT_THAT(description_of(of_f8, "a100-80gb"), HasSubstr("cuda_core"));
  EXPECT_THAT(description_of(simplified(large(s8, false)), "a100-80gb"), HasSubstr("scaled by 128 of depth"));
}

TEST(ScaledProducts, TakeLessThanWhatIsDequantised) {
  for (const DType dtype : {f8, s8}) {
    for (const std::int64_t rows : {64, 4096}) {
      const Graph graph = simplified(large(dtype, false, rows));
      const auto dequantised = dequantised_product(graph);
      ASSERT_TRUE(dequantised) << dequantised.error().message;
      const DeviceSpec device = *find_device("h100");
      const auto choice = choose_contraction(*dequantised, device);
      ASSERT_TRUE(choice) << choice.error().message;
      const double us = us_of(graph, "h100");
      EXPECT_LT(us, choice->time.total) << to_string(dtype) << " " << rows;
      RecordProperty(fmt::format("{} {}", to_string(dtype), rows),
                     fmt::format("{:.1f} {:.1f}", us, choice->time.total));
      fmt::print("{} rows {}: scaled {:.1f} us ({}), dequantised {:.1f} us ({})\n", to_string(dtype), rows, us,
                 to_string(choose_contraction(*product_of(graph), device)->ranked.best.front().schedule),
                 choice->time.total, to_string(choice->ranked.best.front().schedule));
    }
  }
}

TEST(ScaledProducts, AreOneStepOfAProgram) {
  for (const bool by_parts : {false, true}) {
    const Graph graph = simplified({"", 1, 96, 256, 1024, f8, f8, by_parts});
    const auto ours = [](const Graph& part, bool) { return product_of(part).ok(); };
    const auto program = build_program(graph, {{}, ours});
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_EQ(program->regions[0].steps.size(), 1U) << by_parts;
  }
}

}  // namespace
}  // namespace stitch::tuning::test
