// Fragments that are one chain of products.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile/compiler.h"
#include "tests/kernel/chain_graph.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/contractions/chain_choice.h"
#include "tuning/contractions/product_kernels.h"

namespace stitch::tuning {
namespace {

using graph::DType;
using kernel::test::chain_graph;
using kernel::test::ChainCase;
using ChainKind = ChainCase::Kind;
using testing::StartsWith;

TEST(ChainPlanEmulated, AChainIsTunedLikeAnyFragment) {
  for (const ChainCase& each : {ChainCase{"", ChainKind::queries, {2, 2}, 96, 160, 64, 64, DType::bf16, true},
                                ChainCase{"", ChainKind::keys_and_values, {2, 2}, 96, 96, 64, 64, DType::bf16, true},
                                ChainCase{"", ChainKind::keys_and_values, {2, 2}, 40, 56, 32, 32, DType::f32},
                                ChainCase{"", ChainKind::gelu, {2}, 64, 96, 32, 32}}) {
    const graph::Graph fragment = canonical(chain_graph(each));
    const auto tuned = shared_tuner(shared_device()).tune({.fragment = fragment, .name = "layer"});
    ASSERT_TRUE(tuned) << tuned.error().message;
    ASSERT_EQ(tuned->plan.launches.size(), 1U);
    EXPECT_THAT(tuned->plan.launches[0].description, StartsWith("chained products"));
    EXPECT_EQ(tuned->plan.verified_share, 1.0);
    EXPECT_GT(tuned->plan.predicted_us, 1);
    ASSERT_EQ(tuned->kernels.size(), 1U);
    EXPECT_TRUE(tuned->kernels[0].verification->correct);
    EXPECT_GT(tuned->kernels[0].verification->worst, 0) << "the reference says something";
  }
}

TEST(ChainPlanEmulated, ALongOneIsSampledByTilesOfRows) {
  const graph::Graph fragment =
      canonical(chain_graph({"", ChainKind::keys_and_values, {2, 8}, 1024, 1024, 64, 64, DType::bf16, true}));
  const auto tuned = shared_tuner(shared_device()).tune({.fragment = fragment, .name = "long"});
  ASSERT_TRUE(tuned) << tuned.error().message;
  EXPECT_LT(tuned->plan.verified_share, 0.5);
  EXPECT_GT(tuned->plan.verified_share, 0);
}

/// Those that are predicted to be best stay in registers.
TEST(ChainPlan, BestSchedulesDoNotSpill) {
  const auto compiler = codegen::NvrtcCompiler::create();
  ASSERT_TRUE(compiler.ok());
  for (const char* target : {"a100", "h100"}) {
    const DeviceSpec device = *find_device(target);
    for (const DType dtype : {DType::bf16, DType::f32}) {
      for (const ChainKind kind : {ChainKind::queries, ChainKind::keys_and_values}) {
        const auto kernels =
            product_kernels(chain_graph({"", kind, {8, 12}, 512, 512, 64, 64, dtype, dtype == DType::bf16}), device, 1);
        ASSERT_TRUE(kernels) << kernels.error().message;
        SCOPED_TRACE(kernels->best[0].description + " " + kernels->best[0].runs);
        EXPECT_GT(kernels->rival_us, kernels->best[0].predicted_us);
        const auto kernel = kernels->best[0].generate({});
        ASSERT_TRUE(kernel.ok()) << kernel.error().message;
        codegen::CompileRequest request;
        request.source = kernel->source;
        request.architecture = device.architecture();
        const auto compiled = (*compiler)->compile(request);
        ASSERT_TRUE(compiled.ok()) << compiled.error().message;
        EXPECT_FALSE(compiled->resources.spills()) << compiled->resources.describe();
        EXPECT_THAT(compiled->log, testing::Not(testing::HasSubstr("serialized"))) << compiled->log;
      }
    }
  }
}

}  // namespace
}  // namespace stitch::tuning
