#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "tests/cli/run_stitch.h"

// What `stitch explain --program` says of a program is what `stitch run --outline --price` says of it, kernel by
// kernel.
namespace stitch::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A loop of three turns, each a product with a norm of its rows behind it, and a product behind the loop.
constexpr const char* looped_products = R"(HloModule looped
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
body { state = (s32[], f32[256,256], f32[256,256]) parameter(0)
  turn = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(turn, one)
  x = f32[256,256] get-tuple-element(state), index=1
  w = f32[256,256] get-tuple-element(state), index=2
  y = f32[256,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  squares = f32[256,256] multiply(y, y)
  zero = f32[] constant(0)
  norm = f32[256] reduce(squares, zero), dimensions={1}, to_apply=sum
  scale = f32[256] rsqrt(norm)
  spread = f32[256,256] broadcast(scale), dimensions={0}
  scaled = f32[256,256] multiply(y, spread)
  ROOT left = (s32[], f32[256,256], f32[256,256]) tuple(next, scaled, w) }
condition { state = (s32[], f32[256,256], f32[256,256]) parameter(0)
  turn = s32[] get-tuple-element(state), index=0
  three = s32[] constant(3)
  ROOT more = pred[] compare(turn, three), direction=LT }
ENTRY main {
  x = f32[256,256] parameter(0)
  w = f32[256,256] parameter(1)
  v = f32[256,128] parameter(2)
  zero = s32[] constant(0)
  begin = (s32[], f32[256,256], f32[256,256]) tuple(zero, x, w)
  end = (s32[], f32[256,256], f32[256,256]) while(begin), condition=condition, body=body
  y = f32[256,256] get-tuple-element(end), index=1
  ROOT z = f32[256,128] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

class ProgramKernels : public testing::TestWithParam<const char*> {};

TEST_P(ProgramKernels, AddUpToTheProgramsPrice) {
  const Folder folder;
  const std::string model = folder.write("looped.hlo", looped_products);
  const Outcome explained = stitch({"explain", model, "--program", GetParam(), "--json", "--quiet"});
  ASSERT_EQ(explained.code, 0) << explained.err;
  const auto program = explained.json()["program"];
  const Outcome priced = stitch({"run", model, "--outline", "--price", "--products", GetParam(), "--json", "--quiet"});
  ASSERT_EQ(priced.code, 0) << priced.err;
  const auto price = priced.json()["price"];

  double kernels = 0, calls = 0, bytes = 0, us = 0, most = INFINITY;
  for (const auto& kernel : program["kernels"]) {
    const double times = kernel["times"], each = kernel["predicted_us"];
    (kernel["kind"] == "library" ? calls : kernels) += times;
    bytes += times * kernel["bytes"].get<double>();
    us += times * each;
    EXPECT_LE(times * each, most + 1e-9) << "costliest first";
    most = times * each;
    EXPECT_GT(kernel["memory_us"].get<double>(), 0);
    if (kernel["kind"] != "library") {
      EXPECT_THAT(kernel["bound_by"].get<std::string>(), testing::Not(testing::IsEmpty()));
      EXPECT_THAT(kernel["runs"].get<std::string>(), HasSubstr("block"));
    }
  }
  EXPECT_EQ(kernels + program["copies"].get<double>(), price["launches"].get<double>());
  EXPECT_EQ(calls, price["library_calls"].get<double>());
  EXPECT_NEAR(us - program["saved_us"].get<double>(), price["predicted_us"].get<double>(), 1e-6 * us);
  EXPECT_NEAR(program["predicted_us"].get<double>(), price["predicted_us"].get<double>(), 1e-9 * us);
  EXPECT_NEAR(bytes, price["bytes"].get<double>(), 1e-6 * bytes);
  // Turns count: three of the body's product, one behind the loop.
  EXPECT_GE(kernels + calls, 4);
}

INSTANTIATE_TEST_SUITE_P(Products, ProgramKernels, testing::Values("library", "faster", "ours"),
                         [](const auto& by) { return std::string(by.param); });

TEST(ProgramKernelsText, NamesWhatMultipliesAndWhatBinds) {
  const Folder folder;
  const std::string model = folder.write("looped.hlo", looped_products);
  const Outcome ours = stitch({"explain", model, "--program", "ours", "--target", "a100", "--quiet"});
  EXPECT_EQ(ours.code, 0) << ours.err;
  EXPECT_THAT(ours.out, AllOf(HasSubstr("us predicted"), HasSubstr("product  "), HasSubstr("[256,256]·[256,128]")));
  const Outcome library = stitch({"explain", model, "--program", "library", "--quiet"});
  EXPECT_THAT(library.out, AllOf(HasSubstr("library  "), HasSubstr("dot f32[256,256]·f32[256,128]")));
  const Outcome wrong = stitch({"explain", model, "--program", "sometimes"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("'sometimes' is none of library, faster, ours, stream"));
  EXPECT_EQ(stitch({"explain", model, "--program", "ours", "--pairs", "3"}).code, 2);
}

}  // namespace
}  // namespace stitch::cli
