#include "cli/contractions/product_samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "costmodel/kernel_features.h"

namespace stitch::cli {
namespace {

const std::filesystem::path bench = std::filesystem::path(STITCH_SOURCE_DIR) / "bench";

/// Products, convolutions and attentions as an H100 has timed them.
const ProductSamples& measured() {
  static const ProductSamples samples = [] {
    RealFileSystem files;
    const auto problems = read_problems(files, bench / "products/problems.json");
    EXPECT_TRUE(problems);
    auto read =
        product_samples(*problems, *find_device("h100"), {bench / "results/gpu/h100-2026-11-26-2/products-ours.jsonl"});
    EXPECT_TRUE(read) << (read ? "" : read.error().message);
    return *std::move(read);
  }();
  return samples;
}

TEST(ProductSamples, AreThoseOfTheLines) {
  const ProductSamples& samples = measured();
  // Of 110 that were measured two spill so much that they are no schedules any more.
  ASSERT_EQ(samples.set.samples.size(), 108U);
  ASSERT_EQ(samples.about.size(), 108U);
  EXPECT_EQ(samples.set.device, "h100");
  std::set<Hash128> kernels;
  const auto names = costmodel::feature_names();
  const auto registers = std::ranges::find(names, "registers") - names.begin();
  for (std::size_t i = 0; i < samples.about.size(); ++i) {
    const costmodel::TrainingSample& sample = samples.set.samples[i];
    EXPECT_EQ(samples.about[i].call, "h100-2026-11-26-2");
    EXPECT_TRUE(sample.is_measured());
    EXPECT_GT(sample.features[registers], 16) << "the compiler's, by the line";
    EXPECT_NE(costmodel::class_of(sample.features), costmodel::KernelClass::memory_intensive);
    kernels.insert(sample.kernel);
  }
  EXPECT_EQ(kernels.size(), 11U) << "problems";
}

TEST(ProductSamples, AreScoredByModelsThatHaveNotSeenTheirProblem) {
  costmodel::TrainingOptions training;
  training.folds = 2;
  training.trees.rounds = 5;
  training.pretraining_rounds = 5;
  const auto scored = scored_products(measured(), {}, training);
  ASSERT_TRUE(scored) << scored.error().message;
  ASSERT_EQ(scored->at("kernels").size(), 11U);
  bool differs = false;
  for (const nlohmann::json& kernel : scored->at("kernels")) {
    EXPECT_NE(kernel.at("kind"), "memory-intensive");
    for (const nlohmann::json& each : kernel.at("candidates")) {
      EXPECT_GT(each.at("measured_us").get<double>(), 0);
      EXPECT_GT(each.at("learned").get<double>(), 0);
      EXPECT_FALSE(each.contains("combined, both kinds")) << "no others were given";
      differs = differs || each.at("combined") != each.at("analytical");
    }
  }
  EXPECT_TRUE(differs) << "trees, not the formula alone";
}

TEST(ProductSamples, AFileThatHoldsNoneIsNamed) {
  RealFileSystem files;
  const auto problems = read_problems(files, bench / "products/problems.json");
  const auto read = product_samples(*problems, *find_device("h100"), {"/nowhere/products-ours.jsonl"});
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("/nowhere/products-ours.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace stitch::cli
