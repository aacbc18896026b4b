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
  const auto price = price_program(*program, *tuner);
  EXPECT_TRUE(price) << price.error().message;
  return *price;
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
  EXPECT_EQ(ours.launches, 2) << "the product with tanh; maxima";
  EXPECT_EQ(ours.bytes, 4 * matrix + column);
}

TEST(ProgramPrices, CountWhatRunsAgain) {
  const ProgramPrice once = price_of(model_of(1), ProductsBy::library);
  const ProgramPrice thrice = price_of(model_of(3), ProductsBy::library);
  EXPECT_EQ(thrice.library_calls, 3);
  EXPECT_DOUBLE_EQ(thrice.library_us, 3 * once.library_us);
  EXPECT_EQ(thrice.library_bytes, 3 * once.library_bytes);
}

}  // namespace
}  // namespace stitch::tuning
