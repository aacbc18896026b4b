// The client against a whole daemon in this process: fetch, run, and swaps, checked against the float64 reference.
#include "client/plan_handle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/program_in_place.h"
#include "base/random.h"
#include "base/subprocess.h"
#include "client/client.h"
#include "client/emulated_executor.h"
#include "client/open_program.h"
#include "client/plan_watcher.h"
#include "client/stitch.h"
#include "graph/builder.h"
#include "graph/codec/codec.h"
#include "graph/reference/evaluate.h"
#include "tests/base/test_variable.h"
#include "tests/daemon/running_service.h"
#include "tests/kernel/attention_graph.h"
#include "tests/kernel/example_graphs.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::client {
namespace {

using daemon::RunningService;
using testing::HasSubstr;

class ClientDaemonTest : public testing::Test {
 protected:
  void SetUp() override {
    ClientOptions options;
    options.server = server();
    options.cache = folder_ / "cache";
    auto opened = Client::open(options);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    client_ = *std::move(opened);
  }
  std::string server() const { return "unix://" + running_->socket.string(); }

  const TestFolder folder_;
  std::optional<RunningService> running_{std::in_place, folder_ / "stitch.db",
                                         daemon::RunningOptions{.work = false, .serve = true}};
  std::unique_ptr<Client> client_;
  EmulatedExecutor executor_{tuning::shared_device()};
};

/// Random arguments of a fragment of f32 tensors, and memory for its results.
struct Trial {
  explicit Trial(const graph::Graph& fragment) {
    for (const graph::NodeId id : fragment.parameters()) {
      graph::Tensor tensor = graph::Tensor::zeros(fragment.node(id).type());
      for (std::size_t i = 0; i < tensor.floats.size(); ++i) {
        tensor.floats[i] = static_cast<float>(2 * uniform_at(arguments.size(), i) - 1);
      }
      bytes.push_back(graph::to_bytes(tensor));
      arguments.push_back(std::move(tensor));
    }
    for (const graph::Value value : fragment.results()) {
      memory.emplace_back(static_cast<std::size_t>(fragment.type(value).bytes()));
    }
  }
  Status on(PlanHandle& plan) {
    const std::vector<std::span<const std::byte>> in(bytes.begin(), bytes.end());
    const std::vector<std::span<std::byte>> out(memory.begin(), memory.end());
    return plan.run(in, out);
  }
  void expect_right(const graph::Graph& fragment) const {
    const auto expected = graph::evaluate(fragment, arguments);
    ASSERT_TRUE(expected.ok());
    for (std::size_t r = 0; r < memory.size(); ++r) {
      const graph::Tensor& want = (*expected)[r];
      const graph::Tensor got = graph::tensor_from_bytes(want.type, want.box, memory[r]);
      for (std::int64_t i = 0; i < want.elements(); ++i) ASSERT_NEAR(got.at(i), want.at(i), 1e-4) << r << " " << i;
    }
  }

  std::vector<graph::Tensor> arguments;
  std::vector<std::vector<std::byte>> bytes, memory;
};

TEST_F(ClientDaemonTest, APlanComputesWhatTheFragmentSays) {
  for (const graph::Graph& fragment : {tuning::samples::softmax(8, 64), tuning::samples::scaled_difference(256),
                                       tuning::samples::scaled_difference(256, true)}) {
    auto plan = PlanHandle::fetch(*client_, executor_, fragment);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    Trial run(fragment);
    const Status ran = run.on(**plan);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    run.expect_right(fragment);
  }
}

TEST_F(ClientDaemonTest, APlanAsAProgramRunsWithoutTheServer) {
  const graph::Graph fragment = tuning::samples::scaled_difference(256, true);
  auto plan = PlanHandle::fetch(*client_, executor_, fragment);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto program = (*plan)->program();
  ASSERT_TRUE(program.ok()) << program.error().message;
  const std::string document = api::encode_program(*program, graph::Encoding::cbor);
  running_.reset();
  const auto opened = OpenProgram::open(document, DeviceKind::emulated, 0);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  Trial run(fragment);
  const std::vector<std::span<const std::byte>> in(run.bytes.begin(), run.bytes.end());
  const std::vector<std::span<std::byte>> out(run.memory.begin(), run.memory.end());
  const Status ran = (*opened)->run(in, out);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  run.expect_right(fragment);

  // The second result where the first parameter is.
  ASSERT_EQ(run.bytes[0].size(), run.memory[1].size());
  const std::vector<std::span<std::byte>> in_place = {run.memory[0], run.bytes[0]};
  const Status again = (*opened)->run(in, in_place);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(run.bytes[0], run.memory[1]);
}

TEST_F(ClientDaemonTest, APlanThatNeedsMoreWorkspaceThanAllowedIsNotTaken) {
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  auto plan = PlanHandle::fetch(*client_, executor_, fragment);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const std::int64_t needs = (*plan)->plan().workspace_bytes;
  EXPECT_TRUE(PlanHandle::fetch(*client_, executor_, fragment, {.max_workspace_bytes = needs}).ok());
  const auto refused = PlanHandle::fetch(*client_, executor_, fragment, {.max_workspace_bytes = needs - 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::constraint);
  EXPECT_THAT(refused.error().message, HasSubstr("max_workspace_bytes"));
}

graph::Graph product_with_bias() {
  graph::Builder b;
  const graph::Value x = b.parameter(graph::DType::f32, {40, 24}), w = b.parameter(graph::DType::f32, {24, 72});
  const graph::Value bias = b.broadcast(b.parameter(graph::DType::f32, {72}), {40, 72}, {1});
  return *b.finish({b.binary(graph::Op::add, b.dot(x, w, {{}, {}, {1}, {0}, graph::DType::f32}), bias)});
}

/// Of two images with eight features, which come last, and a padding of 1.
graph::Graph rectified_convolution() {
  graph::Builder b;
  graph::ConvolutionAttributes a = kernel::test::features_last();
  a.low = a.high = {1, 1};
  const graph::Value x = b.parameter(graph::DType::f32, {2, 6, 7, 8}),
                     w = b.parameter(graph::DType::f32, {3, 3, 8, 16});
  const graph::Value y = b.add(graph::Op::convolution, {x, w}, a);
  return *b.finish({b.binary(graph::Op::maximum, y, b.filled(graph::DType::f32, {2, 6, 7, 16}, 0))});
}

TEST_F(ClientDaemonTest, KernelsOfTheMatmulClassAreFetchedAndRunLikeAny) {
  const kernel::test::AttentionCase attention = {.name = "",
                                                 .batch = {2, 3},
                                                 .rows = 24,
                                                 .keys = 40,
                                                 .depth = 16,
                                                 .width = 16,
                                                 .dtype = graph::DType::f32,
                                                 .mask = kernel::test::Mask::causal};
  for (const graph::Graph& fragment :
       {product_with_bias(), rectified_convolution(), kernel::test::AttentionGraph(attention).make()}) {
    auto plan = PlanHandle::fetch(*client_, executor_, fragment);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const auto answer = client_->fetch(fragment);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->plan->launches.size(), 1u);
    Trial run(fragment);
    const Status ran = run.on(**plan);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    run.expect_right(fragment);
  }
}

TEST_F(ClientDaemonTest, ArtifactsAreFetchedOnceAndDamageIsMended) {
  const auto answer = client_->fetch(tuning::samples::softmax(8, 64));
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  const Sha256 hash = answer->plan->launches[0].cubin;
  const auto first = client_->artifact(hash);
  ASSERT_TRUE(first.ok());
  const std::filesystem::path path = folder_ / ("cache/" + hash.hex());
  ASSERT_TRUE(std::filesystem::exists(path));
  std::ofstream(path, std::ios::binary) << "damaged";
  EXPECT_EQ(*client_->artifact(hash), *first);
  running_.reset();
  EXPECT_EQ(*client_->artifact(hash), *first) << "without a server";
  EXPECT_EQ(client_->artifact(sha256("unknown")).error().kind, ErrorKind::unavailable);
}

/// Stores another plan for the fragment (the same kernels under another document) and makes it the one served.
db::PlanRecord promote_another(db::Store& store, const Hash128& fragment, int number, bool in_place = true) {
  const auto target = tuning::shared_tuner(tuning::shared_device()).target();
  auto bundle = store.get_plan_bundle(store.find_plan({fragment, target}, {})->plan->id);
  bundle->plan.document.insert(1, fmt::format("\"number {0}\":{0},", number));
  if (!in_place) {
    auto document = nlohmann::json::parse(bundle->plan.document);
    EXPECT_EQ(document.erase("in_place"), 1U);
    bundle->plan.document = document.dump();
  }
  const auto put = store.put_plan(*bundle, db::Admission::challenger);
  EXPECT_TRUE(put.ok());
  EXPECT_TRUE(store.promote(put->id, "the test", bundle->plan.provenance).ok());
  return *store.get_plan(put->id);
}

TEST_F(ClientDaemonTest, ABetterPlanIsSwappedInBetweenTwoRuns) {
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  auto plan = PlanHandle::fetch(*client_, executor_, fragment);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_FALSE(*(*plan)->check_for_update());
  const Hash128 before = (*plan)->plan().id;
  const db::PlanRecord better = promote_another(*running_->store, (*plan)->plan().fragment, 1);
  EXPECT_TRUE(*(*plan)->check_for_update());
  EXPECT_EQ((*plan)->plan().id, better.id);
  EXPECT_NE(better.id, before);
  EXPECT_FALSE(*(*plan)->check_for_update());
  EXPECT_EQ((*plan)->swaps(), 1);
  Trial run(fragment);
  ASSERT_TRUE(run.on(**plan).ok());
  run.expect_right(fragment);
}

TEST_F(ClientDaemonTest, ATraceTellsWhatCameOfAPlan) {
  const TestFolder traces;
  const TestVariable variable("STITCH_TRACE", traces.path().string());
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  auto plan = PlanHandle::fetch(*client_, executor_, fragment, {.name = "softmax"});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_TRUE(PlanHandle::fetch(*client_, executor_, fragment).ok());
  Trial run(fragment);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(run.on(**plan).ok());
  const db::PlanRecord better = promote_another(*running_->store, (*plan)->plan().fragment, 1);
  ASSERT_TRUE(*(*plan)->check_for_update());
  ASSERT_TRUE(run.on(**plan).ok());

  std::vector<nlohmann::json> events;
  std::string names;
  const auto files = RealFileSystem().list(traces);
  ASSERT_EQ(files.size(), 1U);
  std::ifstream file(files[0].path);
  for (std::string line; std::getline(file, line);) {
    events.push_back(nlohmann::json::parse(line));
    names += events.back()["event"].get<std::string>() + ", ";
  }
  EXPECT_EQ(
      names,
      "begin, fetch, artifact, load, fetch, artifact, load, first launch, fetch, artifact, load, swap, first launch, ");
  EXPECT_EQ(events[1]["hit"], false);
  EXPECT_EQ(events[1]["name"], "softmax");
  EXPECT_EQ(events[2]["source"], "server");
  EXPECT_EQ(events[4]["hit"], true);
  EXPECT_EQ(events[5]["source"], "folder");
  EXPECT_EQ(events[7]["on"], "host memory");
  EXPECT_EQ(events[11]["plan"], better.id.hex());
}

TEST_F(ClientDaemonTest, WhatMayLieInOnePlaceIsInTheFragmentsOrder) {
  for (const bool mirrored : {false, true}) {
    const graph::Graph fragment = tuning::samples::scaled_difference(256, mirrored);
    auto without = PlanHandle::fetch(*client_, executor_, fragment);
    ASSERT_TRUE(without.ok()) << without.error().message;
    EXPECT_THAT((*without)->in_place(), testing::IsEmpty());

    auto plan = PlanHandle::fetch(*client_, executor_, fragment, {.constraints = {.in_place = true}});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const std::int64_t difference = mirrored ? 1 : 0;
    const std::vector<api::InPlace> expected = {{0, difference}, {1, difference}, {2, difference}};
    EXPECT_THAT((*plan)->in_place(), testing::UnorderedElementsAreArray(expected));
    EXPECT_THAT(api::in_place_of(*(*plan)->program()), testing::UnorderedElementsAreArray(expected));
    Trial run(fragment);
    ASSERT_TRUE(run.on(**plan).ok());
    run.expect_right(fragment);
  }
}

TEST_F(ClientDaemonTest, CIsToldWhatMayLieInOnePlace) {
  stitch_client* client = nullptr;
  ASSERT_EQ(stitch_client_open(server().c_str(), "", &client), STITCH_OK) << stitch_last_error();
  const std::string fragment = graph::encode(tuning::samples::scaled_difference(256, true), graph::Encoding::cbor);
  stitch_plan* plan = nullptr;
  ASSERT_EQ(stitch_plan_fetch_under(client, fragment.data(), fragment.size(), STITCH_CBOR, STITCH_DEVICE_EMULATED, 0,
                                    "in_place", 60'000, &plan),
            STITCH_OK)
      << stitch_last_error();
  std::vector<std::pair<std::size_t, std::size_t>> pairs(stitch_plan_in_place_count(plan));
  for (std::size_t i = 0; i < pairs.size(); ++i)
    EXPECT_EQ(stitch_plan_in_place(plan, i, &pairs[i].first, &pairs[i].second), STITCH_OK);
  EXPECT_THAT(pairs, testing::UnorderedElementsAre(testing::Pair(0, 1), testing::Pair(1, 1), testing::Pair(2, 1)));
  std::size_t none = 0;
  EXPECT_EQ(stitch_plan_in_place(plan, pairs.size(), &none, &none), STITCH_INVALID_ARGUMENT);
  EXPECT_THAT(stitch_last_error(), HasSubstr("there is no pair 3; there are 3"));
  stitch_plan_release(plan);

  stitch_program* program = nullptr;
  ASSERT_EQ(stitch_program_fetch_under(client, "difference", fragment.data(), fragment.size(), nullptr,
                                       STITCH_DEVICE_EMULATED, 0, "in_place", 60'000, &program),
            STITCH_OK)
      << stitch_last_error();
  EXPECT_EQ(stitch_program_in_place_count(program), 3U);
  EXPECT_EQ(stitch_program_in_place(program, 0, &none, nullptr), STITCH_INVALID_ARGUMENT);
  stitch_program_release(program);
  stitch_client_close(client);
}

// Who relies on it that a result may lie where a parameter does can do so for as long as the handle is there.
TEST_F(ClientDaemonTest, APlanThatAllowsLessInPlaceIsNotSwappedIn) {
  const graph::Graph fragment = tuning::samples::scaled_difference(256);
  auto plan = PlanHandle::fetch(*client_, executor_, fragment, {.constraints = {.in_place = true}});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Hash128 key = (*plan)->plan().fragment;
  const db::PlanRecord better = promote_another(*running_->store, key, 1);
  EXPECT_TRUE(*(*plan)->check_for_update());
  EXPECT_EQ((*plan)->plan().id, better.id);
  const db::PlanRecord lesser = promote_another(*running_->store, key, 2, false);
  EXPECT_FALSE(*(*plan)->check_for_update());
  EXPECT_EQ((*plan)->plan().id, better.id);

  const auto provenance = running_->store->get_plan(better.id)->provenance;
  ASSERT_TRUE(running_->store->withdraw(better.id, "found wrong", provenance).ok());
  EXPECT_FALSE(*(*plan)->check_for_update());
  Trial run(fragment);
  const Status refused = run.on(**plan);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr(lesser.id.hex() + " does not allow result 0 to lie where"));
}

/// An executor that counts how many of its plans there are.
class CountingExecutor final : public Executor {
 public:
  explicit CountingExecutor(Executor& inner) : inner_(inner) {}
  Result<std::unique_ptr<LoadedPlan>> load(const api::Plan& plan, const ArtifactSource& artifacts) override {
    STITCH_ASSIGN(auto loaded, inner_.load(plan, artifacts));
    return std::unique_ptr<LoadedPlan>(std::make_unique<Counted>(std::move(loaded), loaded_));
  }
  [[nodiscard]] int loaded() const { return loaded_; }

 private:
  class Counted final : public LoadedPlan {
   public:
    Counted(std::unique_ptr<LoadedPlan> inner, int& loaded) : inner_(std::move(inner)), loaded_(loaded) { ++loaded_; }
    ~Counted() override { --loaded_; }
    [[nodiscard]] const api::Plan& plan() const override { return inner_->plan(); }
    Status run(Inputs parameters, Outputs results) override { return inner_->run(parameters, results); }
    Status launch(Addresses parameters, Addresses results, void* stream) override {
      return inner_->launch(parameters, results, stream);
    }

   private:
    std::unique_ptr<LoadedPlan> inner_;
    int& loaded_;
  };
  Executor& inner_;
  int loaded_ = 0;
};

TEST_F(ClientDaemonTest, APlanThatWasReplacedStaysLoadedForCudaGraphsThatHaveIt) {
  CountingExecutor executor(executor_);
  auto plan = PlanHandle::fetch(*client_, executor, tuning::samples::softmax(8, 56));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  for (int swap = 1; swap <= 2; ++swap) {
    promote_another(*running_->store, (*plan)->plan().fragment, swap);
    EXPECT_TRUE(*(*plan)->check_for_update());
    EXPECT_EQ(executor.loaded(), 1 + swap);
  }
  plan->reset();
  EXPECT_EQ(executor.loaded(), 0);
}

/// Says that another version of the generator verified the plan that is served; the id of that one.
Hash128 verified_by_another_version(db::Store& store, const Hash128& plan) {
  auto bundle = store.get_plan_bundle(plan);
  bundle->plan.key.target.version = "0.0.9-0123456789ab";
  bundle->plan.verified_share = 1;
  const auto put = store.put_plan(*bundle, db::Admission::replace);
  EXPECT_TRUE(put.ok()) << (put ? "" : put.error().message);
  return put ? put->id : Hash128();
}

// After an upgrade: the old plan runs until the server's own is verified, which may be one that it had before.
TEST_F(ClientDaemonTest, AStalePlanRunsUntilTheServersOwnIsVerified) {
  const graph::Graph fragment = tuning::samples::softmax(8, 60);
  const auto predicted = client_->fetch(fragment, {.improve = false});
  ASSERT_TRUE(predicted.ok()) << predicted.error().message;
  const Hash128 old = verified_by_another_version(*running_->store, predicted->plan->id);
  auto plan = PlanHandle::fetch(*client_, executor_, fragment);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ((*plan)->plan().id, old);
  EXPECT_TRUE((*plan)->stale());
  Trial before(fragment);
  ASSERT_TRUE(before.on(**plan).ok());
  before.expect_right(fragment);
  EXPECT_FALSE(*(*plan)->check_for_update());

  running_->service->start();  // to work on the job that the look-up asked for
  while (!*(*plan)->check_for_update(1000)) {
  }
  EXPECT_EQ((*plan)->plan().id, predicted->plan->id);
  EXPECT_FALSE((*plan)->stale());
  EXPECT_EQ((*plan)->swaps(), 1);
  Trial after(fragment);
  ASSERT_TRUE(after.on(**plan).ok());
  after.expect_right(fragment);
}

TEST_F(ClientDaemonTest, AStalePlanThatIsWithdrawnIsGivenUp) {
  const graph::Graph fragment = tuning::samples::softmax(8, 52);
  const auto predicted = client_->fetch(fragment, {.improve = false});
  ASSERT_TRUE(predicted.ok()) << predicted.error().message;
  const Hash128 old = verified_by_another_version(*running_->store, predicted->plan->id);
  auto plan = PlanHandle::fetch(*client_, executor_, fragment, {.improve = false});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ((*plan)->plan().id, old);
  ASSERT_TRUE(running_->store->withdraw(old, "found to be wrong", running_->store->get_plan(old)->provenance).ok());
  EXPECT_TRUE(*(*plan)->check_for_update());
  EXPECT_EQ((*plan)->plan().id, predicted->plan->id);
  EXPECT_FALSE((*plan)->stale());
}

TEST_F(ClientDaemonTest, APlanThatIsAskedForByItsIdStaysUnlessItIsWithdrawn) {
  const graph::Graph fragment = tuning::samples::softmax(8, 68);
  const auto first = client_->fetch(fragment, {.improve = false});
  ASSERT_TRUE(first.ok()) << first.error().message;
  const Hash128 old = first->plan->id;
  const db::PlanRecord better = promote_another(*running_->store, first->plan->fragment, 1);
  ASSERT_EQ(client_->fetch(fragment)->plan->id, better.id);
  auto plan = PlanHandle::fetch(*client_, executor_, fragment, {.plan = old});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  promote_another(*running_->store, first->plan->fragment, 2);
  EXPECT_FALSE(*(*plan)->check_for_update());
  EXPECT_EQ((*plan)->plan().id, old);
  Trial run(fragment);
  ASSERT_TRUE(run.on(**plan).ok());
  run.expect_right(fragment);

  const auto other = client_->fetch(tuning::samples::softmax(8, 72), {.improve = false});
  const auto foreign = PlanHandle::fetch(*client_, executor_, fragment, {.plan = other->plan->id});
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().kind, ErrorKind::not_found);
  EXPECT_THAT(foreign.error().message, HasSubstr(other->plan->id.hex()));
  EXPECT_EQ(PlanHandle::fetch(*client_, executor_, fragment, {.plan = Hash128{1, 2}}).error().kind,
            ErrorKind::not_found);

  ASSERT_TRUE(running_->store->withdraw(old, "found to be wrong", running_->store->get_plan(old)->provenance).ok());
  EXPECT_FALSE(*(*plan)->check_for_update());
  EXPECT_EQ(run.on(**plan).error().kind, ErrorKind::unavailable);
  const auto withdrawn = PlanHandle::fetch(*client_, executor_, fragment, {.plan = old});
  ASSERT_FALSE(withdrawn.ok());
  EXPECT_THAT(withdrawn.error().message, HasSubstr("withdrawn"));
}

TEST_F(ClientDaemonTest, AFrozenPlanStaysWhatItIsUntilItIsFoundToBeWrong) {
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  auto frozen = PlanHandle::fetch(*client_, executor_, fragment),
       free = PlanHandle::fetch(*client_, executor_, fragment);
  ASSERT_TRUE(frozen.ok() && free.ok());
  const db::PlanRecord old = *running_->store->get_plan((*frozen)->plan().id);
  (*frozen)->freeze();
  const db::PlanRecord better = promote_another(*running_->store, (*frozen)->plan().fragment, 1);
  EXPECT_FALSE(*(*frozen)->check_for_update());
  EXPECT_TRUE(*(*free)->check_for_update());
  EXPECT_EQ((*frozen)->plan().id, old.id);
  EXPECT_EQ((*free)->plan().id, better.id);
  EXPECT_EQ((*frozen)->swaps(), 0);
  Trial run(fragment);
  ASSERT_TRUE(run.on(**frozen).ok());
  run.expect_right(fragment);

  ASSERT_TRUE(running_->store->withdraw(old.id, "found to be wrong", old.provenance).ok());
  EXPECT_FALSE(*(*frozen)->check_for_update());
  EXPECT_EQ(run.on(**frozen).error().kind, ErrorKind::unavailable) << "nothing takes its place";
}

TEST_F(ClientDaemonTest, NothingIsMadeForAFrozenClient) {
  const tuning::Tuner& tuner = tuning::shared_tuner(tuning::shared_device());
  const graph::Graph fragment = tuning::samples::softmax(8, 64), unknown = tuning::samples::softmax(8, 88);
  auto plan = PlanHandle::fetch(*client_, executor_, fragment);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const std::int64_t predicted_before = client_->activity().count(Event::plan_predicted);
  EXPECT_EQ(predicted_before, 1);
  const Hash128 old = (*plan)->plan().id;
  const tuning::WorkCounts work = tuner.work();
  const std::int64_t jobs = std::ssize(running_->store->list_jobs({}, {})->items);

  client_->activity().freeze();
  promote_another(*running_->store, (*plan)->plan().fragment, 1);
  EXPECT_FALSE(*(*plan)->check_for_update());
  EXPECT_EQ((*plan)->plan().id, old);
  EXPECT_EQ(client_->activity().count(Event::plan_loaded), 1);
  EXPECT_EQ(client_->activity().count(Event::swap), 0);

  const auto missed = PlanHandle::fetch(*client_, executor_, unknown);
  ASSERT_FALSE(missed.ok());
  EXPECT_EQ(missed.error().kind, ErrorKind::not_found);
  EXPECT_THAT(missed.error().message, HasSubstr("is stored"));
  const auto program = client_->make_program(graph::encode(unknown, graph::Encoding::cbor));
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().kind, ErrorKind::not_found);
  EXPECT_EQ(client_->program(sha256("never tuned")).error().kind, ErrorKind::not_found);
  EXPECT_EQ(client_->submit_fragment(unknown, "").error().kind, ErrorKind::constraint);
  EXPECT_THAT(client_->submit_model("HloModule m", "m").error().message, HasSubstr("frozen"));
  EXPECT_EQ(client_->activity().count(Event::miss), 3);
  EXPECT_EQ(client_->activity().count(Event::tuning), 0);

  // What is stored is still there for it.
  EXPECT_TRUE(PlanHandle::fetch(*client_, executor_, fragment).ok());
  EXPECT_EQ(client_->activity().count(Event::plan_predicted), 1);
  EXPECT_EQ(tuner.work(), work) << "something was compiled, predicted or tuned";
  EXPECT_EQ(std::ssize(running_->store->list_jobs({}, {})->items), jobs);

  // Whoever is not frozen has what he asks for, and then it is stored for all.
  const auto other = Client::open({.server = server(), .cache = {}});
  ASSERT_TRUE(other.ok()) << other.error().message;
  ASSERT_TRUE((*other)->fetch(unknown).ok());
  EXPECT_GT(tuner.work().predicted, work.predicted);
  EXPECT_TRUE(PlanHandle::fetch(*client_, executor_, unknown).ok());
}

TEST_F(ClientDaemonTest, ClientsOfOneActivityAreCountedAndFrozenTogether) {
  const auto together = std::make_shared<Activity>();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 2; ++i) {
    auto opened = Client::open({.server = server(), .cache = folder_ / "cache", .activity = together});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    clients.push_back(*std::move(opened));
  }
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  for (const auto& client : clients) ASSERT_TRUE(PlanHandle::fetch(*client, executor_, fragment).ok());
  EXPECT_EQ(together->count(Event::plan_predicted), 1);
  EXPECT_EQ(together->count(Event::plan_stored), 1);
  EXPECT_EQ(together->count(Event::plan_loaded), 2);
  EXPECT_EQ(together->count(Event::artifact_fetched), 1) << "PTX is what the emulated device runs";
  EXPECT_EQ(together->count(Event::artifact_kept), 1);
  together->freeze();
  for (const auto& client : clients)
    EXPECT_EQ(client->fetch(tuning::samples::softmax(8, 92)).error().kind, ErrorKind::not_found);
  EXPECT_EQ(together->count(Event::miss), 2);
  EXPECT_FALSE(client_->activity().is_frozen());
}

TEST_F(ClientDaemonTest, AWatcherSwapsWhileOthersRun) {
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  auto plan = PlanHandle::fetch(*client_, executor_, fragment);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  std::mutex mutex;
  std::condition_variable changed;
  int swaps = 0;
  (*plan)->watch([&](const Status& status) {
    EXPECT_TRUE(status.ok()) << status.error().message;
    const std::lock_guard lock(mutex);
    ++swaps;
    changed.notify_all();
  });
  std::jthread runner([&](const std::stop_token& stop) {
    Trial run(fragment);
    while (!stop.stop_requested()) {
      EXPECT_TRUE(run.on(**plan).ok());
      run.expect_right(fragment);
    }
  });
  for (int number = 1; number <= 3; ++number) {
    const db::PlanRecord better = promote_another(*running_->store, (*plan)->plan().fragment, number);
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return swaps == number; }));
    EXPECT_EQ((*plan)->plan().id, better.id);
  }
  runner = {};
}

TEST_F(ClientDaemonTest, OneWatcherLooksAfterManyPlans) {
  PlanWatcher watcher(std::chrono::milliseconds(10));
  std::vector<std::shared_ptr<PlanHandle>> plans;
  // More than the server has connections.
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  for (int i = 0; i < 300; ++i) {
    auto plan = PlanHandle::fetch(*client_, executor_, fragment);
    ASSERT_TRUE(plan.ok()) << i << ": " << plan.error().message;
    plans.push_back(*std::move(plan));
    watcher.add(plans.back());
  }
  const db::PlanRecord better = promote_another(*running_->store, plans[0]->plan().fragment, 1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto has_it = [&](const auto& plan) { return plan->plan().id == better.id; };
  while (!std::ranges::all_of(plans, has_it) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(std::ranges::all_of(plans, has_it));
  EXPECT_EQ(watcher.size(), 300u);
  plans.resize(7);
  while (watcher.size() != 7 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(watcher.size(), 7u);
  watcher.stop();
  promote_another(*running_->store, plans[0]->plan().fragment, 2);
  watcher.add(plans[0]);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(plans[0]->plan().id, better.id);
}

TEST_F(ClientDaemonTest, AWithdrawnPlanIsNotRunAgain) {
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  auto plan = PlanHandle::fetch(*client_, executor_, fragment, {.improve = false});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Hash128 wrong = (*plan)->plan().id;
  ASSERT_TRUE(running_->store->withdraw(wrong, "found wrong", running_->store->get_plan(wrong)->provenance).ok());
  EXPECT_FALSE(*(*plan)->check_for_update());
  Trial run(fragment);
  const Status refused = run.on(**plan);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error(),
            (Error{ErrorKind::unavailable, fmt::format("plan {} was withdrawn: found wrong", wrong.hex())}));
}

TEST_F(ClientDaemonTest, OfSeveralChangesAtOnceNoneIsMissed) {
  const graph::Graph fragment = tuning::samples::softmax(8, 64);
  auto plan = PlanHandle::fetch(*client_, executor_, fragment);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Hash128 key = (*plan)->plan().fragment;
  const auto withdraw = [&](const db::PlanRecord& which) {
    EXPECT_TRUE(running_->store->withdraw(which.id, "found wrong", which.provenance).ok());
  };
  // The last change is of a plan that was never in use here, and hides neither the better plan …
  const db::PlanRecord passed = promote_another(*running_->store, key, 1);
  const db::PlanRecord better = promote_another(*running_->store, key, 2);
  withdraw(passed);
  EXPECT_TRUE(*(*plan)->check_for_update());
  EXPECT_EQ((*plan)->plan().id, better.id);
  // … nor that the plan in use was withdrawn.
  const db::PlanRecord last = promote_another(*running_->store, key, 3);
  withdraw(better);
  withdraw(last);
  ASSERT_TRUE((*plan)->check_for_update().ok());
  Trial run(fragment);
  const Status ran = run.on(**plan);
  EXPECT_TRUE(ran ? (*plan)->plan().id != better.id : ran.error().kind == ErrorKind::unavailable);
}

TEST_F(ClientDaemonTest, JobsAreFollowedToTheirEndAcrossARestart) {
  const auto submitted = client_->submit_fragment(tuning::samples::softmax(8, 40), "to follow");
  ASSERT_TRUE(submitted.ok());
  std::vector<std::string> kinds;
  std::thread follower([&] {
    const Status followed = client_->follow(submitted->job, 0, [&](const api::JobEvent& event) {
      kinds.push_back(event.kind);
      return true;
    });
    EXPECT_TRUE(followed.ok()) << followed.error().message;
  });
  running_.reset();  // the follower is sent away and comes back
  running_.emplace(folder_ / "stitch.db", daemon::RunningOptions{.work = true, .serve = true});
  follower.join();
  ASSERT_GE(kinds.size(), 3U);
  EXPECT_EQ(kinds.front(), "queued");
  EXPECT_EQ(kinds.back(), "done");
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), "queued"), 1);
  EXPECT_EQ(client_->job(submitted->job)->state, "done");
  EXPECT_EQ(client_->job(4711).error(), (Error{ErrorKind::not_found, "no job 4711"}));
}

TEST_F(ClientDaemonTest, ErrorsAndDeadlinesArriveAsTheyAre) {
  EXPECT_EQ(client_->fetch(tuning::samples::softmax(8, 88), {.deadline_ms = 0, .improve = true}).error().kind,
            ErrorKind::timeout);
  EXPECT_EQ(client_->plan(hash_bytes("none")).error().kind, ErrorKind::not_found);
  EXPECT_EQ(client_->promotions(0, 99'999).error().kind, ErrorKind::invalid_argument);
  ClientOptions options;
  options.server = "unix:///nowhere.sock";
  EXPECT_EQ(Client::open(options).error().kind, ErrorKind::unavailable);
}

// ---- the C interface

TEST_F(ClientDaemonTest, TheCInterfaceFetchesRunsAndSwaps) {
  stitch_client* client = nullptr;
  ASSERT_EQ(stitch_client_open(server().c_str(), "", &client), STITCH_OK) << stitch_last_error();
  const graph::Graph graph = tuning::samples::softmax(8, 64);
  const std::string fragment = graph::encode(graph, graph::Encoding::cbor);
  stitch_plan* plan = nullptr;
  ASSERT_EQ(
      stitch_plan_fetch(client, fragment.data(), fragment.size(), STITCH_CBOR, STITCH_DEVICE_EMULATED, 60'000, &plan),
      STITCH_OK)
      << stitch_last_error();
  EXPECT_EQ(stitch_plan_parameter_count(plan), 1U);
  EXPECT_EQ(stitch_plan_parameter_bytes(plan, 0), 8 * 64 * 4);
  EXPECT_EQ(stitch_plan_result_bytes(plan, 1), 0);
  Trial run(graph);
  const void* in[] = {run.bytes[0].data()};
  void* out[] = {run.memory[0].data()};
  ASSERT_EQ(stitch_plan_run(plan, in, out), STITCH_OK) << stitch_last_error();
  run.expect_right(graph);

  const void* unaligned[] = {run.bytes[0].data() + 4};
  EXPECT_EQ(stitch_plan_run(plan, unaligned, out), STITCH_INVALID_ARGUMENT);
  EXPECT_THAT(stitch_last_error(), HasSubstr("16-byte aligned"));
  EXPECT_EQ(stitch_plan_run(plan, nullptr, out), STITCH_INVALID_ARGUMENT);
  EXPECT_EQ(stitch_plan_launch(plan, nullptr, nullptr, nullptr), STITCH_INVALID_ARGUMENT);

  stitch_plan_info info{};
  info.size = sizeof info;
  ASSERT_EQ(stitch_plan_get_info(plan, &info), STITCH_OK);
  EXPECT_STREQ(info.label, "predicted");
  EXPECT_LT(info.measured_us, 0);
  EXPECT_GT(info.uncertainty_us, 0);
  EXPECT_LT(info.uncertainty_us, info.predicted_us);
  promote_another(*running_->store, *Hash128::from_hex(client_->plan(*Hash128::from_hex(info.id))->fragment.hex()), 1);
  int swapped = 0;
  ASSERT_EQ(stitch_plan_check_for_update(plan, 0, &swapped), STITCH_OK) << stitch_last_error();
  EXPECT_EQ(swapped, 1);
  // A program built against an older header knows fewer fields.
  struct {
    std::size_t size = sizeof(std::size_t) + 33;
    char id[33]{};
    char after = 'x';
  } older;
  ASSERT_EQ(stitch_plan_get_info(plan, reinterpret_cast<stitch_plan_info*>(&older)), STITCH_OK);
  EXPECT_EQ(std::strlen(older.id), 32U);
  EXPECT_EQ(older.after, 'x');
  stitch_plan* fixed = nullptr;
  const auto under = [&](const char* constraints) {
    return stitch_plan_fetch_under(client, fragment.data(), fragment.size(), STITCH_CBOR, STITCH_DEVICE_EMULATED, 0,
                                   constraints, 60'000, &fixed);
  };
  EXPECT_EQ(under("quick"), STITCH_INVALID_ARGUMENT);
  EXPECT_THAT(stitch_last_error(), HasSubstr("'quick' is no constraint"));
  ASSERT_EQ(under("deterministic"), STITCH_OK) << stitch_last_error();
  stitch_plan_info of_fixed{};
  of_fixed.size = sizeof of_fixed;
  ASSERT_EQ(stitch_plan_get_info(fixed, &of_fixed), STITCH_OK);
  EXPECT_NE(client_->plan(*Hash128::from_hex(of_fixed.id))->fragment,
            client_->plan(*Hash128::from_hex(info.id))->fragment)
      << "a plan of another key";
  stitch_plan_release(fixed);
  EXPECT_EQ(stitch_plan_in_place_count(plan), 0U);

  ASSERT_EQ(stitch_client_freeze(client), STITCH_OK);
  EXPECT_EQ(under("batch_invariant"), STITCH_NOT_FOUND) << stitch_last_error();
  EXPECT_EQ(stitch_client_freeze(nullptr), STITCH_INVALID_ARGUMENT);
  stitch_client_counts counts{};
  EXPECT_EQ(stitch_client_get_counts(client, &counts), STITCH_INVALID_ARGUMENT) << "size is not set";
  counts.size = sizeof counts;
  ASSERT_EQ(stitch_client_get_counts(client, &counts), STITCH_OK);
  EXPECT_EQ(counts.plans_predicted, 2);
  EXPECT_EQ(counts.plans_stored, 1) << "the better plan";
  EXPECT_EQ(counts.misses, 1);
  EXPECT_EQ(counts.plans_loaded, 3);
  EXPECT_EQ(counts.swaps, 1);
  stitch_plan_release(plan);
  stitch_client_close(client);
}

TEST_F(ClientDaemonTest, TheCInterfaceSaysWhatIsWrong) {
  stitch_client* client = nullptr;
  EXPECT_EQ(stitch_client_open("nonsense", nullptr, &client), STITCH_INVALID_ARGUMENT);
  EXPECT_EQ(client, nullptr);
  EXPECT_EQ(stitch_client_open("unix:///nowhere.sock", nullptr, &client), STITCH_UNAVAILABLE);
  EXPECT_THAT(stitch_last_error(), HasSubstr("no stitchd at unix:///nowhere.sock"));
  EXPECT_EQ(stitch_client_open(nullptr, nullptr, nullptr), STITCH_INVALID_ARGUMENT);
  ASSERT_EQ(stitch_client_open(server().c_str(), "", &client), STITCH_OK);
  stitch_plan* plan = nullptr;
  EXPECT_EQ(stitch_plan_fetch(client, "{", 1, STITCH_JSON, STITCH_DEVICE_EMULATED, 0, &plan), STITCH_PARSE);
  EXPECT_EQ(stitch_plan_fetch(nullptr, "{", 1, STITCH_JSON, STITCH_DEVICE_EMULATED, 0, &plan), STITCH_INVALID_ARGUMENT);
  std::int64_t job = 0;
  EXPECT_EQ(stitch_submit_model(client, "broken.hlo.txt", "HloModule x", 11, &job), STITCH_OK);
  stitch_job_info info{};
  EXPECT_EQ(stitch_job_get_info(client, job, &info), STITCH_INVALID_ARGUMENT) << "size is not set";
  info.size = sizeof info;
  EXPECT_EQ(stitch_job_get_info(client, job, &info), STITCH_OK);
  EXPECT_STREQ(info.state, "queued");
  EXPECT_EQ(stitch_job_cancel(client, job), STITCH_OK);
  EXPECT_EQ(stitch_job_get_info(client, job + 1, &info), STITCH_NOT_FOUND);
  stitch_client_close(client);
  stitch_client_close(nullptr);
  stitch_plan_release(nullptr);
  EXPECT_STREQ(stitch_code_name(STITCH_UNAVAILABLE), "unavailable");
  EXPECT_STREQ(stitch_code_name(static_cast<stitch_code>(99)), "unknown");
  EXPECT_EQ(stitch_api_version(), STITCH_API_VERSION);
}

// ---- the example programs

TEST_F(ClientDaemonTest, TheExamplesRun) {
  const std::filesystem::path fragment = folder_ / "fragment.json";
  std::ofstream(fragment) << graph::encode(tuning::samples::softmax(8, 64), graph::Encoding::json);
  for (const std::string program : {"fetch_and_run", "fetch_and_run_c"}) {
    ProcessOptions options;
    options.environment = {"XDG_CACHE_HOME=" + (folder_ / "xdg").string()};
    const auto run = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.begin(), STITCH_BINARY_DIR "/bin/" + program);
      options.arguments = std::move(arguments);
      RealProcessLauncher launcher;
      return run_process(launcher, options, "", deadline_in(120));
    };
    const auto good = run({fragment.string(), server()});
    ASSERT_TRUE(good.ok()) << good.error().message;
    EXPECT_TRUE(good->status.success()) << good->standard_error;
    EXPECT_THAT(good->standard_output, HasSubstr("(predicted): 1 launches"));
    EXPECT_THAT(good->standard_output, HasSubstr("result 0: "));
    EXPECT_THAT(run({fragment.string(), "unix:///nowhere.sock"})->standard_error, HasSubstr("no stitchd at"));
    EXPECT_THAT(run({(folder_ / "absent").string(), server()})->standard_error, HasSubstr("cannot be read"));
    EXPECT_EQ(run({})->status.code, 2);
  }
}

}  // namespace
}  // namespace stitch::client
