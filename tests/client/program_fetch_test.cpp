// Programs of whole models from a real stitchd: one request, run without the server, the plans that are served now.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/clock.h"
#include "client/client.h"
#include "client/emulated_executor.h"
#include "client/program.h"
#include "db/sqlite_store.h"
#include "graph/codec/codec.h"
#include "graph/literal.h"
#include "graph/reference/evaluate.h"
#include "profiler/device/emulated_device.h"
#include "profiler/verify/input_source.h"
#include "tests/base/test_folder.h"
#include "tests/daemon/raw_http.h"
#include "tests/daemon/stitchd_process.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::client {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Host memory of one tensor.
struct HostBuffer {
  explicit HostBuffer(std::int64_t size)
      : bytes(size), data(static_cast<std::byte*>(std::aligned_alloc(256, api::arena_bytes_of(size)))) {}
  HostBuffer(HostBuffer&& other) noexcept : bytes(other.bytes), data(std::exchange(other.data, nullptr)) {}
  ~HostBuffer() { std::free(data); }
  [[nodiscard]] std::span<std::byte> span() const { return {data, bytes}; }
  std::size_t bytes;
  std::byte* data;
};

class ProgramFetchDaemon : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(daemon.ready());
    auto opened = Client::open({.server = "unix://" + daemon.socket.string(), .cache = folder / "cache"});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    client = *std::move(opened);
  }

  /// Lets the daemon tune the model; its key.
  Sha256 tuned(const graph::Graph& graph, std::string_view name, const graph::Constraints& constraints = {}) const {
    const auto submitted = client->submit_model(graph::encode(graph, graph::Encoding::json), name, 0, constraints);
    EXPECT_TRUE(submitted.ok()) << submitted.error().message;
    EXPECT_TRUE(client->follow(submitted->job, 0, [](const api::JobEvent&) { return true; }).ok());
    EXPECT_EQ(client->job(submitted->job)->state, "done");
    return *Sha256::from_hex(submitted->subject);
  }

  std::unique_ptr<db::Store> store() const {
    static const SystemClock clock;
    db::SqliteOptions options;
    options.path = daemon.database;
    auto opened = db::open_sqlite_store(options, clock);
    EXPECT_TRUE(opened.ok());
    return *std::move(opened);
  }

  daemon::raw::Answer ask(const std::string& method, const std::string& target, const std::string& headers = {},
                          const std::string& body = {}) const {
    return daemon::raw::request(daemon.socket, method, target, body, headers);
  }

  const TestFolder folder;
  const std::filesystem::path made = [this] {
    std::filesystem::create_directories(folder / "");
    return folder / "";
  }();
  const daemon::StitchdProcess daemon{folder / "", {"--workers", "1"}};
  std::unique_ptr<Client> client;
  const graph::Graph model = tuning::samples::layered_model(3);
};

/// The program's results beside the float64 reference of the whole model.
void expect_reference(const graph::Graph& model, ProgramRunner& runner) {
  std::vector<HostBuffer> inputs, outputs;
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  std::vector<graph::Tensor> arguments;
  for (const api::ProgramPort& port : runner.inputs()) {
    inputs.emplace_back(port.type.bytes());
    profiler::InputSource(port.type, profiler::Distribution::mixed, inputs.size(), {})(0, inputs.back().span());
    from.emplace_back(inputs.back().span());
    arguments.push_back(graph::tensor_from_bytes(port.type, graph::Box::whole(port.type.dims), from.back()));
  }
  for (const api::ProgramPort& port : runner.outputs()) {
    outputs.emplace_back(port.type.bytes());
    to.emplace_back(outputs.back().span());
  }
  const Status ran = runner.run(from, to);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  graph::EvaluateOptions options;
  options.bounds = true;
  options.error_model.serial_additions = 64;
  const auto expected = graph::evaluate(model, arguments, options);
  ASSERT_TRUE(expected.ok());
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    const graph::TensorType& type = runner.outputs()[r].type;
    const graph::Tensor found = graph::tensor_from_bytes(type, graph::Box::whole(type.dims), outputs[r].span());
    for (std::int64_t i = 0; i < type.elements(); ++i)
      ASSERT_TRUE(graph::accepts((*expected)[r].at(i), (*expected)[r].bound(i), found.at(i))) << r << ", " << i;
  }
}

TEST_F(ProgramFetchDaemon, AModelThatWasNeverTunedHasAProgram) {
  const std::string bytes = graph::encode(model, graph::Encoding::cbor);
  const FetchOptions options{.deadline_ms = 120'000, .improve = false, .name = "layers.cbor"};
  auto made = client->make_program(bytes, options);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->model, "layers.cbor");
  EXPECT_FALSE(made->artifacts.empty());
  for (const api::ProgramFragment& fragment : made->fragments) EXPECT_TRUE(fragment.plan.has_value());
  EXPECT_FALSE(client->program(sha256(bytes)).ok()) << "nothing is stored of it but plans";

  // Asked again it has the same plans, which no prediction had to make.
  const auto again = client->make_program(bytes, options);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->id, made->id);
  for (std::size_t i = 0; i < made->fragments.size(); ++i)
    EXPECT_EQ(again->fragments[i].plan->id, made->fragments[i].plan->id);

  profiler::EmulatedDevice device;
  EmulatedExecutor executor(device);
  auto runner = ProgramRunner::open(*std::move(made), executor);
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  EXPECT_TRUE((*runner)->fallbacks().empty());
  expect_reference(model, **runner);
}

TEST_F(ProgramFetchDaemon, AModelThatCannotBeReadHasNone) {
  const auto made = client->make_program("HloModule broken", {.name = "broken.hlo.txt"});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::parse);
  EXPECT_THAT(made.error().message, HasSubstr("ENTRY"));
}

TEST_F(ProgramFetchDaemon, OneRequestHasAllAndItRunsWithoutTheServer) {
  const auto before = client->program(sha256(graph::encode(model, graph::Encoding::json)));
  ASSERT_FALSE(before.ok());
  EXPECT_EQ(before.error().kind, ErrorKind::not_found);
  const Sha256 key = tuned(model, "layers.json");
  EXPECT_EQ(key, sha256(graph::encode(model, graph::Encoding::json))) << "whoever has the model knows the key";
  auto fetched = client->program(key);
  ASSERT_TRUE(fetched.ok()) << fetched.error().message;
  EXPECT_EQ(fetched->model, "layers.json");
  EXPECT_EQ(fetched->fragments.size(), 3U);
  for (const api::ProgramFragment& fragment : fetched->fragments) {
    ASSERT_TRUE(fragment.plan) << fragment.why_none;
    EXPECT_GT(fragment.plan->verified_share, 0);
  }
  EXPECT_GE(fetched->artifacts.size(), 6U) << "PTX and cubin of each";
  const auto lean = client->program(key, false);
  ASSERT_TRUE(lean.ok());
  EXPECT_EQ(lean->id, fetched->id);
  EXPECT_EQ(lean->artifacts.size(), 0U);

  EXPECT_TRUE(daemon.terminate().success());
  profiler::EmulatedDevice device;
  EmulatedExecutor executor(device);
  const auto runner = ProgramRunner::open(*std::move(fetched), executor);
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  EXPECT_EQ((*runner)->fallbacks().size(), 0U);
  expect_reference(model, **runner);
  EXPECT_FALSE(ProgramRunner::open(*lean, executor).ok()) << "there is no code, and nobody to ask";
}

TEST_F(ProgramFetchDaemon, ItsPlansAreThoseThatAreServedNow) {
  const Sha256 key = tuned(model, "layers.json");
  const auto first = client->program(key);
  ASSERT_TRUE(first.ok());
  const Hash128 fragment = first->fragments[1].key, plan = first->fragments[1].plan->id;
  ASSERT_TRUE(store()->withdraw(plan, "the test says so", {"test", "", "", 1, "test"}).ok());
  const auto without = client->program(key);
  ASSERT_TRUE(without.ok()) << without.error().message;
  EXPECT_EQ(without->id, first->id) << "plans come and go";
  EXPECT_FALSE(without->fragments[1].plan);
  EXPECT_THAT(without->fragments[1].why_none, HasSubstr("no plan is served"));
  EXPECT_EQ(without->fragments[0].plan, first->fragments[0].plan);
  EXPECT_EQ(without->artifacts.size() + 2, first->artifacts.size());

  // What another promotes is in the next answer, and the feed tells of the fragment.
  const auto feed = client->promotions(first->fragments[2].plan->sequence, 0);
  ASSERT_TRUE(feed.ok());
  ASSERT_FALSE(feed->promotions.empty());
  EXPECT_EQ(feed->promotions.back().fragment, fragment);
}

TEST_F(ProgramFetchDaemon, WhoHasItIsToldSoUntilAPlanIsAnother) {
  const Sha256 key = tuned(model, "layers.json");
  const auto first = client->program_unless(key, "");
  ASSERT_TRUE(first.ok()) << first.error().message;
  ASSERT_TRUE(first->program);
  ASSERT_EQ(first->tag.size(), 64U);
  const auto again = client->program_unless(key, first->tag);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_FALSE(again->program);
  EXPECT_EQ(again->tag, first->tag);
  const auto lean = client->program_unless(key, first->tag, false);
  ASSERT_TRUE(lean.ok());
  EXPECT_TRUE(lean->program) << "without code it is another answer";

  const std::string target = "/v1/programs/" + key.hex();
  const daemon::raw::Answer whole = ask("GET", target);
  const daemon::raw::Answer same =
      ask("GET", target, "If-None-Match: \"none\", W/\"" + sha256(whole.body).hex() + "\"\r\n");
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.body, "");
  EXPECT_THAT(same.head, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(same.head, HasSubstr("ETag: \"" + sha256(whole.body).hex() + "\""));

  // A commit that changes nothing of it, and one that does: both by another process.
  const Hash128 plan = first->program->fragments[1].plan->id;
  db::Device another;
  another.key = another.name = "another";
  another.kind = "emulated";
  another.provenance = {"test", "", "", 1, "test"};
  ASSERT_TRUE(store()->put_device(another).ok());
  EXPECT_FALSE(client->program_unless(key, first->tag)->program);
  ASSERT_TRUE(store()->withdraw(plan, "the test says so", {"test", "", "", 1, "test"}).ok());
  const auto without = client->program_unless(key, first->tag);
  ASSERT_TRUE(without.ok());
  ASSERT_TRUE(without->program);
  EXPECT_NE(without->tag, first->tag);
  EXPECT_FALSE(without->program->fragments[1].plan);
}

TEST_F(ProgramFetchDaemon, OnlyWhatTheDaemonMadeIsServed) {
  const Sha256 key = tuned(model, "layers.json");
  const auto good = client->program(key);
  ASSERT_TRUE(good.ok());
  // Nobody can put a program there, and one that is sent as a model is none, is not outlined and is not served.
  const std::string own = api::encode_program(*good, graph::Encoding::cbor);
  const std::string cbor = "Content-Type: application/cbor\r\n";
  EXPECT_EQ(ask("POST", "/v1/programs", cbor, own).status, 400);
  EXPECT_EQ(ask("PUT", "/v1/programs/" + key.hex(), cbor, own).status, 405);
  const auto sent = client->submit_model(own, "program.cbor");
  ASSERT_TRUE(sent.ok());
  EXPECT_TRUE(client->follow(sent->job, 0, [](const api::JobEvent&) { return true; }).ok());
  EXPECT_EQ(client->job(sent->job)->state, "failed");
  EXPECT_EQ(client->program(sha256(own)).error().kind, ErrorKind::not_found);
  EXPECT_EQ(ask("GET", "/v1/artifacts/" + sha256(own).hex()).status, 404);

  EXPECT_EQ(ask("GET", "/v1/programs/abc").status, 400);
  EXPECT_EQ(ask("GET", "/v1/programs/" + key.hex() + "?code=1").status, 400) << "JSON has no bytes";
  EXPECT_EQ(ask("GET", "/v1/programs/" + key.hex() + "?code=2", "Accept: application/cbor\r\n").status, 400);
  EXPECT_EQ(ask("GET", "/v1/programs/" + key.hex() + "?plans=1").status, 400);
  EXPECT_THAT(ask("GET", "/v1/programs/" + key.hex()).body, HasSubstr("\"format\":\"stitch-program\""));
  EXPECT_THAT(ask("GET", "/v1/programs?name=layers.json").body, HasSubstr(key.hex()));
  EXPECT_THAT(ask("GET", "/v1/programs?name=other").body, Not(HasSubstr(key.hex())));
  EXPECT_EQ(ask("GET", "/v1/programs?nome=layers.json").status, 400);
}

TEST_F(ProgramFetchDaemon, AModelUnderConstraintsHasAProgramOfItsOwn) {
  graph::Constraints constraints;
  constraints.deterministic = true;
  const Sha256 plain = tuned(model, "layers.json"), strict = tuned(model, "layers.json", constraints);
  ASSERT_NE(plain, strict);
  const auto one = client->program(plain), other = client->program(strict);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE(one->id, other->id);
  for (const api::ProgramFragment& fragment : other->fragments) {
    EXPECT_TRUE(fragment.graph.constraints.deterministic);
    EXPECT_TRUE(fragment.plan) << fragment.why_none;
  }
}

}  // namespace
}  // namespace stitch::client
