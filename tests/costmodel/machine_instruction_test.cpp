#include "costmodel/machine_instruction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/costmodel/listing.h"

namespace stitch::costmodel::test {
namespace {

using testing::HasSubstr;

std::string encoded(std::uint64_t low, std::uint64_t high) {
  std::string bytes(16, '\0');
  std::memcpy(bytes.data(), &low, 8);
  std::memcpy(bytes.data() + 8, &high, 8);
  return bytes;
}

struct Encoding {
  std::uint64_t low, high;
  int architecture;
  std::string_view name;
  Pipe pipe;
  int width;
  bool predicated;
};

// Encodings as nvdisasm 13.5 prints them of kernels that ptxas 13.0 made.
TEST(MachineInstruction, OperationsAreKnownByTheirBits) {
  for (const Encoding& one :
       std::vector<Encoding>{{0x0000001004047981, 0x000ea2000c1e1d00, 90, "LDG", Pipe::memory, 16, false},
                             {0x000000100a00098e, 0x008fe8000c10e590, 90, "REDG", Pipe::memory, 8, true},
                             {0x0000000c060079a6, 0x010fe8000c10ff90, 90, "REDG", Pipe::memory, 8, false},
                             {0x000008020800798e, 0x0003e2000c90e790, 90, "REDG", Pipe::memory, 8, false},
                             {0x000000000000782d, 0x000fd80000000000, 90, "PREEXIT", Pipe::control, 4, false},
                             {0x000000000000782e, 0x000fe20000000000, 90, "ACQBULK", Pipe::control, 4, false},
                             {0x000000ff00007835, 0, 90, "HFMA2", Pipe::half, 4, false},
                             {0x000000ff00007835, 0, 120, "IADD", Pipe::integer, 4, false},
                             {0x0000000000007dc7, 0, 90, "UCGABAR_WAIT", Pipe::control, 4, false},
                             {0x00000000000079c7, 0, 90, "UCGABAR_ARV", Pipe::control, 4, false},
                             {0x00000000000071ff, 0, 90, "", Pipe::other, 4, false}}) {
    const auto code = decode_instructions(encoded(one.low, one.high), one.architecture);
    ASSERT_TRUE(code && code->size() == 1);
    const MachineInstruction& read = code->front();
    EXPECT_EQ(read.name, one.name);
    EXPECT_EQ(to_string(read.pipe), to_string(one.pipe)) << one.name;
    EXPECT_EQ(read.width, one.width) << one.name;
    EXPECT_EQ(read.predicated, one.predicated) << one.name;
  }
}

TEST(MachineInstruction, APartialWaitSaysOnWhatAndHowManyAreLeft) {
  const auto code = decode_instructions(encoded(0x0000d2000000791a, 0), 90);  // DEPBAR.LE SB5, 0x8
  ASSERT_TRUE(code);
  EXPECT_EQ(code->front().waits_on, 5);
  EXPECT_EQ(code->front().waits_for_all_but, 8);
  const auto all = decode_instructions(encoded(0x0000003f0000791a, 0), 90);  // DEPBAR {5,4,3,2,1,0}
  ASSERT_TRUE(all);
  EXPECT_EQ(all->front().waits_on, no_scoreboard);
}

/// What ptxas made of tests/data/sass/row_sum.cu: every field by our decoder as by nvdisasm's listing.
TEST(MachineInstruction, ARealListingsEncodingsSayWhatTheListingSays) {
  std::ifstream file(STITCH_SOURCE_DIR "/tests/data/sass/row_sum.sass");
  const std::string listing{std::istreambuf_iterator<char>(file), {}};
  stitch::test::ListingReader read(listing);
  ASSERT_TRUE(read.read());
  std::string bytes;
  for (const auto& [low, high] : read.encodings) bytes += encoded(low, high);
  const auto code = decode_instructions(bytes, 90);
  ASSERT_TRUE(code) << code.error().message;
  EXPECT_EQ(stitch::test::first_difference(*code, read), "");
}

TEST(MachineInstruction, WhatIsNoCodeIsRefused) {
  for (const std::string& bytes : {std::string(), std::string(15, 'x'), std::string(17, 'x')}) {
    const auto code = decode_instructions(bytes, 90);
    ASSERT_FALSE(code);
    EXPECT_EQ(code.error().kind, ErrorKind::parse);
    EXPECT_THAT(code.error().message, HasSubstr("no number of instructions of 16"));
  }
}

}  // namespace
}  // namespace stitch::costmodel::test
