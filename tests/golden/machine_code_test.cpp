// Our decoder of machine code beside nvdisasm's listing, over all golden kernels as tuning compiles them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <vector>

#include "base/file.h"
#include "codegen/compile/compiler.h"
#include "codegen/compile/disassembler.h"
#include "costmodel/cubin_kernel.h"
#include "costmodel/ranking_quality.h"
#include "tests/costmodel/listing.h"
#include "tuning/kernels/built_kernel.h"

namespace stitch::golden {
namespace {

namespace fs = std::filesystem;

const fs::path golden_sources = fs::path(STITCH_SOURCE_DIR) / "tests" / "golden" / "kernels";

class MachineCodeGolden : public testing::TestWithParam<std::string> {};

TEST_P(MachineCodeGolden, IsDecodedAsNvdisasmLists) {
  const auto compiler = codegen::NvrtcCompiler::create();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  RealFileSystem files;
  RealProcessLauncher launcher;
  int listed = 0;
  for (const auto& entry : fs::directory_iterator(golden_sources)) {
    const auto source = files.read(entry.path() / "kernel.cu");
    ASSERT_TRUE(source) << source.error().message;
    const auto compiled = (*compiler)->compile(tuning::compile_request(*source, GetParam()));
    if (!compiled && GetParam() != "sm_90a") continue;  // clusters and what else Hopper brought
    ASSERT_TRUE(compiled) << entry.path() << ": " << compiled.error().message;
    if (compiled->entries.size() != 1) continue;  // a listing of several names none of them
    const auto kernel = costmodel::find_kernel(compiled->cubin);
    ASSERT_TRUE(kernel) << entry.path() << ": " << kernel.error().message;
    EXPECT_EQ(kernel->registers, compiled->resources.registers) << entry.path();
    const auto code = costmodel::decode_instructions(kernel->code, kernel->architecture);
    ASSERT_TRUE(code) << entry.path() << ": " << code.error().message;
    codegen::DisassemblerOptions options;
    options.encodings = true;
    if (const char* program = std::getenv("STITCH_NVDISASM")) options.nvdisasm = program;
    const auto listing = codegen::disassemble(compiled->cubin, launcher, options);
    if (!listing && listing.error().kind == ErrorKind::unavailable)
      GTEST_SKIP() << "nothing to compare with: " << listing.error().message;
    ASSERT_TRUE(listing) << listing.error().message;
    test::ListingReader read(*listing);
    ASSERT_TRUE(read.read()) << entry.path();
    EXPECT_EQ(test::first_difference(*code, read), "") << entry.path();
    ++listed;
  }
  EXPECT_GT(listed, 15);
}

/// What may be launched dependent (codegen/device/launch.cuh): ptxas has left the wait before all loads and stores.
class AwaitingGolden : public testing::TestWithParam<std::pair<std::string, bool>> {};

TEST_P(AwaitingGolden, MemoryIsTouchedBehindTheWait) {
  const auto& [architecture, waits] = GetParam();
  const auto compiler = codegen::NvrtcCompiler::create();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  RealFileSystem files;
  int looked_at = 0;
  for (const auto& entry : fs::directory_iterator(golden_sources)) {
    const auto source = files.read(entry.path() / "kernel.cu");
    ASSERT_TRUE(source) << source.error().message;
    const auto compiled = (*compiler)->compile(tuning::compile_request(*source, architecture));
    if (!compiled && !waits) continue;  // clusters and what else Hopper brought
    ASSERT_TRUE(compiled) << entry.path() << ": " << compiled.error().message;
    for (const auto& kernel : compiled->entries) {
      const auto code = costmodel::read_machine_code(compiled->cubin, kernel.entry);
      ASSERT_TRUE(code) << entry.path() << ": " << code.error().message;
      EXPECT_EQ(code->awaits, waits) << entry.path() << ": " << kernel.entry;
      ++looked_at;
    }
    EXPECT_EQ(compiled->ptx.find("griddepcontrol") != std::string::npos, waits) << entry.path();
  }
  EXPECT_GT(looked_at, 15);
}

/// Neither spilled registers nor arrays that ptxas could not keep in registers: in a loop each access
/// is one to L1, of every thread, as often as it turns.
TEST(LocalMemoryGolden, NoLoopAccessesIt) {
  const auto compiler = codegen::NvrtcCompiler::create();
  if (!compiler) GTEST_SKIP() << compiler.error().message;
  RealFileSystem files;
  int looked_at = 0;
  for (const auto& entry : fs::directory_iterator(golden_sources)) {
    const auto source = files.read(entry.path() / "kernel.cu");
    ASSERT_TRUE(source) << source.error().message;
    const auto compiled = (*compiler)->compile(tuning::compile_request(*source, "sm_90a"));
    ASSERT_TRUE(compiled) << entry.path() << ": " << compiled.error().message;
    for (const auto& kernel : compiled->entries) {
      const auto code = costmodel::read_machine_code(compiled->cubin, kernel.entry);
      ASSERT_TRUE(code) << entry.path() << ": " << code.error().message;
      EXPECT_TRUE(code->local_loops.empty()) << entry.path() << ": " << code->local_accesses << " accesses";
      ++looked_at;
    }
  }
  EXPECT_GT(looked_at, 25);
}

/// Registers as planned beside those of ptxas, as the golden files have both. ptxas takes more where the bound of the
/// launch leaves it room to unroll loops over what is kept in shared memory (embedding_norm, cross_entropy_32000), and
/// the least that is planned for a group is more than a kernel that hardly does anything takes.
TEST(RegistersGolden, EstimatesAreNearPtxas) {
  RealFileSystem files;
  std::vector<double> taken, estimated;
  const auto numbers = [](const std::string& text, const char* pattern, std::vector<double>& found) {
    const std::regex expression(pattern);
    for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it)
      found.push_back(std::stod((*it)[1]));
  };
  for (const auto& entry : fs::directory_iterator(golden_sources)) {
    const auto counts = files.read(entry.path() / "counts.txt"), plan = files.read(entry.path() / "explanation.txt");
    ASSERT_TRUE(counts && plan) << entry.path();
    numbers(*counts, "([0-9]+) registers, [0-9]+ bytes of static", taken);
    numbers(*plan, "([0-9]+) registers \\(estimate\\)", estimated);
    ASSERT_EQ(taken.size(), estimated.size()) << entry.path();
  }
  ASSERT_GT(taken.size(), 25U);
  double logarithms = 0;
  for (std::size_t i = 0; i < taken.size(); ++i) logarithms += std::log(estimated[i] / taken[i]);
  const double ratio = std::exp(logarithms / static_cast<double>(taken.size()));
  const double correlation = costmodel::spearman(taken, estimated);
  fmt::print("{} kernels: estimate / ptxas {:.2f} in the geometric mean, rank correlation {:.2f}\n", taken.size(),
             ratio, correlation);
  EXPECT_NEAR(ratio, 1, 0.1);
  EXPECT_GT(correlation, 0.7);
}

INSTANTIATE_TEST_SUITE_P(Architectures, AwaitingGolden,
                         testing::Values(std::pair<std::string, bool>{"sm_80", false},
                                         std::pair<std::string, bool>{"sm_90a", true},
                                         std::pair<std::string, bool>{"sm_100a", true}),
                         [](const auto& made) { return made.param.first; });

INSTANTIATE_TEST_SUITE_P(Architectures, MachineCodeGolden, testing::Values("sm_80", "sm_89", "sm_90a"),
                         [](const auto& made) { return made.param; });

}  // namespace
}  // namespace stitch::golden
