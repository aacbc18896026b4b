#include "base/sha256.h"

#include <gtest/gtest.h>

#include <unordered_set>

namespace stitch {
namespace {

TEST(Sha256Test, AgreesWithTheStandardsExamples) {
  // FIPS 180-4 examples of NIST: one block, two blocks, nothing at all, a million times 'a'.
  EXPECT_EQ(sha256("abc").hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").hex(),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256("").hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')).hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, HexadecimalReadsBack) {
  const Sha256 name = sha256("abc");
  EXPECT_EQ(Sha256::from_hex(name.hex()), name);
  EXPECT_EQ(Sha256::from_hex("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"), name);
  EXPECT_EQ(Sha256::from_hex(name.hex() + "0"), std::nullopt);
  EXPECT_EQ(Sha256::from_hex(name.hex().substr(0, 32)), std::nullopt) << "no name is ever cut short";
  for (const char wrong : {'g', '/', ':', '@', '`', 'G', '\0', ' '}) {
    std::string text = name.hex();
    text[17] = wrong;
    EXPECT_EQ(Sha256::from_hex(text), std::nullopt) << int{wrong};
  }
}

TEST(Sha256Test, BytesReadBack) {
  const Sha256 name = sha256("abc");
  const std::string bytes(name.octets.begin(), name.octets.end());
  EXPECT_EQ(Sha256::from_bytes(bytes), name);
  EXPECT_EQ(name.bytes().size(), 32U);
  EXPECT_EQ(Sha256::from_bytes(bytes.substr(1)), std::nullopt);
  EXPECT_EQ(Sha256::from_bytes(bytes.substr(0, 16)), std::nullopt);
}

TEST(Sha256Test, OrdersAndHashes) {
  const Sha256 a = *Sha256::from_hex("01" + std::string(62, '0')), b = *Sha256::from_hex("02" + std::string(62, '0'));
  EXPECT_LT(a, b);
  const std::unordered_set<Sha256> both{a, b, a};
  EXPECT_EQ(both.size(), 2U);
}

}  // namespace
}  // namespace stitch
