// Every field of every message goes into its document and comes back.
#include "api/message_fields.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/codec/document_reader.h"
#include "graph/codec/document_writer.h"
#include "tests/graph/filled_record.h"

namespace stitch::graph {

/// For the filler: any graph.
static void fill_value(Graph& graph, int number) {
  Builder builder("filled");
  const Value x = builder.parameter(DType::f32, {number}, "x");
  graph = *builder.finish({builder.unary(Op::exp, x)});
}

}  // namespace stitch::graph

namespace stitch::api {
namespace {

/// The message of a filled one's document, as a document again.
template <class Message>
void expect_round_trip(const Message& message) {
  const auto document = graph::fields::document_of(message);
  Message back;
  const Status read = graph::fields::read_document(document, back);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(graph::fields::document_of(back), document);
}

/// A filled plan in which what refers to something refers to something that is there.
Plan filled_plan() {
  auto plan = graph::filled<Plan>();
  for (KernelLaunch& launch : plan.launches) {
    launch.blocks = launch.cluster * 7;
    for (LaunchArgument& argument : launch.arguments) argument.kind = LaunchArgument::Kind::integer;
  }
  for (ResultCopy& copy : plan.copies) copy = {{LaunchArgument::Kind::parameter, 1}, 1, 8, true};
  plan.results[1] = plan.parameters[1];
  for (InPlace& pair : plan.in_place) pair = {1, 1};
  plan.workspace_bytes = 4096;
  return plan;
}

TEST(MessageFieldsTest, EveryFieldOfAPlanComesBack) {
  const Plan plan = filled_plan();
  expect_round_trip(plan);
  EXPECT_EQ(*plan_from_json(to_json(plan)), plan);
}

TEST(MessageFieldsTest, EveryFieldOfTheOthersComesBack) {
  expect_round_trip(graph::filled<LookupRequest>());
  expect_round_trip(graph::filled<Submitted>());
  expect_round_trip(graph::filled<JobStatus>());
  expect_round_trip(graph::filled<JobEvent>());
  expect_round_trip(graph::filled<PromotionFeed>());
  expect_round_trip(graph::filled<ServerVersion>());
  expect_round_trip(graph::filled<Error>());
  auto answer = graph::filled<LookupAnswer>();
  answer.plan = filled_plan();
  answer.parameter_order = {1, 0};
  answer.result_order = {1, 0};
  expect_round_trip(answer);
}

}  // namespace

}  // namespace stitch::api
