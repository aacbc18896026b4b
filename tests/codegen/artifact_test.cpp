#include "codegen/compile/artifact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/random.h"

namespace stitch::codegen {
namespace {

using ::testing::HasSubstr;

CompiledKernel sample() {
  CompiledKernel kernel;
  for (int i = 0; i < 500; ++i) kernel.ptx += fmt::format("\tadd.f32 \t%f{}, %f{}, %f1;\n", i + 1, i);
  for (int i = 0; i < 3000; ++i) kernel.cubin.push_back(static_cast<char>(random_at(3, static_cast<unsigned>(i)) % 7));
  kernel.entries = {{"first", {.registers = 32, .barriers = 1, .shared_bytes = 4096, .stack_bytes = 16}},
                    {"second",
                     {.cumulative_stack_bytes = 48,
                      .spill_store_bytes = 8,
                      .spill_load_bytes = 12,
                      .constant_bytes = 560,
                      .global_bytes = 4}}};
  kernel.resources = maximum_usage(kernel.entries);
  kernel.log = "a warning";
  kernel.seconds = 0.125;
  kernel.toolkit = "13.0.88";
  kernel.architecture = "sm_90a";
  kernel.key = hash_bytes("sample");
  return kernel;
}

TEST(Artifact, RoundTrip) {
  const CompiledKernel kernel = sample();
  const std::string bytes = encode_artifact(kernel);
  EXPECT_LT(bytes.size(), kernel.ptx.size()) << "compressed";
  const auto back = decode_artifact(bytes, kernel.key);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, kernel);
  EXPECT_EQ(encode_artifact(*back), bytes) << "the same kernel, the same bytes";
}

TEST(Artifact, AnEmptyKernelRoundTrips) {
  const CompiledKernel kernel;
  const auto back = decode_artifact(encode_artifact(kernel), kernel.key);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, kernel);
}

// The layout that docs/compilation.md gives: a change of the format must be meant.
TEST(Artifact, TheHeaderIsAsDocumented) {
  const CompiledKernel kernel = sample();
  const std::string bytes = encode_artifact(kernel);
  const auto word = [&](std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, 8);
    return value;
  };
  EXPECT_EQ(bytes.substr(0, 8), "STITCHK\n");
  EXPECT_EQ(word(8), 1u) << "version, reserved";
  EXPECT_EQ(word(16), kernel.key.high);
  EXPECT_EQ(word(24), kernel.key.low);
  const Hash128 checksum = hash_bytes(std::string_view(bytes).substr(64));
  EXPECT_EQ(word(32), checksum.high);
  EXPECT_EQ(word(40), checksum.low);
  EXPECT_EQ(word(48), bytes.size() - 64);
  EXPECT_GT(word(56), kernel.ptx.size());
  EXPECT_EQ(bytes.substr(64, 4), "\x28\xb5\x2f\xfd") << "zstd";
}

TEST(Artifact, WhatIsWrongIsNamed) {
  const CompiledKernel kernel = sample();
  const std::string good = encode_artifact(kernel);
  const auto altered = [&](std::size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    return bytes;
  };
  const struct {
    std::string bytes;
    ErrorKind kind;
    const char* message;
  } rows[] = {
      {"", ErrorKind::corrupt, "artifact: 0 bytes are no header"},
      {good.substr(0, 63), ErrorKind::corrupt, "artifact: 63 bytes are no header"},
      {altered(0, 'X'), ErrorKind::corrupt, "artifact: it does not begin as one"},
      {altered(8, 2), ErrorKind::version_mismatch, "artifact: format 2; this program reads 1"},
      {altered(12, 1), ErrorKind::corrupt, "artifact: its header is damaged"},
      {altered(63, 1), ErrorKind::corrupt, "artifact: its header is damaged"},
      {good.substr(0, good.size() - 1), ErrorKind::corrupt, "bytes of payload, not"},
      {good + "x", ErrorKind::corrupt, "bytes of payload, not"},
      {altered(100, static_cast<char>(good[100] ^ 1)), ErrorKind::corrupt, "artifact: its checksum differs"},
  };
  for (const auto& row : rows) {
    const auto result = decode_artifact(row.bytes, kernel.key);
    ASSERT_FALSE(result) << row.message;
    EXPECT_EQ(result.error().kind, row.kind);
    EXPECT_THAT(result.error().message, HasSubstr(row.message));
  }
  const auto other = decode_artifact(good, hash_bytes("other"));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("its key is " + kernel.key.hex()));
}

TEST(Artifact, NoFlippedBitPasses) {
  CompiledKernel kernel = sample();
  kernel.ptx.resize(200);
  kernel.cubin.resize(50);
  const std::string good = encode_artifact(kernel);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = good;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      ASSERT_FALSE(decode_artifact(damaged, kernel.key)) << "byte " << at << " bit " << bit;
    }
  }
}

// A payload whose checksum holds but whose contents are not ours: the error is a value all the same.
TEST(Artifact, ASealedForeignPayloadIsCorrupt) {
  const CompiledKernel kernel = sample();
  std::string bytes = encode_artifact(kernel);
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    std::string foreign = bytes;
    for (int i = 0; i < 3; ++i) foreign[64 + random.below(foreign.size() - 64)] = static_cast<char>(random());
    const Hash128 checksum = hash_bytes(std::string_view(foreign).substr(64));
    std::memcpy(foreign.data() + 32, &checksum, sizeof checksum);
    const auto result = decode_artifact(foreign, kernel.key);
    if (!result) {
      EXPECT_EQ(result.error().kind, ErrorKind::corrupt);
    }
  }
}

}  // namespace
}  // namespace stitch::codegen
