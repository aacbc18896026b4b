// A database that another toolkit or generator filled: what was served stays served, until its like is made anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "graph/codec/codec.h"
#include "tests/daemon/running_service.h"
#include "tests/daemon/stitchd_process.h"
#include "tests/tuning/sample_fragments.h"
#include "tuning/plans/plan_record.h"

namespace stitch::daemon {
namespace {

using Json = nlohmann::json;
using Source = api::LookupAnswer::Source;
using testing::ElementsAre;

constexpr std::int64_t patient_ms = 120'000;
const char* const other_version = "0.0.9-0123456789ab";

class UpgradeDaemonTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_ / "this"); }

  RunningService& start(RunningOptions options = {}) { return running_.emplace(database(), options); }
  [[nodiscard]] std::filesystem::path database() const { return folder_ / "stitch.db"; }
  static api::LookupAnswer ask(Service& service, const graph::Graph& fragment) {
    const auto answer = service.lookup({fragment, "test", patient_ms, true});
    EXPECT_TRUE(answer.ok()) << (answer ? "" : answer.error().message);
    return answer.value_or({});
  }

  /// Tunes the fragment with the real thing, in a database of its own, and says afterwards that another environment
  /// did: the one served is the same in all but its key.
  db::PlanBundle made_by(const db::Target& other, const graph::Graph& fragment, bool verified = true) {
    RunningService making(folder_ / "this" / fmt::format("{}.db", ++made_), {.work = verified});
    const api::LookupAnswer first = ask(*making.service, fragment);
    if (verified) {
      EXPECT_EQ(making.wait_for(*first.job).state, "done");
      EXPECT_GT(ask(*making.service, fragment).plan->verified_share, 0);
    }
    const Hash128 id = ask(*making.service, fragment).plan->id;
    db::PlanBundle bundle = *making.store->get_plan_bundle(id);
    bundle.plan.key.target = other;
    fragment_ = *making.store->get_fragment(bundle.plan.key.fragment);
    return bundle;
  }
  /// Writes a database that holds nothing else.
  Hash128 fill(const db::PlanBundle& bundle) {
    db::SqliteOptions storage;
    storage.path = database();
    const auto store = db::open_sqlite_store(storage, clock_);
    EXPECT_TRUE(store.ok());
    db::Device emulated;
    emulated.key = emulated.kind = "emulated";
    emulated.provenance = fragment_.provenance;
    EXPECT_TRUE((*store)->put_device(emulated).ok());
    EXPECT_TRUE((*store)->put_fragment(fragment_).ok());
    const auto put = (*store)->put_plan(bundle, db::Admission::replace);
    EXPECT_TRUE(put.ok()) << (put ? "" : put.error().message);
    return put ? put->id : Hash128();
  }
  static db::Target own() { return tuning::shared_tuner(tuning::shared_device()).target(); }
  static db::Target older() {
    db::Target target = own();
    target.version = other_version;
    return target;
  }

  const TestFolder folder_;
  SystemClock clock_;
  db::FragmentRecord fragment_;
  int made_ = 0;
  std::optional<RunningService> running_;
};

TEST_F(UpgradeDaemonTest, WhatWasServedIsServedWithItsLabelUntilItsLikeIsVerified) {
  const graph::Graph fragment = tuning::samples::softmax(8, 72);
  const Hash128 old = fill(made_by(older(), fragment));
  std::optional<std::int64_t> job;
  {
    RunningService& running = start({.work = false});
    const api::LookupAnswer answer = ask(*running.service, fragment);
    EXPECT_EQ(answer.source, Source::store) << "at once, not after a prediction";
    ASSERT_TRUE(answer.plan && answer.made_by);
    EXPECT_EQ(answer.plan->id, old);
    EXPECT_EQ(answer.made_by->version, other_version);
    EXPECT_EQ(*answer.made_by, answer.plan->target);
    EXPECT_EQ(tuning::to_record(answer.target), own());
    EXPECT_THAT(answer.differed, ElementsAre("version"));
    EXPECT_THAT(answer.matched, ElementsAre("fragment", "device", "architecture", "toolkit"));
    ASSERT_TRUE(answer.job.has_value()) << "it is tuned in the background";
    job = answer.job;
    EXPECT_FALSE(ask(*running.service, fragment).job) << "and asked for once";
    EXPECT_EQ(running.store->list_jobs({}, {})->items.size(), 1U);
    for (const api::KernelLaunch& launch : answer.plan->launches)
      EXPECT_TRUE(running.store->get_artifact(launch.cubin).ok());
  }
  running_.reset();
  RunningService& running = start();
  EXPECT_EQ(running.wait_for(*job).state, "done");
  const api::LookupAnswer after = ask(*running.service, fragment);
  EXPECT_FALSE(after.made_by);
  EXPECT_NE(after.plan->id, old);
  EXPECT_EQ(tuning::to_record(after.plan->target), own());
  EXPECT_GT(after.plan->verified_share, 0);
  EXPECT_GT(after.plan->sequence, running.store->get_plan(old)->sequence);
  // Those who go back find what they had.
  EXPECT_EQ(running.store->find_plan({after.fragment, older()}, {})->plan->id, old);
}

TEST_F(UpgradeDaemonTest, ADowngradeIsServedWhatTheLaterOneMadeAndThenItsOwn) {
  const graph::Graph fragment = tuning::samples::softmax(8, 68);
  db::Target later = own();
  later.version = "99.0.0-0123456789ab";
  const Hash128 newer = fill(made_by(later, fragment));
  RunningService& running = start();
  const api::LookupAnswer answer = ask(*running.service, fragment);
  EXPECT_EQ(answer.plan->id, newer);
  EXPECT_EQ(answer.made_by->version, later.version);
  EXPECT_EQ(running.wait_for(*answer.job).state, "done");
  EXPECT_FALSE(ask(*running.service, fragment).made_by);
}

TEST_F(UpgradeDaemonTest, APatchOfTheToolkitRetiresNothing) {
  const graph::Graph fragment = tuning::samples::softmax(8, 76);
  db::Target before = own();
  before.toolkit = "12.9";
  const Hash128 old = fill(made_by(before, fragment));
  RunningService& running = start({.work = false});
  const api::LookupAnswer answer = ask(*running.service, fragment);
  EXPECT_EQ(answer.plan->id, old);
  EXPECT_THAT(answer.differed, ElementsAre("toolkit"));
  EXPECT_EQ(answer.made_by->toolkit, "12.9");
}

TEST_F(UpgradeDaemonTest, MachineCodeOfALaterToolkitIsNotServed) {
  const graph::Graph fragment = tuning::samples::softmax(8, 80);
  db::Target later = own();
  later.toolkit = "99.0";
  fill(made_by(later, fragment));
  RunningService& running = start({.work = false});
  const api::LookupAnswer answer = ask(*running.service, fragment);
  EXPECT_EQ(answer.source, Source::predicted);
  EXPECT_FALSE(answer.made_by);
  EXPECT_THAT(answer.differed, ElementsAre("toolkit"));
}

TEST_F(UpgradeDaemonTest, WhatNobodyVerifiedIsMadeAnew) {
  const graph::Graph fragment = tuning::samples::softmax(8, 84);
  fill(made_by(older(), fragment, false));
  RunningService& running = start({.work = false});
  const api::LookupAnswer answer = ask(*running.service, fragment);
  EXPECT_EQ(answer.source, Source::predicted);
  EXPECT_FALSE(answer.made_by);
  EXPECT_EQ(tuning::to_record(answer.plan->target), own());
}

// A prediction of this version, made where nobody had the old plan at hand, is no reason to give up a verified one.
TEST_F(UpgradeDaemonTest, APredictionDoesNotTakeThePlaceOfWhatWasVerified) {
  const graph::Graph fragment = tuning::samples::softmax(8, 92);
  const Hash128 old = fill(made_by(older(), fragment));
  db::PlanBundle predicted = made_by(own(), fragment, false);
  predicted.plan.verified_share = 0;
  {
    db::SqliteOptions storage;
    storage.path = database();
    const auto store = db::open_sqlite_store(storage, clock_);
    ASSERT_TRUE((*store)->put_plan(predicted, db::Admission::if_vacant)->incumbent);
  }
  RunningService& running = start();
  const api::LookupAnswer answer = ask(*running.service, fragment);
  EXPECT_EQ(answer.plan->id, old);
  EXPECT_TRUE(answer.made_by);
  const std::int64_t seen = running.service->promotions(0)->last;
  EXPECT_EQ(running.wait_for(*answer.job).state, "done");
  const api::LookupAnswer after = ask(*running.service, fragment);
  EXPECT_FALSE(after.made_by);
  EXPECT_GT(after.plan->verified_share, 0);
  // It was the incumbent before; who runs the old one is told nevertheless.
  const auto feed = running.service->promotions(seen);
  ASSERT_EQ(feed->promotions.size(), 1U);
  EXPECT_EQ(feed->promotions[0].plan, after.plan->id);
  EXPECT_EQ(feed->last, after.plan->sequence);
  EXPECT_TRUE(running.store->integrity_check(true)->problems.empty());
}

/// Asks a process over its socket.
Json ask_process(const StitchdProcess& daemon, const graph::Graph& fragment) {
  const std::string body = api::encode_document(
      api::to_document(api::LookupRequest{fragment, "test", patient_ms, true}, graph::Encoding::json),
      graph::Encoding::json);
  return Json::parse(
      raw::request(daemon.socket, "POST", "/v1/lookup", body, "Content-Type: application/json\r\n").body);
}

// The program itself, on a database of another version: the old plan at once, the new one when it is verified, through
// a kill in between.
TEST_F(UpgradeDaemonTest, TheProgramServesTheOldPlanAndPromotesTheNewOne) {
  const graph::Graph fragment = tuning::samples::softmax(16, 72);
  const Hash128 old = fill(made_by(older(), fragment));
  std::int64_t job = 0;
  {
    const StitchdProcess daemon(folder_ / "");
    ASSERT_TRUE(daemon.ready());
    const Json answer = ask_process(daemon, fragment);
    ASSERT_TRUE(answer.contains("plan")) << answer.dump();
    EXPECT_EQ(answer["plan"]["id"], old.hex());
    EXPECT_EQ(answer["source"], "store");
    EXPECT_EQ(answer["made_by"]["version"], other_version);
    EXPECT_EQ(answer["differed"], Json({"version"}));
    job = answer["job"].get<std::int64_t>();
    daemon.kill();
  }
  const StitchdProcess daemon(folder_ / "");
  ASSERT_TRUE(daemon.ready());
  std::string state;
  while (state != "done") {
    const Json status = Json::parse(raw::request(daemon.socket, "GET", fmt::format("/v1/jobs/{}", job)).body);
    state = status["state"];
    ASSERT_NE(state, "failed") << status.dump();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const Json answer = ask_process(daemon, fragment);
  EXPECT_NE(answer["plan"]["id"], old.hex());
  EXPECT_FALSE(answer.contains("made_by"));
  EXPECT_GT(answer["plan"]["verified_share"], 0);
  const Json feed = Json::parse(raw::request(daemon.socket, "GET", "/v1/promotions?after=0").body);
  EXPECT_EQ(feed["promotions"].back()["plan"], answer["plan"]["id"]);
  EXPECT_TRUE(daemon.terminate().success());
}

}  // namespace
}  // namespace stitch::daemon
