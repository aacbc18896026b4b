#include "tuning/models/model_fragments.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/programs/model_program.h"

namespace stitch::tuning {
namespace {

using graph::DType;
using graph::Op;

/// tanh(tanh(x · w) · w), and the sum of its rows.
auto two_layers() -> import::Imported {
  graph::Builder b;
  const graph::Value x = b.parameter(DType::f32, {16, 32}), w = b.parameter(DType::f32, {32, 32});
  graph::Value y = x;
  for (int layer = 0; layer < 2; ++layer) y = b.unary(Op::tanh, b.dot(y, w, {{}, {}, {1}, {0}, DType::f32}));
  import::Imported model;
  model.graph = *b.finish({b.reduce(graph::ReduceKind::sum, y, {1})});
  return model;
}

TEST(ModelFragments, EqualOnesShareAnEntry) {
  const auto model = cut_model(two_layers());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->library_calls, 2);
  ASSERT_EQ(model->entries.size(), 2U) << "tanh; tanh and the sum";
  for (const ModelFragments::Entry& entry : model->entries) EXPECT_EQ(entry.occurrences, 1);
}

TEST(ModelFragments, ThereAreNoneOnceStopped) {
  std::stop_source stop;
  stop.request_stop();
  const auto model = cut_model(two_layers(), {}, stop.get_token());
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::cancelled);
}

TEST(ModelFragments, NorIsThereAProgram) {
  std::stop_source stop;
  const ProgramRequest request{.name = "layers", .stop = stop.get_token()};
  ASSERT_TRUE(outline_program(two_layers(), shared_tuner(shared_device()), request));
  stop.request_stop();
  const auto program = outline_program(two_layers(), shared_tuner(shared_device()), request);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().kind, ErrorKind::cancelled);
}

}  // namespace
}  // namespace stitch::tuning
