// What is wrong with a use of tcgen05 is found: kernels with one fault each, a pipeline with and without its waits and
// fences, and forms that are refused (tests/data/emulator/tensor_core.cu).
#include <gmock/gmock.h>

#include <bit>
#include <utility>

#include "tests/emulator/kernel_run.h"
#include "tests/emulator/ptx_body.h"
#include "tests/emulator/tensor_core_operands.h"

namespace stitch::emulator {
namespace {

using test::draw;
using test::Image;
using test::load_kernel;
using test::Type;
using test::u32;
using test::u64;
using test::value_of;

struct FaultRow {
  const char* kernel;
  std::vector<Detector> expected;
  const char* message = "";
};

TEST(TensorCoreFaults, AreFound) {
  const std::vector<FaultRow> rows = {
      {"fault_none", {}},
      {"fault_relaxed", {}},
      {"fault_no_commit_wait",
       {Detector::uninitialised_read, Detector::tensor_race, Detector::async_before_wait},
       "may not be complete (no wait for a tcgen05.commit behind it)"},
      {"fault_no_fence_after", {Detector::missing_fence}, "without tcgen05.fence"},
      {"fault_no_store_wait", {Detector::async_before_wait}, "no tcgen05.wait::st"},
      {"fault_no_fence_before", {Detector::missing_fence}, "::before_thread_sync"},
      {"fault_no_barrier", {Detector::uninitialised_read, Detector::tensor_race}, "are not ordered"},
      {"fault_no_proxy_fence", {Detector::missing_fence}, "without a fence.proxy.async"},
      {"fault_overwrites_b", {Detector::async_before_wait}, "may still read (no wait for a tcgen05.commit"},
      {"fault_no_dealloc", {Detector::invalid_use}, "ends with 64 columns of tensor memory allocated"},
      {"fault_dealloc_twice", {Detector::invalid_use}, "no allocation of this block"},
      {"fault_before_alloc", {Detector::out_of_bounds, Detector::invalid_use}, "which is not allocated"},
      {"fault_unwritten", {Detector::uninitialised_read}, "which nobody wrote"},
      {"fault_foreign_lanes", {Detector::invalid_use}, "it may access lanes 32 to 63"},
      {"fault_no_load_wait", {Detector::async_before_wait}, "no tcgen05.wait::ld"},
      {"fault_unwritten_accumulator", {Detector::uninitialised_read}, "tcgen05.mma reads lane 0, column 0"},
      {"fault_one_lane", {Detector::divergent_barrier, Detector::invalid_use}, "tcgen05.ld by lanes 0x00000001 only"},
      {"fault_exhausted", {Detector::deadlock}, "wait for columns of tensor memory that nobody frees (PTX line"},
      {"fault_odd_columns", {Detector::invalid_use}, "48 columns of tensor memory: a power of two"},
      {"fault_alloc_after_relinquish",
       {Detector::out_of_bounds, Detector::invalid_use},
       "tcgen05.alloc after tcgen05.relinquish_alloc_permit"},
      {"fault_bad_shape",
       {Detector::uninitialised_read, Detector::invalid_use},
       "that means nothing: its shape is not of the instruction's .kind and .cta_group"},
      {"fault_sparse_flag",
       {Detector::uninitialised_read, Detector::invalid_use},
       "its sparsity bit is not that of the instruction"},
      {"fault_bad_descriptor",
       {Detector::uninitialised_read, Detector::invalid_use},
       "tcgen05 has a descriptor of B that means nothing"},
  };
  for (const FaultRow& row : rows) {
    Memory memory;
    Image b({}, 16, 16, 16);
    for (int n = 0; n < 16; ++n) {
      for (int k = 0; k < 16; ++k) b.put(n, k, double_to_half(1), 16);
    }
    const Buffer image = test::put(memory, "b", b.bytes);
    const Buffer out = test::make(memory, "d", u64{128} * 16 * 4);
    ParameterBlock parameters;
    parameters.add(image).add(out);
    const LaunchReport report =
        test::run(load_kernel("tensor_core", row.kernel), test::shape(1, 128), parameters, memory);
    std::vector<Detector> found;
    for (const Finding& finding : report.findings) found.push_back(finding.detector);
    std::ranges::sort(found);
    found.erase(std::ranges::unique(found).begin(), found.end());
    EXPECT_EQ(found, row.expected) << row.kernel << "\n" << test::findings_text(report);
    EXPECT_THAT(test::findings_text(report), testing::HasSubstr(row.message)) << row.kernel;
    if (row.expected.empty()) {
      const std::vector<u32> d = test::get<u32>(memory, out);
      EXPECT_THAT(d, testing::Each(std::bit_cast<u32>(16.0F))) << row.kernel;
    }
  }
}

TEST(TensorCorePipeline, OfThreeSortsOfWarpsIsRightAndItsFaultsAreFound) {
  constexpr u32 tiles = 4;
  constexpr u32 products = 3;
  std::vector<std::uint8_t> a_bytes;
  std::vector<std::uint8_t> b_bytes;
  std::vector<double> wanted(tiles * 128 * 64);
  for (u32 i = 0; i < tiles * products; ++i) {
    Image a({}, 128, 16, 16);
    Image b({}, 64, 16, 16);
    for (u32 k = 0; k < 16; ++k) {
      std::vector<double> a_column(128);
      for (u32 r = 0; r < 128; ++r) {
        const u32 bits = draw(Type::f16, mix(8, (i * 16 + k) * 128 + r));
        a.put(static_cast<int>(r), static_cast<int>(k), bits, 16);
        a_column[r] = value_of(Type::f16, bits);
      }
      for (u32 n = 0; n < 64; ++n) {
        const u32 bits = draw(Type::f16, mix(9, (i * 16 + k) * 64 + n));
        b.put(static_cast<int>(n), static_cast<int>(k), bits, 16);
        for (u32 r = 0; r < 128; ++r) {
          wanted[(i / products * 128 + r) * 64 + n] += a_column[r] * value_of(Type::f16, bits);
        }
      }
    }
    a_bytes.insert(a_bytes.end(), a.bytes.begin(), a.bytes.end());
    b_bytes.insert(b_bytes.end(), b.bytes.begin(), b.bytes.end());
  }
  const std::vector<FaultRow> rows = {
      {"pipeline_right", {}},
      {"pipeline_no_empty_wait",
       {Detector::deadlock, Detector::async_before_wait, Detector::invalid_use},
       "where an asynchronous copy of lane 0 of warp 0 has not been waited for"},
      {"pipeline_no_accumulator_wait", {Detector::tensor_race}, "tcgen05.mma of lane"},
      {"pipeline_early_arrival", {Detector::async_before_wait}, "no tcgen05.wait::ld"},
      {"pipeline_no_reader_fence", {Detector::missing_fence}, "tcgen05.ld of lane"},
      {"pipeline_no_writer_fence", {Detector::missing_fence}, "tcgen05.mma of lane"},
  };
  for (const FaultRow& row : rows) {
    Memory memory;
    const Buffer a = test::put(memory, "a", a_bytes);
    const Buffer b = test::put(memory, "b", b_bytes);
    const Buffer out = test::make(memory, "d", wanted.size() * 4);
    ParameterBlock parameters;
    parameters.add(a).add(b).add(out);
    const LaunchReport report =
        test::run(load_kernel("tensor_core", row.kernel), test::shape(1, 192), parameters, memory);
    std::vector<Detector> found;
    for (const Finding& finding : report.findings) found.push_back(finding.detector);
    std::ranges::sort(found);
    found.erase(std::ranges::unique(found).begin(), found.end());
    EXPECT_EQ(found, row.expected) << row.kernel << "\n" << test::findings_text(report);
    EXPECT_THAT(test::findings_text(report), testing::HasSubstr(row.message)) << row.kernel;
    if (!row.expected.empty()) continue;
    const std::vector<float> d = test::get<float>(memory, out);
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(d[i], static_cast<float>(wanted[i])) << i;
  }
}

/// What ptxas refuses, or what only figures of the ISA say, is refused at load or at the instruction, by name.
TEST(TensorCoreRefusals, NameWhatIsWrong) {
  const std::pair<const char*, const char*> rows[] = {
      {"tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r0, "
       "32;",
       "tcgen05 with .cta_group::2 after one with .cta_group::1"},
      {"tcgen05.cp.cta_group::1.128x128b.b8x16.b4x16_p64 [%r0], %t0;", "tcgen05.cp that widens elements"},
      {"tcgen05.cp.cta_group::1.64x128b [%r0], %t0;", "64 rows by .warpx2"},
      {"tcgen05.mma.cta_group::1.kind::f16.ashift [%r0], [%r1], %t0, %r2, %p0;", "tcgen05.mma.ashift"},
      {"tcgen05.mma.ws.cta_group::1.kind::f16 [%r0], %t1, %t0, %r2, %p0, %t2;", "a mask of zero columns"},
      {"tcgen05.mma.cta_group::1.kind::f16.block_scale [%r0], %t1, %t0, %r2, [%r3], [%r4], %p0;", "block_scale"},
      {"tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::4X [%r0], %t1, %t0, %r2, [%r3], [%r4], %p0;",
       "no such scale vectors"},
      {"tcgen05.mma.cta_group::1.kind::f16 [%r0], %t1, %t0, %r2, {%r3, %r3}, %p0;", "has 4 registers"},
      {"tcgen05.mma.cta_group::1.kind::i8 [%r0], %t1, %t0, %r2, %p0, 3;", "scale-input-d is 0 to 15"},
      {"tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r0}, [%r1];", "at most 128 registers"},
      {"tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r0, %r1}, %r3, [%r2];", "'.red'"},
  };
  for (const auto& [body, message] : rows) {
    const Result<Program> program = Program::load(test::ptx_module(body, "sm_100a"), "kernel");
    ASSERT_FALSE(program.ok()) << body;
    EXPECT_THAT(program.error().message, testing::HasSubstr(message)) << body;
  }
}

/// Elements of 4 bits in tensor memory: only the instruction descriptor tells, so that the launch has the error.
TEST(TensorCoreRefusals, ComeFromTheLaunchWhereOnlyOperandsTell) {
  const std::string body = R"(
    .shared .align 16 .b32 place; mov.u32 %r1, place;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;
    mov.u32 %r2, 0x08041690; mov.u32 %r0, 0; mov.u64 %t0, 0; setp.ne.u32 %p0, %r0, 0;
    tcgen05.mma.cta_group::1.kind::f8f6f4 [%r0], [%r0], %t0, %r2, %p0;)";
  Memory memory;
  ParameterBlock parameters;
  parameters.add(test::make(memory, "y", 256));
  parameters.add(test::put(memory, "x", std::vector<test::BodyInput>(32)));
  parameters.add(test::put(memory, "table", std::vector<u64>(1)));
  const Result<Program> program = Program::load(test::ptx_module(body, "sm_100a"), "kernel");
  ASSERT_TRUE(program.ok()) << program.error().message;
  const Result<LaunchReport> report = launch(*program, test::shape(1, 32), parameters.bytes(), memory);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(report.error().message, testing::HasSubstr("4- or 6-bit elements in tensor memory"));
}

}  // namespace
}  // namespace stitch::emulator
