#include "api/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "graph/builder.h"
#include "graph/literal.h"
#include "tests/tuning/sample_plan.h"

namespace stitch::api {
namespace {

using graph::Encoding;
using Json = nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Encoding encodings[] = {Encoding::json, Encoding::cbor};

TEST(PlanDocumentTest, RoundTripsInBothEncodings) {
  const Plan plan = tuning::samples::plan();
  for (const Encoding encoding : encodings) {
    const Result<Plan> back = decode_message<Plan>(encode_document(to_document(plan), encoding), encoding);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(*back, plan);
  }
  EXPECT_EQ(*plan_from_json(to_json(plan)), plan);
}

TEST(PlanDocumentTest, APredictedPlanHasNoMeasuredTime) {
  Plan plan = tuning::samples::plan();
  plan.measured_us.reset();
  EXPECT_FALSE(to_document(plan).contains("measured_us"));
  EXPECT_EQ(*plan_from_json(to_json(plan)), plan);
}

struct BadPlan {
  std::string pointer;  ///< JSON pointer of what is replaced
  Json value;           ///< discarded: removed
  std::string message;
};

TEST(PlanDocumentTest, ErrorsNameTheField) {
  const Json removed = Json::value_t::discarded;
  const BadPlan cases[] = {
      {"/id", "xyz", "id: expected 32 hexadecimal digits"},
      {"/id", 7, "id: expected a hash, found number"},
      {"/label", removed, "label: missing"},
      {"/target/device", removed, "target.device: missing"},
      {"/target", Json::array(), "target: expected an object, found array"},
      {"/parameters/0", "f32[8,", "parameters[0]: "},
      {"/parameters/1", 3, "parameters[1]: expected a tensor type"},
      {"/launches", "no", "launches: expected an array, found string"},
      {"/launches/1/threads", 2048, "launches[1].threads: not between 1 and 1024"},
      {"/launches/1/threads", 1e3, "launches[1].threads: expected an integer, found number"},
      {"/launches/0/threads", std::int64_t{1} << 40, "launches[0].threads: 1099511627776 is too large"},
      {"/launches/0/blocks", 18446744073709551615U, "launches[0].blocks: 18446744073709551615 is too large"},
      {"/launches/0/blocks", 0, "launches[0].blocks: not between 1 and 2147483647"},
      {"/launches/0/cluster", 5, "launches[0].cluster: does not divide blocks"},
      {"/launches/0/cluster", 0, "launches[0].cluster: does not divide blocks"},
      {"/launches/0/name", "", "launches[0].name: empty"},
      {"/launches/0/cooperative", 1, "launches[0].cooperative: expected true or false, found number"},
      {"/launches/0/arguments/1/kind", "global", "launches[0].arguments[1].kind: 'global' is not a word known here"},
      {"/launches/0/arguments/0/value", 2, "launches[0].arguments[0].value: parameter 2, there are 2"},
      {"/launches/0/arguments/1/value", 3, "launches[0].arguments[1].value: result 3, there are 3"},
      {"/launches/0/arguments/1/value", -1, "launches[0].arguments[1].value: negative"},
      {"/launches/0/arguments/2/value", 1024, "launches[0].arguments[2].value: workspace offset 1024, there are 1024"},
      {"/copies/0/to", 9, "copies[0].to.value: result 9, there are 3"},
      {"/copies/0/to", -1, "copies[0]: does not fit its tensors"},
      {"/copies/0/bytes", 8, "copies[0]: does not fit its tensors"},
      {"/copies/0/from/kind", "workspace", "copies[0].from.kind: neither parameter nor result"},
      {"/zeroed/0/bytes", 513, "zeroed[0]: outside the workspace"},
      {"/zeroed/0/offset", 9223372036854775807, "zeroed[0]: outside the workspace"},
      {"/zeroed/0/offset", -1, "zeroed[0]: outside the workspace"},
      {"/workspace_bytes", -5, "workspace_bytes: negative"},
      {"/in_place", Json::array({{{"parameter", 9}, {"result", 0}}}), "in_place[0].value: parameter 9, there are 2"},
      {"/in_place", Json::array({{{"parameter", 0}, {"result", 3}}}), "in_place[0].value: result 3, there are 3"},
      {"/in_place", Json::array({{{"parameter", -1}, {"result", 0}}}), "in_place[0].parameter: negative"},
      {"/in_place", Json::array({{{"parameter", 1}, {"result", 0}}}),
       "in_place[0]: parameter 1 and result 0 are not of"},
      {"/predicted_us", "fast", "predicted_us: expected a number, found string"},
  };
  for (const BadPlan& bad : cases) {
    Json document = to_document(tuning::samples::plan());
    const Json::json_pointer pointer(bad.pointer);
    if (bad.value.is_discarded()) {
      document[pointer.parent_pointer()].erase(pointer.back());
    } else {
      document[pointer] = bad.value;
    }
    const Result<Plan> read = plan_from_json(document.dump());
    ASSERT_FALSE(read.ok()) << bad.pointer;
    EXPECT_EQ(read.error().kind, ErrorKind::parse);
    EXPECT_THAT(read.error().message, StartsWith(bad.message));
  }
}

TEST(PlanDocumentTest, WhateverIsAcceptedCanBeWrittenAndReadAgain) {
  const Plan plan = tuning::samples::plan();
  Random random(7);
  for (const Encoding encoding : encodings) {
    const std::string bytes = encode_document(to_document(plan), encoding);
    for (std::size_t size = 0; size < bytes.size(); size += 7) {
      EXPECT_FALSE(decode_message<Plan>(bytes.substr(0, size), encoding).ok()) << "cut to " << size;
    }
    for (int round = 0; round < 2000; ++round) {
      std::string damaged = bytes;
      damaged[random.below(damaged.size())] = static_cast<char>(random());
      if (const Result<Plan> read = decode_message<Plan>(damaged, encoding); read.ok()) {
        // What is accepted is a whole plan: it can be written and read again.
        EXPECT_TRUE(decode_message<Plan>(encode_document(to_document(*read), encoding), encoding).ok()) << round;
      }
    }
  }
}

graph::Graph small_graph() {
  graph::Builder builder("scaled");
  const graph::Value x = builder.parameter(graph::DType::f32, {4, 8}, "x");
  std::vector<double> table(256);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<double>(i);
  const graph::Value big = builder.constant(graph::dense({graph::DType::f32, {4, 64}}, table));
  return *builder.finish({builder.unary(graph::Op::exp, x), big});
}

TEST(MessagesTest, LookupRequestsRoundTrip) {
  const LookupRequest request{small_graph(), "layer 3", 250, false};
  for (const Encoding encoding : encodings) {
    const auto back =
        decode_message<LookupRequest>(encode_document(to_document(request, encoding), encoding), encoding);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(graph::encode(back->fragment, Encoding::cbor), graph::encode(request.fragment, Encoding::cbor));
    EXPECT_EQ(back->name, "layer 3");
    EXPECT_EQ(back->deadline_ms, 250);
    EXPECT_FALSE(back->improve);
  }
}

/// What is sent is what clients and servers of this version of the protocol know.
TEST(MessagesTest, BytesAreThoseOfTheProtocolsVersion) {
  LookupAnswer answer;
  answer.source = LookupAnswer::Source::store;
  answer.target = {"h100", "sm_90a", "13.0.88", "codegen 1"};
  answer.parameter_order = {1, 0};
  answer.result_order = {2, 0, 1};
  answer.plan = tuning::samples::plan();
  answer.job = 12;
  const PromotionFeed feed{{{5, hash_bytes("f"), answer.target, hash_bytes("p"), {}, "vacant"}}, 5};
  const JobStatus job{7, "tune-model", "failed", 0.5, "3 of 12", "{}", Error{ErrorKind::compile, "no"},
                      3, true,         1,        2,   3};
  for (const auto& [encoding, hash] : {std::pair(Encoding::json, "1655212f765a889644bda090a64760ad"),
                                       std::pair(Encoding::cbor, "70b693eda9e5b900bb1db0b3353b8265")}) {
    std::string all = plan_document(tuning::samples::plan());
    for (const Json& document :
         {to_document(LookupRequest{small_graph(), "layer 3", 250, false}, encoding), to_document(answer),
          to_document(LookupAnswer{}), to_document(feed), to_document(job), to_document(JobStatus{}),
          to_document(JobEvent{9, 7, 1'700'000'000'000'000, "progress", 0.25, "verify: line\n2"}),
          to_document(Submitted{3, true, sha256("model").hex()}), to_document(Error{ErrorKind::io, "because"}),
          to_document(ServerVersion{"0.1.0", 1, answer.target, "emulated"})}) {
      all += encode_document(document, encoding);
    }
    EXPECT_EQ(hash_bytes(all).hex(), hash);
  }
}

TEST(MessagesTest, LookupRequestsAreReadStrictly) {
  const auto error_of = [](const std::string& field, const Json& value) {
    Json document = to_document(LookupRequest{small_graph(), "", 0, true}, Encoding::json);
    document[field] = value;
    return decode_message<LookupRequest>(document.dump(), Encoding::json).error();
  };
  EXPECT_EQ(error_of("dead_line", 3).message, "dead_line: unknown field");
  EXPECT_EQ(error_of("deadline_ms", -1).message, "deadline_ms: not between 0 and 600000");
  EXPECT_EQ(error_of("deadline_ms", 1e9).message, "deadline_ms: expected an integer, found number");
  EXPECT_THAT(error_of("fragment", {{"format", "other"}}).message, StartsWith("fragment: "));
  EXPECT_EQ(decode_message<LookupRequest>("{}", Encoding::json).error().message, "fragment: missing");
  EXPECT_THAT(decode_message<LookupRequest>("{\"fragment\": tru", Encoding::json).error().message, HasSubstr("byte"));
}

TEST(MessagesTest, LookupAnswersRoundTrip) {
  LookupAnswer answer;
  answer.source = LookupAnswer::Source::predicted;
  answer.fragment = hash_bytes("fragment");
  answer.family = hash_bytes("family");
  answer.target = {"h100", "sm_90a", "13.0.88", "codegen 1"};
  answer.parameter_order = {1, 0};
  answer.result_order = {2, 0, 1};
  answer.plan = tuning::samples::plan();
  answer.matched = {"device"};
  answer.differed = {"shape"};
  answer.closest_plan = hash_bytes("closest");
  answer.job = 12;
  for (const Encoding encoding : encodings) {
    const auto back = decode_message<LookupAnswer>(encode_document(to_document(answer), encoding), encoding);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(to_document(*back), to_document(answer));
    EXPECT_EQ(back->plan, answer.plan);
  }
  answer.parameter_order = {1, 1};
  EXPECT_EQ(decode_message<LookupAnswer>(to_document(answer).dump(), Encoding::json).error().message,
            "parameter_order: no permutation of the plan's parameters");
  answer.plan.reset();
  EXPECT_EQ(decode_message<LookupAnswer>(to_document(answer).dump(), Encoding::json).error().message,
            "plan: goes with every source but pending");
}

TEST(MessagesTest, TheOthersRoundTrip) {
  JobStatus job{
      7, "tune-model", "failed", 0.5, "kernel 3 of 12", R"({"a":1})", Error{ErrorKind::compile, "no"}, 3, true, 1, 2,
      3};
  EXPECT_EQ(to_document(*decode_message<JobStatus>(to_document(job).dump(), Encoding::json)), to_document(job));
  EXPECT_EQ(decode_message<JobStatus>(to_document(job).dump(), Encoding::json)->error, job.error);
  const Submitted submitted{3, true, sha256("model").hex()};
  EXPECT_EQ(to_document(*decode_message<Submitted>(to_document(submitted).dump(), Encoding::json)),
            to_document(submitted));
  const JobEvent event{9, 7, 1'700'000'000'000'000, "progress", 0.25, "verify: line\n2"};
  EXPECT_EQ(to_document(*decode_message<JobEvent>(to_document(event).dump(), Encoding::json)), to_document(event));
  const PromotionFeed feed{{{5, hash_bytes("f"), {"h100", "sm_90a", "13", "1"}, hash_bytes("p"), {}, "vacant"}}, 5};
  EXPECT_EQ(to_document(*decode_message<PromotionFeed>(to_document(feed).dump(), Encoding::json)), to_document(feed));
  const ServerVersion version{"0.1.0", 1, {"h100", "sm_90a", "13", "1"}, "emulated"};
  EXPECT_EQ(to_document(*decode_message<ServerVersion>(to_document(version).dump(), Encoding::json)),
            to_document(version));
}

TEST(MessagesTest, EveryKindOfErrorTravels) {
  for (int i = 0; i <= static_cast<int>(ErrorKind::internal); ++i) {
    const Error error{static_cast<ErrorKind>(i), "because"};
    EXPECT_EQ(decode_error(encode_document(to_document(error), Encoding::cbor), Encoding::cbor), error);
  }
  EXPECT_EQ(decode_error("<html>", Encoding::json).kind, ErrorKind::parse);
  EXPECT_EQ(decode_error(R"({"error":{"kind":"odd","message":""}})", Encoding::json).message,
            "the server's error message: error.kind: 'odd' is not a word known here");
}

TEST(MessagesTest, TextThatIsNotUtf8IsMendedInJson) {
  const Error error{ErrorKind::io, "name \xff\xfe"};
  EXPECT_THAT(decode_error(encode_document(to_document(error), Encoding::json), Encoding::json).message,
              StartsWith("name "));
}

}  // namespace
}  // namespace stitch::api
