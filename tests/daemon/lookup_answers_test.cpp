// Answers that are kept, over real sockets and a real database: as right as those that are made anew, whoever writes.
#include "daemon/jobs/lookup_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/daemon/raw_http.h"
#include "tests/daemon/running_service.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::daemon {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class LookupAnswersTest : public testing::Test {
 protected:
  /// A look-up of this name, so that its bytes are others than those of another name.
  [[nodiscard]] raw::Answer look_up(const std::string& name, const std::string& headers = {}) const {
    const api::LookupRequest request{tuning::samples::softmax(8, 64), name, 120'000, true};
    const std::string body =
        api::encode_document(api::to_document(request, graph::Encoding::json), graph::Encoding::json);
    return raw::request(running_.socket, "POST", "/v1/lookup", body, "Content-Type: application/json\r\n" + headers);
  }
  /// Has the fragment tuned, and the answer kept.
  std::string settle() {
    const Json first = Json::parse(look_up("a").body);
    if (first.contains("job")) {
      EXPECT_EQ(running_.wait_for(first["job"]).state, "done");
    }
    // What the end of the job still writes may keep the first answers from being kept.
    for (int i = 0; i < 1000 && counts().hits == 0; ++i) EXPECT_EQ(look_up("a").status, 200);
    return look_up("a").body;
  }
  [[nodiscard]] AnswerCache::Counts counts() const { return running_.service->answers().counts(); }
  [[nodiscard]] db::Provenance provenance() const {
    db::Provenance provenance;
    provenance.tool = "test";
    provenance.wall_us = running_.clock.wall_us();
    return provenance;
  }
  /// The database as another process has it.
  [[nodiscard]] std::unique_ptr<db::Store> other_process() const {
    db::SqliteOptions options;
    options.path = folder_ / "stitch.db";
    auto opened = db::open_sqlite_store(options, running_.clock);
    EXPECT_TRUE(opened.ok()) << (opened ? "" : opened.error().message);
    return *std::move(opened);
  }

  const TestFolder folder_;
  RunningService running_{folder_ / "stitch.db", {.work = true, .serve = true}};
};

TEST_F(LookupAnswersTest, ARepeatedRequestIsAnsweredFromMemoryByteForByte) {
  const std::string kept = settle();
  const std::int64_t hits = counts().hits;
  EXPECT_EQ(look_up("a").body, kept);
  EXPECT_EQ(counts().hits, hits + 1);
  EXPECT_EQ(look_up("another name").body, kept) << "made anew";
  EXPECT_EQ(counts().hits, hits + 1);
  const raw::Answer cbor = look_up("a", "Accept: application/cbor\r\n");
  EXPECT_THAT(cbor.head, HasSubstr("Content-Type: application/cbor"));
  EXPECT_EQ(Json::from_cbor(cbor.body), Json::parse(kept));
  EXPECT_EQ(look_up("a", "Accept: application/cbor\r\n").body, cbor.body);
  EXPECT_THAT(raw::request(running_.socket, "GET", "/metrics").body,
              HasSubstr("stitch_answer_cache_events_total{event=\"hit\"}"));
}

TEST_F(LookupAnswersTest, ACommitThatChangesNothingServedKeepsTheAnswer) {
  const std::string kept = settle();
  db::Job job;
  job.kind = "nothing that is worked on here";
  job.dedupe_key = "one";
  job.provenance = provenance();
  ASSERT_TRUE(other_process()->enqueue_job(job).ok());
  const AnswerCache::Counts before = counts();
  EXPECT_EQ(look_up("a").body, kept);
  EXPECT_EQ(counts().checked, before.checked + 1);
  EXPECT_EQ(counts().stale, before.stale);
  EXPECT_EQ(look_up("a").body, kept);
  EXPECT_EQ(counts().hits, before.hits + 1);
}

TEST_F(LookupAnswersTest, WhatAnotherProcessWithdrawsIsNotServedAgain) {
  const std::string kept = settle();
  const auto plan = Hash128::from_hex(Json::parse(kept)["plan"]["id"].get<std::string>());
  ASSERT_TRUE(other_process()->withdraw(*plan, "a test", provenance()).ok());
  EXPECT_NE(Json::parse(look_up("a").body).value("source", ""), "store");
  EXPECT_EQ(counts().stale, 1);
}

TEST_F(LookupAnswersTest, WhatAnotherProcessJudgesIsToldAtOnce) {
  const std::string kept = settle();
  const auto plan = Hash128::from_hex(Json::parse(kept)["plan"]["id"].get<std::string>());
  const auto other = other_process();
  for (int round = 1; round <= 50; ++round) {
    db::PlanJudgement judgement;
    judgement.predicted_us = 1000 + round;
    judgement.verified_share = 1;
    judgement.provenance = provenance();
    ASSERT_TRUE(other->judge_plan(*plan, judgement).ok());
    EXPECT_EQ(Json::parse(look_up("a").body)["plan"]["predicted_us"], judgement.predicted_us);
  }
}

TEST_F(LookupAnswersTest, WatchersHearOfWhatAnotherProcessPromotes) {
  const std::string kept = settle();
  const auto plan = Hash128::from_hex(Json::parse(kept)["plan"]["id"].get<std::string>());
  const std::string last =
      Json::parse(raw::request(running_.socket, "GET", "/v1/promotions?after=0").body)["last"].dump();
  std::vector<std::jthread> watchers;
  std::vector<std::string> heard(20);
  for (std::string& one : heard) {
    watchers.emplace_back(
        [&] { one = raw::request(running_.socket, "GET", "/v1/promotions?wait_ms=60000&after=" + last).body; });
  }
  ASSERT_TRUE(other_process()->withdraw(*plan, "a test", provenance()).ok());
  watchers.clear();
  for (const std::string& one : heard) EXPECT_EQ(Json::parse(one)["promotions"].size(), 1U) << one;
}

}  // namespace
}  // namespace stitch::daemon
