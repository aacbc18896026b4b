// Look-ups and jobs with the real store, compiler and emulated device, without sockets.
#include "daemon/jobs/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "db/sqlite.h"
#include "tests/daemon/running_service.h"
#include "tests/kernel/example_graphs.h"
#include "tests/tuning/sample_fragments.h"

namespace stitch::daemon {
namespace {

using Source = api::LookupAnswer::Source;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t patient_ms = 120'000;

class ServiceTest : public testing::Test {
 protected:
  RunningService& start(RunningOptions options = {}) { return running_.emplace(folder_ / "stitch.db", options); }
  static api::LookupAnswer ask(Service& service, const graph::Graph& fragment, std::int64_t deadline_ms = patient_ms) {
    const auto answer = service.lookup({fragment, "test", deadline_ms, true});
    EXPECT_TRUE(answer.ok()) << (answer ? "" : answer.error().message);
    return answer.value_or({});
  }

  /// A first look-up predicts and has the fragment tuned; the next one finds a plan that was proved.
  void expect_predicted_then_tuned(const graph::Graph& fragment);

  const TestFolder folder_;
  std::optional<RunningService> running_;
};

void ServiceTest::expect_predicted_then_tuned(const graph::Graph& fragment) {
  RunningService& running = start();
  const api::LookupAnswer miss = ask(*running.service, fragment);
  ASSERT_EQ(miss.source, Source::predicted);
  EXPECT_THAT(miss.matched, IsEmpty());
  EXPECT_THAT(miss.differed, ElementsAre("fragment"));
  ASSERT_TRUE(miss.plan && miss.job);
  EXPECT_EQ(miss.plan->label, "predicted");
  EXPECT_EQ(miss.plan->fragment, miss.fragment);
  EXPECT_EQ(running.wait_for(*miss.job).state, "done");

  const api::LookupAnswer hit = ask(*running.service, fragment);
  EXPECT_EQ(hit.source, Source::store);
  EXPECT_THAT(hit.matched, ElementsAre("fragment", "device", "architecture", "toolkit", "version"));
  EXPECT_THAT(hit.differed, IsEmpty());
  EXPECT_GT(hit.plan->verified_share, 0);
  EXPECT_FALSE(hit.job);
  for (const api::KernelLaunch& launch : hit.plan->launches) {
    EXPECT_TRUE(running.store->get_artifact(launch.cubin).ok());
    EXPECT_TRUE(running.store->get_artifact(launch.ptx).ok());
  }
}

TEST_F(ServiceTest, AMissIsPredictedThenTunedAndThenAHit) {
  expect_predicted_then_tuned(tuning::samples::softmax(8, 64));
}

TEST_F(ServiceTest, AProductIsServedLikeAnyFragment) {
  expect_predicted_then_tuned(kernel::test::matmul(graph::DType::bf16, 40, 48, 64));
}

TEST_F(ServiceTest, AMissNamesTheFieldInWhichTheClosestPlanDiffers) {
  RunningService& running = start();
  const api::LookupAnswer first = ask(*running.service, tuning::samples::softmax(8, 64));
  const api::LookupAnswer second = ask(*running.service, tuning::samples::softmax(16, 64));
  EXPECT_THAT(second.differed, ElementsAre("shape"));
  EXPECT_THAT(second.matched, ElementsAre("device", "architecture", "toolkit", "version"));
  EXPECT_EQ(second.family, first.family);
  EXPECT_TRUE(second.closest_plan.has_value());
}

TEST_F(ServiceTest, ArgumentOrderDoesNotMatterAndIsToldBack) {
  RunningService& running = start({.work = false});
  const graph::Graph one = tuning::samples::scaled_difference(256),
                     other = tuning::samples::scaled_difference(256, true);
  const api::LookupAnswer a = ask(*running.service, one), b = ask(*running.service, other);
  EXPECT_EQ(b.source, Source::store);
  ASSERT_EQ(a.plan->id, b.plan->id);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto name = [](const graph::Graph& graph, int index) { return graph.node(graph.parameters()[index]).name; };
    EXPECT_EQ(name(one, a.parameter_order[i]), name(other, b.parameter_order[i]));
  }
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(a.result_order[i], 1 - b.result_order[i]);
}

TEST_F(ServiceTest, EightClientsShareOnePredictionAndOneJob) {
  RunningService& running = start();
  const graph::Graph fragment = tuning::samples::softmax(24, 96);
  std::vector<std::thread> threads;
  std::vector<api::LookupAnswer> answers(8);
  for (api::LookupAnswer& answer : answers) {
    threads.emplace_back([&] { answer = ask(*running.service, fragment); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const api::LookupAnswer& answer : answers) {
    ASSERT_TRUE(answer.plan.has_value());
    EXPECT_EQ(answer.plan->id, answers[0].plan->id);
  }
  running.wait_for(*answers[0].job);
  const auto jobs = running.store->list_jobs({}, {});
  ASSERT_EQ(jobs->items.size(), 1U);
  EXPECT_EQ(jobs->items[0].state, db::JobState::done);
  EXPECT_EQ(running.store->statistics()->plans, 1);
  EXPECT_EQ(running.store->statistics()->promotions, 1);
}

TEST_F(ServiceTest, ADeadlineThatPassesLeavesAJobToFollow) {
  RunningService& running = start();
  const api::LookupAnswer answer = ask(*running.service, tuning::samples::softmax(40, 80), 0);
  EXPECT_EQ(answer.source, Source::pending);
  EXPECT_FALSE(answer.plan);
  ASSERT_TRUE(answer.job);
  EXPECT_EQ(running.wait_for(*answer.job).state, "done");
  EXPECT_EQ(ask(*running.service, tuning::samples::softmax(40, 80), 0).source, Source::store);
}

TEST_F(ServiceTest, ADeadlineBeginsWhenTheRequestDid) {
  RunningService& running = start({.work = false});
  const auto long_ago = std::chrono::steady_clock::now() - std::chrono::hours(1);
  const auto begun = running.service->begin_lookup({tuning::samples::softmax(9, 64), "test", 5000, false}, long_ago);
  ASSERT_TRUE(begun.ok());
  const auto* missed = std::get_if<PendingLookup>(&*begun);
  ASSERT_NE(missed, nullptr);
  EXPECT_EQ(missed->until, long_ago + std::chrono::seconds(5)) << "what reading took is part of the wait";
}

TEST_F(ServiceTest, BoundsAreKept) {
  RunningService& running = start({.work = false, .serve = false, .most_queued = 1, .predictions = 0});
  const api::LookupAnswer first = ask(*running.service, tuning::samples::softmax(8, 64));
  EXPECT_EQ(first.source, Source::pending) << "no prediction is free, and that is not waited for";
  EXPECT_TRUE(first.job);
  EXPECT_FALSE(ask(*running.service, tuning::samples::softmax(8, 32)).job) << "a full queue costs the improvement only";
  const auto refused = running.service->submit_fragment(tuning::samples::softmax(8, 32), "");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::resource_exhausted);
  EXPECT_TRUE(running.service->submit_fragment(tuning::samples::softmax(8, 64), "")->joined);
}

TEST_F(ServiceTest, WithoutImprovementNothingIsEnqueued) {
  RunningService& running = start({.work = false});
  const graph::Graph fragment = tuning::samples::softmax(12, 104);  // no other test tunes it: the tuner is shared
  const auto answer = running.service->lookup({fragment, "", patient_ms, false});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->source, Source::predicted);
  EXPECT_FALSE(answer->job);
  EXPECT_THAT(running.store->list_jobs({}, {})->items, IsEmpty());
  // Somebody else wants it better: asked for once, on a hit.
  EXPECT_TRUE(ask(*running.service, fragment).job);
  EXPECT_FALSE(ask(*running.service, fragment).job);
  EXPECT_EQ(running.store->list_jobs({}, {})->items.size(), 1U);
}

TEST_F(ServiceTest, AnImprovementThatFoundNoRoomIsAskedForAgain) {
  RunningService& running = start({.work = false, .serve = false, .most_queued = 1});
  const graph::Graph fragment = tuning::samples::softmax(12, 112);  // no other test tunes it: the tuner is shared
  ASSERT_TRUE(running.service->lookup({fragment, "", patient_ms, false}).ok());
  const auto other = running.service->submit_fragment(tuning::samples::softmax(8, 64), "");
  ASSERT_TRUE(other.ok());
  const api::LookupAnswer full = ask(*running.service, fragment);
  EXPECT_EQ(full.source, Source::store);
  EXPECT_FALSE(full.job);
  ASSERT_TRUE(running.service->cancel(other->job).ok());
  EXPECT_TRUE(ask(*running.service, fragment).job);
}

TEST_F(ServiceTest, ALockedStoreCostsTheImprovementNotTheAnswer) {
  RunningService& running = start({.work = false, .serve = false, .busy_timeout_ms = 10});
  const graph::Graph fragment = tuning::samples::softmax(12, 120);
  ASSERT_TRUE(running.service->lookup({fragment, "", patient_ms, false}).ok());
  {
    db::sqlite::OpenOptions same;
    same.path = folder_ / "stitch.db";
    const auto other = db::sqlite::Connection::open(same);
    ASSERT_TRUE(other.ok());
    const auto held = db::sqlite::Transaction::begin(**other, db::sqlite::Transaction::Kind::write);
    ASSERT_TRUE(held.ok());
    const auto locked = running.service->lookup({fragment, "", patient_ms, true});
    ASSERT_TRUE(locked.ok()) << locked.error().message;
    EXPECT_EQ(locked->source, Source::store);
    EXPECT_FALSE(locked->job);
  }
  EXPECT_TRUE(ask(*running.service, fragment).job);
}

TEST_F(ServiceTest, WhatCannotBePlannedIsAnErrorThatNamesIt) {
  RunningService& running = start();
  graph::Builder builder;
  const graph::Value x = builder.parameter(graph::DType::f32, {4}, "x");
  graph::OpaqueAttributes opaque;
  opaque.target = "mystery";
  opaque.results = {{graph::DType::f32, {4}}};
  const graph::Graph fragment = *builder.finish({builder.add(graph::Op::opaque, {x}, opaque)});
  const auto answer = running.service->lookup({fragment, "", patient_ms, true});
  ASSERT_FALSE(answer.ok());
  EXPECT_THAT(answer.error().message, testing::Not(IsEmpty()));
  const auto jobs = running.store->list_jobs({}, {});
  ASSERT_EQ(jobs->items.size(), 1U);
  EXPECT_EQ(running.wait_for(jobs->items[0].id).state, "failed");
  // Asking again starts no other job; submitting does.
  EXPECT_FALSE(running.service->lookup({fragment, "", patient_ms, true}).ok());
  EXPECT_EQ(running.store->list_jobs({}, {})->items.size(), 1U);
  EXPECT_FALSE(running.service->submit_fragment(fragment, "")->joined);
}

TEST_F(ServiceTest, AModelIsTunedAndRecorded) {
  RunningService& running = start();
  const std::string model = graph::encode(tuning::samples::softmax(32, 64), graph::Encoding::json);
  const auto submitted = running.service->submit_model(model, "softmax.json");
  ASSERT_TRUE(submitted.ok());
  EXPECT_EQ(submitted->subject, sha256(model).hex());
  const api::JobStatus job = running.wait_for(submitted->job);
  ASSERT_EQ(job.state, "done") << (job.error ? job.error->message : "");
  EXPECT_THAT(job.result, HasSubstr("\"distinct_fragments\":1"));
  const auto workload = running.store->get_workload(sha256(model));
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ(workload->name, "softmax.json");
  ASSERT_EQ(workload->parts.size(), 1U);
  EXPECT_TRUE(running.store
                  ->find_plan({workload->parts[0].fragment, tuning::shared_tuner(tuning::shared_device()).target()}, {})
                  ->plan);
}

TEST_F(ServiceTest, AModelThatIsTakenUpAgainIsNotTunedTwice) {
  RunningService& running = start();
  const std::string model = graph::encode(tuning::samples::layered_model(3), graph::Encoding::json);
  const api::JobStatus first = running.wait_for(running.service->submit_model(model, "layers.json")->job);
  ASSERT_EQ(first.state, "done") << (first.error ? first.error->message : "");
  EXPECT_THAT(first.result, HasSubstr("\"distinct_fragments\":3"));
  const std::int64_t candidates = running.store->statistics()->candidates;
  const auto events_of = [&](std::int64_t job) {
    std::string text;
    const auto events = running.store->list_job_events(job, {});
    for (const db::JobEvent& event : events->items) text += event.detail + "\n";
    return text;
  };
  EXPECT_THAT(events_of(first.id), HasSubstr("verify"));
  const api::JobStatus second = running.wait_for(running.service->submit_model(model, "layers.json")->job);
  ASSERT_EQ(second.state, "done");
  EXPECT_THAT(events_of(second.id), testing::Not(HasSubstr("verify")));
  EXPECT_EQ(running.store->statistics()->candidates, candidates);
  const auto verified = [](const api::JobStatus& job) { return job.result.substr(job.result.find("\"verified\"")); };
  EXPECT_EQ(verified(second), verified(first));
}

TEST_F(ServiceTest, ABadModelFailsItsJob) {
  RunningService& running = start();
  const auto submitted = running.service->submit_model("HloModule broken\n\nENTRY main {", "broken.hlo.txt");
  ASSERT_TRUE(submitted.ok());
  const api::JobStatus job = running.wait_for(submitted->job);
  EXPECT_EQ(job.state, "failed");
  EXPECT_EQ(job.error->kind, ErrorKind::parse);
  EXPECT_EQ(running.service->submit_model("", "x").error().kind, ErrorKind::invalid_argument);
  const auto trials = running.service->submit_model("HloModule m", "x", 8);
  EXPECT_EQ(trials.error().kind, ErrorKind::invalid_argument);
  EXPECT_THAT(trials.error().message, testing::HasSubstr("8 trials")) << "nothing measures here";
}

// The file of a model is needed until its job has ended; a daemon that runs for months must not keep them all.
TEST_F(ServiceTest, WhatIsNoLongerNeededIsDroppedOnceADay) {
  Sha256 model;
  {
    RunningService& running = start();
    const auto submitted = running.service->submit_model("HloModule broken", "broken.hlo.txt");
    EXPECT_EQ(running.wait_for(submitted->job).state, "failed");
    model = *Sha256::from_hex(submitted->subject);
    EXPECT_TRUE(running.store->get_upload(model).ok());
    EXPECT_EQ(running.store->list_jobs({}, {})->items.size(), 1U) << "nothing is dropped unless asked for";
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  RunningService& running = start({.keep_us = 1000});
  const auto jobs = running.store->list_jobs({{}, std::string(pruning_job)}, {});
  ASSERT_EQ(jobs->items.size(), 1U);
  const api::JobStatus pruned = running.wait_for(jobs->items[0].id);
  EXPECT_EQ(pruned.state, "done");
  EXPECT_THAT(pruned.result, testing::AllOf(HasSubstr("\"models\":1"), HasSubstr("\"jobs\":1")));
  EXPECT_EQ(running.store->get_upload(model).error().kind, ErrorKind::not_found);
  ask(*running.service, tuning::samples::softmax(8, 88));
  EXPECT_EQ(running.store->list_jobs({{}, std::string(pruning_job)}, {})->items.size(), 1U) << "tomorrow again";
}

TEST_F(ServiceTest, JobsAreCancelledAndSurviveARestart) {
  std::int64_t kept = 0, cancelled = 0;
  {
    RunningService& running = start({.work = false});
    kept = running.service->submit_fragment(tuning::samples::softmax(8, 48), "kept")->job;
    cancelled = running.service->submit_fragment(tuning::samples::softmax(8, 56), "cancelled")->job;
    EXPECT_EQ(running.service->cancel(cancelled)->state, "cancelled");
    EXPECT_EQ(running.service->cancel(12345).error().kind, ErrorKind::not_found);
    // As if the process had died with the job in its hands.
    ASSERT_TRUE((*running.store->claim_job("the dead", 1'000'000'000, {})).has_value());
    running_.reset();
  }
  RunningService& running = start();
  EXPECT_EQ(running.wait_for(kept).state, "done");
  EXPECT_EQ(running.service->job(kept)->attempts, 2);
  EXPECT_EQ(running.service->job(cancelled)->state, "cancelled");
  EXPECT_EQ(ask(*running.service, tuning::samples::softmax(8, 48)).source, Source::store);
}

TEST_F(ServiceTest, PromotionsTellWhatIsServedNow) {
  RunningService& running = start({.work = false});
  EXPECT_THAT(running.service->promotions(0)->promotions, IsEmpty());
  const api::LookupAnswer answer = ask(*running.service, tuning::samples::softmax(8, 64));
  const auto feed = running.service->promotions(0);
  ASSERT_EQ(feed->promotions.size(), 1U);
  EXPECT_EQ(feed->promotions[0].plan, answer.plan->id);
  EXPECT_EQ(feed->last, answer.plan->sequence);
  EXPECT_EQ(running.service->promotions(feed->last)->last, feed->last);
}

}  // namespace
}  // namespace stitch::daemon
