// The API as its clients see it: every route over a real socket, and the documentation against the route table.
#include "daemon/http/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "tests/daemon/raw_http.h"
#include "tests/daemon/running_service.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::daemon {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

const std::string as_json = "Content-Type: application/json\r\n";

class RoutesTest : public testing::Test {
 protected:
  raw::Answer ask(const std::string& method, const std::string& target, const std::string& body = {},
                  const std::string& headers = {}) const {
    return raw::request(running_.socket, method, target, body, headers);
  }
  Json get(const std::string& target) const {
    const raw::Answer answer = ask("GET", target);
    EXPECT_EQ(answer.status, 200) << target << ": " << answer.body;
    return Json::parse(answer.body, nullptr, false);
  }
  static std::string lookup_body(const graph::Graph& fragment, std::int64_t deadline_ms) {
    return api::encode_document(
        api::to_document(api::LookupRequest{fragment, "test", deadline_ms, true}, graph::Encoding::json),
        graph::Encoding::json);
  }

  const TestFolder folder_;
  RunningService running_{folder_ / "stitch.db", {.work = true, .serve = true}};
};

TEST_F(RoutesTest, FromALookupToEverythingThatIsKnownOfItsPlan) {
  const raw::Answer looked_up =
      ask("POST", "/v1/lookup", lookup_body(tuning::samples::softmax(8, 64), 120'000), as_json);
  ASSERT_EQ(looked_up.status, 200) << looked_up.body;
  const auto answer = api::decode_message<api::LookupAnswer>(looked_up.body, graph::Encoding::json);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  const std::string job = std::to_string(*answer->job);
  EXPECT_EQ(running_.wait_for(*answer->job).state, "done");

  EXPECT_EQ(get("/v1/jobs/" + job)["state"], "done");
  EXPECT_EQ(get("/v1/jobs?state=done&kind=tune-fragment")["items"].size(), 1U);
  EXPECT_EQ(get("/v1/jobs?state=queued")["items"].size(), 0U);
  const std::string events = ask("GET", "/v1/jobs/" + job + "/events").body;
  EXPECT_THAT(events, HasSubstr("id: 1\nevent: queued\ndata: {"));
  EXPECT_THAT(events, HasSubstr("event: done\n"));
  const std::string resumed = ask("GET", "/v1/jobs/" + job + "/events", "", "Last-Event-ID: 2\r\n").body;
  EXPECT_THAT(resumed, testing::Not(HasSubstr("event: claimed")));
  EXPECT_THAT(resumed, HasSubstr("event: done\n"));

  const std::string plan = answer->plan->id.hex(), fragment = answer->fragment.hex();
  EXPECT_EQ(get("/v1/plans/" + plan)["id"], plan);
  EXPECT_EQ(get("/v1/plans?fragment=" + fragment + "&status=incumbent&label=predicted&device=h100")["items"].size(),
            1U);
  EXPECT_EQ(get("/v1/fragments")["items"][0]["key"], fragment);
  EXPECT_EQ(get("/v1/fragments/" + fragment)["graph"]["format"], "stitch-graph");
  EXPECT_EQ(get("/v1/promotions?after=0")["promotions"].size(), 1U);
  EXPECT_EQ(get("/v1/devices")["items"][0]["key"], "emulated");
  const raw::Answer cubin = ask("GET", "/v1/artifacts/" + answer->plan->launches[0].cubin.hex());
  EXPECT_EQ(sha256(cubin.body), answer->plan->launches[0].cubin);
  EXPECT_THAT(cubin.head, HasSubstr("X-Stitch-Kind: cubin"));
  EXPECT_THAT(ask("GET", "/metrics").body, HasSubstr("stitch_lookups_total{source=\"predicted\"} 1"));
  EXPECT_THAT(ask("GET", "/v1/version").body, HasSubstr("\"protocol\":2"));
}

TEST_F(RoutesTest, SpeaksCborWhenAsked) {
  const api::LookupRequest request{tuning::samples::softmax(8, 64), "test", 120'000, false};
  const std::string body =
      api::encode_document(api::to_document(request, graph::Encoding::cbor), graph::Encoding::cbor);
  const std::string headers = "Content-Type: application/cbor\r\nAccept: application/cbor\r\n";
  const raw::Answer answer = ask("POST", "/v1/lookup", body, headers);
  EXPECT_THAT(answer.head, HasSubstr("Content-Type: application/cbor"));
  EXPECT_TRUE(api::decode_message<api::LookupAnswer>(answer.body, graph::Encoding::cbor).ok());
  for (std::size_t size = 0; size < body.size(); size += 97) {
    const raw::Answer refused = ask("POST", "/v1/lookup", body.substr(0, size), headers);
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(api::decode_error(refused.body, graph::Encoding::cbor).kind, ErrorKind::parse) << size;
  }
}

TEST_F(RoutesTest, ModelsAreSubmittedAndTold) {
  const std::string model = graph::encode(tuning::samples::softmax(16, 64), graph::Encoding::json);
  const raw::Answer submitted = ask("POST", "/v1/models?name=a%20model.json", model);
  ASSERT_EQ(submitted.status, 202);
  const Json document = Json::parse(submitted.body);
  EXPECT_EQ(running_.wait_for(document["job"]).state, "done");
  const std::string key = document["subject"];
  EXPECT_EQ(get("/v1/models/" + key)["report"]["distinct_fragments"], 1);
  EXPECT_EQ(get("/v1/models")["items"][0]["name"], "a model.json");
}

TEST_F(RoutesTest, PromotionsWaitForTheFirstChange) {
  Json feed;
  std::thread follower([&] { feed = get("/v1/promotions?after=0&wait_ms=60000"); });
  ask("POST", "/v1/lookup", lookup_body(tuning::samples::softmax(8, 64), 120'000), as_json);
  follower.join();
  EXPECT_EQ(feed["promotions"].size(), 1U);
  EXPECT_EQ(get("/v1/promotions?after=" + feed["last"].dump() + "&wait_ms=1")["promotions"].size(), 0U);
}

TEST_F(RoutesTest, ADeadlineThatPassesIsAnsweredWithAJob) {
  const raw::Answer answer = ask("POST", "/v1/lookup", lookup_body(tuning::samples::softmax(48, 72), 0), as_json);
  EXPECT_EQ(answer.status, 202);
  const Json document = Json::parse(answer.body);
  EXPECT_EQ(document["source"], "pending");
  const std::string job = document["job"].dump();
  const raw::Answer cancelled = ask("POST", "/v1/jobs/" + job + "/cancel");
  EXPECT_THAT(cancelled.status, testing::AnyOf(200, 202));
}

struct Refused {
  std::string method, target, body, headers;
  int status;
  std::string message;
};

TEST_F(RoutesTest, WhatIsWrongIsSaid) {
  const std::string zeros(32, '0');
  const Refused cases[] = {
      {"GET", "/", "", "", 404, "no such path: /"},
      {"GET", "/v1/plans/", "", "", 404, "no such path"},
      {"GET", "/v1/jobs/1/", "", "", 404, "no such path"},
      {"GET", "/v1/jobs/1", "", "", 404, "no job 1"},
      {"GET", "/v1/jobs/one", "", "", 400, "path: id: 'one' is not a number"},
      {"GET", "/v1/jobs/99999999999999999999", "", "", 400, "path: id"},
      {"GET", "/v1/plans/" + zeros, "", "", 404, zeros},
      {"GET", "/v1/artifacts/" + zeros, "", "", 404, zeros},
      {"GET", "/v1/artifacts/..%2F..%2Fetc%2Fpasswd", "", "", 404, "no such path"},
      {"GET", "/v1/artifacts/../../../etc/passwd", "", "", 404, "no such path"},
      {"GET", "/v1/artifacts/..", "", "", 400, "path: hash: '..' is not 32 hexadecimal digits"},
      {"GET", "/v1/artifacts/%00", "", "", 400, "control character"},
      {"GET", "/v1/plans?label=best", "", "", 400, "query: label: 'best' is not a word known here"},
      {"GET", "/v1/plans?limit=0", "", "", 400, "query: limit: '0' is not a number between 1 and 1000"},
      {"GET", "/v1/plans?limt=5", "", "", 400, "query: unknown field 'limt'"},
      {"GET", "/v1/promotions?wait_ms=60001", "", "", 400, "query: wait_ms"},
      {"GET", "/v1/jobs/1/events", "", "", 404, "no job 1"},
      {"GET", "/v1/events", "", "Last-Event-ID: x\r\n", 400, "Last-Event-ID: 'x'"},
      {"DELETE", "/v1/jobs/1", "", "", 405, "only GET"},
      {"GET", "/v1/lookup", "", "", 405, "only POST"},
      {"POST", "/v1/lookup", "{", as_json, 400, "byte 2"},
      {"POST", "/v1/lookup", "[]", as_json, 400, "document: expected an object, found array"},
      {"POST", "/v1/lookup", "{}", as_json, 400, "fragment: missing"},
      {"POST", "/v1/lookup", "{}", "Content-Type: text/plain\r\n", 415, "text/plain"},
      {"POST", "/v1/lookup", "{\"a\":1,\"a\":2}", as_json, 400, "twice"},
      {"POST", "/v1/lookup", std::string(100'000, '['), as_json, 413, "nested more than"},
      {"POST", "/v1/fragments", R"({"format":"stitch-graph","version":9})", as_json, 400, "version"},
      {"POST", "/v1/models", "", "", 400, "the model is empty"},
      {"POST", "/v1/models?trials=8", "x", "", 400, "8 trials, and this server has no device that measures"},
      {"POST", "/v1/models?trials=many", "x", "", 400, "trials"},
      {"POST", "/v1/fragments?trials=-1", "{}", "", 400, "trials"},
      {"POST", "/v1/jobs/7/cancel", "", "", 404, "no job 7"},
  };
  for (const Refused& refused : cases) {
    const raw::Answer answer = ask(refused.method, refused.target, refused.body, refused.headers);
    EXPECT_EQ(answer.status, refused.status) << refused.method << " " << refused.target << ": " << answer.body;
    EXPECT_THAT(api::decode_error(answer.body, graph::Encoding::json).message, HasSubstr(refused.message));
  }
}

/// "GET /v1/jobs" and so on, as docs/openapi.yaml has them.
std::set<std::string> documented_operations() {
  std::ifstream file(STITCH_SOURCE_DIR "/docs/openapi.yaml");
  const std::regex path(R"(^  (/\S*):$)"), method("^    (get|post|put|delete|patch):$");
  std::set<std::string> operations;
  std::string current;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (std::regex_match(line, match, path)) current = match[1];
    if (!std::regex_match(line, match, method)) continue;
    std::string verb = match[1];
    for (char& c : verb) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    operations.insert(verb + " " + current);
  }
  return operations;
}

TEST(RouteTableTest, IsWhatTheDocumentationSays) {
  std::set<std::string> operations;
  for (const Route& route : routes()) {
    EXPECT_TRUE(operations.insert(std::string(route.method) + " " + std::string(route.pattern)).second);
  }
  EXPECT_EQ(documented_operations(), operations);
  std::ifstream file(STITCH_SOURCE_DIR "/docs/api.md");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  for (const std::string& operation : operations) EXPECT_THAT(text, HasSubstr("`" + operation));
}

}  // namespace
}  // namespace stitch::daemon
