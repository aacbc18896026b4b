#include "costmodel/uncertainty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/costmodel/example_kernels.h"

namespace stitch::costmodel::test {
namespace {

TEST(Uncertainty, EveryKindOfKernelHasOne) {
  std::map<std::string, std::set<std::string_view>> kinds;
  for (const NamedGraph& named : kinds_of_kernel()) {
    for (const Kernel& kernel : candidates_of(named.graph(), *find_device("h100"), 10)) {
      const double us = uncertainty_us(kernel.program, kernel.predicted_us);
      EXPECT_GT(us, 0) << named.name;
      EXPECT_LT(us, kernel.predicted_us) << named.name;
      kinds[named.name].insert(to_string(kind_of(kernel.program)));
    }
  }
  EXPECT_THAT(kinds.at("element_wise"), testing::ElementsAre("streaming"));
  EXPECT_THAT(kinds.at("transpose"), testing::ElementsAre("streaming"));
}

TEST(Uncertainty, GrowsWithTheTimeAndIsNeverNothing) {
  EXPECT_NEAR(uncertainty_us(KernelKind::streaming, 1000), 30, 0.1);
  EXPECT_NEAR(uncertainty_us(KernelKind::streaming, 0), 0.7, 1e-9);
  for (const KernelKind kind : {KernelKind::row_reduction, KernelKind::partial_reduction, KernelKind::phases,
                                KernelKind::scan, KernelKind::sort, KernelKind::scatter, KernelKind::recurrent}) {
    EXPECT_GT(uncertainty_us(kind, 100), uncertainty_us(KernelKind::streaming, 100)) << to_string(kind);
  }
}

TEST(Uncertainty, OfTwoPredictionsOfOneProductIsASmallerShareTheLongerItTakes) {
  using enum ProductKind;
  // What an H100 showed: bench/results/product_choices.md.
  const auto share = [](double us) { return difference_uncertainty_us(tensor_cores, us) / us; };
  EXPECT_NEAR(share(5), 0.26, 0.03);
  EXPECT_NEAR(share(20), 0.12, 0.02);
  EXPECT_NEAR(share(60), 0.07, 0.01);
  EXPECT_NEAR(share(1000), 0.04, 0.005);
  for (double us = 1; us < 1e5; us *= 2) {
    EXPECT_LT(difference_uncertainty_us(tensor_cores, us), difference_uncertainty_us(tensor_cores, 2 * us));
    EXPECT_LE(difference_uncertainty_us(tensor_cores, us), difference_uncertainty_us(convolution, us));
  }
  EXPECT_NEAR(difference_uncertainty_us(tensor_cores, 0), 0.7, 1e-9);
}

}  // namespace
}  // namespace stitch::costmodel::test
