#include "emulator/memory/l1_cache.h"

#include <gtest/gtest.h>

namespace stitch::emulator {
namespace {

constexpr std::uint32_t whole = 0xF;

TEST(L1Cache, HoldsWhatFitsAndLosesWhatWasUsedLongestAgo) {
  L1Cache cache;
  cache.reset(64 << 10);  // 512 lines
  const auto pass = [&](std::uint64_t lines) {
    std::uint32_t missed = 0;
    for (std::uint64_t line = 0; line < lines; ++line) missed += cache.load(line, whole, true);
    return missed;
  };
  EXPECT_EQ(pass(256), 4U * 256);
  EXPECT_LE(pass(256), 4U * 256 / 20) << "half of the room: hardly a set is too full";
  EXPECT_GE(pass(4096), 4U * (4096 - 256));
  EXPECT_GE(pass(4096), 4U * 4096 * 95 / 100) << "round and round through more than there is room for finds nothing";
}

TEST(L1Cache, FillsSectorsOneByOne) {
  L1Cache cache;
  cache.reset(4 << 10);
  EXPECT_EQ(cache.load(7, 0b0011, true), 2U);
  EXPECT_EQ(cache.load(7, 0b0111, true), 1U);
  EXPECT_EQ(cache.load(7, 0b1000, false), 1U);
  EXPECT_EQ(cache.load(7, 0b1111, true), 1U) << "a load that does not allocate brings nothing in";
  EXPECT_EQ(cache.load(7, 0b1111, true), 0U);
  cache.invalidate();
  EXPECT_EQ(cache.load(7, 0b1111, true), 4U);
}

TEST(L1Cache, WithoutRoomEverythingPasses) {
  L1Cache cache;
  cache.reset(0);
  EXPECT_EQ(cache.load(1, whole, true), 4U);
  EXPECT_EQ(cache.load(1, whole, true), 4U);
}

TEST(L1Share, IsWhatSharedMemoryLeavesToEachBlock) {
  EXPECT_EQ(l1_share(1 << 20, 1024, 0), (256U << 10) / 2 - 1024);
  EXPECT_EQ(l1_share(1 << 20, 256, 0), (256U << 10) / 8 - 1024);
  EXPECT_EQ(l1_share(1 << 20, 256, 99 << 10), (256U << 10) / 2 - (100 << 10)) << "two blocks, by shared memory";
  EXPECT_EQ(l1_share(1 << 20, 1024, 227 << 10), 28U << 10) << "one block with all the shared memory there is";
  EXPECT_EQ(l1_share(1 << 20, 32, 0), (256U << 10) / 32 - 1024);
  EXPECT_EQ(l1_share(132, 128, 24 << 10), (256U - 25) << 10) << "a block an SM has all of it";
  EXPECT_EQ(l1_share(133, 128, 24 << 10), (128U - 25) << 10);
}

}  // namespace
}  // namespace stitch::emulator
