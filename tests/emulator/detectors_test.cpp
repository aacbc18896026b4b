// Every detector finds its fault, at the right place, and leaves the corrected kernel alone
// (tests/data/emulator/faults.cu).
#include <gmock/gmock.h>

#include "tests/emulator/kernel_run.h"

namespace stitch::emulator {
namespace {

using test::get;
using test::load_kernel;
using test::make;
using test::put;

/// A kernel argument: a buffer with contents, or a number.
struct Argument {
  enum class Kind { input, output, zero, number } kind;
  std::uint64_t value;  ///< bytes, or the number
};
constexpr Argument input(std::uint64_t floats) { return {Argument::Kind::input, floats * 4}; }
constexpr Argument output(std::uint64_t floats) { return {Argument::Kind::output, floats * 4}; }
constexpr Argument zero(std::uint64_t words) { return {Argument::Kind::zero, words * 4}; }
constexpr Argument number(int value) { return {Argument::Kind::number, static_cast<std::uint64_t>(value)}; }

struct Case {
  const char* kernel;
  LaunchConfig config;
  std::vector<Argument> arguments;
  std::vector<Detector> expected;
  const char* message = "";  ///< a part of the findings' text
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.kernel; }

LaunchConfig shape(std::uint32_t grid, std::uint32_t block, std::uint32_t dynamic = 0) {
  return test::shape(grid, block, dynamic);
}
LaunchConfig pairs(std::uint32_t grid, std::uint32_t block) {
  LaunchConfig config = shape(grid, block);
  config.cluster.x = 2;
  return config;
}

class Detectors : public testing::TestWithParam<Case> {};

TEST_P(Detectors, Table) {
  const Case& c = GetParam();
  for (const int threads : {1, 3}) {
    Memory memory;
    ParameterBlock parameters;
    for (std::size_t i = 0; i < c.arguments.size(); ++i) {
      const Argument& argument = c.arguments[i];
      const std::string name = "argument" + std::to_string(i);
      switch (argument.kind) {
        case Argument::Kind::input: {
          std::vector<float> values(argument.value / 4);
          for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k % 97);
          parameters.add(put(memory, name, values));
          break;
        }
        case Argument::Kind::output: parameters.add(make(memory, name, argument.value)); break;
        case Argument::Kind::zero: parameters.add(make(memory, name, argument.value, Contents::zero())); break;
        case Argument::Kind::number: parameters.add(static_cast<int>(argument.value)); break;
      }
    }
    LaunchOptions options;
    options.host_threads = threads;
    const LaunchReport report = test::run(load_kernel("faults", c.kernel), c.config, parameters, memory, options);
    std::vector<Detector> found;
    for (const Finding& finding : report.findings) {
      if (std::ranges::find(found, finding.detector) == found.end()) found.push_back(finding.detector);
    }
    std::ranges::sort(found);
    EXPECT_EQ(found, c.expected) << test::findings_text(report);
    if (!report.findings.empty()) {
      EXPECT_THAT(test::findings_text(report), testing::HasSubstr(c.message));
      EXPECT_THAT(to_text(report.findings.front()), testing::HasSubstr("faults.cu:"));
    }
  }
}

using enum Detector;
const Case cases[] = {
    {"bounds_bad",
     shape(2, 64),
     {output(100), input(100), number(100)},
     {out_of_bounds},
     "read of 4 bytes at 0 bytes past the end of buffer \"argument1\" (400 bytes)"},
    {"bounds_good", shape(2, 64), {output(100), input(100), number(100)}, {}},
    {"bounds_before_bad",
     shape(1, 64),
     {output(64), input(64), number(64)},
     {out_of_bounds},
     "4 bytes before the start of buffer \"argument1\""},
    {"shared_bounds_bad",
     shape(1, 64, 256),
     {output(64)},
     {out_of_bounds},
     "4 bytes at offset 256 of 256 bytes of shared memory"},
    {"wild_bad", shape(1, 1), {output(1)}, {out_of_bounds}, "address 0x1234, near no buffer"},
    {"aligned_bad",
     shape(1, 32),
     {output(128), input(132)},
     {misaligned},
     "16-byte access at offset 4 of buffer \"argument1\" (528 bytes), 4 bytes off"},
    {"aligned_good", shape(1, 32), {output(128), input(132)}, {}},
    {"initialised_bad",
     shape(1, 32),
     {output(32), output(32)},
     {uninitialised_read},
     "read of offset 0 of buffer \"argument1\""},
    {"initialised_good", shape(1, 32), {output(32), output(32)}, {}},
    {"initialised_shared_bad", shape(1, 64), {output(64)}, {uninitialised_read}, "shared memory at offset 128"},
    {"initialised_local_bad",
     shape(1, 32),
     {output(32), number(3)},
     {uninitialised_read},
     "of local memory, not all written"},
    {"exchange_bad",
     shape(1, 128),
     {output(128), input(128)},
     {uninitialised_read, shared_race},
     "read of shared memory at offset 252 and a write by lane 31 of warp 1 are not ordered"},
    {"exchange_good", shape(1, 128), {output(128), input(128)}, {}},
    {"exchange_lanes_bad",
     shape(1, 128),
     {output(128), input(128)},
     {shared_race},
     "a write by lane 1 of warp 0 are not ordered"},
    {"exchange_lanes_good", shape(1, 128), {output(128), input(128)}, {}},
    {"exchange_half_good", shape(1, 128), {output(128), input(128)}, {}},
    {"reuse_bad",
     shape(1, 128),
     {output(128), input(384), number(3)},
     {shared_race},
     "write of shared memory at offset 0 and a read by lane 31 of warp 3 are not ordered"},
    {"reuse_good", shape(1, 128), {output(128), input(384), number(3)}, {}},
    {"halfwords_good", shape(1, 128), {output(64)}, {}},
    {"count_bad",
     shape(1, 128),
     {output(1)},
     {shared_race},
     "write of shared memory at offset 0 and a write by lane 0 of warp 3 are not ordered"},
    {"count_good", shape(1, 128), {output(1)}, {}},
    {"named_barrier_good", shape(1, 96), {output(96)}, {}},
    {"named_barrier_bad", shape(1, 96), {output(96)}, {shared_race}, "a write by lane 31 of warp 2 are not ordered"},
    {"arrive_good", shape(1, 64), {output(32)}, {}},
    {"shift_bad",
     shape(4, 64),
     {input(256), number(256)},
     {global_race},
     "of buffer \"argument0\" (1024 bytes) and a "},
    {"shift_good", shape(4, 64), {output(256), input(256), number(256)}, {}},
    {"same_place_bad",
     shape(2, 32),
     {output(1)},
     {global_race},
     "write of offset 0 of buffer \"argument0\" (4 bytes) and a write by warp 0 of block ("},
    {"bytes_good", shape(64, 32), {output(48)}, {}},
    {"divergent_lanes_bad",
     shape(1, 64),
     {output(64)},
     {divergent_barrier},
     "lanes 0x55555555 of warp 0 wait for lanes 0xaaaaaaaa"},
    {"divergent_warps_bad",
     shape(1, 64),
     {output(64)},
     {deadlock},
     "lanes 0xffffffff of warp 0 wait at a barrier that not all threads reach"},
    {"exited_good", shape(1, 64), {output(64)}, {}},
    {"counts_bad",
     shape(1, 64),
     {output(64)},
     {divergent_barrier, deadlock},
     "entered with count 96 here and 64 before"},
    {"spin_bad", shape(2, 32), {zero(1)}, {deadlock}, "spin on memory that nobody will change"},
    {"spin_good", shape(8, 32), {zero(1)}, {}},
    {"lane_lock_good", shape(3, 64), {zero(1), zero(1)}, {}},
    {"copy_good", shape(1, 64), {output(256), input(256)}, {}},
    {"copy_no_wait_bad",
     shape(1, 64),
     {output(256), input(256)},
     {async_before_wait},
     "where an asynchronous copy of lane"},
    {"copy_late_wait_bad",
     shape(1, 64),
     {output(256), input(512)},
     {async_before_wait},
     "offset 1024, where an asynchronous copy of lane 0 of warp 0 has not been waited for"},
    {"copy_no_barrier_bad",
     shape(1, 64),
     {output(256), input(256)},
     {uninitialised_read, shared_race},
     "read of shared memory at offset 496 and a write by lane 31 of warp 0 are not ordered"},
    {"bulk_good", shape(1, 128), {output(128), input(128)}, {}},
    {"bulk_no_wait_bad",
     shape(1, 128),
     {output(128), input(128)},
     {uninitialised_read, shared_race, async_before_wait},
     "where an asynchronous copy of lane 0 of warp 0 has not been waited for"},
    {"bulk_no_init_bad",
     shape(1, 128),
     {output(128), input(128)},
     {uninitialised_read, invalid_use},
     "is used before mbarrier.init"},
    {"bulk_half_wait_bad",
     shape(1, 64),
     {output(64), input(64)},
     {uninitialised_read, shared_race},
     "a read by lane 0 of warp 1 are not ordered"},
    {"bulk_store_good", shape(1, 128), {output(128), input(128)}, {}},
    {"bulk_store_no_wait_bad",
     shape(1, 128),
     {output(128), input(128)},
     {async_before_wait},
     "the block ends while this copy still reads"},
    {"bulk_store_reuse_bad",
     shape(1, 128),
     {output(128), input(128)},
     {async_before_wait},
     "which an asynchronous operation may still read"},
    {"bulk_store_no_fence_bad",
     shape(1, 128),
     {output(128), input(128)},
     {missing_fence},
     "without a fence.proxy.async"},
    {"read_only_bad",
     shape(1, 64),
     {output(128)},
     {read_only_violation},
     "ld.global.nc of offset 0 of buffer \"argument0\" (512 bytes), which this launch writes"},
    {"cluster_good", pairs(4, 64), {output(4)}, {}},
    {"cluster_early_bad",
     pairs(4, 64),
     {output(4)},
     {uninitialised_read, shared_race, cluster_lifetime},
     "shared memory of block rank 1 is used before that block is known to run (no cluster barrier yet)"},
    {"cluster_exit_bad",
     pairs(4, 64),
     {output(4)},
     {cluster_lifetime},
     "shared memory of block rank 0 is used after that block has ended"},
    {"elected_wait_good", shape(1, 64), {output(64)}, {}},
    {"cluster_relaxed_good", pairs(4, 64), {output(4)}, {}},
    {"cluster_relaxed_bad", pairs(4, 64), {output(4)}, {shared_race}},
    {"mask_bad",
     shape(1, 32),
     {output(32)},
     {invalid_use},
     "a .sync instruction whose mask 0x0000ffff leaves them out"},
    {"trap_bad", shape(1, 32), {input(32)}, {trap}, "trap instruction"},
};
INSTANTIATE_TEST_SUITE_P(Faults, Detectors, testing::ValuesIn(cases),
                         [](const auto& each) { return std::string(each.param.kernel); });

}  // namespace
}  // namespace stitch::emulator
