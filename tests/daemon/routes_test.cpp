// The API as its clients see it: every route over a real socket, and the documentation against the route table.
#include "daemon/http/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "db/sqlite.h"
#include "graph/builder.h"
#include "graph/canonical.h"
#include "tests/base/forged_bytes.h"
#include "tests/daemon/lookup_request.h"
#include "tests/daemon/raw_http.h"
#include "tests/daemon/running_service.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::daemon {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

const std::string as_json = "Content-Type: application/json\r\n";
const std::string as_bytes = "Content-Type: application/octet-stream\r\n";

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
  EXPECT_THAT(ask("GET", "/v1/version").body, HasSubstr("\"protocol\":3"));
}

TEST_F(RoutesTest, AMissThatIsOnlyAskedForBeginsNothing) {
  api::LookupRequest request{tuning::samples::softmax(8, 68), "test", 0, true};  // improve, too
  request.predict = false;
  const std::string body =
      api::encode_document(api::to_document(request, graph::Encoding::json), graph::Encoding::json);
  const raw::Answer answer = ask("POST", "/v1/lookup", body, "Content-Type: application/json\r\n");
  EXPECT_EQ(answer.status, 202) << answer.body;
  EXPECT_EQ(get("/v1/jobs")["items"].size(), 0U);
  EXPECT_EQ(get("/v1/plans")["items"].size(), 0U);
  // It is told from a deadline that has passed, and a question of somebody who only wants to know is no miss.
  request.explain = true;
  const std::string question =
      api::encode_document(api::to_document(request, graph::Encoding::json), graph::Encoding::json);
  EXPECT_EQ(ask("POST", "/v1/lookup", question, as_json).status, 202);
  const std::string metrics = ask("GET", "/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("\nstitch_lookups_total{source=\"missed\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\nstitch_lookups_total{source=\"pending\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("\nstitch_serving_misses_total 1\n"));
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
  const raw::Answer submitted = ask("POST", "/v1/models?name=a%20model.json", model, as_bytes);
  ASSERT_EQ(submitted.status, 202);
  const Json document = Json::parse(submitted.body);
  EXPECT_EQ(running_.wait_for(document["job"]).state, "done");
  const std::string key = document["subject"];
  EXPECT_EQ(get("/v1/models/" + key)["report"]["distinct_fragments"], 1);
  EXPECT_EQ(get("/v1/models")["items"][0]["name"], "a model.json");
}

TEST_F(RoutesTest, AModelUnderConstraintsIsAnother) {
  const std::string model = graph::encode(tuning::samples::softmax(16, 64), graph::Encoding::json);
  const auto submit = [&](const std::string& query) {
    const raw::Answer submitted = ask("POST", "/v1/models?name=m.json" + query, model, as_bytes);
    EXPECT_EQ(submitted.status, 202) << submitted.body;
    const Json document = Json::parse(submitted.body);
    EXPECT_EQ(running_.wait_for(document["job"]).state, "done");
    return get("/v1/models/" + document["subject"].get<std::string>());
  };
  const Json free = submit(""), fixed = submit("&constraints=deterministic");
  EXPECT_NE(free["key"], fixed["key"]);
  EXPECT_EQ(free["report"]["constraints"], "");
  EXPECT_EQ(fixed["report"]["constraints"], "deterministic");
  ASSERT_NE(free["parts"][0]["fragment"], fixed["parts"][0]["fragment"]);
  const Json fragment = get("/v1/fragments/" + fixed["parts"][0]["fragment"].get<std::string>());
  EXPECT_EQ(fragment["graph"]["constraints"], Json{"deterministic"}) << fragment;
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
  const raw::Answer cancelled = ask("POST", "/v1/jobs/" + job + "/cancel", "", as_json);
  EXPECT_THAT(cancelled.status, testing::AnyOf(200, 202));
}

Hash128 key_of(const graph::Graph& fragment) { return graph::canonicalise(fragment)->key; }

/// The plan that is answered to a look-up.
api::Plan plan_of(const raw::Answer& answer) {
  const auto read = api::decode_message<api::LookupAnswer>(answer.body, graph::Encoding::json);
  EXPECT_TRUE(read.ok() && read->plan) << answer.body;
  return read.ok() && read->plan ? *read->plan : api::Plan();
}

// As it was done to version 0.1.0: somebody who tuned the same fragment elsewhere sends in other bytes under the names
// of its PTX and cubin before this daemon makes them. Then those were served, and called verified.
TEST_F(RoutesTest, WhatAClientSendsIsNeverServedAsMachineCode) {
  const std::string body = lookup_body(tuning::samples::softmax(8, 64), 120'000);
  api::KernelLaunch elsewhere;
  std::string ptx, cubin;
  {
    const RunningService other(folder_ / "other.db", {.work = false, .serve = true});
    elsewhere = plan_of(raw::request(other.socket, "POST", "/v1/lookup", body, as_json)).launches.at(0);
    ptx = raw::request(other.socket, "GET", "/v1/artifacts/" + elsewhere.ptx.hex()).body;
    cubin = raw::request(other.socket, "GET", "/v1/artifacts/" + elsewhere.cubin.hex()).body;
  }
  const std::string forged_ptx = ForgedBytes::like(ptx, "// abs instead of ex2"),
                    forged_cubin = ForgedBytes::like(cubin, "\xee");
  ASSERT_EQ(hash_bytes(forged_ptx), hash_bytes(ptx)) << "the attack is a real one";
  ASSERT_EQ(hash_bytes(forged_cubin), hash_bytes(cubin));
  for (const std::string& sent : {forged_ptx, forged_cubin, ptx, cubin}) {
    const raw::Answer taken = ask("POST", "/v1/models?name=model.json", sent, as_bytes);
    ASSERT_EQ(taken.status, 202) << taken.body;
    EXPECT_EQ(running_.wait_for(Json::parse(taken.body)["job"]).state, "failed");
    EXPECT_EQ(ask("GET", "/v1/artifacts/" + sha256(sent).hex()).status, 404) << "an upload is no artifact";
  }
  const api::KernelLaunch launch = plan_of(ask("POST", "/v1/lookup", body, as_json)).launches.at(0);
  EXPECT_EQ(ask("GET", "/v1/artifacts/" + launch.ptx.hex()).body, ptx);
  EXPECT_EQ(ask("GET", "/v1/artifacts/" + launch.cubin.hex()).body, cubin);
  EXPECT_THAT(ask("GET", "/v1/artifacts/" + launch.cubin.hex()).head, HasSubstr("X-Stitch-Kind: cubin"));
  // The graph is what a client sent, in another form: not served here either.
  const auto stored = running_.store->get_fragment(key_of(tuning::samples::softmax(8, 64)));
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(ask("GET", "/v1/artifacts/" + sha256(stored->graph).hex()).status, 404);

  const std::int64_t later = std::int64_t{1} << 60;
  const auto pruned = running_.store->prune({later, later, later});
  ASSERT_TRUE(pruned.ok()) << pruned.error().message;
  EXPECT_EQ(pruned->models, 4);
  EXPECT_EQ(ask("GET", "/v1/artifacts/" + launch.ptx.hex()).body, ptx);
}

/// x + a table of numbers that the client chooses.
graph::Graph plus_table(const std::string& bytes) {
  graph::Builder builder;
  graph::ConstantAttributes table;
  table.type = {graph::DType::u32, {std::ssize(bytes) / 4}};
  table.data.resize(bytes.size());
  std::memcpy(table.data.data(), bytes.data(), bytes.size());
  const graph::Value x = builder.parameter(table.type.dtype, table.type.dims, "x");
  return *builder.finish({builder.binary(graph::Op::add, x, builder.constant(std::move(table)))});
}

// Keys of fragments are no cryptographic hashes: two graphs of one key are made in no time, too.
TEST_F(RoutesTest, AFragmentThatIsForgedToAnothersKeyGetsNothingOfIt) {
  std::string table;
  for (int i = 0; i < 2048; ++i) table += static_cast<char>(i * 7);
  const graph::Graph genuine = plus_table(table), forged = plus_table(ForgedBytes::like(table, "other numbers"));
  ASSERT_EQ(key_of(genuine), key_of(forged)) << "the attack is a real one";
  ASSERT_EQ(ask("POST", "/v1/lookup", lookup_body(genuine, 120'000), as_json).status, 200);
  const raw::Answer refused = ask("POST", "/v1/lookup", lookup_body(forged, 120'000), as_json);
  EXPECT_EQ(refused.status, 409) << refused.body;
  EXPECT_THAT(refused.body, HasSubstr("another graph is stored under this key"));
  EXPECT_EQ(ask("POST", "/v1/fragments", graph::encode(forged, graph::Encoding::json), as_json).status, 409);
  EXPECT_EQ(ask("POST", "/v1/lookup", lookup_body(genuine, 120'000), as_json).status, 200) << "that one is as it was";
}

// Answers are kept by their requests' bytes; who writes the same otherwise is answered by the store, and nothing is
// planned again.
TEST_F(RoutesTest, AnEqualFragmentInOtherBytesHits) {
  const auto predicted = [&] {
    const std::string text = ask("GET", "/metrics").body;
    const std::string name = "\nstitch_lookups_total{source=\"predicted\"} ";
    const std::size_t at = text.find(name);
    return at == std::string::npos ? -1 : std::stoi(text.substr(at + name.size()));
  };
  const std::string body = lookup_body(tuning::samples::scaled_difference(640), 120'000);
  const raw::Answer first = ask("POST", "/v1/lookup", body, as_json);
  ASSERT_EQ(first.status, 200) << first.body;
  running_.wait_for(Json::parse(first.body)["job"]);
  ASSERT_EQ(predicted(), 1);
  Json document = Json::parse(body);
  const std::string spread = document.dump(3);
  std::string turned = "{";  // the fields in the opposite order
  for (auto field = document.rbegin(); field != document.rend(); ++field)
    turned += (turned.size() == 1 ? "\"" : ",\"") + field.key() + "\":" + field.value().dump();
  turned += "}";
  const std::vector<std::uint8_t> cbor = Json::to_cbor(document);
  const std::string mirrored = lookup_body(tuning::samples::scaled_difference(640, true), 120'000);
  const std::string plan = Json::parse(ask("POST", "/v1/lookup", body, as_json).body)["plan"]["id"];
  for (const auto& [bytes, type] : std::initializer_list<std::pair<std::string, std::string>>{
           {spread, as_json},
           {turned, as_json},
           {{cbor.begin(), cbor.end()}, "Content-Type: application/cbor\r\nAccept: application/json\r\n"},
           {mirrored, as_json}}) {
    const raw::Answer again = ask("POST", "/v1/lookup", bytes, type);
    ASSERT_EQ(again.status, 200) << again.body;
    const Json answer = Json::parse(again.body);
    EXPECT_EQ(answer["source"], "store");
    EXPECT_EQ(answer["plan"]["id"], plan);
    EXPECT_EQ(answer["parameter_order"] == Json::parse(first.body)["parameter_order"], bytes != mirrored)
        << "an answer is for its own order of arguments";
  }
  EXPECT_EQ(predicted(), 1);
}

TEST_F(RoutesTest, ADamagedArtifactIsMadeAgain) {
  const std::string body = lookup_body(tuning::samples::softmax(8, 64), 120'000);
  const raw::Answer looked_up = ask("POST", "/v1/lookup", body, as_json);
  const Sha256 name = plan_of(looked_up).launches.at(0).cubin;
  running_.wait_for(Json::parse(looked_up.body)["job"]);
  const std::string cubin = ask("GET", "/v1/artifacts/" + name.hex()).body;
  {
    auto connection =
        db::sqlite::Connection::open({folder_ / "stitch.db", db::sqlite::OpenOptions::Mode::read_write, 10'000, 0, ""});
    ASSERT_TRUE(connection.ok());
    ASSERT_TRUE((*connection)->execute("UPDATE artifact SET data = zeroblob(20) WHERE hash = ?", name).ok());
  }
  const raw::Answer damaged = ask("GET", "/v1/artifacts/" + name.hex());
  EXPECT_EQ(damaged.status, 500) << damaged.body;
  EXPECT_EQ(Json::parse(damaged.body)["error"]["kind"], "corrupt") << "the server is not unavailable";
  const std::string message = Json::parse(damaged.body)["error"]["message"];
  EXPECT_THAT(message, HasSubstr("makes it again"));
  const std::size_t job = message.find("; job ");
  ASSERT_NE(job, std::string::npos);
  EXPECT_EQ(running_.wait_for(std::stoll(message.substr(job + 6))).state, "done");
  EXPECT_EQ(ask("GET", "/v1/artifacts/" + name.hex()).body, cubin);
  EXPECT_EQ(plan_of(ask("POST", "/v1/lookup", body, as_json)).launches.at(0).cubin, name);
}

TEST_F(RoutesTest, ConstantsCountAsWhatTheyAreInMemory) {
  const std::string base64((std::int64_t{64} << 20) / 3 * 4 + 8, 'A');
  const std::string dense = fmt::format(
      R"({{"fragment":{{"format":"stitch-graph","version":1,"nodes":[{{"op":"constant","attributes":{{"type":"u8[{}]",)"
      R"("data":{{"base64":"{}","hash":"0"}}}}}}],"results":[0]}},"deadline_ms":0,"improve":false}})",
      (std::int64_t{64} << 20) + 1, base64);
  const raw::Answer large = ask("POST", "/v1/lookup", dense, as_json);
  EXPECT_EQ(large.status, 413) << large.body;
  EXPECT_THAT(large.body, HasSubstr("constants of more than 67108864 bytes"));
  EXPECT_EQ(ask("POST", "/v1/lookup", raw::splat_lookup(std::int64_t{1} << 28), as_json).status, 202);
}

struct Refused {
  std::string method, target, body, headers;
  int status;
  std::string message;
};

TEST_F(RoutesTest, WhatIsWrongIsSaid) {
  const std::string zeros(32, '0'), name(64, '0');
  const Refused cases[] = {
      {"GET", "/", "", "", 404, "no such path: /"},
      {"GET", "/v1/plans/", "", "", 404, "no such path"},
      {"GET", "/v1/jobs/1/", "", "", 404, "no such path"},
      {"GET", "/v1/jobs/1", "", "", 404, "no job 1"},
      {"GET", "/v1/jobs/one", "", "", 400, "path: id: 'one' is not a number"},
      {"GET", "/v1/jobs/99999999999999999999", "", "", 400, "path: id"},
      {"GET", "/v1/plans/" + zeros, "", "", 404, zeros},
      {"GET", "/v1/artifacts/" + name, "", "", 404, name},
      {"GET", "/v1/models/" + name, "", "", 404, name},
      {"GET", "/v1/models/" + zeros, "", "", 400, "64 hexadecimal digits"},
      {"GET", "/v1/artifacts/..%2F..%2Fetc%2Fpasswd", "", "", 404, "no such path"},
      {"GET", "/v1/artifacts/../../../etc/passwd", "", "", 404, "no such path"},
      {"GET", "/v1/artifacts/..", "", "", 400, "path: hash: '..' is not the 64 hexadecimal digits of a SHA-256"},
      {"GET", "/v1/artifacts/%00", "", "", 400, "control character"},
      {"GET", "/v1/plans?label=best", "", "", 400, "query: label: 'best' is not a word known here"},
      {"POST", "/v1/models?constraints=quick", "x", as_bytes, 400,
       "query: constraints: 'quick' is no constraint; there are deterministic, batch_invariant"},
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
      {"POST", "/v1/models", "", as_bytes, 400, "the model is empty"},
      {"POST", "/v1/programs", "", as_bytes, 400, "the model is empty"},
      {"POST", "/v1/programs?trials=8", "x", as_bytes, 400, "query: unknown field 'trials'"},
      {"POST", "/v1/programs?name=m.hlo", "HloModule broken", as_bytes, 400, "ENTRY"},
      {"POST", "/v1/programs?products=cublas", "x", as_bytes, 400, "query: products: 'cublas'"},
      {"POST", "/v1/programs", "x", "Content-Type: text/plain\r\n", 415, "text/plain"},
      {"POST", "/v1/models?trials=8", "x", as_bytes, 400, "8 trials, and this server has no device that measures"},
      {"POST", "/v1/models?trials=many", "x", as_bytes, 400, "trials"},
      {"POST", "/v1/fragments?trials=-1", "{}", as_json, 400, "trials"},
      {"POST", "/v1/jobs/7/cancel", "", as_json, 404, "no job 7"},
      // Without a type, or with one that a form of any web page has, nothing is done.
      {"POST", "/v1/models", "x", "", 415, "a POST needs a Content-Type"},
      {"POST", "/v1/models", "x", "Content-Type: text/plain\r\n", 415, "text/plain"},
      {"POST", "/v1/models", "x", "Content-Type: multipart/form-data; boundary=x\r\n", 415, "multipart/form-data"},
      {"POST", "/v1/fragments", "{}", "", 415, "a POST needs a Content-Type"},
      {"POST", "/v1/lookup", "{}", "", 415, "a POST needs a Content-Type"},
      {"POST", "/v1/lookup", "{}", as_bytes, 415, "application/octet-stream"},
      {"POST", "/v1/jobs/7/cancel", "", "", 415, "a POST needs a Content-Type"},
      {"POST", "/v1/jobs/7/cancel", "", "Content-Type: application/x-www-form-urlencoded\r\n", 415, "form"},
      {"GET", "/v1/artifacts/" + zeros, "", "", 400, "64 hexadecimal digits"},
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
