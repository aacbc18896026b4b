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

}  // namespace
}  // namespace stitch::api
