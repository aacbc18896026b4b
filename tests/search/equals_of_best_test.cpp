#include "search/schedule/equals_of_best.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace stitch::search {
namespace {

struct Entry {
  double us;
  std::int64_t bytes;
  char name;
};

char taken(const std::vector<Entry>& entries) {
  EqualsOfBest<char> equals;
  for (const Entry& entry : entries) equals.enter(entry.us, entry.bytes, entry.name);
  return equals.taken();
}

TEST(EqualsOfBest, BytesDecideAmongEquals) {
  EXPECT_EQ(taken({{10, 100, 'a'}}), 'a');
  EXPECT_EQ(taken({{10, 100, 'a'}, {10.1, 90, 'b'}}), 'b') << "a hundredth is equal";
  EXPECT_EQ(taken({{10, 100, 'a'}, {10.11, 10, 'b'}}), 'a') << "more is not";
  EXPECT_EQ(taken({{10, 1000, 'a'}, {10.09, 995, 'b'}}), 'a') << "half a hundredth of the bytes is not worth it";
  EXPECT_EQ(taken({{10, 100, 'a'}, {10, 100, 'b'}}), 'a') << "alike: the first";
  EXPECT_EQ(taken({{10, 100, 'a'}, {10, 90, 'b'}, {10.05, 90, 'c'}}), 'b') << "the faster with the same bytes";
  EXPECT_EQ(taken({{10, 100, 'a'}, {10.09, 80, 'b'}, {9.95, 100, 'c'}}), 'c') << "equal to one that was not the best";
  EXPECT_EQ(taken({{10, 100, 'a'}, {10.09, 80, 'b'}, {10.02, 50, 'c'}, {10.05, 70, 'd'}}), 'c');
}

TEST(EqualsOfBest, TheOrderDoesNotMatter) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Entry> entries;
    for (int i = 0; i < 12; ++i) {
      // All differ, in prediction and in bytes.
      const double us = 10 + 0.001 * static_cast<double>(random() % 16 * 12 + i);
      entries.push_back({us, static_cast<std::int64_t>(random() % 20 * 12) + i + 100, static_cast<char>('a' + i)});
    }
    const char first = taken(entries);
    std::ranges::shuffle(entries, random);
    EXPECT_EQ(taken(entries), first) << "round " << round;
  }
}

TEST(EqualsOfBest, WhatCannotBeTakenIsNotAdmitted) {
  EqualsOfBest<char> equals;
  EXPECT_TRUE(equals.empty());
  EXPECT_TRUE(equals.admits(1e9));
  equals.enter(10, 100, 'a');
  EXPECT_TRUE(equals.admits(10.1));
  EXPECT_FALSE(equals.admits(10.2));
  EXPECT_TRUE(equals.admits(1));
}

}  // namespace
}  // namespace stitch::search
