#include "codegen/compile/resource_usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "codegen/compile/nvrtc.h"

namespace stitch::codegen {
namespace {

using ::testing::HasSubstr;

// As NVRTC 13.0 prints it for sm_80: a spilling kernel, one with a noinline function, module-wide banks.
constexpr std::string_view sample = R"(kernel.cu(3): warning #177-D: variable "unused" was declared but never referenced

ptxas info    : Overriding maximum register limit 256 for 'spill' with  32 of maxrregcount option
ptxas info    : 4 bytes gmem, 256 bytes cmem[3], 8 bytes cmem[4]
ptxas info    : Compiling entry function 'spill' for 'sm_80'
ptxas info    : Function properties for spill
ptxas         .     448 bytes stack frame, 528 bytes spill stores, 552 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 448 bytes cumulative stack size, 360 bytes cmem[0]
ptxas info    : Compile time = 23.066 ms
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, 4096 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 4.531 ms
ptxas info    : Function properties for _Z1ffi
ptxas         .     64 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
)";

TEST(ResourceUsage, ReadsTheReportOfEachEntry) {
  const auto entries = parse_ptxas_log(sample);
  ASSERT_TRUE(entries) << entries.error().message;
  const std::vector<EntryUsage> expected = {
      {"spill",
       {.registers = 32,
        .barriers = 1,
        .stack_bytes = 448,
        .cumulative_stack_bytes = 448,
        .spill_store_bytes = 528,
        .spill_load_bytes = 552,
        .constant_bytes = 360 + 256 + 8,
        .global_bytes = 4}},
      {"k", {.registers = 24, .shared_bytes = 4096, .constant_bytes = 364 + 256 + 8, .global_bytes = 4}},
  };
  EXPECT_EQ(*entries, expected);
}

TEST(ResourceUsage, MaximumTakesEachFigureByItself) {
  const ResourceUsage maximum = maximum_usage(*parse_ptxas_log(sample));
  EXPECT_EQ(maximum.registers, 32);
  EXPECT_EQ(maximum.shared_bytes, 4096);
  EXPECT_EQ(maximum.constant_bytes, 628);
  EXPECT_EQ(maximum_usage({}), ResourceUsage{});
}

TEST(ResourceUsage, DescribesWhatMatters) {
  const struct {
    ResourceUsage usage;
    const char* text;
  } rows[] = {
      {{.registers = 10}, "10 registers"},
      {{.registers = 32, .shared_bytes = 4096}, "32 registers, 4096 bytes shared"},
      {{.registers = 32, .stack_bytes = 16, .spill_store_bytes = 8, .spill_load_bytes = 12},
       "32 registers, 16 bytes stack, 8/12 bytes spilled (stores/loads)"},
  };
  for (const auto& row : rows) EXPECT_EQ(row.usage.describe(), row.text);
}

TEST(ResourceUsage, AnEntryWithoutFiguresIsAnError) {
  const auto entries = parse_ptxas_log("ptxas info    : Compiling entry function 'k' for 'sm_80'\n");
  ASSERT_FALSE(entries);
  EXPECT_EQ(entries.error(), (Error{ErrorKind::parse, "ptxas does not say what entry k uses"}));
}

TEST(ResourceUsage, ALogWithoutEntriesHasNone) {
  EXPECT_TRUE(parse_ptxas_log("")->empty());
  EXPECT_TRUE(parse_ptxas_log("warning: nothing of interest\nptxas info    : 0 bytes gmem\n")->empty());
}

/// What NVRTC itself makes of a source.
NvrtcOutput compile(const std::string& source, const std::string& architecture, std::vector<std::string> options = {}) {
  NvrtcInput input;
  input.source = source;
  input.name = "kernel.cu";
  input.options = std::move(options);
  input.options.push_back("-arch=" + architecture);
  input.options.emplace_back("--ptxas-options=-v");
  auto output = (*Nvrtc::load())->compile(input);
  EXPECT_TRUE(output && output->compiled);
  return output ? *output : NvrtcOutput{};
}

constexpr const char* two_entries = R"(
__device__ int counter;
__constant__ float table[64];
extern "C" __global__ void first(float* x, int n) { x[0] = table[n]; atomicAdd(&counter, 1); }
extern "C" __global__ void second(float* x) {
  __shared__ float tile[96];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[95 - threadIdx.x];
})";

// On sm_80 ptxas prints the constant banks; the section table must tell the same.
TEST(ResourceUsage, TheCubinAgreesWithTheReportOnConstants) {
  const NvrtcOutput output = compile(two_entries, "sm_80");
  auto entries = parse_ptxas_log(output.log);
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 2u);
  std::vector<EntryUsage> completed = *entries;
  for (EntryUsage& entry : completed) entry.usage.constant_bytes = 0;
  ASSERT_TRUE(complete_from_cubin(output.cubin, completed));
  EXPECT_EQ(completed, *entries);
  EXPECT_GT(completed[0].usage.constant_bytes, 256);
}

TEST(ResourceUsage, TheCubinKnowsConstantsThatNewerReportsLeaveOut) {
  const NvrtcOutput output = compile(two_entries, "sm_90a");
  auto entries = parse_ptxas_log(output.log);
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_TRUE(complete_from_cubin(output.cubin, *entries));
  for (const EntryUsage& entry : *entries) {
    EXPECT_GE(entry.usage.constant_bytes, 0x210 + 8 + 256) << entry.entry << ": driver's part, parameters, table";
    EXPECT_GE(entry.usage.global_bytes, 4) << "older toolkits add variables of their own";
    EXPECT_EQ(entry.usage.shared_bytes, entry.entry == "second" ? 384 : 0);
  }
}

TEST(ResourceUsage, ACubinOfOtherEntriesIsRefused) {
  const NvrtcOutput output = compile("extern \"C\" __global__ void k() {}", "sm_90a");
  std::vector<EntryUsage> entries = {{"other", {}}};
  const Status status = complete_from_cubin(output.cubin, entries);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error(), (Error{ErrorKind::parse, "the cubin has no code of entry other"}));
}

// Truncated and altered cubins: an answer or an error, but never a read outside.
TEST(ResourceUsage, DamagedCubinsAreSurvived) {
  const std::string cubin = compile("extern \"C\" __global__ void k() {}", "sm_90a").cubin;
  ASSERT_GT(cubin.size(), 64u);
  std::vector<EntryUsage> entries = {{"k", {}}};
  for (std::size_t size = 0; size < cubin.size(); size += 7) {
    (void)complete_from_cubin(std::string(cubin.data(), size), entries);
  }
  EXPECT_FALSE(complete_from_cubin("", entries));
  EXPECT_FALSE(complete_from_cubin(cubin.substr(0, 100), entries));
  EXPECT_THAT(complete_from_cubin("text", entries).error().message, HasSubstr("4 bytes of cubin are no ELF file"));
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = cubin;
    for (int i = 0; i < 4; ++i) {
      // The headers are where offsets live; the section table is at the end.
      const std::uint64_t place = random.below(2) == 0 ? random.below(64) : damaged.size() - 1 - random.below(1024);
      damaged[place] = static_cast<char>(random());
    }
    (void)complete_from_cubin(damaged, entries);
  }
}

}  // namespace
}  // namespace stitch::codegen
