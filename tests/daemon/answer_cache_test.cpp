#include "daemon/jobs/answer_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace stitch::daemon {
namespace {

db::StoreVersion version(std::uint32_t number) {
  db::StoreVersion version;
  version.words[2] = number;
  return version;
}

KeptAnswer answer(const std::string& body) {
  return {std::make_shared<const std::string>(body), graph::Encoding::json, std::make_shared<const db::PlanRecord>()};
}

constexpr AskedBytes one{"application/json", "", "one"};

TEST(AnswerCacheTest, GivesWhatIsRightAtTheVersionAskedFor) {
  AnswerCache cache({});
  EXPECT_FALSE(cache.find(one, version(1)));
  cache.keep(one, answer("first"), version(1));
  const auto found = cache.find(one, version(1));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_current);
  EXPECT_EQ(*found->answer.body, "first");
  ASSERT_TRUE(cache.find(one, version(2)));
  EXPECT_FALSE(cache.find(one, version(2))->is_current);
  EXPECT_FALSE(cache.find(one, std::nullopt)->is_current) << "what cannot be told may have changed";
  cache.confirm(one, version(2));
  EXPECT_TRUE(cache.find(one, version(2))->is_current);
  EXPECT_FALSE(cache.find(one, version(1))->is_current);
  cache.forget(one);
  EXPECT_FALSE(cache.find(one, version(2)));
  const AnswerCache::Counts counts = cache.counts();
  EXPECT_EQ(counts.hits, 2);
  EXPECT_EQ(counts.checked, 1);
  EXPECT_EQ(counts.stale, 1);
  EXPECT_EQ(counts.bytes, 0);
}

TEST(AnswerCacheTest, EveryByteOfARequestCounts) {
  AnswerCache cache({});
  cache.keep({"a", "b", "c"}, answer("abc"), version(1));
  const AskedBytes others[] = {{"a", "b", "d"}, {"a", "c", "b"}, {"b", "a", "c"}, {"ab", "", "c"}, {"a", "", "bc"}, {}};
  for (const AskedBytes& other : others) {
    EXPECT_FALSE(cache.find(other, version(1))) << other.content_type << "," << other.accept << "," << other.body;
  }
  cache.keep({"a", "b", "c"}, answer("again"), version(1));
  EXPECT_EQ(*cache.find({"a", "b", "c"}, version(1))->answer.body, "again");
  EXPECT_EQ(cache.counts().answers, 1);
}

TEST(AnswerCacheTest, TheLeastRecentlyUsedMakesRoom) {
  AnswerCacheOptions options;
  options.most_bytes = 100'000;
  options.largest_bytes = 30'000;
  AnswerCache cache(options);
  const std::string large(20'000, 'x');
  const auto asked = [](const std::string& name) { return AskedBytes{"", "", name}; };
  const std::string names[] = {"0", "1", "2", "3", "4"};
  for (int i = 0; i < 4; ++i) cache.keep(asked(names[i]), answer(large), version(1));
  EXPECT_TRUE(cache.find(asked(names[0]), version(1)));
  cache.keep(asked(names[4]), answer(large), version(1));
  EXPECT_TRUE(cache.find(asked(names[0]), version(1))) << "it was used";
  EXPECT_FALSE(cache.find(asked(names[1]), version(1)));
  EXPECT_EQ(cache.counts().evictions, 1);
  cache.keep(asked("large"), answer(std::string(40'000, 'x')), version(1));
  EXPECT_FALSE(cache.find(asked("large"), version(1)));
  for (int i = 0; i < 10'000; ++i) cache.keep(asked(std::to_string(i)), answer(large), version(1));
  EXPECT_LE(cache.counts().bytes, options.most_bytes);
  EXPECT_GE(cache.counts().answers, 3);
}

TEST(AnswerCacheTest, ThreadsShareIt) {
  AnswerCacheOptions options;
  options.most_bytes = 20'000;
  AnswerCache cache(options);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&cache, thread] {
      for (int i = 0; i < 2000; ++i) {
        const std::string name = std::to_string((i * 7 + thread) % 40);
        const auto found = cache.find({"", "", name}, version(1));
        if (found) {
          EXPECT_EQ(*found->answer.body, name);
        } else {
          cache.keep({"", "", name}, answer(name), version(1));
        }
        if (i % 11 == 0) cache.forget({"", "", name});
      }
    });
  }
  threads.clear();
  EXPECT_LE(cache.counts().bytes, options.most_bytes);
}

}  // namespace
}  // namespace stitch::daemon
