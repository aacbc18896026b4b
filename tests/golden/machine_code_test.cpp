// Our decoder of machine code beside nvdisasm's listing, over all golden kernels as tuning compiles them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "codegen/compile/compiler.h"
#include "codegen/compile/disassembler.h"
#include "costmodel/cubin_kernel.h"
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

INSTANTIATE_TEST_SUITE_P(Architectures, AwaitingGolden,
                         testing::Values(std::pair<std::string, bool>{"sm_80", false},
                                         std::pair<std::string, bool>{"sm_90a", true},
                                         std::pair<std::string, bool>{"sm_100a", true}),
                         [](const auto& made) { return made.param.first; });

INSTANTIATE_TEST_SUITE_P(Architectures, MachineCodeGolden, testing::Values("sm_80", "sm_89", "sm_90a"),
                         [](const auto& made) { return made.param; });

}  // namespace
}  // namespace stitch::golden
