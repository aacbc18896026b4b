#include "base/hash.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "tests/base/forged_bytes.h"

#include <set>

namespace stitch {
namespace {

TEST(Hash, IsXxh3OfTheBytes) {
  // Vectors of xxHash 0.8's own documentation and xxhsum -H2.
  EXPECT_EQ(hash_bytes(std::string_view()).hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_bytes("a").hex(), "a96faf705af16834e6c632b61e964e1f");
  EXPECT_EQ(hash_bytes("abc").hex(), "06b05ab6733a618578af5f94892f3950");
}

TEST(Hash, HexRoundTrips) {
  for (const Hash128 hash : {Hash128{}, Hash128{1, 2}, Hash128{~0ULL, 0}, hash_bytes("x")}) {
    EXPECT_EQ(hash.hex().size(), 32U);
    EXPECT_EQ(Hash128::from_hex(hash.hex()), hash);
  }
  EXPECT_EQ((Hash128{0x0123456789abcdef, 0xfedcba9876543210}).hex(), "0123456789abcdeffedcba9876543210");
}

TEST(Hash, OtherTextIsNoHash) {
  const std::string good(32, '0');
  EXPECT_TRUE(Hash128::from_hex(good));
  for (const char* first : {"-", "+", "g", " ", "0x", "00", ""}) {
    // 31 digits behind it: only "0x" and "00" give 33 characters, "" gives 31.
    const std::string text = fmt::format("{}{}", first, good.substr(1));
    EXPECT_EQ(Hash128::from_hex(text), std::nullopt) << text;
  }
}

TEST(Hash, OrderIsThatOfTheHexText) {
  const Hash128 a = hash_bytes("a"), b = hash_bytes("b");
  EXPECT_EQ(a < b, a.hex() < b.hex());
}

TEST(Hasher, LengthsKeepSequencesApart) {
  std::set<Hash128> seen;
  EXPECT_TRUE(seen.insert(Hasher().text("ab").text("c").finish()).second);
  EXPECT_TRUE(seen.insert(Hasher().text("a").text("bc").finish()).second);
  EXPECT_TRUE(seen.insert(Hasher().text("abc").finish()).second);
  EXPECT_TRUE(seen.insert(Hasher().text("abc").text("").finish()).second);
  EXPECT_TRUE(seen.insert(Hasher().finish()).second);
  EXPECT_TRUE(seen.insert(Hasher().integer(0).finish()).second);
  EXPECT_TRUE(seen.insert(Hasher().integer(0).integer(0).integer(0).finish()).second);
  EXPECT_TRUE(seen.insert(Hasher().hash({1, 2}).finish()).second);
  EXPECT_TRUE(seen.insert(Hasher().hash({2, 1}).finish()).second);
}

TEST(Hasher, IsDeterministicAndCanBeContinued) {
  Hasher hasher;
  hasher.text("one");
  const Hash128 first = hasher.finish();
  EXPECT_EQ(hasher.finish(), first);
  hasher.integer(2);
  EXPECT_EQ(hasher.finish(), Hasher().text("one").integer(2).finish());
  EXPECT_NE(hasher.finish(), first);
}

TEST(HashTest, IsNoProtectionAgainstSomebodyWhoChoosesTheBytes) {
  std::string genuine;
  for (int i = 0; i < 300; ++i) genuine += "mov.f32 ";
  const std::string forged = ForgedBytes::like(genuine, "ret;");
  EXPECT_NE(forged, genuine);
  EXPECT_EQ(hash_bytes(forged), hash_bytes(genuine)) << "which is why contents have cryptographic names";
  EXPECT_NE(sha256(forged), sha256(genuine));
}

}  // namespace
}  // namespace stitch
