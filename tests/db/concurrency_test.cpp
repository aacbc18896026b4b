// Many threads on one store, many processes on one file. Built with the tsan preset this also proves the locking.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "db/sqlite.h"
#include "tests/db/sample_records.h"

namespace stitch::db {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

TEST(ConcurrencyTest, ReadersSeeWholePlansWhileWritersCommit) {
  constexpr int writers = 3, readers = 6, plans_each = 25;
  const TestFolder folder;
  const SystemClock clock;
  SqliteOptions options;
  options.path = folder / "stitch.db";
  options.readers = 3;  // fewer than there are reading threads: some wait
  const auto store = samples::opened(options, clock);
  std::atomic<int> writing{writers}, hits{0}, failures{0};

  std::vector<std::thread> threads;
  for (int writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&, writer] {
      for (int i = 0; i < plans_each; ++i) samples::put(*store, writer * plans_each + i);
      --writing;
    });
  }
  for (int reader = 0; reader < readers; ++reader) {
    threads.emplace_back([&, reader] {
      Random random(static_cast<std::uint64_t>(reader));
      bool last_round = false;
      while (!last_round) {
        last_round = writing == 0;
        const int number = random.below(writers * plans_each);
        const auto lookup = store->find_plan({samples::hash(number), samples::target()}, {});
        if (!lookup || (last_round && !lookup->plan)) ++failures;
        if (!lookup || !lookup->plan) continue;
        ++hits;
        const auto bundle = store->get_plan_bundle(lookup->plan->id);
        if (!bundle || bundle->artifacts.size() != 3) ++failures;
        if (!store->list_plans({}, {10, 0, true}) || !store->statistics()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_GT(hits, 0);
  EXPECT_EQ(store->statistics()->plans, writers * plans_each);
  EXPECT_THAT(store->integrity_check(true)->problems, IsEmpty());
}

TEST(ConcurrencyTest, EveryJobIsClaimedByOneThread) {
  constexpr int jobs = 60, workers = 6;
  const TestFolder folder;
  const SystemClock clock;
  const auto store = samples::opened(folder / "stitch.db", clock);
  for (int i = 0; i < jobs; ++i) ASSERT_OK(store->enqueue_job(samples::job()));
  std::mutex mutex;
  std::multiset<std::int64_t> claimed;
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      while (true) {
        const auto job = store->claim_job(fmt::format("worker {}", worker), 60'000'000, {});
        EXPECT_OK(job);
        if (!job || !*job) return;
        EXPECT_OK(store->report_progress((*job)->id, (*job)->fence, 0.5, "", ""));
        EXPECT_OK(store->finish_job((*job)->id, (*job)->fence, {}));
        const std::lock_guard lock(mutex);
        claimed.insert((*job)->id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(claimed.size(), static_cast<std::size_t>(jobs));
  EXPECT_EQ(std::set<std::int64_t>(claimed.begin(), claimed.end()).size(), claimed.size()) << "one was claimed twice";
}

TEST(ConcurrencyTest, EqualWorkFromManyThreadsIsOneJob) {
  const TestFolder folder;
  const SystemClock clock;
  const auto store = samples::opened(folder / "stitch.db", clock);
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto enqueued = store->enqueue_job(samples::job("the same fragment"));
      EXPECT_OK(enqueued);
      if (enqueued && !enqueued->joined) ++made;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
}

/// What one of several processes does: stores plans and works on the common queue. Returns its exit status.
int work_along(const fs::path& path, int process, int plans, int pipe) {
  const SystemClock clock;
  SqliteOptions options;
  options.path = path;
  auto store = open_sqlite_store(options, clock);
  if (!store) return 1;
  for (int i = 0; i < plans; ++i) {
    const FragmentRecord fragment = samples::fragment(process * plans + i);
    if (!(*store)->put_fragment(fragment)) return 2;
    if (!(*store)->put_plan(samples::bundle(fragment, process * plans + i), Admission::if_vacant)) return 3;
    const auto job = (*store)->claim_job("some process", 60'000'000, {});
    if (!job) return 4;
    if (!*job) continue;
    if (!(*store)->finish_job((*job)->id, (*job)->fence, {})) return 5;
    if (::write(pipe, &(*job)->id, sizeof(*job)->id) != sizeof(*job)->id) return 6;
  }
  return 0;
}

TEST(ConcurrencyTest, SeveralProcessesShareOneFile) {
  constexpr int processes = 4, plans = 15, jobs = processes * plans;
  const TestFolder folder;
  const fs::path path = folder / "stitch.db";
  const SystemClock clock;
  {
    const auto store = samples::opened(path, clock);
    for (int i = 0; i < jobs; ++i) ASSERT_OK(store->enqueue_job(samples::job()));
  }
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process) {
    children.push_back(::fork());
    if (children.back() == 0) ::_exit(work_along(path, process, plans, ends[1]));
  }
  ::close(ends[1]);
  std::multiset<std::int64_t> finished;
  std::int64_t id = 0;
  while (::read(ends[0], &id, sizeof id) == sizeof id) finished.insert(id);
  ::close(ends[0]);
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(finished.size(), static_cast<std::size_t>(jobs));
  EXPECT_EQ(std::set<std::int64_t>(finished.begin(), finished.end()).size(), finished.size());
  const auto store = samples::opened(path, clock);
  EXPECT_EQ(store->statistics()->plans, processes * plans);
  EXPECT_THAT(store->integrity_check(true)->problems, IsEmpty());
}

TEST(ConcurrencyTest, AHeldLockIsATimeout) {
  const TestFolder folder;
  const SystemClock clock;
  SqliteOptions options;
  options.path = folder / "stitch.db";
  options.busy_timeout_ms = 20;
  const auto store = samples::opened(options, clock);
  auto other = sqlite::Connection::open({options.path, sqlite::OpenOptions::Mode::read_write, 0, 0, ""});
  ASSERT_OK(other);
  auto held = sqlite::Transaction::begin(**other, sqlite::Transaction::Kind::write);
  ASSERT_OK(held);
  samples::expect_error(store->put_device(samples::gpu()), ErrorKind::timeout, "database is locked");
  EXPECT_OK(store->list_devices());  // readers do not wait for it
}

}  // namespace
}  // namespace stitch::db
