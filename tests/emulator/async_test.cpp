// Asynchronous copies and mbarriers: what arrives, where, and when it counts.
#include <gmock/gmock.h>

#include "tests/emulator/ptx_body.h"

namespace stitch::emulator {
namespace {

using test::body_inputs;
using test::run_body;
using test::run_clean_body;

using u32 = std::uint32_t;
using u64 = std::uint64_t;

std::vector<float> copied(const char* kernel, std::size_t floats, u32 block) {
  Memory memory;
  std::vector<float> x(floats);
  for (std::size_t i = 0; i < floats; ++i) x[i] = static_cast<float>(i);
  const Buffer y = test::make(memory, "y", floats * 4);
  ParameterBlock parameters;
  parameters.add(y).add(test::put(memory, "x", x));
  test::run_clean(test::load_kernel("faults", kernel), test::shape(1, block), parameters, memory);
  return test::get<float>(memory, y);
}

TEST(Async, CopiesArrive) {
  const std::vector<float> by_lanes = copied("copy_good", 256, 64);
  const std::vector<float> in_bulk = copied("bulk_good", 128, 128);
  const std::vector<float> stored = copied("bulk_store_good", 128, 128);
  for (std::size_t i = 0; i < 256; ++i)
    EXPECT_EQ(by_lanes[i], static_cast<float>((63 - i / 4) * 4 + i % 4));  // vectors in reverse
  for (std::size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(in_bulk[i], static_cast<float>(127 - i));
    EXPECT_EQ(stored[i], static_cast<float>(i));
  }
}

/// Copies `size` bytes a lane from the table to a lane's own 16 bytes of shared memory, filled with ones before; the
/// first 8 of them come back.
std::string copy_body(int size, const std::string& more) {
  return fmt::format(R"(
    shl.b32 %r0, %local, 4; mov.u32 %r1, buffer; add.u32 %r1, %r1, %r0; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table;
    st.shared.v4.u32 [%r1], {{-1, -1, -1, -1}};
    cp.async.ca.shared.global [%r1], [%t1], {}{};
    cp.async.commit_group; cp.async.wait_group 0;
    ld.shared.u64 %y, [%r1];)",
                     size, more);
}

TEST(Async, SizesAndZeroFill) {
  std::vector<u64> table(64);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = mix(1, i);
  struct Row {
    int size;
    const char* more;
    u64 mask;   ///< bytes that come from the source
    u64 fixed;  ///< the others
    u64 bytes;  ///< counted, per lane
  };
  const Row rows[] = {
      {16, "", ~u64{0}, 0, 16},   {8, "", ~u64{0}, 0, 8}, {4, "", 0xFFFFFFFF, 0xFFFFFFFF00000000, 4},
      {8, ", 3", 0xFFFFFF, 0, 3}, {16, ", 0", 0, 0, 0},
  };
  for (const Row& row : rows) {
    const test::BodyRun run = run_body(copy_body(row.size, row.more), body_inputs(32), 32, table);
    ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
    for (std::size_t i = 0; i < 32; ++i)
      ASSERT_EQ(run.y[i], (table[2 * i] & row.mask) | row.fixed) << row.size << row.more;
    EXPECT_EQ(run.report.counters.async_copy_bytes, 32 * row.bytes);
  }
}

TEST(Async, GroupsArriveInOrder) {
  const std::string body = R"(
    shl.b32 %r0, %local, 4; mov.u32 %r1, buffer; add.u32 %r1, %r1, %r0; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table;
    cp.async.ca.shared.global [%r1], [%t1], 8; cp.async.commit_group;
    cp.async.ca.shared.global [%r1 + 8], [%t1 + 8], 8; cp.async.commit_group;
    cp.async.wait_group 1; ld.shared.u64 %t2, [%r1];
    cp.async.wait_all; ld.shared.u64 %t3, [%r1 + 8]; xor.b64 %y, %t2, %t3;)";
  std::vector<u64> table(64);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = mix(2, i);
  const test::BodyRun run = run_body(body, body_inputs(32), 32, table);
  ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(run.y[i], table[2 * i] ^ table[2 * i + 1]);
}

TEST(Mbarrier, PhasesFollowArrivals) {
  // Two rounds of handing values to the next warp, waiting by parity and by state.
  const std::string body = R"(
    mov.u32 %r1, buffer; setp.eq.u32 %p0, %local, 0; @%p0 mbarrier.init.shared::cta.b64 [%r1], 64; bar.sync 0;
    shl.b32 %r2, %local, 2; add.u32 %r2, %r2, %r1; xor.b32 %r3, %local, 32; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r1;
    st.shared.u32 [%r2 + 16], %a32;
    mbarrier.arrive.shared::cta.b64 %t1, [%r1];
    WAIT0: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra WAIT0;
    ld.shared.u32 %r4, [%r3 + 16];
    mbarrier.arrive.shared::cta.b64 %t1, [%r1];
    WAIT1: mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %t1; @!%p1 bra WAIT1;
    st.shared.u32 [%r2 + 16], %b32;
    mbarrier.arrive.shared::cta.b64 %t1, [%r1];
    WAIT2: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra WAIT2;
    ld.shared.u32 %r5, [%r3 + 16]; mov.b64 %y, {%r4, %r5};)";
  const auto inputs = body_inputs(64, 6);
  const std::vector<u64> y = run_clean_body(body, inputs, 64);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], (inputs[i ^ 32].a & 0xFFFFFFFF) | inputs[i ^ 32].b << 32);
}

TEST(Mbarrier, AsyncCopiesArriveOnIt) {
  const std::string body = R"(
    mov.u32 %r1, buffer; setp.eq.u32 %p0, %local, 0; @%p0 mbarrier.init.shared::cta.b64 [%r1], 64; bar.sync 0;
    shl.b32 %r0, %local, 3; add.u32 %r2, %r1, %r0; cvt.u64.u32 %t1, %r0; add.u64 %t1, %t1, %table;
    cp.async.ca.shared.global [%r2 + 16], [%t1], 8;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra WAIT;
    xor.b32 %r3, %local, 63; shl.b32 %r3, %r3, 3; add.u32 %r3, %r3, %r1; ld.shared.u64 %y, [%r3 + 16];)";
  std::vector<u64> table(64);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = mix(3, i);
  const test::BodyRun run = run_body(body, body_inputs(64), 64, table);
  ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(run.y[i], table[63 - i]);
}

TEST(Mbarrier, ALostArrivalIsADeadlock) {
  const test::BodyRun run = run_body(R"(
    mov.u32 %r1, buffer; setp.eq.u32 %p0, %local, 0; @%p0 mbarrier.init.shared::cta.b64 [%r1], 2; bar.sync 0;
    @%p0 mbarrier.arrive.shared::cta.b64 %t1, [%r1];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra WAIT;)",
                                     body_inputs(32));
  EXPECT_FALSE(run.report.completed);
  ASSERT_FALSE(run.report.findings.empty());
  EXPECT_EQ(run.report.findings[0].detector, Detector::deadlock);
}

// Before anything is set aside for the 4 GiB that each lane asks for.
TEST(Async, ABulkCopyBeyondItsBufferIsOutOfBounds) {
  const std::string body = R"(
    mov.u32 %r1, buffer; add.u32 %r2, %r1, 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%table], 4294967280, [%r2];
    cp.async.bulk.global.shared::cta.bulk_group [%table], [%r1], 4294967280;)";
  const test::BodyRun run = run_body(body, body_inputs(32));
  EXPECT_FALSE(run.report.findings.empty());
  for (const Finding& finding : run.report.findings) EXPECT_EQ(finding.detector, Detector::out_of_bounds);
}

TEST(Async, BulkReductionsAddToGlobalMemory) {
  const std::string body = R"(
    mov.u32 %r1, buffer; shl.b32 %r2, %local, 2; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %local;
    fence.proxy.async.shared::cta; bar.sync 0; setp.eq.u32 %p0, %local, 0; @!%p0 bra END;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%table], [%r1], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:)";
  const test::BodyRun run = run_body(body, body_inputs(96), 32, std::vector<u64>(16));
  ASSERT_TRUE(run.report.clean()) << test::findings_text(run.report);
  for (u64 i = 0; i < 16; ++i) EXPECT_EQ(run.table[i], 3 * (2 * i) | 3 * (2 * i + 1) << 32);
  EXPECT_EQ(run.report.counters.bulk_copy_bytes, 3 * 128U);
}

/// A module of one kernel of clusters of two blocks.
std::string cluster_module(const std::string& body) {
  std::string module = test::ptx_module(body);
  const std::string head = ".param .u64 z)";
  module.insert(module.find(head) + head.size(), "\n.reqnctapercluster 2, 1, 1\n");
  return module;
}

std::vector<u64> run_cluster(const std::string& body, const std::vector<u64>& table) {
  const Result<Program> program = Program::load(cluster_module(body));
  if (!program) {
    ADD_FAILURE() << program.error().message;
    return std::vector<u64>(64);
  }
  Memory memory;
  const Buffer y = test::make(memory, "y", 64 * 8);
  ParameterBlock parameters;
  parameters.add(y).add(test::put(memory, "x", body_inputs(64))).add(test::put(memory, "table", table));
  LaunchConfig config = test::shape(2, 32);
  config.cluster.x = 2;
  test::run_clean(*program, config, parameters, memory);
  return test::get<u64>(memory, y);
}

constexpr const char* start_cluster = R"(
    mov.u32 %r1, buffer; mov.u32 %r9, %cluster_ctarank; setp.eq.u32 %p0, %local, 0;
    @%p0 mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;)";
constexpr const char* end_cluster = R"(
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra WAIT;
    shl.b32 %r3, %local, 3; add.u32 %r3, %r3, %r1; ld.shared.u64 %y, [%r3 + 128];
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;)";

TEST(Async, MulticastReachesEveryBlockOfTheCluster) {
  std::vector<u64> table(32);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = mix(4, i);
  // Both blocks expect the bytes; the first sends them to both.
  const std::vector<u64> y = run_cluster(std::string(start_cluster) + R"(
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 256;
    setp.eq.and.u32 %p2, %r9, 0, %p0; add.u32 %r4, %r1, 128; mov.b16 %h0, 3;
    @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r4], [%table], 256, [%r1], %h0;
    )" + end_cluster,
                                         table);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], table[i % 32]) << i;
}

TEST(Async, AddressesOfABlocksOwnMemoryCarryItsRankInACluster) {
  // Whoever takes them for offsets, as descriptors of wgmma do, has to mask them; accesses take them as they are.
  const std::vector<u64> y = run_cluster(std::string(start_cluster) + R"(
    shl.b32 %r3, %local, 3; add.u32 %r3, %r3, %r1; st.shared.u64 [%r3 + 128], %a;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r6, %r1, %r9; xor.b32 %r5, %r6, %r1;
    ld.shared.u64 %y, [%r3 + 128]; cvt.u64.u32 %t0, %r5; add.u64 %y, %y, %t0;
    and.b32 %r4, %r1, 0xffffff; setp.eq.u32 %p1, %r4, %r1; @%p1 add.u64 %y, %y, 1;)",
                                         {0, 0});
  const auto inputs = body_inputs(64);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], inputs[i].a) << i;
}

TEST(Async, StoresIntoTheOtherBlockArriveOnItsMbarrier) {
  const std::vector<u64> y = run_cluster(std::string(start_cluster) + R"(
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 256;
    xor.b32 %r5, %r9, 1; mapa.shared::cluster.u32 %r6, %r1, %r5; shl.b32 %r7, %local, 3; add.u32 %r7, %r7, %r6;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u64 [%r7 + 128], %a, [%r6];
    )" + end_cluster,
                                         {0, 0});
  const auto inputs = body_inputs(64);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], inputs[i ^ 32].a) << i;
}

}  // namespace
}  // namespace stitch::emulator
