// Programs of whole models from a real stitchd: one request, run without the server, the plans that are served now.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "client/client.h"
#include "client/emulated_executor.h"
#include "client/program.h"
#include "client/stitch.h"
#include "db/sqlite_store.h"
#include "graph/codec/codec.h"
#include "profiler/device/emulated_device.h"
#include "tests/base/test_folder.h"
#include "tests/base/test_variable.h"
#include "tests/client/program_values.h"
#include "tests/daemon/raw_http.h"
#include "tests/daemon/stitchd_process.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::client {
namespace {

using testing::HasSubstr;
using testing::Not;

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
  const std::vector<Memory> inputs = random_inputs(runner.program());
  std::vector<Memory> outputs;
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  for (const Memory& input : inputs) from.emplace_back(input.span());
  for (const api::ProgramPort& port : runner.outputs()) to.emplace_back(outputs.emplace_back(port.type.bytes()).span());
  const Status ran = runner.run(from, to);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  expect_reference(model, inputs, outputs);
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

TEST_F(ProgramFetchDaemon, ConstraintsAreOfEveryFragment) {
  const std::string bytes = graph::encode(model, graph::Encoding::cbor);
  FetchOptions options{.deadline_ms = 120'000, .improve = false, .name = "layers.cbor"};
  options.constraints.deterministic = true;
  const auto made = client->make_program(bytes, options);
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_FALSE(made->fragments.empty());
  for (const api::ProgramFragment& fragment : made->fragments) {
    EXPECT_TRUE(fragment.graph.constraints.deterministic);
    EXPECT_TRUE(fragment.plan.has_value()) << fragment.why_none;
  }
}

TEST_F(ProgramFetchDaemon, WhatIsReplayedIsStored) {
  const graph::Graph fragment = tuning::samples::softmax(8, 72);
  FetchOptions options{.deadline_ms = 120'000, .predict = false, .name = "replayed"};
  const auto missed = client->fetch(fragment, options);
  ASSERT_FALSE(missed.ok());
  EXPECT_EQ(missed.error().kind, ErrorKind::not_found);
  EXPECT_THAT(missed.error().message, HasSubstr("is stored"));
  const std::string bytes = graph::encode(fragment, graph::Encoding::cbor);
  const auto none = client->make_program(bytes, options);
  ASSERT_TRUE(none.ok()) << none.error().message;
  ASSERT_EQ(none->fragments.size(), 1U);
  EXPECT_FALSE(none->fragments[0].plan);
  EXPECT_THAT(none->fragments[0].why_none, HasSubstr("is stored"));
  EXPECT_FALSE(client->fetch(fragment, options).ok()) << "asking twice predicts nothing either";

  options.predict = true;
  options.improve = false;
  const auto predicted = client->fetch(fragment, options);
  ASSERT_TRUE(predicted.ok()) << predicted.error().message;
  ::setenv("STITCH_MODE", "replay", 1);  // by the environment, of whatever asks
  const auto found = client->fetch(fragment, options);
  const auto other = client->fetch(tuning::samples::softmax(8, 80), options);
  ::unsetenv("STITCH_MODE");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->plan->id, predicted->plan->id);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::not_found);
}

TEST_F(ProgramFetchDaemon, NoServerIsAskedWhereTheProcessIsOff) {
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  const FetchOptions options{.deadline_ms = 120'000, .improve = false};
  const struct {
    const char* mode;
    std::optional<ErrorKind> refusal;
  } cases[] = {{"off", ErrorKind::unavailable}, {"reply", ErrorKind::invalid_argument}, {"tune", {}}, {"", {}}};
  for (const auto& each : cases) {
    const TestVariable mode("STITCH_MODE", each.mode);
    const auto fetched = client->fetch(fragment, options);
    EXPECT_EQ(fetched.ok(), !each.refusal) << each.mode;
    if (each.refusal && !fetched.ok()) {
      EXPECT_EQ(fetched.error().kind, *each.refusal);
      EXPECT_EQ(Client::open({.server = "unix:/nowhere/stitchd.sock"}).error().message, fetched.error().message);
    }
  }
}

TEST_F(ProgramFetchDaemon, WhoMultipliesMatricesCanBeSaid) {
  const std::string bytes = graph::encode(model, graph::Encoding::cbor);
  FetchOptions options{.deadline_ms = 120'000, .improve = false, .name = "layers.cbor"};
  const auto calls = [&](const std::string& products) {
    options.products = products;
    const auto made = client->make_program(bytes, options);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? made->calls.size() : 0;
  };
  EXPECT_GT(calls(""), 0U) << "the server's own choice";
  EXPECT_EQ(calls("library"), calls(""));
  EXPECT_EQ(calls("ours"), 0U);
  options.products = "nobody & co";
  const auto refused = client->make_program(bytes, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid_argument);
  EXPECT_THAT(refused.error().message, HasSubstr("products: 'nobody & co'"));
}

TEST_F(ProgramFetchDaemon, TheCInterfaceRunsPrograms) {
  stitch_client* c = nullptr;
  const std::string server = "unix://" + daemon.socket.string(), cache = (folder / "cache").string();
  ASSERT_EQ(stitch_client_open(server.c_str(), cache.c_str(), &c), STITCH_OK) << stitch_last_error();
  const std::string bytes = graph::encode(model, graph::Encoding::cbor);
  stitch_program* program = nullptr;
  const auto fetch = [&](const char* products, stitch_device device) {
    return stitch_program_fetch(c, "layers.cbor", bytes.data(), bytes.size(), products, device, 0, 120'000, &program);
  };
  EXPECT_EQ(fetch("nobody", STITCH_DEVICE_EMULATED), STITCH_INVALID_ARGUMENT);
  EXPECT_EQ(program, nullptr);
  ASSERT_EQ(fetch("ours", STITCH_DEVICE_EMULATED), STITCH_OK) << stitch_last_error();
  stitch_program_info about{};
  EXPECT_EQ(stitch_program_get_info(program, &about), STITCH_INVALID_ARGUMENT) << "size is not set";
  about.size = sizeof about;
  ASSERT_EQ(stitch_program_get_info(program, &about), STITCH_OK);
  EXPECT_EQ(std::string(about.id).size(), 32U);
  EXPECT_EQ(about.can_launch, 0) << "the emulated device has no addresses";
  EXPECT_EQ(about.fallbacks, 0);

  std::vector<Memory> inputs, outputs;
  std::vector<const void*> from;
  std::vector<void*> to;
  ASSERT_EQ(stitch_program_input_count(program), model.parameters().size());
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const TensorType& type = model.node(model.parameters()[i]).type();
    ASSERT_EQ(stitch_program_input_bytes(program, i), type.bytes());
    profiler::InputSource(type, profiler::Distribution::mixed, i, {})(0, inputs.emplace_back(type.bytes()).span());
    from.push_back(inputs.back().data);
  }
  for (std::size_t i = 0; i < stitch_program_output_count(program); ++i)
    to.push_back(outputs.emplace_back(stitch_program_output_bytes(program, i)).data);
  EXPECT_EQ(stitch_program_input_bytes(program, 99), 0);
  EXPECT_STREQ(stitch_program_output_name(program, 99), "");
  ASSERT_EQ(stitch_program_run(program, from.data(), to.data()), STITCH_OK) << stitch_last_error();
  expect_reference(model, inputs, outputs);
  std::vector<std::uint64_t> addresses(std::max(from.size(), to.size()), 4096);
  EXPECT_EQ(stitch_program_launch(program, addresses.data(), addresses.data(), nullptr), STITCH_UNSUPPORTED);
  EXPECT_THAT(stitch_last_error(), HasSubstr("no addresses to launch with"));
  EXPECT_EQ(stitch_program_run(program, nullptr, to.data()), STITCH_INVALID_ARGUMENT);
  stitch_program_release(program);
  stitch_program_release(nullptr);
  EXPECT_EQ(stitch_program_open("nothing", 7, STITCH_DEVICE_EMULATED, 0, &program), STITCH_PARSE);
  EXPECT_EQ(stitch_program_open("nothing", 7, static_cast<stitch_device>(7), 0, &program), STITCH_INVALID_ARGUMENT);
  stitch_client_close(c);
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
  const auto lean = client->program(key, api::CodeInside::none);
  ASSERT_TRUE(lean.ok());
  EXPECT_EQ(lean->id, fetched->id);
  EXPECT_EQ(lean->artifacts.size(), 0U);
  auto assembly = client->program(key, api::CodeInside::ptx);
  ASSERT_TRUE(assembly.ok());
  EXPECT_EQ(assembly->id, fetched->id);
  EXPECT_LT(assembly->artifacts.size(), fetched->artifacts.size());
  EXPECT_EQ(client->program(key, api::CodeInside::cubin)->artifacts.size() + assembly->artifacts.size(),
            fetched->artifacts.size());

  EXPECT_TRUE(daemon.terminate().success());
  profiler::EmulatedDevice device;
  EmulatedExecutor executor(device);
  const auto runner = ProgramRunner::open(*std::move(fetched), executor);
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  EXPECT_EQ((*runner)->fallbacks().size(), 0U);
  expect_reference(model, **runner);
  EXPECT_TRUE(ProgramRunner::open(*std::move(assembly), executor).ok()) << "PTX is what the emulated device runs";
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
  const auto lean = client->program_unless(key, first->tag, api::CodeInside::none);
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
