// What a kernel touches before its griddepcontrol.wait: the warp that waited has, and whoever a barrier tells of it.
#include <gmock/gmock.h>

#include "tests/emulator/kernel_run.h"

namespace stitch::emulator {
namespace {

using test::put;
using testing::ElementsAre;
using testing::IsEmpty;

/// Two warps; a thread reads its word of x, and writes it to y. `before` and `between` stand before the load and
/// between load and store.
std::string copy_kernel(const std::string& before, const std::string& between) {
  return R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry copy(.param .u64 y, .param .u64 x) {
  .reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [y]; ld.param.u64 %rd2, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
  setp.lt.u32 %p1, %r1, 32;
)" + before +
         "\n  ld.global.u32 %r2, [%rd2];\n" + between + "\n  st.global.u32 [%rd1], %r2; ret;\n}\n";
}

struct Case {
  const char* name;
  std::string before, between;
  std::vector<ByteRange> reads, writes;  ///< before the wait, of x and of y
  bool waited = true;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class EarlyAccessesTable : public testing::TestWithParam<Case> {};

TEST_P(EarlyAccessesTable, Table) {
  const Case& c = GetParam();
  const auto program = Program::load(copy_kernel(c.before, c.between), "copy");
  ASSERT_TRUE(program) << program.error().message;
  Memory memory;
  const Buffer x = put(memory, "x", std::vector<std::uint32_t>(64, 7));
  const auto y = memory.allocate("y", 256);
  ASSERT_TRUE(y);
  EarlyAccesses early;
  LaunchOptions options;
  options.early = &early;
  const auto report = launch(*program, test::shape(1, 64), ParameterBlock().add(*y).add(x).bytes(), memory, options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->clean());
  std::vector<ByteRange> reads, writes;
  for (const EarlyAccesses::Touched& touched : early.touched()) {
    EXPECT_TRUE(touched.buffer == x.address ? touched.writes.empty() : touched.reads.empty());
    (touched.buffer == x.address ? reads : writes) = touched.buffer == x.address ? touched.reads : touched.writes;
  }
  EXPECT_EQ(reads, c.reads);
  EXPECT_EQ(writes, c.writes);
  EXPECT_EQ(early.waited(), c.waited);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, EarlyAccessesTable,
    testing::Values(Case{"WaitsFirst", "griddepcontrol.wait;", "", {}, {}},
                    Case{"WaitsBetween", "", "griddepcontrol.wait;", {{0, 256}}, {}},
                    Case{"NeverWaits", "griddepcontrol.launch_dependents;", "", {{0, 256}}, {{0, 256}}, false},
                    Case{"OneWarpWaits", "@!%p1 bra on;\n griddepcontrol.wait;\non:", "", {{128, 128}}, {{128, 128}}},
                    Case{"OneWarpWaitsAndABarrierTells",
                         "@!%p1 bra on;\n griddepcontrol.wait;\non:",
                         "bar.sync 0;",
                         {{128, 128}},
                         {}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(EarlyAccesses, RangesAreMergedAndAscend) {
  EarlyAccesses early;
  early.add(4096, 64, 32, false);
  early.add(4096, 0, 32, false);
  early.add(4096, 32, 32, false);
  early.add(4096, 128, 4, false);
  early.add(256, 0, 4, true);
  const auto touched = early.touched();
  ASSERT_EQ(touched.size(), 2);
  EXPECT_THAT(touched[0].writes, ElementsAre(ByteRange{0, 4}));
  EXPECT_THAT(touched[0].reads, IsEmpty());
  EXPECT_THAT(touched[1].reads, ElementsAre(ByteRange{0, 96}, ByteRange{128, 4}));
}

TEST(EarlyAccesses, OtherActionsAreRefused) {
  const auto program = Program::load(copy_kernel("griddepcontrol.nothing;", ""), "copy");
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message, testing::HasSubstr("griddepcontrol needs wait or launch_dependents"));
}

}  // namespace
}  // namespace stitch::emulator
