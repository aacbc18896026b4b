// What the library takes in a product's place, where its calls were measured and what is beside them was not.
#include "tuning/programs/library_rival.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/canonical.h"
#include "tests/kernel/attention_graph.h"
#include "tests/tuning/shared_tuner.h"

namespace stitch::tuning {
namespace {

using graph::DType;
using graph::Graph;
using graph::Value;

/// x · w of f16, and its exponential, which no call computes.
Graph product(bool exponential) {
  graph::Builder b;
  const Value x = b.parameter(DType::f16, {256, 128}), w = b.parameter(DType::f16, {128, 512});
  const Value made = b.dot(x, w, {{}, {}, {1}, {0}, DType::f16});
  return canonical(*b.finish({exponential ? b.unary(graph::Op::exp, made) : made}));
}

KnownCall all_take(double us, double noise = 0) {
  return [=](const Graph&) { return Result(std::optional(CallTime{"cuBLASLt 13.0.0", us, noise})); };
}

Tuner& exploring() {
  static const auto tuner = tuner_for(shared_device(), ProductsBy::faster, false);
  EXPECT_TRUE(tuner.ok());
  return **tuner;
}

TEST(LibraryRival, OfOneCallIsWhatItTook) {
  const auto rival = library_rival(product(false), true, exploring(), all_take(8, 0.01));
  ASSERT_TRUE(rival && *rival);
  EXPECT_NEAR((*rival)->us, 8, 1e-6);
  EXPECT_EQ((*rival)->measured_us, 8);
  EXPECT_NEAR((*rival)->uncertainty_us, 0.08, 1e-6);
  EXPECT_EQ((*rival)->libraries, std::vector<std::string>{"cuBLASLt 13.0.0"});
  EXPECT_TRUE((*rival)->is_slower_than(7.8));
  EXPECT_FALSE((*rival)->is_slower_than(7.9)) << "within the noise of both";
  EXPECT_FALSE((*rival)->is_slower_than(8.1));
}

TEST(LibraryRival, KeepsThePredictionOfWhatIsBesideTheCalls) {
  const auto calls = library_calls_of(product(true));
  ASSERT_TRUE(calls && calls->size() == 1);
  EXPECT_EQ(graph::canonicalise(calls->front())->key, graph::canonicalise(product(false))->key);
  const auto apart = library_rival(product(true), true, exploring(), all_take(8));
  const auto part = library_rival(product(true), false, exploring(), all_take(8));
  ASSERT_TRUE(apart && *apart && part && *part);
  EXPECT_GT((*apart)->us, 9) << "a kernel for the exponential";
  EXPECT_GT((*apart)->uncertainty_us, 0);
  EXPECT_LT((*part)->us, (*apart)->us) << "which is in another one anyway";
  EXPECT_EQ((*apart)->measured_us, 8);
}

TEST(LibraryRival, OfAnAttentionIsTwoCallsAndWhatIsBetween) {
  const Graph attention = canonical(kernel::test::attention_graph({"plain", {8}, 256, 256, 64, 64}));
  const auto calls = library_calls_of(attention);
  ASSERT_TRUE(calls);
  EXPECT_EQ(calls->size(), 2U);
  const auto rival = library_rival(attention, true, exploring(), all_take(8));
  ASSERT_TRUE(rival && *rival);
  EXPECT_EQ((*rival)->measured_us, 16);
  EXPECT_GE((*rival)->us, 16);
}

TEST(LibraryRival, IsNoneWhereACallWasNotMeasuredOrFailed) {
  const KnownCall nothing = [](const Graph&) { return Result(std::optional<CallTime>()); };
  const auto unknown = library_rival(product(false), true, exploring(), nothing);
  EXPECT_TRUE(unknown && !*unknown);
  const KnownCall died = [](const Graph&) {
    return Result(std::optional(CallTime{{}, 0, 0, make_error(ErrorKind::timeout, "hung")}));
  };
  const auto failed = library_rival(product(false), true, exploring(), died);
  EXPECT_TRUE(failed && !*failed);
  const KnownCall broken = [](const Graph&) -> Result<std::optional<CallTime>> {
    return make_error(ErrorKind::io, "the store");
  };
  EXPECT_EQ(library_rival(product(false), true, exploring(), broken).error().kind, ErrorKind::io);
}

}  // namespace
}  // namespace stitch::tuning
