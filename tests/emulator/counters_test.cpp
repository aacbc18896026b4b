// Event counters on kernels whose counts are known, as a profiler would report them.
#include <gmock/gmock.h>

#include "tests/emulator/ptx_body.h"

namespace stitch::emulator {
namespace {

using test::body_inputs;
using test::run_body;

/// The address %t1 = %table + f(lane) for a warp, then one access of `bytes`; the harness itself reads 16 bytes a lane
/// of "x" and writes 8 of "y".
struct GlobalRow {
  const char* name;
  const char* access;
  std::uint64_t sectors;
  std::uint64_t unique;
};
void PrintTo(const GlobalRow& row, std::ostream* out) { *out << row.name; }

class GlobalCounts : public testing::TestWithParam<GlobalRow> {};

TEST_P(GlobalCounts, OfOneWarp) {
  const GlobalRow& row = GetParam();
  const std::vector<std::uint64_t> table(1024, 1);
  const test::BodyRun run = run_body(row.access, body_inputs(32), 32, table);
  ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
  std::optional<BufferTraffic> traffic;
  for (const BufferTraffic& each : run.report.buffers) {
    if (each.name == "table") traffic = each;
  }
  ASSERT_TRUE(traffic.has_value());
  const bool stores = std::string_view(row.access).find("st.global") != std::string_view::npos;
  const GlobalTraffic wanted{1, row.sectors, row.unique, row.sectors};
  EXPECT_EQ(stores ? traffic->stores : traffic->loads, wanted)
      << traffic->loads.requests << " " << traffic->loads.sectors << " " << traffic->loads.unique_sectors;
  // The totals hold the harness's own accesses as well: 512 bytes read, 256 written.
  const GlobalTraffic loads = run.report.counters.global_loads;
  EXPECT_EQ(loads.sectors, 16 + (stores ? 0 : row.sectors));
  EXPECT_EQ(run.report.counters.global_stores.sectors, 8 + (stores ? row.sectors : 0));
}

const GlobalRow global_rows[] = {
    {"coalesced4", "shl.b32 %r0, %local, 2; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table; ld.global.u32 %r1, [%t1];",
     4, 4},
    {"coalesced8", "shl.b32 %r0, %local, 3; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table; ld.global.u64 %t2, [%t1];",
     8, 8},
    {"vector16",
     "shl.b32 %r0, %local, 4; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table; ld.global.v4.u32 {%r1,%r2,%r3,%r4}, "
     "[%t1];",
     16, 16},
    {"bytes", "cvt.u64.u32 %t1, %local; add.u64 %t1, %t1, %table; ld.global.u8 %r1, [%t1];", 1, 1},
    {"broadcast", "ld.global.u32 %r1, [%table + 64];", 1, 1},
    {"stride8", "shl.b32 %r0, %local, 3; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table; ld.global.u32 %r1, [%t1];", 8,
     8},
    {"stride32", "shl.b32 %r0, %local, 5; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table; ld.global.u32 %r1, [%t1];",
     32, 32},
    {"stride128", "shl.b32 %r0, %local, 7; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table; ld.global.u32 %r1, [%t1];",
     32, 32},
    {"offset_by_4",
     "shl.b32 %r0, %local, 2; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table; ld.global.u32 %r1, [%t1+4];", 5, 5},
    {"reversed",
     "sub.u32 %r0, 31, %local; shl.b32 %r0, %r0, 2; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table; ld.global.u32 %r1, "
     "[%t1];",
     4, 4},
    {"half_the_lanes",
     "shl.b32 %r0, %local, 2; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table; setp.lt.u32 %p0, %local, 16; "
     "@%p0 ld.global.u32 %r1, [%t1];",
     2, 2},
    {"store4", "shl.b32 %r0, %local, 2; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table; st.global.u32 [%t1], %a32;", 4,
     4},
    {"store_stride64",
     "shl.b32 %r0, %local, 6; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table; st.global.u32 [%t1], %a32;", 32, 32},
};
INSTANTIATE_TEST_SUITE_P(Table, GlobalCounts, testing::ValuesIn(global_rows),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(Counts, SectorsReadTwiceAreUniqueOnce) {
  const test::BodyRun run =
      run_body("ld.global.u32 %r1, [%table]; ld.global.u32 %r2, [%table + 4];", body_inputs(128), 64);
  for (const BufferTraffic& traffic : run.report.buffers) {
    if (traffic.name == "table") {
      EXPECT_EQ(traffic.loads, (GlobalTraffic{8, 8, 1, 2})) << "two blocks, each with an L1 of its own";
    }
  }
}

/// What a block loads twice of one sector, and whether L2 sees the second load.
struct CachedRow {
  const char* name;
  const char* access;
  std::uint64_t l2_sectors;
};
void PrintTo(const CachedRow& row, std::ostream* out) { *out << row.name; }

class CachedLoads : public testing::TestWithParam<CachedRow> {};

TEST_P(CachedLoads, OfOneWarp) {
  const test::BodyRun run = run_body(GetParam().access, body_inputs(32), 32, std::vector<std::uint64_t>(1024, 1));
  ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
  std::uint64_t l2_sectors = 0;
  for (const BufferTraffic& each : run.report.buffers) {
    if (each.name == "table") l2_sectors = each.loads.l2_sectors;
  }
  EXPECT_EQ(l2_sectors, GetParam().l2_sectors);
}

const CachedRow cached_rows[] = {
    {"twice", "ld.global.u32 %r1, [%table]; ld.global.u32 %r2, [%table + 4];", 1},
    {"another_sector_of_the_line", "ld.global.u32 %r1, [%table]; ld.global.u32 %r2, [%table + 32];", 2},
    {"past_l1", "ld.global.u32 %r1, [%table]; ld.global.cg.u32 %r2, [%table];", 2},
    {"not_kept", "ld.global.L1::no_allocate.u32 %r1, [%table]; ld.global.u32 %r2, [%table];", 2},
    {"found_though_it_would_not_be_kept", "ld.global.u32 %r1, [%table]; ld.global.L1::no_allocate.u32 %r2, [%table];",
     1},
    {"volatile", "ld.global.u32 %r1, [%table]; ld.volatile.global.u32 %r2, [%table];", 2},
    {"relaxed", "ld.global.u32 %r1, [%table]; ld.relaxed.gpu.global.u32 %r2, [%table];", 2},
    {"after_an_acquire",
     "ld.global.u32 %r1, [%table]; ld.acquire.gpu.global.u32 %r2, [%table + 64]; ld.global.u32 %r3, [%table];", 3},
    {"after_an_acquire_within_the_block",
     "ld.global.u32 %r1, [%table]; ld.acquire.cta.global.u32 %r2, [%table + 64]; ld.global.u32 %r3, [%table];", 2},
    {"after_a_fence", "ld.global.u32 %r1, [%table]; fence.acq_rel.gpu; ld.global.u32 %r3, [%table];", 2},
    {"after_a_fence_of_the_block", "ld.global.u32 %r1, [%table]; fence.acq_rel.cta; ld.global.u32 %r3, [%table];", 1},
    {"stored_is_not_brought_in", "st.global.u32 [%table], %a32; bar.warp.sync -1; ld.global.u32 %r3, [%table];", 1},
};
INSTANTIATE_TEST_SUITE_P(Table, CachedLoads, testing::ValuesIn(cached_rows),
                         [](const auto& each) { return std::string(each.param.name); });

/// An access to shared memory at buffer + f(lane) × step bytes.
struct SharedRow {
  const char* name;
  const char* address;  ///< leaves an offset in %r0
  const char* access;
  std::uint64_t wavefronts;
  std::uint64_t extra;
};
void PrintTo(const SharedRow& row, std::ostream* out) { *out << row.name; }

class SharedCounts : public testing::TestWithParam<SharedRow> {};

TEST_P(SharedCounts, OfOneWarp) {
  const SharedRow& row = GetParam();
  // All is written (8 whole warps of 4 bytes), then one access is counted.
  std::string body = "mov.u32 %r10, buffer; shl.b32 %r11, %local, 2; add.u32 %r11, %r11, %r10;";
  for (int i = 0; i < 8; ++i) body += fmt::format("st.shared.u32 [%r11 + {}], 0;", i * 128);
  body += "bar.sync 0;" + std::string(row.address) + "add.u32 %r0, %r0, %r10;" + row.access;
  const test::BodyRun run = run_body(body, body_inputs(32));
  ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
  EXPECT_EQ(run.report.counters.shared_wavefronts, 8 + row.wavefronts);
  EXPECT_EQ(run.report.counters.shared_extra_wavefronts, row.extra);
  const bool stores = std::string_view(row.access).starts_with("st");
  EXPECT_EQ(run.report.counters.shared_load_requests, stores ? 0U : 1U);
  EXPECT_EQ(run.report.counters.shared_store_requests, stores ? 9U : 8U);
}

const SharedRow shared_rows[] = {
    {"adjacent", "shl.b32 %r0, %local, 2;", "ld.shared.u32 %r1, [%r0];", 1, 0},
    {"broadcast", "mov.u32 %r0, 40;", "ld.shared.u32 %r1, [%r0];", 1, 0},
    {"stride2", "shl.b32 %r0, %local, 3;", "ld.shared.u32 %r1, [%r0];", 2, 1},
    {"stride4", "shl.b32 %r0, %local, 4;", "ld.shared.u32 %r1, [%r0];", 4, 3},
    {"stride8", "shl.b32 %r0, %local, 5;", "ld.shared.u32 %r1, [%r0];", 8, 7},
    {"stride3", "mul.lo.u32 %r0, %local, 12;", "ld.shared.u32 %r1, [%r0];", 1, 0},
    {"pairs_of_lanes_share", "shr.u32 %r0, %local, 1; shl.b32 %r0, %r0, 2;", "ld.shared.u32 %r1, [%r0];", 1, 0},
    {"halfwords", "shl.b32 %r0, %local, 1;", "ld.shared.u16 %h0, [%r0];", 1, 0},
    {"eight_bytes", "shl.b32 %r0, %local, 3;", "ld.shared.u64 %t1, [%r0];", 2, 0},
    {"sixteen_bytes", "shl.b32 %r0, %local, 4;", "ld.shared.v4.u32 {%r1,%r2,%r3,%r4}, [%r0];", 4, 0},
    {"sixteen_bytes_stride32", "shl.b32 %r0, %local, 5;", "ld.shared.v4.u32 {%r1,%r2,%r3,%r4}, [%r0];", 8, 4},
    {"store_adjacent", "shl.b32 %r0, %local, 2;", "st.shared.u32 [%r0], %a32;", 1, 0},
    {"store_stride2", "shl.b32 %r0, %local, 3;", "st.shared.u32 [%r0], %a32;", 2, 1},
};
INSTANTIATE_TEST_SUITE_P(Table, SharedCounts, testing::ValuesIn(shared_rows),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(Counts, Atomics) {
  const test::BodyRun run = run_body(
      "red.global.add.u32 [%table], 1; mov.u32 %r10, buffer; setp.eq.u32 %p0, %local, 0; @%p0 st.shared.u32 [%r10], 0;"
      "bar.sync 0; atom.shared.add.u32 %r1, [%r10], 1;",
      body_inputs(128), 64);
  ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
  EXPECT_EQ(run.report.counters.global_atomics, 128U);
  EXPECT_EQ(run.report.counters.global_atomic_sectors, 4U);
  EXPECT_EQ(run.report.counters.shared_atomics, 128U);
  EXPECT_EQ(run.report.counters.of(InstructionClass::atomic), (InstructionCount{8, 256}));
  EXPECT_EQ(run.table[0], 128U);
}

TEST(Counts, InstructionClasses) {
  const std::string body = R"(
    add.u32 %r0, %a32, %b32; mul.f32 %f0, %fa, %fb; fma.rn.f32 %f1, %f0, %fa, %fb; ex2.approx.f32 %f2, %f1;
    cvt.f64.f32 %d0, %f2; add.f64 %d1, %d0, %d0; setp.lt.u32 %p0, %local, 8; @%p0 add.u32 %r1, %r0, 1;)";
  const Counters with = run_body(body, body_inputs(64)).report.counters;
  const Counters without = run_body("", body_inputs(64)).report.counters;
  const auto more = [&](InstructionClass kind) {
    return InstructionCount{with.of(kind).warps - without.of(kind).warps, with.of(kind).lanes - without.of(kind).lanes};
  };
  // Two warps; the last instruction runs in 8 lanes of the first block's and the second block's warp.
  EXPECT_EQ(more(InstructionClass::integer), (InstructionCount{6, 2 * 32 * 2 + 16}));
  EXPECT_EQ(more(InstructionClass::f32), (InstructionCount{4, 128}));
  EXPECT_EQ(more(InstructionClass::special_function), (InstructionCount{2, 64}));
  EXPECT_EQ(more(InstructionClass::conversion), (InstructionCount{2, 64}));
  EXPECT_EQ(more(InstructionClass::f64), (InstructionCount{2, 64}));
  EXPECT_EQ(with.blocks, 2U);
}

TEST(Counts, LocalMemory) {
  const std::string body = R"(
    .local .align 8 .b8 array[64];
    mov.u64 %t1, array; and.b32 %r0, %local, 7; mul.wide.u32 %t2, %r0, 8; add.u64 %t2, %t1, %t2;
    st.local.u64 [%t2], %a; ld.local.u64 %y, [%t2];)";
  const test::BodyRun run = run_body(body, body_inputs(32));
  ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
  EXPECT_EQ(run.report.counters.local_load_lanes, 32U);
  EXPECT_EQ(run.report.counters.local_store_lanes, 32U);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(run.y[i], body_inputs(32)[i].a);
}

TEST(Counts, AsText) {
  const test::BodyRun run = run_body("bar.sync 0;", body_inputs(32));
  const std::string text = to_text(run.report.counters);
  EXPECT_THAT(text, testing::HasSubstr("block_barriers"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("cluster")));
  EXPECT_THAT(to_text(run.report.buffers), testing::HasSubstr("y"));
}

}  // namespace
}  // namespace stitch::emulator
