// Loads, stores and atomics of every width and space, as PTX.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "emulator/decode/code.h"
#include "emulator/lanes/float_format.h"
#include "tests/emulator/ptx_body.h"

namespace stitch::emulator {
namespace {

using test::body_inputs;
using test::run_body;
using test::run_clean_body;

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

/// Each lane writes its %a to 8 bytes of its own in `space`, reads parts of it back into %y.
std::string through(const std::string& space, const std::string& access) {
  const std::string address = space == "global"
                                  ? "shl.b32 %r30, %thread, 3; cvt.u64.u32 %t15, %r30; add.u64 %t15, %t15, %table;"
                                  : "shl.b32 %r30, %local, 3; mov.u32 %r31, buffer; add.u32 %r30, %r30, %r31; "
                                    "cvt.u64.u32 %t15, %r30;";
  std::string text = address + "st." + space + ".u64 [%t15], %a;" + access;
  for (std::size_t at; (at = text.find("SPACE")) != std::string::npos;) text.replace(at, 5, space);
  return text;
}

struct Row {
  const char* access;
  u64 (*wanted)(u64 a, u64 b);
};
const Row rows[] = {
    {"ld.SPACE.u8 %r0, [%t15 + 3]; cvt.u64.u32 %y, %r0;", [](u64 a, u64) { return (a >> 24) & 0xFF; }},
    {"ld.SPACE.s8 %r0, [%t15 + 3]; cvt.s64.s32 %y, %r0;",
     [](u64 a, u64) { return static_cast<u64>(s64{static_cast<std::int8_t>(a >> 24)}); }},
    {"ld.SPACE.u16 %r0, [%t15 + 6]; cvt.u64.u32 %y, %r0;", [](u64 a, u64) { return a >> 48; }},
    {"ld.SPACE.s16 %y, [%t15 + 2];",
     [](u64 a, u64) { return static_cast<u64>(s64{static_cast<std::int16_t>(a >> 16)}); }},
    {"ld.SPACE.b16 %h0, [%t15 + 4]; cvt.u64.u16 %y, %h0;", [](u64 a, u64) { return (a >> 32) & 0xFFFF; }},
    {"ld.SPACE.f32 %f0, [%t15 + 4]; mov.b32 %r0, %f0; cvt.u64.u32 %y, %r0;", [](u64 a, u64) { return a >> 32; }},
    {"ld.SPACE.s32 %y, [%t15];", [](u64 a, u64) { return static_cast<u64>(s64{static_cast<s32>(a)}); }},
    {"ld.SPACE.v2.u32 {%r0, %r1}, [%t15]; mov.b64 %y, {%r1, %r0};", [](u64 a, u64) { return std::rotl(a, 32); }},
    {"ld.SPACE.v4.u16 {%h0,%h1,%h2,%h3}, [%t15]; mov.b64 %y, {%h3,%h2,%h1,%h0};",
     [](u64 a, u64) { return a << 48 | (a & 0xFFFF0000) << 16 | ((a >> 16) & 0xFFFF0000) | a >> 48; }},
    {"ld.SPACE.v4.u8 {%r0,%r1,%r2,%r3}, [%t15]; shl.b32 %r0, %r0, 8; or.b32 %r0, %r0, %r3; cvt.u64.u32 %y, %r0;",
     [](u64 a, u64) { return (a & 0xFF) << 8 | ((a >> 24) & 0xFF); }},
    {"st.SPACE.u8 [%t15 + 1], %b32; ld.SPACE.u64 %y, [%t15];",
     [](u64 a, u64 b) { return (a & ~u64{0xFF00}) | (b & 0xFF) << 8; }},
    {"cvt.u16.u64 %h0, %b; st.SPACE.b16 [%t15 + 2], %h0; ld.SPACE.u64 %y, [%t15];",
     [](u64 a, u64 b) { return (a & ~u64{0xFFFF0000}) | (b & 0xFFFF) << 16; }},
    {"st.SPACE.v2.u32 [%t15], {%b32, 5}; ld.SPACE.u64 %y, [%t15];",
     [](u64, u64 b) { return u64{5} << 32 | (b & 0xFFFFFFFF); }},
};

TEST(Access, EveryWidthInEverySpace) {
  const auto inputs = body_inputs(64);
  for (const std::string space : {"global", "shared"}) {
    for (const Row& row : rows) {
      const test::BodyRun run = run_body(through(space, row.access), inputs, 64, std::vector<u64>(64));
      ASSERT_TRUE(run.report.clean()) << row.access << test::findings_text(run.report);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        ASSERT_EQ(run.y[i], row.wanted(inputs[i].a, inputs[i].b)) << space << " " << row.access << " lane " << i;
    }
  }
}

TEST(Access, GenericAddressesReachEverySpace) {
  const auto inputs = body_inputs(32);
  const std::vector<u64> y = run_clean_body(R"(
    .local .align 8 .b8 own[8];
    mov.u64 %t1, own; cvta.local.u64 %t1, %t1;
    mov.u64 %t2, buffer; cvta.shared.u64 %t2, %t2; mul.wide.u32 %t3, %local, 8; add.u64 %t2, %t2, %t3;
    setp.lt.u32 %p0, %local, 10; selp.b64 %t4, %t1, %t2, %p0;
    st.u64 [%t4], %a; ld.u64 %y, [%t4];
    isspacep.shared %p1, %t4; @%p1 add.u64 %y, %y, 1;)",
                                            inputs);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(y[i], inputs[i].a + (i < 10 ? 0 : 1));
}

struct AtomicRow {
  const char* operation;  ///< as in atom.SPACE.<operation>
  const char* value;      ///< register with the lane's operand
  u64 (*fold)(u64 memory, u64 value);
  u64 initial;
};
template <class T>
T as(u64 x) {
  if constexpr (sizeof(T) == 4) return std::bit_cast<T>(static_cast<u32>(x));
  if constexpr (sizeof(T) == 8) return std::bit_cast<T>(x);
}
template <class T, class F>
u64 fold_as(u64 memory, u64 value, F&& f) {
  const T result = f(as<T>(memory), as<T>(value));
  if constexpr (sizeof(T) == 4) return std::bit_cast<u32>(result);
  if constexpr (sizeof(T) == 8) return std::bit_cast<u64>(result);
}
const AtomicRow atomic_rows[] = {
    {"add.u32", "%a32", [](u64 m, u64 v) { return (m + v) & 0xFFFFFFFF; }, 5},
    {"add.u64", "%a", [](u64 m, u64 v) { return m + v; }, 5},
    {"min.s32", "%a32", [](u64 m, u64 v) { return fold_as<s32>(m, v, [](s32 a, s32 b) { return std::min(a, b); }); },
     5},
    {"max.u32", "%a32", [](u64 m, u64 v) { return fold_as<u32>(m, v, [](u32 a, u32 b) { return std::max(a, b); }); },
     5},
    {"min.u64", "%a", [](u64 m, u64 v) { return std::min(m, v); }, ~u64{0}},
    {"max.s64", "%a", [](u64 m, u64 v) { return fold_as<s64>(m, v, [](s64 a, s64 b) { return std::max(a, b); }); }, 5},
    {"and.b32", "%a32", [](u64 m, u64 v) { return m & v & 0xFFFFFFFF; }, 0xFFFFFFFF},
    {"or.b32", "%a32", [](u64 m, u64 v) { return (m | v) & 0xFFFFFFFF; }, 0},
    {"xor.b64", "%a", [](u64 m, u64 v) { return m ^ v; }, 0},
    {"inc.u32", "20", [](u64 m, u64) { return m >= 20 ? 0 : m + 1; }, 7},
    {"dec.u32", "20", [](u64 m, u64) { return m == 0 || m > 20 ? 20 : m - 1; }, 7},
};

/// Atomics of 64 lanes on one place: the result is the fold in some order, and every old value is a step of it.
void check_atomic(const AtomicRow& row, const std::string& space, bool returns) {
  const auto inputs = body_inputs(64, 4);
  const bool wide = std::string_view(row.operation).ends_with("64");
  const std::string old = wide ? "%t1" : "%r1";
  const std::string where = space == "shared" ? "%r10" : "%table";
  std::string body =
      "mov.u32 %r10, buffer; setp.eq.u32 %p0, %local, 0; ld.global.u64 %t2, [%table];"
      "bar.sync 0; @%p0 st.shared.u64 [%r10], %t2; bar.sync 0;";
  body += returns ? fmt::format("atom.{}.{} {}, [{}], {};", space, row.operation, old, where, row.value)
                  : fmt::format("red.{}.{} [{}], {};", space, row.operation, where, row.value);
  if (returns) body += wide ? "mov.u64 %y, %t1;" : "cvt.u64.u32 %y, %r1;";
  body += "bar.sync 0; @%p0 ld.shared.u64 %t2, [%r10];";
  if (space == "shared") body += "@%p0 st.global.u64 [%table], %t2;";
  const test::BodyRun run = run_body(body, inputs, 64, {row.initial});
  ASSERT_TRUE(run.report.clean()) << body << test::findings_text(run.report);
  u64 memory = row.initial;
  std::vector<u64> steps;
  for (const auto& input : inputs) {
    steps.push_back(memory);
    memory = row.fold(memory, wide ? input.a : input.a & 0xFFFFFFFF);
  }
  EXPECT_EQ(run.table[0], memory) << body;
  // The emulator goes through lanes in order, so that the old values are those of that order.
  if (returns) {
    EXPECT_EQ(run.y, steps) << body;
  }
}

TEST(Atomics, IntegersOnGlobalAndShared) {
  for (const AtomicRow& row : atomic_rows) {
    for (const std::string space : {"global", "shared"}) {
      check_atomic(row, space, true);
      check_atomic(row, space, false);
    }
  }
}

TEST(Atomics, CompareAndSwapMakesALock) {
  // Every lane adds its number under a lock, one after the other.
  const test::BodyRun run = run_body(R"(
    mov.u32 %r2, 0;
    AGAIN: atom.global.acquire.gpu.cas.b32 %r0, [%table], 0, 1; setp.ne.u32 %p0, %r0, 0; @%p0 bra AGAIN;
    ld.global.u32 %r1, [%table + 8]; add.u32 %r1, %r1, %thread; st.global.u32 [%table + 8], %r1;
    atom.global.release.gpu.exch.b32 %r0, [%table], 0;)",
                                     body_inputs(128), 32, {0, 0});
  EXPECT_TRUE(run.report.clean()) << test::findings_text(run.report);
  EXPECT_EQ(run.table, (std::vector<u64>{0, 127 * 128 / 2}));
}

TEST(Atomics, Floats) {
  const auto sum = [](const std::string& instruction, u64 initial) {
    const test::BodyRun run = run_body(instruction, body_inputs(64), 64, {initial});
    EXPECT_TRUE(run.report.clean()) << test::findings_text(run.report);
    return run.table[0];
  };
  EXPECT_EQ(
      std::bit_cast<float>(static_cast<u32>(sum("cvt.rn.f32.u32 %f0, %local; red.global.add.f32 [%table], %f0;", 0))),
      2016.0F);
  EXPECT_EQ(std::bit_cast<double>(sum("cvt.rn.f64.u32 %d0, %local; red.global.add.f64 [%table], %d0;", 0)), 2016.0);
  const u64 halves = sum("mov.b32 %r0, 0x3c003c00; red.global.add.noftz.f16x2 [%table], %r0;", 0);
  EXPECT_EQ(half_to_float(static_cast<u16>(halves)), 64.0F);
  EXPECT_EQ(half_to_float(static_cast<u16>(halves >> 16)), 64.0F);
  const u64 brain = sum("mov.b32 %r0, 0x3f803f80; red.global.add.noftz.bf16x2 [%table], %r0;", 0);
  EXPECT_EQ(brain, 0x42804280U);
  const u64 vector =
      sum("mov.b32 %f0, 0f3F800000; mov.b32 %f1, 0f40000000; red.global.v2.f32.add [%table], {%f0, %f1};", 0);
  EXPECT_EQ(vector, std::bit_cast<u32>(64.0F) | u64{std::bit_cast<u32>(128.0F)} << 32);
}

// -0 is less than +0, whichever is in memory; a single NaN loses.
TEST(Atomics, ExtremesOfHalves) {
  struct ExtremeRow {
    const char* operation;
    u32 memory, value, result;
  };
  const ExtremeRow extremes[] = {{"min", 0x0000'8000, 0x8000'0000, 0x8000'8000},
                                 {"max", 0x0000'8000, 0x8000'0000, 0},
                                 {"min", 0x7FFF'4000, 0x4000'7FFF, 0x4000'4000},
                                 {"max", 0x7FFF'4000, 0x4000'7FFF, 0x4000'4000},
                                 {"max", 0xFFFF'4000, 0xFFFF'4040, 0x7FFF'4040}};
  for (const char* type : {"f16x2", "bf16x2"}) {
    for (const ExtremeRow& row : extremes) {
      const test::BodyRun run = run_body(fmt::format("setp.eq.u32 %p0, %local, 0; mov.b32 %r0, {:#x}; "
                                                     "@%p0 red.global.{}.noftz.{} [%table], %r0;",
                                                     row.value, row.operation, type),
                                         body_inputs(32), 32, {row.memory});
      EXPECT_TRUE(run.report.clean()) << test::findings_text(run.report);
      EXPECT_EQ(run.table[0], row.result)
          << fmt::format("{}.{} {:#x} {:#x}", row.operation, type, row.memory, row.value);
    }
  }
}

TEST(Access, ConstantsAndModuleVariables) {
  const std::string module = R"(.version 8.0
.target sm_90a
.address_size 64
.const .align 4 .b32 weights[4] = {10, 20, 30, 40};
.global .align 8 .u64 counter = 5;
.visible .entry kernel(.param .u64 y)
{
.reg .b64 %t<4>; .reg .b32 %r<4>;
mov.u32 %r0, %tid.x; mul.wide.u32 %t0, %r0, 4; mov.u64 %t1, weights; add.u64 %t1, %t1, %t0; ld.const.u32 %r1, [%t1];
atom.global.add.u64 %t2, [counter], 1;
ld.param.u64 %t3, [y]; add.u64 %t3, %t3, %t0; st.global.u32 [%t3], %r1; ret;
})";
  const Result<Program> program = Program::load(module);
  ASSERT_TRUE(program) << program.error().message;
  Memory memory;
  const Buffer y = test::make(memory, "y", 16);
  ParameterBlock parameters;
  parameters.add(y);
  for (int round = 0; round < 2; ++round) test::run_clean(*program, test::shape(1, 4), parameters, memory);
  EXPECT_EQ(test::get<u32>(memory, y), (std::vector<u32>{10, 20, 30, 40}));
  // The module's variables live as long as the memory.
  const Buffer* counter = memory.module_variable(program->code().module, "counter");
  ASSERT_NE(counter, nullptr);
  EXPECT_EQ(test::get<u64>(memory, *counter)[0], 5U + 8U);
}

}  // namespace
}  // namespace stitch::emulator
