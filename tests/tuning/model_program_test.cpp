#include "tuning/programs/model_program.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "tests/graph/attention_training.h"
#include "tests/kernel/attention_graph.h"
#include "tests/tuning/breaking_device.h"

namespace stitch::tuning {
namespace {

using graph::DType;
using graph::Op;
using graph::Value;

/// exp(x · w), and the sum of its rows.
auto exponentials_of_a_product() -> import::Imported {
  graph::Builder b;
  const Value x = b.parameter(DType::f32, {48, 40}), w = b.parameter(DType::f32, {40, 56});
  const Value exponentials = b.unary(Op::exp, b.dot(x, w, {{}, {}, {1}, {0}, DType::f32}));
  import::Imported model;
  model.graph = *b.finish({exponentials, b.reduce(graph::ReduceKind::sum, exponentials, {1})});
  return model;
}

bool is_product_text(const std::string& ptx) { return ptx.find("cp.async") != std::string::npos; }

class ModelProgramEmulated : public testing::Test {
 protected:
  Result<api::Program> made(const import::Imported& model = exponentials_of_a_product()) {
    SystemClock clock;
    RealFileSystem files;
    TunerOptions options;
    options.products = ProductsBy::ours;
    options.verify.distributions.resize(1);
    STITCH_ASSIGN(const auto tuner, Tuner::create(options, device_, nullptr, files, clock));
    return make_program(model, *tuner, {.name = "test", .tunes = true});
  }
  static std::size_t planned(const api::Program& program) {
    return std::ranges::count_if(program.fragments, [](const auto& each) { return each.plan.has_value(); });
  }

  BreakingDevice device_;
};

TEST_F(ModelProgramEmulated, HasProductsOfOurs) {
  device_.breaks = [](const std::string&) { return false; };
  const auto program = made();
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_TRUE(program->calls.empty());
  EXPECT_EQ(program->fragments.size(), 1U) << "the product with its exponentials, and their sums";
  EXPECT_EQ(planned(*program), 1U);
}

TEST_F(ModelProgramEmulated, GivesAProductWithoutAPlanAShorterEpilogue) {
  device_.breaks = [](const std::string& ptx) { return is_product_text(ptx) && has_exponential(ptx); };
  const auto program = made();
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_TRUE(program->calls.empty());
  EXPECT_EQ(program->fragments.size(), 2U) << "the product; exponentials and their sums";
  EXPECT_EQ(planned(*program), 2U);
}

TEST_F(ModelProgramEmulated, LeavesAProductWithoutAPlanToTheLibrary) {
  device_.breaks = is_product_text;
  const auto program = made();
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_EQ(program->calls.size(), 1U);
  EXPECT_EQ(program->calls[0].kind, "dot");
  ASSERT_EQ(program->fragments.size(), 1U) << "exponentials and their sums";
  EXPECT_EQ(planned(*program), 1U);
  std::set<Sha256> needed, there;
  for (const api::KernelLaunch& launch : program->fragments[0].plan->launches)
    needed.insert({launch.cubin, launch.ptx});
  for (const api::ProgramArtifact& artifact : program->artifacts) there.insert(artifact.hash);
  EXPECT_EQ(there, needed) << "its code, and none of what is gone";
}

TEST_F(ModelProgramEmulated, TakesAnAttentionWithoutAPlanApart) {
  import::Imported model;
  model.graph = kernel::test::AttentionGraph(
                    {.name = "", .batch = {2}, .rows = 24, .keys = 40, .depth = 16, .width = 16, .dtype = DType::f32})
                    .make();
  device_.breaks = [](const std::string&) { return false; };
  const auto whole = made(model);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->regions[0].steps.size(), 1U);
  device_.breaks = [](const std::string& ptx) { return is_product_text(ptx) && has_exponential(ptx); };
  const auto apart = made(model);
  ASSERT_TRUE(apart) << apart.error().message;
  EXPECT_EQ(apart->regions[0].steps.size(), 3U) << "two products and the softmax between them";
  EXPECT_TRUE(apart->calls.empty());
  EXPECT_EQ(planned(*apart), 3U);
}

/// Whichever of its products are one kernel: everything has a plan, also where none with exponentials can be made.
TEST_F(ModelProgramEmulated, TrainsAnAttention) {
  import::Imported model;
  model.graph = graph::test::training_graph(
      {.name = "trained", .batch = {2}, .rows = 24, .keys = 40, .depth = 16, .width = 16, .causal = true});
  for (const bool breaks : {false, true}) {
    device_.breaks = [=](const std::string& ptx) { return breaks && is_product_text(ptx) && has_exponential(ptx); };
    const auto program = made(model);
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_EQ(program->results.size(), 4U);
    EXPECT_EQ(planned(*program), program->fragments.size());
    for (const api::ProgramCall& call : program->calls) EXPECT_EQ(call.graph.results().size(), 1U) << call.description;
  }
}

}  // namespace
}  // namespace stitch::tuning
