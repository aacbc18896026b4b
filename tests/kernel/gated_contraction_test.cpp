// Which products have gates, how they lie, and what stands in the way.
#include "kernel/contraction/gated_contraction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/contraction/contraction_rules.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

using graph::Dims;
using testing::HasSubstr;

/// x: [64, 96] · w: [96, columns].
struct Product {
  Builder b;
  Value x = b.parameter(DType::f16, {64, 96});

  Value dot(std::int64_t columns, std::int64_t depth = 96) {
    return b.dot(x, b.parameter(DType::f16, {depth, columns}), {{}, {}, {1}, {0}, DType::f32});
  }
  Value gate(Value sums, std::int64_t start, std::int64_t end) { return b.slice(sums, {0, start}, {64, end}); }
  Value both(Value x, Value y) { return b.binary(Op::multiply, b.unary(Op::tanh, x), y); }
  Result<ContractionProblem> gated(std::vector<Value> results) { return derive_gated(finished(b, std::move(results))); }
};

TEST(GatedContractions, HaveRunsOfUnitsGateByGate) {
  Product p;
  const Value sums = p.dot(256);
  const auto gated = p.gated({p.both(p.gate(sums, 0, 128), p.gate(sums, 128, 256))});
  ASSERT_TRUE(gated) << gated.error().message;
  EXPECT_EQ(gated->gates, 2);
  EXPECT_EQ(gated->columns, 256);
  EXPECT_EQ(gated->units(), 128);
  EXPECT_EQ(gated->right.free, (ContractionDigits{{16, 8}, {2, 128}, {8, 1}}));
  EXPECT_EQ(gated->result.columns, (ContractionDigits{{128, 1}}));
  EXPECT_EQ(gated->result.rows, (ContractionDigits{{64, 128}}));
  EXPECT_EQ(widest_access(gated->right), 16) << "8 elements of 16 bits";
  EXPECT_TRUE(gated->has_rows()) << "a kernel behind would make it of the product";
  const auto product = without_rows(*gated);
  ASSERT_TRUE(product) << product.error().message;
  EXPECT_EQ(product->type(product->results()[0]).dims, (Dims{64, 256}));
  EXPECT_THAT(to_string(*gated), HasSubstr("[96,2×128]"));
}

TEST(GatedContractions, OfTwoProductsAlternateBetweenTheirOperands) {
  Product p;
  const Value gate = p.dot(64), up = p.dot(64);
  const auto gated = p.gated({p.both(gate, up)});
  ASSERT_TRUE(gated) << gated.error().message;
  ASSERT_TRUE(gated->other_right);
  EXPECT_EQ(gated->right.parameter, 1);
  EXPECT_EQ(gated->other_right->parameter, 2);
  EXPECT_EQ(gated->columns, 128);
  EXPECT_EQ(gated->units(), 64);
  EXPECT_EQ(widest_access(gated->right), 16);
}

TEST(GatedContractions, NeedStripsThatHoldAllGates) {
  Product p;
  const Value sums = p.dot(256);
  const auto gated = p.gated({p.both(p.gate(sums, 0, 64), p.both(p.gate(sums, 64, 128), p.gate(sums, 192, 256)))});
  ASSERT_TRUE(gated) << gated.error().message;
  EXPECT_EQ(gated->gates, 4);
  const DeviceSpec device = *find_device("h100");
  ContractionSchedule s = *default_schedule(*gated, device);
  ASSERT_TRUE(check_legality(*gated, s, device));
  s.warp_columns = 16;
  const auto broken = check_legality(*gated, s, device);
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("16 columns of a strip, no runs of 8 of 4 gates"));
}

TEST(GatedContractions, HaveANameOfTheirOwn) {
  const auto named = [](std::int64_t first) {
    Product p;
    const Value sums = p.dot(256);
    return contraction_hash(
        *p.gated({p.both(p.gate(sums, first, first + 128), p.gate(sums, 128 - first, 256 - first))}));
  };
  EXPECT_EQ(named(0), named(0));
  EXPECT_NE(named(0), named(128)) << "the other gate is the one that is bent";
}

TEST(GatedContractions, WhatHasNoneIsNamed) {
  const auto refusal = [](auto&& results) {
    Product p;
    const auto gated = p.gated(results(p));
    return gated ? std::string() : gated.error().message;
  };
  EXPECT_THAT(refusal([](Product& p) {
                const Value sums = p.dot(96);
                return std::vector{p.both(p.gate(sums, 0, 32), p.gate(sums, 64, 96))};
              }),
              HasSubstr("3 gates"));
  EXPECT_THAT(refusal([](Product& p) {
                const Value sums = p.dot(24);
                return std::vector{p.both(p.gate(sums, 0, 12), p.gate(sums, 12, 24))};
              }),
              HasSubstr("12 columns, no multiple of 8"));
  EXPECT_THAT(refusal([](Product& p) {
                const Value sums = p.dot(64);
                return std::vector{p.both(p.gate(sums, 0, 32), p.gate(sums, 16, 48))};
              }),
              testing::IsEmpty())
      << "that it is no gate is seen where the element's sums are";
  EXPECT_THAT(refusal([](Product& p) {
                const Value sums = p.dot(64);
                return std::vector{p.both(p.gate(sums, 8, 40), p.gate(sums, 32, 64))};
              }),
              HasSubstr("behind gates"));
  EXPECT_THAT(refusal([](Product& p) {
                const Value sums = p.dot(64);
                const Value unit = p.both(p.gate(sums, 0, 32), p.gate(sums, 32, 64));
                return std::vector{unit, sums};
              }),
              HasSubstr("a result of no gate's width"));
}

}  // namespace
}  // namespace stitch::kernel::test
