#include "daemon/jobs/job_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "db/sqlite_store.h"
#include "tests/daemon/running_service.h"

namespace stitch::daemon {
namespace {

using testing::HasSubstr;

class JobRunnerTest : public testing::Test {
 protected:
  void SetUp() override {
    db::SqliteOptions options;
    options.path = folder_ / "stitch.db";
    auto opened = db::open_sqlite_store(options, clock_);
    ASSERT_TRUE(opened.ok());
    store_ = *std::move(opened);
  }
  std::int64_t enqueue(const std::string& kind, const std::string& payload = {}) {
    db::Job job;
    job.kind = kind;
    job.payload = payload;
    job.provenance.tool = "test";
    const auto enqueued = store_->enqueue_job(job);
    EXPECT_TRUE(enqueued.ok());
    return enqueued ? enqueued->job.id : 0;
  }
  JobRunner& run(std::map<std::string, JobWork> work, int workers = 1) {
    JobRunnerOptions options;
    options.owner = "the test";
    options.workers = workers;
    options.poll_us = 5'000;
    options.report_interval_us = 0;
    runner_.emplace(*store_, clock_, options, std::move(work));
    runner_->start();
    return *runner_;
  }
  db::Job finished(std::int64_t id) const {
    while (true) {
      const auto job = store_->get_job(id);
      EXPECT_TRUE(job.ok());
      if (!job || job->finished()) return job.value_or({});
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const TestFolder folder_;
  SystemClock clock_;
  std::unique_ptr<db::Store> store_;
  std::optional<JobRunner> runner_;
};

/// Work that goes on until it is told to stop.
Result<std::string> endless(const JobContext& context, std::atomic<int>& begun) {
  ++begun;
  while (!context.stop().stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return make_error(ErrorKind::cancelled, "told to stop");
}

TEST_F(JobRunnerTest, RunsJobsAndRecordsHowTheyEnd) {
  run({{"good",
        [](const JobContext& context) -> Result<std::string> {
          context.report({"half", 0.5, "way"});
          return "done with " + context.job().payload;
        }},
       {"bad",
        [](const JobContext&) -> Result<std::string> { return make_error(ErrorKind::compile, "no such thing"); }},
       {"worse", [](const JobContext&) -> Result<std::string> { throw std::runtime_error("thrown"); }}},
      2);
  const std::int64_t good = enqueue("good", "this"), bad = enqueue("bad"), worse = enqueue("worse");
  const std::int64_t unknown = enqueue("somebody else's");
  EXPECT_EQ(finished(good).result, "done with this");
  EXPECT_EQ(finished(good).state, db::JobState::done);
  EXPECT_EQ(finished(bad).error, (Error{ErrorKind::compile, "no such thing"}));
  EXPECT_EQ(finished(worse).error, (Error{ErrorKind::internal, "thrown"}));
  EXPECT_EQ(store_->get_job(unknown)->state, db::JobState::queued);
  const auto events = store_->list_job_events(good, {});
  std::vector<std::string> kinds;
  for (const db::JobEvent& event : events->items) kinds.push_back(event.kind + " " + event.detail);
  EXPECT_THAT(kinds, testing::ElementsAre("queued ", "claimed the test", "progress half: way", "done "));
}

TEST_F(JobRunnerTest, ACancelledJobIsToldAtOnce) {
  std::atomic<int> begun = 0;
  JobRunner& runner = run({{"endless", [&](const JobContext& context) { return endless(context, begun); }}});
  const std::int64_t id = enqueue("endless");
  while (begun == 0) std::this_thread::yield();
  ASSERT_TRUE(store_->cancel_job(id).ok());
  runner.cancelled(id);
  EXPECT_EQ(finished(id).state, db::JobState::cancelled);
}

TEST_F(JobRunnerTest, StoppingPutsUnfinishedWorkBack) {
  std::atomic<int> begun = 0;
  JobRunner& runner = run({{"endless", [&](const JobContext& context) { return endless(context, begun); }}}, 2);
  const std::int64_t first = enqueue("endless"), second = enqueue("endless"), third = enqueue("endless");
  while (begun < 2) std::this_thread::yield();
  EXPECT_EQ(runner.running(), 2);
  ASSERT_TRUE(runner.stop().ok());
  for (const std::int64_t id : {first, second, third}) EXPECT_EQ(store_->get_job(id)->state, db::JobState::queued);
  EXPECT_EQ(store_->get_job(third)->attempts, 0);
  EXPECT_EQ(begun, 2);
}

TEST_F(JobRunnerTest, AJobThatIsLostIsAbandonedAndNotFinishedTwice) {
  std::atomic<int> begun = 0;
  std::atomic<bool> stolen = false;
  run({{"work", [&](const JobContext& context) -> Result<std::string> {
          if (++begun > 1) return std::string("the second");
          while (!stolen) std::this_thread::yield();
          context.report({"late", 0.5, ""});  // learns here that the job is another's
          EXPECT_TRUE(context.stop().stop_requested());
          return std::string("the first");
        }}});
  const std::int64_t id = enqueue("work");
  while (begun == 0) std::this_thread::yield();
  ASSERT_TRUE(store_->requeue_orphans({.everyone = true, .owner = ""}).ok());
  stolen = true;
  EXPECT_EQ(finished(id).result, "the second");
  EXPECT_EQ(store_->get_job(id)->attempts, 2);
}

TEST_F(JobRunnerTest, AStoreThatFailsIsToldOnceAndAskedAgain) {
  const auto rename = [&](const char* statement) {
    sqlite3* connection = nullptr;
    ASSERT_EQ(sqlite3_open((folder_ / "stitch.db").c_str(), &connection), SQLITE_OK);
    sqlite3_busy_timeout(connection, 10'000);  // the runner asks all the time
    EXPECT_EQ(sqlite3_exec(connection, statement, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(connection);
  };
  std::atomic<int> complaints = 0, claims = 0;
  JobRunnerOptions options;
  options.owner = "the test";
  options.poll_us = 1'000;
  options.most_poll_us = 4'000;
  options.complain = [&](std::string_view message) {
    EXPECT_THAT(std::string(message), HasSubstr("job"));
    ++complaints;
  };
  const std::int64_t job = enqueue("good");
  rename("ALTER TABLE job RENAME TO hidden");
  runner_.emplace(*store_, clock_, options, std::map<std::string, JobWork>{{"good", [&](const JobContext&) {
                                                                              ++claims;
                                                                              return Result<std::string>("done");
                                                                            }}});
  runner_->start();
  while (complaints == 0) std::this_thread::yield();
  for (int i = 0; i < 50; ++i) {
    runner_->wake();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(complaints, 1) << "the same failure again and again";
  EXPECT_EQ(claims, 0);
  rename("ALTER TABLE hidden RENAME TO job");
  EXPECT_EQ(finished(job).result, "done");
}

}  // namespace
}  // namespace stitch::daemon
