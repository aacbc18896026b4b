// Schedules of products in the order of trained models.
#include <gtest/gtest.h>

#include <algorithm>

#include "costmodel/kernel_features.h"
#include "costmodel/training.h"
#include "tests/kernel/example_graphs.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/contractions/product_kernels.h"

namespace stitch::tuning {
namespace {

using graph::DType;

std::size_t column_named(std::string_view name) {
  const auto names = costmodel::feature_names();
  return std::ranges::find(names, name) - names.begin();
}

/// A made-up law that the formula knows nothing of: deep pipelines are slow.
double law(const ProductKernels::Ranked& ranked) {
  static const std::size_t stages = column_named("stages");
  return ranked.analytical_us * (ranked.features(nullptr)[stages] > 4 ? 3 : 1);
}

TEST(ProductRanking, ACombinedModelPutsSchedulesInItsOrder) {
  const DeviceSpec device = *find_device("h100");
  costmodel::TrainingSet set;
  set.device = device.name;
  for (const std::int64_t rows : {512, 1024, 2048}) {
    const graph::Graph fragment = canonical(kernel::test::matmul(DType::f16, rows, 1024, 1024));
    const auto kernels = product_kernels(fragment, device, 200);
    ASSERT_TRUE(kernels) << kernels.error().message;
    for (const ProductKernels::Ranked& ranked : kernels->best) {
      EXPECT_EQ(ranked.predicted_us, ranked.analytical_us);
      const Hash128 kernel{0, static_cast<std::uint64_t>(rows)};
      set.samples.push_back(
          {ranked.features(nullptr), ranked.analytical_us, law(ranked), false, kernel, kernel, "h100"});
    }
  }
  costmodel::TrainingOptions options;
  options.folds = 3;
  const auto trained = costmodel::train_model(set, options);
  ASSERT_TRUE(trained) << trained.error().message;
  EXPECT_TRUE(trained->model.trusts(costmodel::KernelClass::product)) << "held-out kernels speak for it";
  EXPECT_FALSE(trained->model.trusts(costmodel::KernelClass::attention)) << "nothing is known of them";

  const graph::Graph fragment = canonical(kernel::test::matmul(DType::f16, 1024, 1536, 1024));
  const auto before = product_kernels(fragment, device, 40);
  const auto after = product_kernels(fragment, device, 40, &trained->model);
  ASSERT_TRUE(before && after);
  const auto best_law = [](const ProductKernels& kernels) {
    return law(*std::ranges::min_element(kernels.best, {}, law));
  };
  EXPECT_LE(law(after->best.front()), 1.05 * best_law(*before))
      << "the first of 40 by the formula is " << law(before->best.front());
  EXPECT_EQ(before->rival_us, after->rival_us) << "the library's price is the formula's";
  for (std::size_t i = 0; i < after->best.size(); ++i) {
    const ProductKernels::Ranked& ranked = after->best[i];
    EXPECT_NEAR(ranked.predicted_us, trained->model.predict(ranked.features(nullptr), ranked.analytical_us),
                1e-6 * ranked.predicted_us);
    EXPECT_GE(ranked.predicted_us, i == 0 ? 0 : after->best[i - 1].predicted_us);
  }

  costmodel::TrainedCostModel unproven = trained->model;
  unproven.trusted = 1U << static_cast<unsigned>(costmodel::KernelClass::memory_intensive);
  const auto same = product_kernels(fragment, device, 40, &unproven);
  ASSERT_TRUE(same);
  for (std::size_t i = 0; i < same->best.size(); ++i) {
    EXPECT_EQ(same->best[i].schedule, before->best[i].schedule) << "nothing held out speaks for it";
    EXPECT_EQ(same->best[i].predicted_us, before->best[i].predicted_us);
  }
}

}  // namespace
}  // namespace stitch::tuning
