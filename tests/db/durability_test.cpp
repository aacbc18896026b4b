// What survives: kill -9, full disks, failing writes. Each test kills or breaks real processes and files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "tests/base/rounds.h"
#include "tests/db/fault_vfs.h"
#include "tests/db/sample_records.h"

namespace stitch::db {
namespace {

namespace fs = std::filesystem;
using samples::expect_error;
using testing::IsEmpty;

/// A child process and a pipe from it.
struct Child {
  pid_t process = 0;
  int from = -1;

  /// The next number it sent; nothing when the pipe has ended.
  [[nodiscard]] std::optional<int> next() const {
    int number = 0;
    return ::read(from, &number, sizeof number) == sizeof number ? std::optional(number) : std::nullopt;
  }
  int wait() {
    int status = 0;
    ::waitpid(process, &status, 0);
    ::close(from);
    return status;
  }
};

/// Forks; the child runs `work(send)`, where send(number) returns once the parent may have read it.
template <class Work>
Child start(const Work& work) {
  int ends[2];
  if (::pipe(ends) != 0) return {};
  const pid_t process = ::fork();
  if (process == 0) {
    ::close(ends[0]);
    work([&](int number) { return ::write(ends[1], &number, sizeof number) == sizeof number; });
    ::_exit(0);
  }
  ::close(ends[1]);
  return {process, ends[0]};
}

/// Claims a job, then commits plans from `first` on until it is killed, acknowledging each after the commit.
template <class Send>
void commit_plans(const fs::path& path, int first, const Send& send) {
  ManualClock clock;
  SqliteOptions options;
  options.path = path;
  auto store = open_sqlite_store(options, clock);
  if (!store) ::_exit(1);
  if (!(*store)->enqueue_job(samples::job("tune everything"))) ::_exit(2);
  const auto job = (*store)->claim_job("the killed", 1'000'000, {});
  if (!job || !*job) ::_exit(3);
  for (int number = first;; ++number) {
    if (!(*store)->put_fragment(samples::fragment(number))) ::_exit(4);
    if (!(*store)->put_plan(samples::bundle(samples::fragment(number), number), Admission::if_vacant)) ::_exit(5);
    const double progress = 1 - 1 / (number + 2.0);
    if (!(*store)->report_progress((*job)->id, (*job)->fence, progress, "", "")) ::_exit(6);
    if (!send(number)) ::_exit(7);
  }
}

TEST(DurabilityTest, WhateverWasAcknowledgedSurvivesKill9) {
  const TestFolder folder;
  const fs::path path = folder / "stitch.db";
  ManualClock clock;
  Random random(20);
  const auto expect_stored = [](const Store& store, int number) {
    const PlanBundle expected = samples::bundle(samples::fragment(number), number);
    const Result<PlanBundle> bundle = store.get_plan_bundle(expected.plan.id);
    ASSERT_OK(bundle);
    EXPECT_EQ(bundle->artifacts, expected.artifacts);
    EXPECT_EQ(store.find_plan(expected.plan.key, {})->plan->id, expected.plan.id);
  };
  std::vector<int> acknowledged;
  int next = 0;
  const int kills = rounds(25);
  for (int round = 0; round < kills; ++round) {
    const std::size_t before = acknowledged.size();
    const Child child = start([&](const auto& send) { commit_plans(path, next, send); });
    // Killed at a random number of commits (in round 0 while the database is made) and a random moment of the next.
    const auto wanted = round == 0 ? 0 : random.below(30);
    for (std::uint64_t i = 0; i < wanted; ++i) {
      const std::optional<int> number = child.next();
      ASSERT_TRUE(number) << "the child ended by itself";
      acknowledged.push_back(*number);
    }
    ::usleep(static_cast<useconds_t>(random.below(20'000)));
    ::kill(child.process, SIGKILL);
    while (const std::optional<int> number = child.next()) acknowledged.push_back(*number);
    const int status = Child(child).wait();
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    if (!acknowledged.empty()) next = acknowledged.back() + 2;  // one more may have been committed

    const auto store = samples::opened(path, clock);
    ASSERT_TRUE(store);
    ASSERT_THAT(store->integrity_check(true)->problems, IsEmpty());
    for (std::size_t i = before; i < acknowledged.size(); ++i) expect_stored(*store, acknowledged[i]);
    const StoreStatistics statistics = *store->statistics();
    ASSERT_EQ(statistics.plans, statistics.kernels) << "half of a plan was stored";
    const std::int64_t running = statistics.jobs[static_cast<int>(JobState::running)];
    ASSERT_EQ(std::ssize(*store->requeue_orphans({.everyone = true})), running);
    const auto resumed = store->find_unfinished_job("tune everything");
    ASSERT_OK(resumed);
    ASSERT_TRUE(*resumed || acknowledged.empty());
    if (*resumed) {
      ASSERT_EQ((*resumed)->state, JobState::queued);
    }
  }
  EXPECT_GT(std::ssize(acknowledged), 4 * kills);
  std::printf("%d kills, %zu plans acknowledged\n", kills, acknowledged.size());
  const auto store = samples::opened(path, clock);
  for (const int number : acknowledged) expect_stored(*store, number);
}

/// Commits plan 0, acknowledges it, and dies at the nth system call of the commit of plan 1; of a write, half is done.
template <class Send>
void die_within_a_commit(const fs::path& path, int nth, const Send& send) {
  ManualClock clock;
  FaultVfs vfs;
  SqliteOptions options;
  options.path = path;
  options.vfs = vfs.name();
  auto store = open_sqlite_store(options, clock);
  if (!store || !(*store)->put_fragment(samples::fragment(0)) || !(*store)->put_fragment(samples::fragment(1)))
    ::_exit(1);
  if (!(*store)->put_plan(samples::bundle(samples::fragment(0), 0), Admission::if_vacant)) ::_exit(2);
  if (!send(0)) ::_exit(3);
  vfs.die_at(nth);
  if (!(*store)->put_plan(samples::bundle(samples::fragment(1), 1), Admission::if_vacant)) ::_exit(4);
  vfs.stop();
  if (!send(1)) ::_exit(5);
}

TEST(DurabilityTest, AKillBetweenAnyTwoSystemCallsOfACommitLeavesAllOfItOrNothing) {
  const PlanBundle first = samples::bundle(samples::fragment(0), 0);
  const PlanBundle second = samples::bundle(samples::fragment(1), 1);
  ManualClock clock;
  int kills = 0;
  bool killed = true;
  for (int nth = 1; killed; ++nth) {
    const TestFolder folder;
    const fs::path path = folder / "stitch.db";
    Child child = start([&](const auto& send) { die_within_a_commit(path, nth, send); });
    std::vector<int> acknowledged;
    while (const std::optional<int> number = child.next()) acknowledged.push_back(*number);
    const int status = child.wait();
    killed = WIFSIGNALED(status);
    ASSERT_TRUE(killed ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0) << "call " << nth;
    ASSERT_EQ(acknowledged, killed ? std::vector{0} : (std::vector{0, 1}));
    kills += static_cast<int>(killed);

    const auto store = samples::opened(path, clock);
    ASSERT_TRUE(store) << "call " << nth;
    ASSERT_THAT(store->integrity_check(true)->problems, IsEmpty()) << "call " << nth;
    ASSERT_OK(store->get_plan_bundle(first.plan.id));
    const StoreStatistics statistics = *store->statistics();
    ASSERT_EQ(statistics.plans, statistics.kernels) << "half of a plan was stored, call " << nth;
    if (!killed) ASSERT_OK(store->get_plan_bundle(second.plan.id));
    ASSERT_OK(store->put_plan(second, Admission::if_vacant));  // it goes on
    ASSERT_OK(store->get_plan_bundle(second.plan.id));
  }
  EXPECT_GT(kills, 5) << "a commit writes several pages of the log and syncs it";
  std::printf("%d system calls of a commit, killed at each\n", kills);
}

/// Where a write or sync fails, in order of the operations of one put_plan.
class FaultTest : public testing::TestWithParam<int> {};

TEST_P(FaultTest, AFailedWriteIsReportedAndLosesNothing) {
  const TestFolder folder;
  ManualClock clock;
  FaultVfs vfs;
  SqliteOptions options;
  options.path = folder / "stitch.db";
  options.vfs = vfs.name();
  auto store = samples::opened(options, clock);
  std::vector<Hash128> acknowledged = {samples::put(*store, 0)};
  const ErrorKind expected = GetParam() == SQLITE_FULL ? ErrorKind::resource_exhausted : ErrorKind::io;

  int failures = 0;
  for (int at = 1;; ++at) {
    const FragmentRecord fragment = samples::fragment(at);
    ASSERT_OK(store->put_fragment(fragment));
    const PlanBundle bundle = samples::bundle(fragment, at);
    vfs.fail_at(at, GetParam());
    const Result<PutPlan> put = store->put_plan(bundle, Admission::if_vacant);
    const bool failed = vfs.stop();
    ASSERT_EQ(put.ok(), !failed);
    if (put) acknowledged.push_back(put->id);
    if (!failed) break;
    ++failures;
    ASSERT_EQ(to_string(put.error().kind), to_string(expected)) << put.error().message;
    expect_error(store->get_plan(bundle.plan.id), ErrorKind::not_found, "no plan");
    ASSERT_OK(store->put_plan(bundle, Admission::if_vacant));  // and it works again
    acknowledged.push_back(bundle.plan.id);
    for (const Hash128& id : acknowledged) ASSERT_OK(store->get_plan_bundle(id));
  }
  EXPECT_GT(failures, 3) << "a commit writes and syncs the log";

  // What a crash at this moment would leave.
  fs::copy_file(options.path, folder / "crashed.db");
  fs::copy_file(options.path.string() + "-wal", folder / "crashed.db-wal");
  const auto recovered = samples::opened(folder / "crashed.db", clock);
  ASSERT_TRUE(recovered);
  for (const Hash128& id : acknowledged) EXPECT_OK(recovered->get_plan_bundle(id));
  EXPECT_THAT(recovered->integrity_check(true)->problems, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Durability, FaultTest, testing::Values(SQLITE_FULL, SQLITE_IOERR_WRITE),
                         [](const auto& test) { return test.param == SQLITE_FULL ? "DiskFull" : "WriteError"; });

TEST(DurabilityTest, AFailingCreationLeavesNothingHalfMade) {
  for (int at = 1;; ++at) {
    const TestFolder folder;
    ManualClock clock;
    FaultVfs vfs;
    SqliteOptions options;
    options.path = folder / "stitch.db";
    options.vfs = vfs.name();
    vfs.fail_at(at, SQLITE_FULL);
    const auto store = open_sqlite_store(options, clock);
    if (!vfs.stop()) {
      EXPECT_OK(store);
      EXPECT_GT(at, 5);
      return;
    }
    if (store) continue;  // closing the finished file failed to tidy up, which costs nothing
    EXPECT_EQ(to_string(store.error().kind), "resource_exhausted") << store.error().message;
    const bool made = fs::exists(options.path);
    EXPECT_TRUE(!made || open_sqlite_store(options, clock).ok()) << "whole or not at all";
  }
}

TEST(DurabilityTest, ASizeLimitIsADiskThatIsFull) {
  const TestFolder folder;
  ManualClock clock;
  SqliteOptions options;
  options.path = folder / "stitch.db";
  samples::opened(options, clock).reset();
  options.max_pages = static_cast<std::int64_t>(fs::file_size(options.path)) / 4096 + 20;
  auto store = samples::opened(options, clock);
  std::vector<Hash128> acknowledged;
  Result<PutPlan> put = make_error(ErrorKind::internal, "not tried");
  int number = 0;
  for (; number < 1000; ++number) {
    const FragmentRecord fragment = samples::fragment(number);
    if (!store->put_fragment(fragment)) break;
    put = store->put_plan(samples::bundle(fragment, number), Admission::if_vacant);
    if (!put) break;
    acknowledged.push_back(put->id);
  }
  ASSERT_LT(number, 1000);
  EXPECT_GT(number, 2);
  expect_error(store->enqueue_job([] {
    Job large = samples::job();
    large.payload = std::string(1 << 20, 'x');
    return large;
  }()),
               ErrorKind::resource_exhausted, "database or disk is full");
  for (const Hash128& id : acknowledged) EXPECT_OK(store->get_plan_bundle(id));
  EXPECT_THAT(store->integrity_check(true)->problems, IsEmpty());
  store.reset();
  options.max_pages = 0;
  store = samples::opened(options, clock);
  EXPECT_NE(samples::put(*store, 5000), Hash128{}) << "with room again it goes on";
}

TEST(DurabilityTest, TheOperatingSystemsLimitIsAnError) {
  const TestFolder folder;
  ManualClock clock;
  const fs::path path = folder / "stitch.db";
  samples::put(*samples::opened(path, clock), 0);
  Child child = start([&](const auto& send) {
    auto store = samples::opened(path, clock);
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    for (int number = 1; number < 1000; ++number) {
      const Status fragment = store->put_fragment(samples::fragment(number));
      const auto put = store->put_plan(samples::bundle(samples::fragment(number), number), Admission::if_vacant);
      if (fragment && put) {
        send(number);
        continue;
      }
      const ErrorKind kind = fragment ? put.error().kind : fragment.error().kind;
      const bool lookups = store->find_plan({samples::hash(0), samples::target()}, {}).ok();
      ::_exit(kind == ErrorKind::io && lookups ? 0 : 9);
    }
    ::_exit(8);
  });
  std::vector<int> acknowledged;
  while (const std::optional<int> number = child.next()) acknowledged.push_back(*number);
  EXPECT_EQ(child.wait(), 0);
  const auto store = samples::opened(path, clock);
  for (const int number : acknowledged)
    EXPECT_OK(store->get_plan_bundle(plan_id(samples::bundle(samples::fragment(number), number).plan)));
  EXPECT_THAT(store->integrity_check(true)->problems, IsEmpty());
}

}  // namespace
}  // namespace stitch::db
