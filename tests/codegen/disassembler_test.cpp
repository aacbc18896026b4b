#include "codegen/compile/disassembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "codegen/compile/compiler.h"
#include "tests/base/test_folder.h"

namespace stitch::codegen {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DisassemblerTest : public ::testing::Test {
 protected:
  /// Options that run `script` in nvdisasm's place.
  DisassemblerOptions stand_in(const std::string& script) {
    const auto path = folder_ / "nvdisasm";
    { std::ofstream(path) << "#!/bin/sh\n" << script << "\n"; }
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return {path, 30};
  }

  const TestFolder folder_;
  RealProcessLauncher launcher_;
};

TEST_F(DisassemblerTest, TheProgramGetsTheCubinAsAFileThatGoesAfterwards) {
  const auto listing =
      disassemble("bytes of a cubin", launcher_, stand_in("echo \"$2\"; echo \"$1\"; exec cat \"$2\""));
  ASSERT_TRUE(listing) << listing.error().message;
  const std::string file = listing->substr(0, listing->find('\n'));
  EXPECT_EQ(*listing, file + "\n-c\nbytes of a cubin");
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(file).parent_path()));
}

TEST_F(DisassemblerTest, EncodingsAreAskedFor) {
  DisassemblerOptions options = stand_in("echo \"$1 $2\"; exec cat \"$3\"");
  options.encodings = true;
  const auto listing = disassemble("bytes", launcher_, options);
  ASSERT_TRUE(listing) << listing.error().message;
  EXPECT_EQ(*listing, "-c -hex\nbytes");
}

TEST_F(DisassemblerTest, ARefusalIsQuoted) {
  const auto listing = disassemble("1234", launcher_, stand_in("echo 'no Elf file' >&2; exit 3"));
  ASSERT_FALSE(listing);
  EXPECT_EQ(listing.error().kind, ErrorKind::invalid_argument);
  EXPECT_THAT(listing.error().message, HasSubstr("refuses 4 bytes of cubin (exit code 3): no Elf file"));
}

TEST_F(DisassemblerTest, ItIsEndedAtItsTimeout) {
  DisassemblerOptions options = stand_in("exec sleep 1000");
  options.timeout_seconds = 0.05;
  const auto listing = disassemble("", launcher_, options);
  ASSERT_FALSE(listing);
  EXPECT_EQ(listing.error().kind, ErrorKind::timeout);
}

// What a defect of the program that a cubin steers could do.
TEST_F(DisassemblerTest, ItReachesNothingButTheCubin) {
  const auto secret = folder_ / "secret", fresh = folder_ / "new";
  { std::ofstream(secret) << "a secret\n"; }
  const auto listing =
      disassemble("cubin", launcher_,
                  stand_in(fmt::format(
                      "read line < {0} && echo \"read $line\"\necho changed > {0}\necho new > {1}\nexec cat \"$2\"",
                      secret.string(), fresh.string())));
  ASSERT_TRUE(listing) << listing.error().message;
  if (listing->find("a secret") != std::string::npos) GTEST_SKIP() << "here a process cannot confine itself";
  EXPECT_EQ(*listing, "cubin");
  std::ifstream stream(secret);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "a secret\n");
  EXPECT_FALSE(std::filesystem::exists(fresh));
}

TEST_F(DisassemblerTest, ItStartsNoOther) {
  const auto listing = disassemble("cubin", launcher_, stand_in("(echo forked)\nexec cat \"$2\""));
  if (listing && listing->find("forked") != std::string::npos) GTEST_SKIP() << "here a process cannot confine itself";
  ASSERT_FALSE(listing);
  EXPECT_THAT(listing.error().message, HasSubstr("fork"));
}

TEST_F(DisassemblerTest, AbsenceIsUnavailable) {
  const auto listing = disassemble("", launcher_, {folder_ / "absent", 30});
  ASSERT_FALSE(listing);
  EXPECT_EQ(listing.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(listing.error().message, AllOf(HasSubstr("absent: No such file"), HasSubstr("CUDA toolkit")));
}

TEST_F(DisassemblerTest, TheRealProgramListsInstructions) {
  const auto compiler = NvrtcCompiler::create();
  ASSERT_TRUE(compiler) << compiler.error().message;
  CompileRequest request;
  request.source = "extern \"C\" __global__ void triple(float* x) { x[threadIdx.x] *= 3; }";
  request.architecture = "sm_90a";
  const auto kernel = (*compiler)->compile(request);
  ASSERT_TRUE(kernel) << kernel.error().message;
  const auto listing = disassemble(kernel->cubin, launcher_);
  if (!listing && listing.error().kind == ErrorKind::unavailable) GTEST_SKIP() << listing.error().message;
  ASSERT_TRUE(listing) << listing.error().message;
  EXPECT_THAT(*listing, AllOf(HasSubstr(".text.triple"), HasSubstr("LDG.E"), HasSubstr("FMUL"), HasSubstr("EXIT")));
  const auto refused = disassemble("no cubin", launcher_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace stitch::codegen
