// The simulated memory by itself, and what a launch leaves in it.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/emulator/ptx_body.h"

namespace stitch::emulator {
namespace {

using test::get;
using test::make;
using test::put;

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

TEST(Memory, ContentsBeforeAnybodyWrites) {
  Memory memory;
  EXPECT_THAT(get<u8>(memory, make(memory, "zero", 100, Contents::zero())), testing::Each(0));
  EXPECT_THAT(get<u8>(memory, make(memory, "poison", 5000, Contents::poison(std::byte{0xA5}))), testing::Each(0xA5));
  EXPECT_THAT(get<u8>(memory, make(memory, "none", 100)), testing::Each(0xCD));
  const Buffer part = [&] {
    const std::vector<u8> some{1, 2, 3};
    return make(memory, "part", 5, Contents::bytes(std::as_bytes(std::span(some))));
  }();
  EXPECT_THAT(get<u8>(memory, part), testing::ElementsAre(1, 2, 3, 0, 0));
  EXPECT_TRUE(memory.is_initialised(part, {0, 3}));
  EXPECT_FALSE(memory.is_initialised(part, {0, 4}));
  EXPECT_FALSE(memory.is_initialised(part, {3, 1}));
}

TEST(Memory, LazyPagesAreMadeOnceWhenTouched) {
  Memory memory;
  std::atomic<int> made = 0;
  const Buffer buffer =
      make(memory, "lazy", u64{30} << 30, Contents::lazy([&made](u64 offset, std::span<std::byte> page) {
             ++made;
             std::memcpy(page.data(), &offset, sizeof(offset));
           }));
  u64 value = 0;
  for (const u64 page : {u64{0}, u64{12345}, u64{30} * 262144 - 1, u64{12345}}) {
    ASSERT_TRUE(memory.read(buffer.address + page * 4096, std::as_writable_bytes(std::span(&value, 1))).ok());
    EXPECT_EQ(value, page * 4096);
  }
  EXPECT_EQ(made, 3);
  EXPECT_TRUE(memory.is_initialised(buffer, {0, 1 << 20}));
}

TEST(Memory, RefusesWhatLiesOutside) {
  Memory memory;
  const Buffer x = make(memory, "x", 64), y = make(memory, "y", 16);
  std::vector<std::byte> bytes(32);
  struct Row {
    u64 address;
    const char* message;
  };
  const Row rows[] = {
      {x.address + 48, "offset 48 of buffer \"x\" (64 bytes)"},
      {x.address + 64, "0 bytes past the end of buffer \"x\" (64 bytes)"},
      {y.address - 32, "32 bytes before the start of buffer \"y\" (16 bytes)"},
      {0x1234, "address 0x1234, near no buffer"},
      {~u64{0} - 8, "near no buffer"},
  };
  for (const Row& row : rows) {
    for (const Status& status : {memory.read(row.address, bytes), memory.write(row.address, bytes)}) {
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().kind, ErrorKind::invalid_argument);
      EXPECT_THAT(status.error().message, testing::HasSubstr(row.message));
    }
  }
}

TEST(Memory, LimitsAndLives) {
  Memory memory;
  EXPECT_FALSE(memory.allocate("huge", (u64{32} << 30) + 1));
  const std::vector<std::byte> bytes(8);
  const Result<Buffer> small = memory.allocate("small", 4, Contents::bytes(bytes));
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().kind, ErrorKind::invalid_argument);
  const Buffer empty = make(memory, "empty", 0), other = make(memory, "other", 8);
  EXPECT_EQ(empty.address % 256, 0U);
  EXPECT_TRUE(memory.read(empty.address, {}).ok());
  EXPECT_EQ(memory.buffers().size(), 2U);
  EXPECT_EQ(memory.name(other), "other");
  EXPECT_TRUE(memory.free(other).ok());
  EXPECT_FALSE(memory.free(other).ok());
  EXPECT_EQ(memory.buffers().size(), 1U);
  EXPECT_EQ(memory.name(other), "");
}

TEST(Memory, FreedBuffersAreOutOfBounds) {
  Memory memory;
  const Buffer y = make(memory, "y", 32 * 8), x = put(memory, "x", test::body_inputs(32)), z = make(memory, "z", 8);
  ASSERT_TRUE(memory.free(x).ok());
  ParameterBlock parameters;
  parameters.add(y).add(x).add(z);
  const Result<Program> program = Program::load(test::ptx_module(""));
  const LaunchReport report = test::run(*program, test::shape(1, 32), parameters, memory);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].detector, Detector::out_of_bounds);
}

/// Writes %a's low bytes at byte %b of the table.
TEST(Memory, WrittenRangesAreThoseOfTheLatestLaunch) {
  Memory memory;
  const Buffer table = make(memory, "table", u64{8} << 30);
  const Result<Program> program =
      Program::load(test::ptx_module("add.u64 %t1, %table, %b; cvt.u16.u64 %h0, %a; st.global.u8 [%t1], %h0;"));
  ASSERT_TRUE(program) << program.error().message;
  const auto write_at = [&](const std::vector<u64>& offsets) {
    std::vector<test::BodyInput> inputs;
    for (const u64 offset : offsets) inputs.push_back({7, offset});
    ParameterBlock parameters;
    parameters.add(make(memory, "y", inputs.size() * 8)).add(put(memory, "x", inputs)).add(table);
    test::run_clean(*program, test::shape(1, static_cast<u32>(inputs.size())), parameters, memory);
    return memory.written_ranges(table);
  };
  EXPECT_TRUE(memory.written_ranges(table).empty());
  const u64 far = (u64{8} << 30) - 1;
  EXPECT_EQ(write_at({0, 1, 2, 31, 32, 33, 4095, 4096, u64{1} << 32, far}),
            (std::vector<ByteRange>{{0, 3}, {31, 3}, {4095, 2}, {u64{1} << 32, 1}, {far, 1}}));
  // What an earlier launch wrote stays initialised, but is not this launch's.
  EXPECT_EQ(write_at({5, 1 << 22}), (std::vector<ByteRange>{{5, 1}, {1 << 22, 1}}));
  EXPECT_TRUE(memory.is_initialised(table, {31, 3}));
  EXPECT_FALSE(memory.is_initialised(table, {31, 4}));
}

struct Refused {
  const char* what;
  LaunchConfig config;
  std::vector<u64> blocks;
  std::size_t parameter_bytes;
  ErrorKind kind;
  const char* message;
};

LaunchConfig config_of(Dim3 grid, Dim3 block, u32 dynamic = 0, Dim3 cluster = {}) {
  LaunchConfig config;
  config.grid = grid;
  config.block = block;
  config.cluster = cluster;
  config.dynamic_shared_bytes = dynamic;
  return config;
}

TEST(Launch, RefusesWhatTheTargetCannotRun) {
  const Refused rows[] = {
      {"threads", config_of({1}, {1025}), {}, 24, ErrorKind::constraint, "1025 threads per block, at most 1024"},
      {"empty", config_of({0}, {32}), {}, 24, ErrorKind::invalid_argument, "a launch dimension is zero"},
      {"shared", config_of({1}, {32}, 230 * 1024), {}, 24, ErrorKind::constraint, "bytes of shared memory, sm_90a has"},
      {"cluster", config_of({32}, {32}, 0, {32}), {}, 24, ErrorKind::constraint, "clusters of 32 blocks"},
      {"grid", config_of({5}, {32}, 0, {2}), {}, 24, ErrorKind::invalid_argument, "not a multiple of the cluster"},
      {"parameters", config_of({1}, {32}), {}, 16, ErrorKind::invalid_argument, "takes 24 bytes of parameters, not 16"},
      {"order", config_of({4}, {32}), {2, 1}, 24, ErrorKind::invalid_argument, "must be ascending"},
      {"range", config_of({4}, {32}), {4}, 24, ErrorKind::invalid_argument, "inside the grid of 4"},
      {"cut", config_of({4}, {32}, 0, {2}), {1, 2}, 24, ErrorKind::invalid_argument, "cuts a cluster apart"},
  };
  const Result<Program> program = Program::load(test::ptx_module(""));
  for (const Refused& row : rows) {
    Memory memory;
    LaunchOptions options;
    options.blocks = row.blocks;
    const Result<LaunchReport> report =
        launch(*program, row.config, std::vector<std::byte>(row.parameter_bytes), memory, options);
    ASSERT_FALSE(report) << row.what;
    EXPECT_EQ(report.error().kind, row.kind) << row.what;
    EXPECT_THAT(report.error().message, testing::HasSubstr(row.message));
  }
}

TEST(Launch, EndlessKernelsRunOutOfBudget) {
  Memory memory;
  LaunchOptions options;
  options.instruction_budget = 100'000;
  ParameterBlock parameters;
  const Buffer x = put(memory, "x", test::body_inputs(64));
  parameters.add(make(memory, "y", 512)).add(x).add(x);
  const Result<Program> program = Program::load(test::ptx_module("LOOP: add.u32 %r0, %a32, 1; bra LOOP;"));
  for (const int threads : {1, 2}) {
    options.host_threads = threads;
    const Result<LaunchReport> report = launch(*program, test::shape(2, 32), parameters.bytes(), memory, options);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().kind, ErrorKind::timeout);
    EXPECT_THAT(report.error().message, testing::HasSubstr("did not end within 100000 warp instructions"));
  }
}

TEST(Launch, EndlessKernelsEndWhenTheyAreToldTo) {
  Memory memory;
  ParameterBlock parameters;
  const Buffer x = put(memory, "x", test::body_inputs(64));
  parameters.add(make(memory, "y", 512)).add(x).add(x);
  const Result<Program> program = Program::load(test::ptx_module("LOOP: add.u32 %r0, %a32, 1; bra LOOP;"));
  for (const int threads : {1, 2}) {
    std::stop_source source;
    LaunchOptions options;
    options.host_threads = threads;
    options.stop = source.get_token();
    const std::jthread stopper([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      source.request_stop();
    });
    const Result<LaunchReport> report = launch(*program, test::shape(2, 32), parameters.bytes(), memory, options);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().kind, ErrorKind::cancelled);
    EXPECT_THAT(report.error().message, testing::HasSubstr("was stopped"));
  }
}

TEST(Launch, ChecksCanBeSwitchedOff) {
  Memory memory;
  std::vector<float> x(64);
  ParameterBlock parameters;
  parameters.add(make(memory, "y", 400)).add(put(memory, "x", x)).add(64);
  const Program program = test::load_kernel("faults", "bounds_bad");
  LaunchOptions options;
  const LaunchReport all = test::run(program, test::shape(2, 64), parameters, memory, options);
  EXPECT_EQ(all.findings.size(), 2U);  // beyond x and beyond y
  EXPECT_EQ(all.total_findings, 64U + 28U);
  options.checks = Checks::all().without(Detector::out_of_bounds);
  EXPECT_TRUE(test::run(program, test::shape(2, 64), parameters, memory, options).clean());
  options.checks = Checks::all();
  options.max_findings = 1;
  const LaunchReport one = test::run(program, test::shape(2, 64), parameters, memory, options);
  EXPECT_EQ(one.findings.size(), 1U);
  EXPECT_EQ(one.total_findings, 64U + 28U);
}

TEST(Launch, UninitialisedRegistersAreFound) {
  // %r9 is written in half of the lanes only.
  const std::string body = "setp.lt.u32 %p0, %local, 16; @%p0 mov.u32 %r9, 1; st.global.u32 [%py], %r9;";
  const test::BodyRun run = test::run_body(body, test::body_inputs(32));
  ASSERT_EQ(run.report.findings.size(), 1U) << test::findings_text(run.report);
  EXPECT_EQ(run.report.findings[0].detector, Detector::uninitialised_read);
  EXPECT_EQ(run.report.findings[0].message, "register %r9 was never written");
  EXPECT_EQ(run.report.findings[0].place.thread, (Dim3{16, 0, 0}));
}

TEST(Launch, FindingsNameTheirPlace) {
  Memory memory;
  ParameterBlock parameters;
  const Buffer x = put(memory, "x", test::body_inputs(256));
  parameters.add(make(memory, "y", 2048)).add(x).add(make(memory, "z", 8));
  const Result<Program> program = Program::load(
      test::ptx_module("\nsetp.eq.u32 %p0, %local, 37;\nshl.b64 %t1, %a, 0;\n@%p0 ld.global.u32 %r1, [%table + 8];"));
  // The first of the sampled blocks is named, as it is in the grid.
  const std::vector<u64> blocks{2, 3};
  LaunchOptions options;
  options.blocks = blocks;
  const LaunchReport flat = test::run(*program, test::shape(4, 64), parameters, memory, options);
  ASSERT_EQ(flat.findings.size(), 1U);
  const Finding& finding = flat.findings[0];
  EXPECT_EQ(finding.count, 2U);
  EXPECT_EQ(finding.place.block, (Dim3{2, 0, 0}));
  EXPECT_EQ(finding.place.thread, (Dim3{37, 0, 0}));
  EXPECT_EQ(finding.place.ptx_text, "@%p0 ld.global.u32 %r1, [%table + 8];");
  EXPECT_EQ(
      to_text(finding),
      fmt::format("out_of_bounds: read of 4 bytes at 0 bytes past the end of buffer \"z\" (8 bytes) (PTX line {}: "
                  "@%p0 ld.global.u32 %r1, [%table + 8];), block (2,0,0) thread (37,0,0), 2 times",
                  finding.place.ptx_line));
}

}  // namespace
}  // namespace stitch::emulator
