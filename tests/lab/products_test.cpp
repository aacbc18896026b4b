// Random products, convolutions and attentions on the emulated device for each generation of instructions, the same in
// every run; and what tells a wrong one.
#include <gmock/gmock.h>

#include <cstdlib>
#include <set>

#include "graph/print.h"
#include "lab/products/product_candidate.h"
#include "lab/products/product_check.h"
#include "lab/products/random_product.h"

namespace stitch::lab {
namespace {

using testing::HasSubstr;

const codegen::Nvrtc& products_nvrtc() {
  static const auto loaded = codegen::Nvrtc::load();
  if (!loaded) throw std::runtime_error(loaded.error().message);
  return **loaded;
}

/// Kernels whose features begin so.
std::int64_t count_of(const BreadthReport& report, const std::string& feature) {
  std::int64_t kernels = 0;
  for (const auto& [name, count] : report.features) kernels += name.starts_with(feature) ? count : 0;
  return kernels;
}

/// Cases by piece: of one architecture each.
class RandomProductsEmulated : public testing::TestWithParam<int> {};

TEST_P(RandomProductsEmulated, AreRight) {
  const std::string architecture = find_device(product_targets[GetParam()])->architecture();
  constexpr std::int64_t cases = cases_per_device / 2;
  const BreadthReport report = check_product_range(products_nvrtc(), 1, GetParam() * cases_per_device, cases);
  for (const auto& [number, why] : report.failures)
    ADD_FAILURE() << why << "\nstitch conformance random --products --seed 1 --from " << number << " --count 1";
  EXPECT_EQ(report.graphs, cases);
  EXPECT_GE(report.right, cases * 3 / 4);
  EXPECT_GT(report.compared, report.elements / 2);
  std::int64_t kernels = 0;
  for (const char* kind : {" product of", " convolution of", " attention of"})
    kernels += count_of(report, architecture + kind);
  EXPECT_GE(kernels, cases / 3) << "of the kinds that are most frequent";
  // Bytes along rows of a tile of 16 or 32 of them have some.
  for (const char* dtype : {"f16", "bf16", "f32", "f64"})
    EXPECT_EQ(count_of(report, architecture + " loop with conflicts of " + dtype), 0) << dtype;
  EXPECT_GE(count_of(report, architecture + " loop without conflicts"), 1);
}

INSTANTIATE_TEST_SUITE_P(Architectures, RandomProductsEmulated, testing::Range(0, 3),
                         [](const auto& each) { return find_device(product_targets[each.param])->architecture(); });

TEST(RandomProducts, TheSameAreForEachArchitecture) {
  constexpr std::int64_t pieces = cases_per_device;
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{7}, 3 * pieces + 5}) {
    const ProductCase first = product_case(4, number);
    EXPECT_EQ(first.device.architecture(), "sm_80");
    std::set<std::uint64_t> seeds;
    for (std::int64_t target = 0; target < 3; ++target) {
      const ProductCase other = product_case(4, number + target * pieces);
      EXPECT_EQ(to_text(other.product.graph), to_text(first.product.graph));
      seeds.insert(other.seed);
    }
    EXPECT_EQ(seeds.size(), 3) << "schedules of their own";
  }
  EXPECT_NE(to_text(product_case(4, 0).product.graph), to_text(product_case(4, 3 * pieces).product.graph));
}

/// Every kind comes up, and a deeper one is the same but for its depth.
TEST(RandomProducts, AreOfAllKinds) {
  std::set<std::string> kinds;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomProduct drawn = random_product(seed), deeper = random_product(seed, 64);
    kinds.insert(drawn.kind);
    EXPECT_EQ(drawn.dtype, deeper.dtype);
    EXPECT_EQ(to_text(drawn.graph) == to_text(deeper.graph), drawn.kind != "product") << drawn.kind;
  }
  EXPECT_THAT(kinds, testing::UnorderedElementsAre(
                         "product", "sums of columns", "normed product", "gates", "merged products",
                         "computing product", "scaled product", "summed products", "grouped product", "convolution",
                         "depthwise convolution", "attention", "attention's gradients", "chain of products"));
}

}  // namespace
}  // namespace stitch::lab
