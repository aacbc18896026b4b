#include "base/tally.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/trace.h"

namespace stitch {
namespace {

using nlohmann::json;

class Tally : public testing::Test {
 protected:
  void SetUp() override { tally::reset(); }
  void TearDown() override { tally::reset(); }
  static json sums() { return json::parse(tally::json()); }
};

TEST_F(Tally, IsEmptyAtFirst) {
  EXPECT_EQ(
      sums(),
      json::parse(
          R"({"phases": {}, "plans_by_source": {}, "plans_by_label": {}, "events": {}, "missed": [], "fell_back": [],
                                    "launches": 0, "left_out": 0})"));
}

TEST_F(Tally, CountsWhatIsAlikeTogether) {
  tally::phase("fetch", 40, false);
  tally::phase("fetch", 2, true);
  tally::plan("store", "measured");
  tally::plan("store", "predicted");
  tally::plan("predicted", "predicted");
  tally::plan("pending", "");
  tally::count("swaps");
  tally::launched(3);
  tally::launched(4);
  for (const char* reason : {"no", "no", "another \"reason\""}) tally::miss("f", "softmax", reason, "predicted");
  tally::fell_back("sort", "too long", "XLA", "here");
  EXPECT_EQ(sums(), json::parse(R"({
    "phases": {"fetch": {"count": 2, "us": 42, "failed": 1}},
    "plans_by_source": {"store": 2, "predicted": 1, "pending": 1},
    "plans_by_label": {"measured": 1, "predicted": 2}, "events": {"swaps": 1}, "launches": 7, "left_out": 0,
    "missed": [
      {"fragment": "f", "name": "softmax", "reason": "another \"reason\"", "source": "predicted", "count": 1},
      {"fragment": "f", "name": "softmax", "reason": "no", "source": "predicted", "count": 2}],
    "fell_back": [{"what": "sort", "reason": "too long", "to": "XLA", "where": "here", "count": 1}]})"));
}

TEST_F(Tally, CountsPhasesThatNobodyTraces) {
  { const trace::Phase phase("load", {{"plan", "p"}}); }
  {
    trace::Phase phase("load");
    phase.add({"error", "no memory"});
  }
  EXPECT_EQ(sums()["phases"]["load"]["count"], 2);
  EXPECT_EQ(sums()["phases"]["load"]["failed"], 1);
}

TEST_F(Tally, ListsSoManyReasonsAndCountsTheRest) {
  constexpr int most = 256, more = 5;
  for (int i = 0; i < most + more; ++i) tally::miss("f", "n", "job " + std::to_string(i), "");
  tally::miss("f", "n", "job 0", "");
  EXPECT_EQ(sums()["missed"].size(), most);
  EXPECT_EQ(sums()["left_out"], more);
}

TEST_F(Tally, AChildThatWasForkedWhileOthersCountedMayCountToo) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) tally::phase("fetch", 1, false);
    });
  }
  constexpr int rounds = 50;
  int good = 0;
  for (int i = 0; i < rounds; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);  // ended by it where it hangs
      tally::phase("child", 1, false);
      ::_exit(sums()["phases"]["child"]["count"] == 1 ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : 0;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, rounds);
}

}  // namespace
}  // namespace stitch
