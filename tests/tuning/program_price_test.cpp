#include "tuning/programs/program_price.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/programs/model_program.h"

namespace stitch::tuning {
namespace {

using graph::DType;
using graph::Op;
using graph::Value;

/// tanh(x · w), `turns` times one after the other, and the maximum of each row.
auto model_of(std::int64_t turns) -> import::Imported {
  const auto body = [](graph::Builder& b, Value x, Value w) {
    return b.unary(Op::tanh, b.dot(x, w, {{}, {}, {1}, {0}, DType::f32}));
  };
  graph::Builder b;
  const Value x = b.parameter(DType::f32, {256, 256}), w = b.parameter(DType::f32, {256, 256});
  Value last = x;
  for (std::int64_t i = 0; i < turns; ++i) last = body(b, last, w);
  import::Imported model;
  model.graph = *b.finish({last, b.reduce(graph::ReduceKind::max, last, {1})});
  return model;
}

ProgramPrice price_of(const import::Imported& model, ProductsBy by) {
  TunerOptions options;
  options.compiles = false;
  options.products = by;
  RealFileSystem files;
  const SystemClock clock;
  const auto tuner = *Tuner::create(options, shared_device(), nullptr, files, clock);
  const auto program = outline_program(model, *tuner, {.name = "test"});
  EXPECT_TRUE(program) << program.error().message;
  const auto steps = price_steps(*program, *tuner);
  EXPECT_TRUE(steps) << steps.error().message;
  return sum_of(*steps);
}

constexpr double matrix = 256 * 256 * 4, column = 256 * 4;

TEST(ProgramPrices, CountKernelsAndCalls) {
  const ProgramPrice library = price_of(model_of(1), ProductsBy::library);
  EXPECT_EQ(library.library_calls, 1);
  EXPECT_EQ(library.launches, 1) << "tanh with the maxima";
  EXPECT_EQ(library.library_bytes, 3 * matrix);
  EXPECT_EQ(library.bytes, 5 * matrix + column);
  EXPECT_GT(library.us, library.library_us);
  EXPECT_GT(library.library_us, 0);
  EXPECT_EQ(library.unpriced_calls, 0);
  const ProgramPrice ours = price_of(model_of(1), ProductsBy::ours);
  EXPECT_EQ(ours.library_calls, 0);
  EXPECT_EQ(ours.launches, 1) << "the product with tanh, and the maxima of its rows";
  EXPECT_EQ(ours.bytes, 3 * matrix + column);
}

TEST(ProgramPrices, CountEqualStepsEachTime) {
  const ProgramPrice once = price_of(model_of(1), ProductsBy::library);
  const ProgramPrice thrice = price_of(model_of(3), ProductsBy::library);
  EXPECT_EQ(thrice.library_calls, 3);
  EXPECT_DOUBLE_EQ(thrice.library_us, 3 * once.library_us);
  EXPECT_EQ(thrice.library_bytes, 3 * once.library_bytes);
}

/// x = tanh(x · x), which takes all of x, `turns` times over in a loop; −1: until a number that is carried along says
/// so.
auto loop_of(std::int64_t turns) -> import::Imported {
  const auto carried = [](graph::Builder& b) {
    return std::vector{b.parameter(DType::s32, {}), b.parameter(DType::f32, {256, 256}),
                       b.parameter(DType::f32, {256, 256})};
  };
  graph::Builder body("body"), condition("condition"), outer;
  const std::vector<Value> in = carried(body), at = carried(condition);
  const Value product = body.dot(in[1], in[1], {{}, {}, {1}, {0}, DType::f32});
  const Value limit = turns < 0 ? condition.convert(condition.reduce(graph::ReduceKind::max, at[1], {0, 1}), DType::s32)
                                : condition.scalar(DType::s32, static_cast<double>(turns));
  const auto regions =
      std::vector{std::make_shared<const graph::Graph>(*body.finish(
                      {body.binary(Op::add, in[0], body.scalar(DType::s32, 1)), body.unary(Op::tanh, product), in[2]})),
                  std::make_shared<const graph::Graph>(
                      *condition.finish({condition.compare(graph::Comparison::lt, at[0], limit)}))};
  const Value x = outer.parameter(DType::f32, {256, 256}), w = outer.parameter(DType::f32, {256, 256});
  const Value loop = outer.add(Op::loop, {outer.scalar(DType::s32, 0), x, w}, graph::LoopAttributes{turns}, regions);
  import::Imported model;
  model.graph = *outer.finish({Value{loop.node, 1}});
  return model;
}

TEST(ProgramPrices, CountABodyAsOftenAsItRuns) {
  const ProgramPrice five = price_of(loop_of(5), ProductsBy::library), one = price_of(loop_of(1), ProductsBy::library);
  EXPECT_EQ(five.library_calls, 5);
  EXPECT_DOUBLE_EQ(five.library_us, 5 * one.library_us);
  EXPECT_GE(five.launches, 5);
  EXPECT_EQ(price_of(loop_of(-1), ProductsBy::library).library_calls, 1) << "nobody knows how often";
}

}  // namespace
}  // namespace stitch::tuning
