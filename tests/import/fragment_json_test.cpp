#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/codec/codec.h"
#include "import/import.h"
#include "tests/import/hlo_text.h"

namespace stitch::import {
namespace {

using graph::Builder;
using graph::DType;
using graph::Encoding;
using graph::Graph;
using graph::Value;
using testing::HasSubstr;

constexpr Encoding encodings[] = {Encoding::json, Encoding::cbor};

TEST(FragmentJson, ModelsSurviveTheRoundTrip) {
  for (const std::string name : {"scan_gradient", "reductions", "scatters", "convolutions", "dropout", "branches"}) {
    const Imported first = import_good(file_text(fmt::format("{}/tests/data/hlo/{}.hlo.txt", STITCH_SOURCE_DIR, name)));
    for (const Encoding encoding : encodings) {
      const std::string bytes = graph::encode(first.graph, encoding);
      const Result<Imported> second = import_fragment(bytes);
      ASSERT_TRUE(second.ok()) << name << ": " << second.error().message;
      EXPECT_EQ(graph::encode(second->graph, encoding), bytes) << name;
      EXPECT_EQ(second->parameters, first.parameters);
      EXPECT_EQ(second->results, first.results);
    }
  }
}

/// A loop of `trips` around an opaque operator.
Graph loop_with_opaque(std::int64_t trips) {
  Builder body, condition, outer;
  const Value x = body.parameter(DType::f32, {4}, "x");
  body.at("mystery");
  const Value y = body.add(graph::Op::opaque, {x}, graph::OpaqueAttributes{"sort", "", {{DType::f32, {4}}}});
  auto body_graph = std::make_shared<const Graph>(*body.finish({y}));
  condition.parameter(DType::f32, {4});
  auto condition_graph = std::make_shared<const Graph>(*condition.finish({condition.scalar(DType::pred, 1)}));
  const Value start = outer.parameter(DType::f32, {4}, "start");
  outer.at("loop");
  const Value loop = outer.add(graph::Op::loop, {start}, graph::LoopAttributes{trips}, {body_graph, condition_graph});
  return *outer.finish({loop});
}

TEST(FragmentJson, AReportOfWrongKernelsHoldsItsFragment) {
  const std::string graph = graph::encode(loop_with_opaque(3), Encoding::json);
  const Result<Imported> imported =
      import_fragment(fmt::format(R"({{"format":"stitch-fault","version":1,"candidates":[],"graph":{}}})", graph));
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_EQ(graph::encode(imported->graph, Encoding::json), graph);
  const Result<Imported> none = import_fragment(R"({"format":"stitch-fault","version":1})");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("graph: the report has none"));
  const Result<Imported> bad = import_fragment(R"({"format":"stitch-fault","graph":{"format":"stitch-graph"}})");
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.error().message, HasSubstr("graph: "));
}

TEST(FragmentJson, OpaqueOperatorsAreReported) {
  const Result<Imported> imported = import_fragment(graph::encode(loop_with_opaque(12), Encoding::json));
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  ASSERT_EQ(imported->boundaries.size(), 1U);
  EXPECT_EQ(imported->boundaries[0].op, "sort");
  EXPECT_EQ(imported->boundaries[0].occurrences, 12);
  EXPECT_THAT(imported->boundaries[0].place, HasSubstr("node 1 'mystery' in "));
}

TEST(FragmentJson, LimitsApply) {
  const std::string bytes = graph::encode(loop_with_opaque(1), Encoding::json);
  ImportOptions few_nodes;
  few_nodes.max_nodes = 2;
  EXPECT_EQ(import_fragment(bytes, few_nodes).error().kind, ErrorKind::resource_exhausted);
  ImportOptions few_bytes;
  few_bytes.max_bytes = 10;
  EXPECT_EQ(import_fragment(bytes, few_bytes).error().kind, ErrorKind::resource_exhausted);
}

TEST(FragmentJson, DamageIsAnError) {
  for (const Encoding encoding : encodings) {
    const std::string bytes = graph::encode(loop_with_opaque(1), encoding);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(import_fragment(bytes.substr(0, length)).ok()) << length;
    }
  }
}

}  // namespace
}  // namespace stitch::import
