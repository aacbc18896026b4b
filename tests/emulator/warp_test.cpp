// Instructions that look at the other lanes of the warp, and barriers.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "tests/emulator/ptx_body.h"

namespace stitch::emulator {
namespace {

using test::body_inputs;
using test::run_body;
using test::run_clean_body;

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;

/// y of every lane is wanted(lane).
template <class F>
void check(const std::string& body, const std::vector<test::BodyInput>& inputs, F&& wanted) {
  const std::vector<u64> y = run_clean_body(body, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    ASSERT_EQ(y[i], static_cast<u64>(wanted(static_cast<int>(i)))) << body << i;
}

std::vector<test::BodyInput> lane_values() {
  std::vector<test::BodyInput> inputs(32);
  for (u32 i = 0; i < 32; ++i) inputs[i] = {mix(9, i) & 0xFFFFFFFF, i * 7 % 32};
  return inputs;
}

// Widths 32, 16, 8 and 4 as __shfl_*_sync encodes them: c = (32 - width) << 8 | (up ? 0 : 31).
TEST(Warp, ShufflesInSegments) {
  const auto inputs = lane_values();
  const auto a = [&](int lane) { return inputs[lane].a; };
  for (const int width : {32, 16, 8, 4}) {
    for (const int by : {0, 1, 3, 5, 16, 31}) {
      const auto shuffle = [&](const char* mode, int c) {
        return fmt::format(
            "shfl.sync.{}.b32 %r0|%p0, %a32, {}, {}, 0xffffffff; selp.b32 %r1, 1, 0, %p0; "
            "mov.b64 %y, {{%r0, %r1}};",
            mode, by, (32 - width) << 8 | c);
      };
      const auto result = [&](int lane, int from, bool inside) {
        return (inside ? u64{1} << 32 : 0) | a(inside ? from : lane);
      };
      check(shuffle("up", 0), inputs, [&](int lane) { return result(lane, lane - by, lane % width >= by); });
      check(shuffle("down", 31), inputs, [&](int lane) { return result(lane, lane + by, lane % width + by < width); });
      // A butterfly may reach into an earlier segment, not into a later one.
      check(shuffle("bfly", 31), inputs,
            [&](int lane) { return result(lane, lane ^ by, (lane ^ by) <= (lane | (width - 1))); });
      check(shuffle("idx", 31), inputs,
            [&](int lane) { return result(lane, lane / width * width + by % width, true); });
    }
  }
}

TEST(Warp, ShuffleByALaneOwnIndex) {
  const auto inputs = lane_values();
  check("shfl.sync.idx.b32 %r0, %a32, %b32, 31, -1; cvt.u64.u32 %y, %r0;", inputs,
        [&](int lane) { return inputs[inputs[lane].b].a; });
}

TEST(Warp, Votes) {
  const auto inputs = lane_values();
  u32 odd = 0;
  for (u32 i = 0; i < 32; ++i) odd |= (inputs[i].a & 1) << i;
  const std::string predicate = "and.b32 %r0, %a32, 1; setp.eq.u32 %p0, %r0, 1; ";
  check(predicate + "vote.sync.ballot.b32 %r1, %p0, -1; cvt.u64.u32 %y, %r1;", inputs, [&](int) { return odd; });
  check(predicate + "vote.sync.ballot.b32 %r1, !%p0, -1; cvt.u64.u32 %y, %r1;", inputs, [&](int) { return ~odd; });
  check(predicate + "vote.sync.any.pred %p1, %p0, -1; selp.b64 %y, 1, 0, %p1;", inputs, [](int) { return 1; });
  check(predicate + "vote.sync.all.pred %p1, %p0, -1; selp.b64 %y, 1, 0, %p1;", inputs, [](int) { return 0; });
  check(predicate + "vote.sync.uni.pred %p1, %p0, -1; selp.b64 %y, 1, 0, %p1;", inputs, [](int) { return 0; });
  check(
      "setp.ge.u32 %p0, %thread, 0; vote.sync.all.pred %p1, %p0, -1; vote.sync.uni.pred %p2, !%p0, -1;"
      "and.pred %p1, %p1, %p2; selp.b64 %y, 1, 0, %p1;",
      inputs, [](int) { return 1; });
  // Only the lanes of the mask count.
  check(
      "setp.lt.u32 %p0, %thread, 8; @!%p0 bra END; setp.lt.u32 %p1, %thread, 3; "
      "vote.sync.ballot.b32 %r1, %p1, 0xff; cvt.u64.u32 %y, %r1; END:",
      inputs, [](int lane) { return lane < 8 ? 7U : 0U; });
}

TEST(Warp, Matches) {
  const auto inputs = lane_values();
  const auto same = [&](int lane, u64 mask) {
    u32 lanes = 0;
    for (std::size_t i = 0; i < 32; ++i) lanes |= ((inputs[i].a & mask) == (inputs[lane].a & mask) ? 1U : 0U) << i;
    return lanes;
  };
  check("and.b32 %r0, %a32, 7; match.any.sync.b32 %r1, %r0, -1; cvt.u64.u32 %y, %r1;", inputs,
        [&](int lane) { return same(lane, 7); });
  check("and.b64 %t1, %a, 3; match.any.sync.b64 %r1, %t1, -1; cvt.u64.u32 %y, %r1;", inputs,
        [&](int lane) { return same(lane, 3); });
  check("match.all.sync.b32 %r1|%p1, 77, -1; selp.b32 %r2, 1, 0, %p1; mov.b64 %y, {%r1, %r2};", inputs,
        [](int) { return u64{1} << 32 | 0xFFFFFFFF; });
  check("match.all.sync.b32 %r1|%p1, %a32, -1; selp.b32 %r2, 1, 0, %p1; mov.b64 %y, {%r1, %r2};", inputs,
        [](int) { return 0; });
}

TEST(Warp, Reductions) {
  const auto inputs = lane_values();
  const auto fold = [&](auto first, auto f) {
    for (const auto& input : inputs) first = f(first, static_cast<decltype(first)>(input.a));
    return static_cast<u32>(first);
  };
  const auto redux = [](const char* operation) {
    return fmt::format("redux.sync.{} %r0, %a32, -1; cvt.u64.u32 %y, %r0;", operation);
  };
  const auto min = [](auto a, auto b) { return std::min(a, b); };
  const auto max = [](auto a, auto b) { return std::max(a, b); };
  check(redux("add.u32"), inputs, [&](int) { return fold(0U, std::plus<u32>{}); });
  check(redux("min.u32"), inputs, [&](int) { return fold(~0U, min); });
  check(redux("max.u32"), inputs, [&](int) { return fold(0U, max); });
  check(redux("min.s32"), inputs, [&](int) { return fold(s32{0x7FFFFFFF}, min); });
  check(redux("max.s32"), inputs, [&](int) { return fold(-s32{0x7FFFFFFF}, max); });
  check(redux("and.b32"), inputs, [&](int) { return fold(~0U, std::bit_and<u32>{}); });
  check(redux("or.b32"), inputs, [&](int) { return fold(0U, std::bit_or<u32>{}); });
  check(redux("xor.b32"), inputs, [&](int) { return fold(0U, std::bit_xor<u32>{}); });
}

// -0 is less than +0, whichever comes first; NaN counts where it is asked for only.
TEST(Warp, ReductionsOfFloats) {
  const auto redux = [](const char* operation) {
    return fmt::format("redux.sync.{}.f32 %f0, %fa, -1; mov.b32 %r0, %f0; cvt.u64.u32 %y, %r0;", operation);
  };
  for (const std::size_t odd : {0, 31}) {
    std::vector<test::BodyInput> zeros(32, {0, 0}), negative(32, {0x80000000, 0}), nan(32, {0x3F800000, 0});
    zeros[odd].a = 0x80000000, negative[odd].a = 0, nan[odd].a = 0xFFC00001;
    check(redux("min"), zeros, [](int) { return u64{0x80000000}; });
    check(redux("max"), zeros, [](int) { return u64{0}; });
    check(redux("min"), negative, [](int) { return u64{0x80000000}; });
    check(redux("max"), negative, [](int) { return u64{0}; });
    check(redux("max"), nan, [](int) { return u64{0x3F800000}; });
    check(redux("max.NaN"), nan, [](int) { return u64{0x7FFFFFFF}; });
  }
}

TEST(Warp, LanesThatBranchApartMeetAgain) {
  const auto inputs = lane_values();
  check(
      "setp.lt.u32 %p0, %thread, 20; @%p0 bra LOW; activemask.b32 %r0; bra JOIN; LOW: activemask.b32 %r0; JOIN: "
      "activemask.b32 %r1; mov.b64 %y, {%r0, %r1};",
      inputs, [](int lane) { return u64{0xFFFFFFFF} << 32 | (lane < 20 ? 0xFFFFFU : 0xFFF00000U); });
  // As many rounds as the lane's number.
  check(
      "mov.u32 %r0, 0; LOOP: setp.ge.u32 %p0, %r0, %thread; @%p0 bra DONE; add.u32 %r0, %r0, 1; bra LOOP; DONE: "
      "activemask.b32 %r1; mov.b64 %y, {%r0, %r1};",
      inputs, [](int lane) { return u64{0xFFFFFFFF} << 32 | static_cast<u32>(lane); });
  check("elect.sync %r0|%p0, -1; selp.b32 %r1, 1, 0, %p0; mov.b64 %y, {%r0, %r1};", inputs,
        [](int lane) { return lane == 0 ? u64{1} << 32 : 0; });
  // An indexed branch with three targets.
  check(
      "rem.u32 %r0, %thread, 3; TABLE: .branchtargets A, B, C; brx.idx %r0, TABLE; A: mov.u64 %y, 10; bra END; "
      "B: mov.u64 %y, 20; bra END; C: mov.u64 %y, 30; END:",
      inputs, [](int lane) { return (lane % 3 + 1) * 10; });
}

TEST(Warp, SpecialRegisters) {
  check("mov.u32 %r0, %laneid; mov.u32 %r1, %lanemask_lt; mov.b64 %y, {%r0, %r1};", lane_values(),
        [](int lane) { return ((u64{1} << lane) - 1) << 32 | static_cast<u32>(lane); });
  const std::vector<u64> y = run_clean_body(
      "mov.u32 %r0, %warpid; mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r0, %r0, 100, %r1; "
      "mad.lo.u32 %r0, %r0, 100, %r2; cvt.u64.u32 %y, %r0;",
      body_inputs(256), 64);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], (i % 64 / 32 * 100 + 4) * 100 + i / 64);
}

TEST(Barriers, ReductionsOverTheBlock) {
  const std::vector<u64> y = run_clean_body(
      "setp.lt.u32 %p0, %local, 37; barrier.cta.red.popc.aligned.u32 %r0, 1, %p0; "
      "bar.red.and.pred %p1, 2, %p0; bar.red.or.pred %p2, 3, 128, %p0; selp.b32 %r1, 1, 0, %p1; "
      "@%p2 add.u32 %r1, %r1, 2; mov.b64 %y, {%r0, %r1};",
      body_inputs(256), 128);
  for (const u64 each : y) EXPECT_EQ(each, u64{2} << 32 | 37);
}

TEST(Barriers, CountPairsOfWarps) {
  // Warps 0 and 1 meet at barrier 1, warps 2 and 3 at barrier 2; each hands 64 words over.
  const std::string body = R"(
    shr.u32 %r0, %local, 6; add.u32 %r1, %r0, 1; shl.b32 %r2, %local, 2; mov.u32 %r3, buffer; add.u32 %r2, %r2, %r3;
    st.shared.u32 [%r2], %a32; barrier.cta.sync %r1, 64;
    xor.b32 %r4, %local, 33; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r3; ld.shared.u32 %r5, [%r4];
    cvt.u64.u32 %y, %r5;)";
  const auto inputs = body_inputs(128, 3);
  const std::vector<u64> y = run_clean_body(body, inputs, 128);
  for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(y[i], inputs[i ^ 33].a & 0xFFFFFFFF);
}

TEST(Barriers, AreCounted) {
  const test::BodyRun once = run_body("bar.sync 0; bar.warp.sync -1; nanosleep.u32 20;", body_inputs(256), 64);
  EXPECT_TRUE(once.report.clean());
  EXPECT_EQ(once.report.counters.block_barriers, 4U);
  EXPECT_EQ(once.report.counters.warp_barriers, 8U);
  // Counted once per warp, although warps wait at it: 8 bar.sync, 8 bar.warp.sync.
  EXPECT_EQ(once.report.counters.of(InstructionClass::barrier), (InstructionCount{16, 512}));
}

}  // namespace
}  // namespace stitch::emulator
