#include "api/program_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stitch::api {
namespace {

using testing::HasSubstr;

Program program_of_two() {
  Program program;
  program.id = hash_bytes("program");
  program.model = "two\nlines";
  program.target = {"h100", "sm_90a", "13.0", "1"};
  ProgramFragment fragment;
  fragment.key = hash_bytes("first");
  Plan plan;
  plan.id = hash_bytes("plan");
  plan.predicted_us = 3;
  KernelLaunch launch;
  launch.cubin = sha256("cubin");
  launch.ptx = sha256("ptx");
  plan.launches = {launch, launch};
  fragment.plan = plan;
  program.fragments = {fragment, {hash_bytes("second"), {}, 1, {}, "none"}};
  return program;
}

TEST(ProgramLockTest, NamesPlansAndCodeAndNoTimes) {
  Program program = program_of_two();
  const std::string lock = lock_of(program);
  EXPECT_TRUE(check_lock(lock, program).ok());
  EXPECT_THAT(lock, HasSubstr("  two lines\n"));
  EXPECT_THAT(lock, HasSubstr("  code " + sha256("cubin").hex() + " " + sha256("ptx").hex() + "\n")) << "each once";
  EXPECT_THAT(lock, HasSubstr(hash_bytes("second").hex() + "  no plan\n"));
  program.fragments[0].plan->predicted_us = 30;
  program.fragments[0].plan->measured_us = 12;
  EXPECT_EQ(lock_of(program), lock);
}

TEST(ProgramLockTest, WhatAProgramIsCalledDoesNotCount) {
  Program program = program_of_two();
  const std::string lock = lock_of(program);
  program.model = "the same graph from a front end";
  EXPECT_TRUE(check_lock(lock, program).ok());
  program.id = hash_bytes("another program");
  EXPECT_THAT(check_lock(lock, program).error().message, HasSubstr("line 2 of the lock: 'program "));
}

TEST(ProgramLockTest, SaysWhatDiffers) {
  const Program program = program_of_two();
  const std::string lock = lock_of(program);
  Program other = program;
  other.fragments[0].plan->id = hash_bytes("another");
  EXPECT_EQ(check_lock(lock, other).error().kind, ErrorKind::constraint);
  EXPECT_THAT(check_lock(lock, other).error().message, HasSubstr("line 4 of the lock: 'fragment "));
  other = program;
  other.fragments[0].plan->launches[0].ptx = sha256("other code");
  EXPECT_FALSE(check_lock(lock, other).ok());
  other = program;
  other.fragments.pop_back();
  EXPECT_THAT(check_lock(lock, other).error().message, HasSubstr("the program has 'nothing more'"));
  EXPECT_EQ(check_lock("", program).error().kind, ErrorKind::parse);
  EXPECT_EQ(check_lock("stitch-lock 2\n", program).error().kind, ErrorKind::version_mismatch);
}

TEST(ProgramLockTest, ReadsWhatItWrites) {
  Program first = program_of_two(), second = program_of_two();
  second.id = hash_bytes("another program");
  second.model = "second";
  second.target.device = "a GPU with blanks";
  second.fragments.pop_back();
  const std::vector<Program> both = {first, second};
  const std::string lock = lock_of(both);
  const auto programs = parse_lock(lock);
  ASSERT_TRUE(programs.ok()) << programs.error().message;
  ASSERT_EQ(programs->size(), 2U);
  EXPECT_EQ((*programs)[0].fragments.size(), 2U);
  EXPECT_EQ((*programs)[0].fragments[0].plan, hash_bytes("plan"));
  EXPECT_EQ((*programs)[0].fragments[0].code, (std::vector{sha256("cubin"), sha256("ptx")}));
  EXPECT_EQ((*programs)[0].fragments[1].plan, std::nullopt);
  EXPECT_EQ((*programs)[1].id, second.id);
  EXPECT_EQ((*programs)[1].model, "second");
  EXPECT_EQ((*programs)[1].target, second.target);
  EXPECT_EQ((*programs)[1].fragments[0].line, 8);
}

TEST(ProgramLockTest, OfSeveralProgramsTheOneOfTheIdCounts) {
  Program first = program_of_two(), second = program_of_two();
  second.id = hash_bytes("another program");
  const std::string lock = lock_of(std::vector{first, second});
  EXPECT_TRUE(check_lock(lock, first).ok());
  EXPECT_TRUE(check_lock(lock, second).ok());
  second.fragments[0].plan->id = hash_bytes("another");
  EXPECT_THAT(check_lock(lock, second).error().message, HasSubstr("line 8 of the lock: 'fragment "));
  first.fragments.pop_back();
  EXPECT_THAT(check_lock(lock, first).error().message, HasSubstr("line 5 of the lock: 'fragment "));
  second.id = hash_bytes("a third");
  EXPECT_THAT(check_lock(lock, second).error().message, HasSubstr("the lock has 2 programs, and none is "));
}

TEST(ProgramLockTest, OfOneProgramForTwoGpusTheOneForItsGpuCounts) {
  Program first = program_of_two(), second = program_of_two();
  second.target.device = "l4";
  second.fragments[0].plan->id = hash_bytes("another");
  const std::string lock = lock_of(std::vector{first, second});
  EXPECT_TRUE(check_lock(lock, first).ok());
  EXPECT_TRUE(check_lock(lock, second).ok());
  second.target.device = "t4";
  EXPECT_THAT(check_lock(lock, second).error().message, HasSubstr("line 3 of the lock: 'target h100"));
}

TEST(ProgramLockTest, NamesTheLineThatIsNone) {
  const std::string head = "stitch-lock 1\nprogram " + hash_bytes("p").hex() + "  m\n";
  const std::pair<std::string, std::string> cases[] = {
      {"stitch-lock 1\ntarget h100 sm_90a 13.0 1\n", "line 2: expected 'program ID  NAME', found 'target"},
      {"stitch-lock 1\nprogram 12  m\n", "line 2: expected 'program ID  NAME'"},
      {head + "fragment\n", "line 3: expected 'target DEVICE"},
      {head + "target h100 sm_90a 13.0 1\nfragment 7\n", "line 4: expected 'fragment KEY"},
      {head + "target h100 sm_90a 13.0 1\n\nfragment " + hash_bytes("f").hex() + "  plan x  code\n",
       "line 5: expected"},
      {"stitch-lock 1\npiece 12  plan 3  code\n", "line 2: a lock of stitch.torch.write_lock"},
  };
  for (const auto& [text, message] : cases) {
    const auto read = parse_lock(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().kind, ErrorKind::parse);
    EXPECT_THAT(read.error().message, HasSubstr(message));
  }
}

}  // namespace
}  // namespace stitch::api
