#include "db/job_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/db/sample_records.h"

namespace stitch::db {
namespace {

using samples::expect_error;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t lease = 1000;

class JobTest : public testing::Test {
 protected:
  void SetUp() override {
    SqliteOptions options;
    options.path = folder / "stitch.db";
    options.max_queued_jobs = 5;
    clock.advance_us(100);
    store = samples::opened(options, clock);
  }

  std::int64_t enqueue(const Job& job) {
    const Result<EnqueuedJob> enqueued = store->enqueue_job(job);
    EXPECT_OK(enqueued);
    return enqueued.ok() ? enqueued->job.id : 0;
  }
  std::optional<Job> claim(std::string_view owner = "worker 1", const std::vector<std::string>& kinds = {}) {
    const Result<std::optional<Job>> claimed = store->claim_job(owner, lease, kinds);
    EXPECT_OK(claimed);
    return claimed.ok() ? *claimed : std::nullopt;
  }
  std::vector<std::string> event_kinds(std::int64_t job) {
    std::vector<std::string> kinds;
    const Listing<JobEvent> events = *store->list_job_events(job, {});
    for (const JobEvent& event : events.items) kinds.push_back(event.kind);
    return kinds;
  }

  TestFolder folder;
  ManualClock clock;
  std::unique_ptr<Store> store;
};

TEST_F(JobTest, LivesFromQueuedToDone) {
  const std::int64_t id = enqueue(samples::job("fragment 1"));
  Job expected = samples::job("fragment 1");
  expected.id = id;
  expected.created_us = 100;
  EXPECT_EQ(*store->get_job(id), expected);

  clock.advance_us(10);
  const std::optional<Job> claimed = claim();
  expected.state = JobState::running;
  expected.owner = "worker 1";
  expected.attempts = expected.stalled = 1;
  expected.fence = 1;
  expected.started_us = 110;
  expected.lease_until_us = 110 + lease;
  EXPECT_EQ(claimed, expected);
  EXPECT_EQ(claim(), std::nullopt) << "it is taken";

  ASSERT_OK(store->report_progress(id, 1, 0.5, "12 of 24 kernels verified", ""));
  ASSERT_OK(store->report_progress(id, 1, 0.25, "{\"plan\":1}", "plan"));
  const Job half = *store->get_job(id);
  EXPECT_EQ(half.progress, 0.5) << "it never falls";
  EXPECT_EQ(half.message, "{\"plan\":1}");
  EXPECT_EQ(half.stalled, 0);

  clock.advance_us(10);
  ASSERT_OK(store->finish_job(id, 1, {JobState::done, std::string("\0result", 7), {}}));
  const Job done = *store->get_job(id);
  EXPECT_EQ(done.state, JobState::done);
  EXPECT_EQ(done.progress, 1);
  EXPECT_EQ(done.result, std::string("\0result", 7));
  EXPECT_EQ(done.finished_us, 120);
  EXPECT_TRUE(done.finished());
  EXPECT_THAT(event_kinds(id), ElementsAre("queued", "claimed", "progress", "plan", "done"));
}

TEST_F(JobTest, FailureKeepsItsKindAndMessage) {
  const std::int64_t id = enqueue(samples::job());
  const std::int64_t fence = claim()->fence;
  const Error error = make_error(ErrorKind::unsupported, "operator Foo at line 3");
  expect_error(store->finish_job(id, fence, {JobState::failed, {}, {}}), ErrorKind::invalid_argument, "error");
  expect_error(store->finish_job(id, fence, {JobState::done, {}, error}), ErrorKind::invalid_argument, "error");
  expect_error(store->finish_job(id, fence, {JobState::running, {}, {}}), ErrorKind::invalid_argument, "no end");
  ASSERT_OK(store->finish_job(id, fence, {JobState::failed, {}, error}));
  EXPECT_EQ(store->get_job(id)->error, error);
}

TEST_F(JobTest, HigherPriorityThenOlderGoesFirst) {
  const std::int64_t low = enqueue(samples::job("a", 0));
  const std::int64_t high = enqueue(samples::job("b", 5));
  const std::int64_t also_high = enqueue(samples::job("c", 5));
  std::vector<std::int64_t> order;
  while (const std::optional<Job> job = claim()) order.push_back(job->id);
  EXPECT_THAT(order, ElementsAre(high, also_high, low));
}

TEST_F(JobTest, AClaimAsksForKinds) {
  Job train = samples::job();
  train.kind = "train";
  enqueue(samples::job());
  const std::int64_t id = enqueue(train);
  EXPECT_EQ(claim("w", {"export"}), std::nullopt);
  EXPECT_EQ(claim("w", {"export", "train"})->id, id);
}

TEST_F(JobTest, EqualWorkIsDoneOnce) {
  const std::int64_t first = enqueue(samples::job("fragment 1", 1));
  const EnqueuedJob joined = *store->enqueue_job(samples::job("fragment 1", 7));
  EXPECT_TRUE(joined.joined);
  EXPECT_EQ(joined.job.id, first);
  EXPECT_EQ(joined.job.priority, 7) << "the more urgent asker moves it forward";
  const std::int64_t fence = claim()->fence;
  EXPECT_TRUE(store->enqueue_job(samples::job("fragment 1"))->joined) << "running, still the same";
  EXPECT_EQ(store->find_unfinished_job("fragment 1").value()->id, first);
  ASSERT_OK(store->finish_job(first, fence, {}));
  EXPECT_EQ(*store->find_unfinished_job("fragment 1"), std::nullopt);
  EXPECT_FALSE(store->enqueue_job(samples::job("fragment 1"))->joined);
  EXPECT_FALSE(store->enqueue_job(samples::job(""))->joined);
  EXPECT_FALSE(store->enqueue_job(samples::job(""))->joined) << "without a key every job is its own";
}

TEST_F(JobTest, TheQueueIsBounded) {
  for (int i = 0; i < 5; ++i) enqueue(samples::job());
  expect_error(store->enqueue_job(samples::job()), ErrorKind::resource_exhausted, "5 jobs are waiting");
  ASSERT_TRUE(claim());
  EXPECT_OK(store->enqueue_job(samples::job()));
}

TEST_F(JobTest, AHolderWithAnOldFenceHasLostTheJob) {
  const std::int64_t id = enqueue(samples::job());
  ASSERT_EQ(claim("slow")->fence, 1);
  clock.advance_us(lease + 1);
  EXPECT_THAT(*store->requeue_orphans({}), ElementsAre(id));
  ASSERT_EQ(claim("fast")->fence, 2);
  expect_error(store->renew_job(id, 1, lease), ErrorKind::cancelled, "\"fast\" holds it by claim 2");
  expect_error(store->report_progress(id, 1, 0.5, "", ""), ErrorKind::cancelled, "claim 1 is lost");
  expect_error(store->finish_job(id, 1, {}), ErrorKind::cancelled, "claim 1 is lost");
  ASSERT_OK(store->finish_job(id, 2, {}));
  expect_error(store->finish_job(id, 2, {}), ErrorKind::cancelled, "the job is done");
}

TEST_F(JobTest, ARenewedLeaseHolds) {
  const std::int64_t id = enqueue(samples::job());
  claim();
  clock.advance_us(lease - 1);
  EXPECT_FALSE(*store->renew_job(id, 1, lease));
  clock.advance_us(lease - 1);
  EXPECT_THAT(*store->requeue_orphans({}), IsEmpty());
  clock.advance_us(2);
  EXPECT_THAT(*store->requeue_orphans({}), ElementsAre(id));
}

TEST_F(JobTest, OrphansOfOneOwnerOrOfEveryone) {
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(enqueue(samples::job()));
    claim(i == 0 ? "host a" : "host b");
  }
  EXPECT_THAT(*store->requeue_orphans({}), IsEmpty());
  EXPECT_THAT(*store->requeue_orphans({.owner = "host a"}), ElementsAre(ids[0]));
  EXPECT_THAT(*store->requeue_orphans({.everyone = true}), ElementsAre(ids[1], ids[2]));
  EXPECT_EQ(store->get_job(ids[2])->state, JobState::queued);
  EXPECT_EQ(store->get_job(ids[2])->owner, "");
  EXPECT_THAT(event_kinds(ids[0]), ElementsAre("queued", "claimed", "requeued"));
}

TEST_F(JobTest, AJobThatKillsItsOwnersIsGivenUp) {
  Job job = samples::job();
  job.max_stalled = 3;
  const std::int64_t id = enqueue(job);
  const auto die = [&] {
    const std::optional<Job> claimed = claim();
    EXPECT_OK(store->requeue_orphans({.everyone = true}));
    return claimed ? claimed->fence : 0;
  };
  die();
  die();
  const std::int64_t fence = claim()->fence;
  ASSERT_OK(store->report_progress(id, fence, 0.1, "got further", ""));
  EXPECT_OK(store->requeue_orphans({.everyone = true}));
  for (int i = 0; i < 3; ++i) EXPECT_NE(die(), 0) << "progress had reset the count";
  EXPECT_EQ(claim(), std::nullopt);
  const Job given_up = *store->get_job(id);
  EXPECT_EQ(given_up.state, JobState::failed);
  EXPECT_EQ(given_up.attempts, 6);
  EXPECT_NE(given_up.error->message.find("3 attempts without progress"), std::string::npos);
}

TEST_F(JobTest, AWallClockThatStepsBackOrForwardLosesNoJob) {
  clock.advance_us(10 * lease);
  const std::int64_t running = enqueue(samples::job("fragment 1"));
  const std::int64_t fence = claim()->fence;
  const std::int64_t queued = enqueue(samples::job("fragment 2"));
  // An hour back, as far as leases are concerned: the holder goes on, nobody takes its job, and the queue moves.
  clock.advance_us(-9 * lease);
  EXPECT_THAT(*store->requeue_orphans({}), IsEmpty());
  ASSERT_OK(store->report_progress(running, fence, 0.5, "half", ""));
  EXPECT_OK(store->renew_job(running, fence, lease));
  const std::optional<Job> second = claim("worker 2");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->id, queued);
  ASSERT_OK(store->finish_job(queued, second->fence, {JobState::done, "two", {}}));
  // And forward, beyond every lease: what looks abandoned is begun again, and its first holder is told so.
  clock.advance_us(1000 * lease);
  EXPECT_THAT(*store->requeue_orphans({}), ElementsAre(running));
  const std::int64_t fence_again = claim("worker 3")->fence;
  expect_error(store->finish_job(running, fence, {JobState::done, "late", {}}), ErrorKind::cancelled, "");
  ASSERT_OK(store->finish_job(running, fence_again, {JobState::done, "one", {}}));
  EXPECT_EQ(store->get_job(running)->result, "one");
  EXPECT_EQ(store->get_job(queued)->state, JobState::done);
}

TEST_F(JobTest, CancellingAQueuedJobEndsIt) {
  const std::int64_t id = enqueue(samples::job());
  EXPECT_EQ(store->cancel_job(id)->state, JobState::cancelled);
  EXPECT_EQ(claim(), std::nullopt);
  EXPECT_EQ(store->cancel_job(id)->state, JobState::cancelled) << "twice is as good";
  expect_error(store->cancel_job(999), ErrorKind::not_found, "no job 999");
}

TEST_F(JobTest, CancellingARunningJobAsksItsHolder) {
  const std::int64_t id = enqueue(samples::job());
  claim();
  const Job asked = *store->cancel_job(id);
  EXPECT_EQ(asked.state, JobState::running);
  EXPECT_TRUE(asked.cancel_requested);
  EXPECT_TRUE(*store->renew_job(id, 1, lease)) << "the holder hears of it";
  ASSERT_OK(store->finish_job(id, 1, {JobState::cancelled, {}, {}}));
  EXPECT_THAT(event_kinds(id), ElementsAre("queued", "claimed", "cancel", "cancelled"));
}

TEST_F(JobTest, ACancelledOrphanIsNotRunAgain) {
  const std::int64_t id = enqueue(samples::job());
  claim();
  ASSERT_OK(store->cancel_job(id));
  EXPECT_THAT(*store->requeue_orphans({.everyone = true}), ElementsAre(id));
  EXPECT_EQ(store->get_job(id)->state, JobState::cancelled);
}

TEST_F(JobTest, AFollowerResumesWhereItStopped) {
  const std::int64_t first = enqueue(samples::job());
  const std::int64_t second = enqueue(samples::job());
  claim();
  const Listing<JobEvent> start = *store->list_job_events(first, {1, 0, false});
  ASSERT_EQ(start.items.size(), 1U);
  const Listing<JobEvent> rest = *store->list_job_events(first, {100, start.items[0].sequence, false});
  ASSERT_EQ(rest.items.size(), 1U);
  EXPECT_EQ(rest.items[0].kind, "claimed");
  EXPECT_EQ(rest.items[0].detail, "worker 1");
  EXPECT_EQ(store->list_job_events(0, {})->items.size(), 3U);
  EXPECT_EQ(store->list_job_events(second, {})->items.size(), 1U);
}

TEST_F(JobTest, ListingsLeaveTheBytesOut) {
  const std::int64_t id = enqueue(samples::job("a"));
  enqueue(samples::job("b"));
  claim();
  const Listing<Job> running = *store->list_jobs({.state = JobState::running}, {});
  ASSERT_EQ(running.items.size(), 1U);
  EXPECT_EQ(running.items[0].id, id);
  EXPECT_EQ(running.items[0].payload, "");
  EXPECT_EQ(store->list_jobs({}, {})->items.size(), 2U);
  EXPECT_THAT(store->list_jobs({.kind = "train"}, {})->items, IsEmpty());
}

TEST_F(JobTest, PruningRemovesFinishedJobsWithTheirEvents) {
  const std::int64_t done = enqueue(samples::job("a"));
  ASSERT_OK(store->finish_job(done, claim()->fence, {}));
  const std::int64_t waiting = enqueue(samples::job("b"));
  clock.advance_us(1000);
  EXPECT_EQ(store->prune({clock.wall_us(), 0})->jobs, 1);
  expect_error(store->get_job(done), ErrorKind::not_found, "no job");
  EXPECT_THAT(event_kinds(done), IsEmpty());
  EXPECT_GT(waiting, done);
  EXPECT_GT(enqueue(samples::job("c")), waiting) << "ids are not used twice";
}

TEST_F(JobTest, NonsenseIsRefused) {
  Job nameless = samples::job();
  nameless.kind = "";
  expect_error(store->enqueue_job(nameless), ErrorKind::invalid_argument, "job: kind is empty");
  Job hopeless = samples::job();
  hopeless.max_stalled = 0;
  expect_error(store->enqueue_job(hopeless), ErrorKind::invalid_argument, "max_stalled");
  const std::int64_t id = enqueue(samples::job());
  claim();
  expect_error(store->report_progress(id, 1, 1.5, "", ""), ErrorKind::invalid_argument, "progress 1.5");
  expect_error(store->report_progress(id, 1, NAN, "", ""), ErrorKind::invalid_argument, "progress nan");
}

}  // namespace
}  // namespace stitch::db
