// Matrix instructions against plain products; fragments are laid out here as the PTX ISA's figures have them.
#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <limits>

#include "emulator/lanes/float_format.h"
#include "tests/emulator/ptx_body.h"

namespace stitch::emulator {
namespace {

using test::body_inputs;
using test::run_body;

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

struct Form {
  const char* shape_and_types;  ///< after mma.sync.aligned.
  int k;
  int element_bits;
  std::function<u32(float)> encode;
  bool integer_result;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.shape_and_types; }

class Mma : public testing::TestWithParam<Form> {};

/// Element i of a lane's A (B) fragment is at this row and column (PTX ISA, mma.m16n8k…, "matrix fragments"); e
/// elements a register.
std::pair<int, int> a_place(int lane, int i, int e) {
  const int reg = i / e;
  return {lane / 4 + (reg % 2 != 0 ? 8 : 0), lane % 4 * e + i % e + (reg >= 2 ? 4 * e : 0)};
}
std::pair<int, int> b_place(int lane, int i, int e) {
  const int reg = i / e;
  return {lane % 4 * e + i % e + reg * 4 * e, lane / 4};
}

TEST_P(Mma, IsTheProduct) {
  const Form& form = GetParam();
  const int e = 32 / form.element_bits;
  const auto value = [](u64 seed, int r, int c) {
    return static_cast<float>(mix(seed, static_cast<u64>(r * 64 + c)) % 7) - 3;
  };
  // 16 words a lane: A (4), B (2), C (4), and room for D (4).
  std::vector<u32> words(32 * 16);
  const int a_count = form.k * 16 / 32;
  const int b_count = form.k * 8 / 32;
  for (int lane = 0; lane < 32; ++lane) {
    u32* mine = words.data() + lane * 16;
    for (int i = 0; i < a_count; ++i) {
      const auto [r, c] = a_place(lane, i, e);
      mine[i / e] |= form.encode(value(1, r, c)) << (form.element_bits * (i % e) % 32);
    }
    for (int i = 0; i < b_count; ++i) {
      const auto [r, c] = b_place(lane, i, e);
      mine[4 + i / e] |= form.encode(value(2, r, c)) << (form.element_bits * (i % e) % 32);
    }
    for (int i = 0; i < 4; ++i) {
      const float c = value(3, lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
      mine[6 + i] = form.integer_result ? static_cast<u32>(static_cast<int>(c)) : std::bit_cast<u32>(c);
    }
  }
  std::vector<u64> table(words.size() / 2);
  std::memcpy(table.data(), words.data(), words.size() * 4);
  const std::string a_registers = a_count / e == 4 ? "{%r0, %r1, %r2, %r3}" : "{%r0, %r1}";
  const std::string b_registers = b_count / e == 2 ? "{%r4, %r5}" : "{%r4}";
  const std::string body = fmt::format(R"(
    shl.b32 %r30, %local, 6; cvt.u64.u32 %t1, %r30; add.u64 %t1, %t1, %table;
    ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%t1]; ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%t1 + 16];
    ld.global.v2.u32 {{%r8, %r9}}, [%t1 + 32];
    mma.sync.aligned.{} {{%r10, %r11, %r12, %r13}}, {}, {}, {{%r6, %r7, %r8, %r9}};
    st.global.v2.u32 [%t1 + 40], {{%r10, %r11}}; st.global.v2.u32 [%t1 + 48], {{%r12, %r13}};)",
                                       form.shape_and_types, a_registers, b_registers);
  const test::BodyRun run = run_body(body, body_inputs(32), 32, table);
  ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
  std::memcpy(words.data(), run.table.data(), words.size() * 4);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int r = lane / 4 + i / 2 * 8, c = lane % 4 * 2 + i % 2;
      float wanted = value(3, r, c);
      for (int k = 0; k < form.k; ++k) wanted += value(1, r, k) * value(2, k, c);
      const u32 word = words[lane * 16 + 10 + i];
      ASSERT_EQ(form.integer_result ? static_cast<float>(static_cast<int>(word)) : std::bit_cast<float>(word), wanted)
          << "row " << r << " column " << c;
    }
  }
  EXPECT_EQ(run.report.counters.of(InstructionClass::tensor), (InstructionCount{1, 32}));
}

const auto half = [](float x) { return u32{float_to_half(x)}; };
const auto brain = [](float x) { return u32{float_to_bfloat(x)}; };
const auto word = [](float x) { return std::bit_cast<u32>(x); };
const auto byte = [](float x) { return static_cast<u32>(static_cast<int>(x)) & 0xFF; };
INSTANTIATE_TEST_SUITE_P(Table, Mma,
                         testing::Values(Form{"m16n8k16.row.col.f32.f16.f16.f32", 16, 16, half, false},
                                         Form{"m16n8k8.row.col.f32.f16.f16.f32", 8, 16, half, false},
                                         Form{"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16, brain, false},
                                         Form{"m16n8k8.row.col.f32.tf32.tf32.f32", 8, 32, word, false},
                                         Form{"m16n8k4.row.col.f32.tf32.tf32.f32", 4, 32, word, false},
                                         Form{"m16n8k32.row.col.s32.s8.s8.s32", 32, 8, byte, true},
                                         Form{"m16n8k16.row.col.s32.s8.s8.s32", 16, 8, byte, true}));

/// A product whose rows of A are all alike, and whose columns of B are: elements 0 to 3 of a row (a column), the others
/// 0; every accumulator starts as `c`.
struct Rounded {
  std::string name;
  bool half;  ///< accumulates in f16, else in f32
  std::array<float, 4> a, b;
  u32 c;
  u32 result;  ///< a register of it
};
constexpr float infinite = std::numeric_limits<float>::infinity();
const Rounded rounded[] = {
    {"inf · 0", false, {infinite}, {0}, 0, 0x7FFFFFFF},
    {"inf - inf", false, {infinite, infinite}, {1, -1}, 0, 0x7FFFFFFF},
    {"a NaN in the accumulator", false, {1}, {1}, 0xFFC12345, 0x7FFFFFFF},
    {"inf", false, {infinite}, {1}, 0, 0x7F800000},
    {"inf · 0 in f16", true, {infinite}, {0}, 0, 0x7FFF7FFF},
    {"a NaN in the accumulator in f16", true, {1}, {1}, 0xFE01FE01, 0x7FFF7FFF},
    // 1 + 2^-11 is half-way between two halves: what follows decides, and no f32 has room for it.
    {"above half-way", true, {1, 0x1p-11F, 0x1p-15F}, {1, 1, 0x1p-15F}, 0, 0x3C013C01},
    {"half-way", true, {1, 0x1p-11F}, {1, 1}, 0, 0x3C003C00},
    {"below half-way", true, {1, 0x1.8p-10F, 0x1p-15F}, {1, 1, -0x1p-15F}, 0, 0x3C013C01},
    {"overflow", true, {256}, {256}, 0, 0x7C007C00},
};

/// Words of elements 0, 1 and 2, 3.
std::array<u32, 2> halves_of(const std::array<float, 4>& x) {
  const auto pair = [&](std::size_t i) { return float_to_half(x[i]) | u32{float_to_half(x[i + 1])} << 16; };
  return {pair(0), pair(2)};
}

/// Lane l holds elements 2(l%4), +1 of row l/4.
std::vector<test::BodyInput> fragments(const Rounded& row, std::size_t threads) {
  std::vector<test::BodyInput> inputs(threads);
  for (std::size_t i = 0; i < threads; ++i) {
    if (i % 4 < 2) inputs[i] = {halves_of(row.a)[i % 4], halves_of(row.b)[i % 4]};
  }
  return inputs;
}

void expect_everywhere(const Rounded& row, const test::BodyRun& run) {
  ASSERT_TRUE(run.report.clean()) << row.name << test::findings_text(run.report);
  for (const u64 y : run.y) ASSERT_EQ(y, row.result | u64{row.result} << 32) << fmt::format("{}: {:#x}", row.name, y);
}

TEST(MmaResults, AreRoundedOnceAndTheirNanIsCanonical) {
  for (const Rounded& row : rounded) {
    const std::string body = fmt::format(
        "mov.u32 %r0, 0; mov.u32 %r10, {0:#x}; mma.sync.aligned.m16n8k16.row.col.{1}.f16.f16.{1} {{%r20, %r21{2}}}, "
        "{{%a32, %a32, %r0, %r0}}, {{%b32, %r0}}, {{%r10, %r10{3}}}; mov.b64 %y, {{%r20, %r21}};",
        row.c, row.half ? "f16" : "f32", row.half ? "" : ", %r22, %r23", row.half ? "" : ", %r10, %r10");
    expect_everywhere(row, run_body(body, fragments(row, 32)));
  }
}

/// Fills `buffer` with the 16-bit numbers 0, 1, 2, …, a row of 8 per lane.
const std::string fill = R"(
    mov.u32 %r1, buffer; shl.b32 %r2, %local, 4; add.u32 %r2, %r2, %r1; shl.b32 %r3, %local, 3;
    add.u32 %r4, %r3, 1; shl.b32 %r4, %r4, 16; or.b32 %r4, %r4, %r3; mov.u32 %r5, 0x20002;
    add.u32 %r6, %r4, %r5; add.u32 %r7, %r6, %r5; add.u32 %r8, %r7, %r5;
    st.shared.v4.u32 [%r2], {%r4, %r6, %r7, %r8}; bar.sync 0;)";

TEST(MatrixMoves, LoadFourMatrices) {
  for (const bool transposed : {false, true}) {
    for (const int matrix : {0, 1, 2, 3}) {
      const std::string body =
          fill + fmt::format(
                     "ldmatrix.sync.aligned.m8n8.x4{}.shared.b16 {{%r20, %r21, %r22, %r23}}, [%r2]; "
                     "cvt.u64.u32 %y, %r2{};",
                     transposed ? ".trans" : "", matrix);
      const test::BodyRun run = run_body(body, body_inputs(32));
      ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
      for (u64 lane = 0; lane < 32; ++lane) {
        const auto at = [&](u64 r, u64 c) {
          return static_cast<u64>(matrix) * 64 + (transposed ? c * 8 + r : r * 8 + c);
        };
        const u64 r = lane / 4, c = lane % 4 * 2;
        EXPECT_EQ(run.y[lane], at(r, c) | at(r, c + 1) << 16) << "lane " << lane;
      }
    }
  }
}

TEST(MatrixMoves, StoresUndoLoads) {
  for (const char* mode : {"", ".trans"}) {
    const std::string body =
        fill + fmt::format(
                   "ldmatrix.sync.aligned.m8n8.x2{0}.shared.b16 {{%r20, %r21}}, [%r2]; bar.sync 0; "
                   "add.u32 %r3, %r2, 512; stmatrix.sync.aligned.m8n8.x2{0}.shared.b16 [%r3], {{%r20, %r21}}; "
                   "bar.sync 0; setp.lt.u32 %p0, %local, 16; @%p0 ld.shared.u64 %y, [%r3];",
                   mode);
    const test::BodyRun run = run_body(body, body_inputs(32));
    ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
    for (u64 lane = 0; lane < 16; ++lane) {
      const u64 first = lane * 8;
      EXPECT_EQ(run.y[lane], first | (first + 1) << 16 | (first + 2) << 32 | (first + 3) << 48) << mode << lane;
    }
  }
}

/// wgmma m64n8k16 with both operands in shared memory as 8 × 16-byte core matrices, K contiguous, not swizzled.
std::string warp_group_product(bool fence, bool wait) {
  // A: 64 rows × 16, core matrices along K 1024 bytes apart, along M 128; B: 8 × 16 behind it at 2048.
  return std::string(R"(
    .shared .align 128 .b8 tiles[2304];
    mov.u32 %r1, tiles; shl.b32 %r2, %local, 4; add.u32 %r2, %r2, %r1;
    mov.u32 %r3, 0x3c003c00;
    st.shared.v4.u32 [%r2], {%r3, %r3, %r3, %r3};
    cvt.rn.f32.u32 %f0, %local; cvt.rn.f16.f32 %h0, %f0; st.shared.b16 [%r2], %h0;
    setp.lt.u32 %p0, %local, 16; mov.u32 %r4, 0x40004000;
    @%p0 st.shared.v4.u32 [%r2 + 2048], {%r4, %r4, %r4, %r4};
    )") + (fence ? "fence.proxy.async.shared::cta;" : "") +
         R"( bar.sync 0;
    shr.u32 %r5, %r1, 4; cvt.u64.u32 %t1, %r5; or.b64 %t1, %t1, 0x0000000800400000;
    add.u32 %r6, %r1, 2048; shr.u32 %r6, %r6, 4; cvt.u64.u32 %t2, %r6; or.b64 %t2, %t2, 0x0000000800080000;
    mov.b32 %f1, 0f00000000; mov.b32 %f2, 0f00000000; mov.b32 %f3, 0f00000000; mov.b32 %f4, 0f00000000;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %t1, %t2, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    )" + (wait ? "wgmma.wait_group.sync.aligned 0;" : "") +
         R"( mov.b32 %r7, %f1; mov.b32 %r8, %f3; mov.b64 %y, {%r7, %r8};)" +
         (wait ? "" : "wgmma.wait_group.sync.aligned 0;");
}

TEST(WarpGroups, MultiplyTilesInSharedMemory) {
  const test::BodyRun run = run_body(warp_group_product(true, true), body_inputs(128), 128);
  ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
  // Row r of A is ones but for its first element r and its ninth 64 + r; B is twos.
  const auto wanted = [](u64 r) { return static_cast<float>(2 * (14 + r + 64 + r)); };
  for (u64 thread = 0; thread < 128; ++thread) {
    const u64 r = thread / 32 * 16 + thread % 32 / 4;
    EXPECT_EQ(std::bit_cast<float>(static_cast<u32>(run.y[thread])), wanted(r)) << thread;
    EXPECT_EQ(std::bit_cast<float>(static_cast<u32>(run.y[thread] >> 32)), wanted(r + 8)) << thread;
  }
}

TEST(WarpGroups, ResultsAreRoundedOnceAndTheirNanIsCanonical) {
  for (const Rounded& row : rounded) {
    // A in registers; B's 8 columns of 16 elements as core matrices of 8 × 8, 128 bytes apart.
    const std::string body = fmt::format(
        R"(
    mov.u32 %r0, 0; mov.u32 %r1, buffer; shl.b32 %r2, %local, 4; add.u32 %r2, %r2, %r1;
    setp.lt.u32 %p0, %local, 8; selp.b32 %r4, {0:#x}, 0, %p0; selp.b32 %r5, {1:#x}, 0, %p0;
    setp.lt.u32 %p1, %local, 16; @%p1 st.shared.v4.u32 [%r2], {{%r4, %r5, %r0, %r0}};
    fence.proxy.async.shared::cta; bar.sync 0;
    shr.u32 %r6, %r1, 4; cvt.u64.u32 %t2, %r6; or.b64 %t2, %t2, 0x0000000800080000;
    mov.u32 %r20, {2:#x}; mov.u32 %r21, %r20; mov.u32 %r22, %r20; mov.u32 %r23, %r20;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.{3}.f16.f16 {{%r20, %r21{4}}}, {{%a32, %a32, %r0, %r0}}, %t2, 1, 1, 1, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mov.b64 %y, {{%r20, %r21}};)",
        halves_of(row.b)[0], halves_of(row.b)[1], row.c, row.half ? "f16" : "f32", row.half ? "" : ", %r22, %r23");
    expect_everywhere(row, run_body(body, fragments(row, 128), 128));
  }
}

TEST(WarpGroups, FenceAndWaitAreNeeded) {
  const test::BodyRun unfenced = run_body(warp_group_product(false, true), body_inputs(128), 128);
  ASSERT_FALSE(unfenced.report.findings.empty());
  EXPECT_EQ(unfenced.report.findings[0].detector, Detector::missing_fence);
  EXPECT_THAT(unfenced.report.findings[0].message, testing::HasSubstr("without a fence.proxy.async since"));
  const test::BodyRun early = run_body(warp_group_product(true, false), body_inputs(128), 128);
  ASSERT_FALSE(early.report.findings.empty());
  EXPECT_EQ(early.report.findings[0].detector, Detector::async_before_wait);
  EXPECT_THAT(early.report.findings[0].message, testing::HasSubstr("before wgmma.wait_group"));
}

}  // namespace
}  // namespace stitch::emulator
