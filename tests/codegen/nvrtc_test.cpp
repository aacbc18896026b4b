#include "codegen/compile/nvrtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/base/test_folder.h"

namespace stitch::codegen {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::MatchesRegex;

std::shared_ptr<const Nvrtc> load() {
  auto nvrtc = Nvrtc::load();
  EXPECT_TRUE(nvrtc) << nvrtc.error().message;
  return nvrtc ? *nvrtc : nullptr;
}

NvrtcInput input(std::string source, std::vector<std::string> options) {
  NvrtcInput result;
  result.source = std::move(source);
  result.name = "/test/kernel.cu";
  result.options = std::move(options);
  return result;
}

TEST(Nvrtc, TellsItsBuildAndArchitectures) {
  const auto nvrtc = load();
  ASSERT_TRUE(nvrtc);
  EXPECT_GE(nvrtc->major(), 12);
  EXPECT_THAT(nvrtc->toolkit(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(nvrtc->toolkit(), ::testing::StartsWith(fmt::format("{}.{}.", nvrtc->major(), nvrtc->minor())));
  EXPECT_THAT(nvrtc->architectures(), IsSupersetOf({80, 86, 89, 90}));
  EXPECT_TRUE(std::is_sorted(nvrtc->architectures().begin(), nvrtc->architectures().end()));
}

// One compilation for a real architecture must give both; the emulator reads the very PTX that became the cubin.
TEST(Nvrtc, OneCompilationGivesPtxAndCubin) {
  const auto nvrtc = load();
  ASSERT_TRUE(nvrtc);
  const auto output = nvrtc->compile(input("extern \"C\" __global__ void k(float* x) { x[0] = 1; }", {"-arch=sm_90a"}));
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_TRUE(output->compiled);
  EXPECT_THAT(output->ptx, HasSubstr(".target sm_90a"));
  EXPECT_THAT(output->ptx, HasSubstr(".visible .entry k("));
  EXPECT_EQ(output->ptx.find('\0'), std::string::npos);
  EXPECT_EQ(output->cubin.substr(0, 4), "\177ELF");
}

TEST(Nvrtc, ASourceThatDoesNotCompileIsAnOutput) {
  const auto nvrtc = load();
  ASSERT_TRUE(nvrtc);
  const auto output = nvrtc->compile(input("__global__ void k() { nonsense; }", {"-arch=sm_90a"}));
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_FALSE(output->compiled);
  EXPECT_EQ(output->cubin, "");
  EXPECT_THAT(output->log, HasSubstr("/test/kernel.cu(1): error: identifier \"nonsense\" is undefined"));
}

TEST(Nvrtc, HeadersComeFromMemory) {
  const auto nvrtc = load();
  ASSERT_TRUE(nvrtc);
  NvrtcInput in =
      input("#include \"a/b.h\"\nextern \"C\" __global__ void k(int* x) { x[0] = VALUE; }", {"-arch=sm_80"});
  in.headers = {{"a/b.h", "#define VALUE 42137\n"}};
  const auto output = nvrtc->compile(in);
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_THAT(output->ptx, HasSubstr("42137"));
}

TEST(Nvrtc, AnUnknownOptionIsNamed) {
  const auto nvrtc = load();
  ASSERT_TRUE(nvrtc);
  const auto output = nvrtc->compile(input("", {"-arch=sm_90a", "--no-such-option"}));
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().kind, ErrorKind::invalid_argument);
  EXPECT_THAT(output.error().message, HasSubstr("--no-such-option"));
}

TEST(Nvrtc, ACompilationStopsAtItsTimeout) {
  const auto nvrtc = load();
  ASSERT_TRUE(nvrtc);
  if (!nvrtc->can_interrupt()) GTEST_SKIP() << "NVRTC " << nvrtc->toolkit() << " cannot be interrupted";
  NvrtcInput in = input("extern \"C\" __global__ void k(float* x) { x[0] = 1; }", {"-arch=sm_90a"});
  in.timeout_seconds = 1e-9;
  const auto output = nvrtc->compile(in);
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error(), (Error{ErrorKind::timeout, "compilation of /test/kernel.cu took more than 1e-09 s"}));
}

class NvrtcSearch : public ::testing::Test {
 protected:
  const TestFolder folder_;
};

TEST_F(NvrtcSearch, AFileOrItsFolderCanBeNamed) {
  const auto found = load();
  ASSERT_TRUE(found);
  const auto file = Nvrtc::load({found->path()});
  ASSERT_TRUE(file) << file.error().message;
  const auto folder = Nvrtc::load({found->path().parent_path()});
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_EQ((*folder)->toolkit(), found->toolkit());
}

TEST_F(NvrtcSearch, AbsenceNamesWhatWasTried) {
  const auto absent = Nvrtc::load({folder_});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(
      absent.error().message,
      fmt::format("no NVRTC to compile with; install the CUDA toolkit's libnvrtc or name it; tried:\n"
                  "  {0}/libnvrtc.so.13: not there\n  {0}/libnvrtc.so.12: not there\n  {0}/libnvrtc.so: not there",
                  folder_.path().string()));
}

TEST_F(NvrtcSearch, AFileThatIsNoLibraryIsSaidToBeNone) {
  std::ofstream(folder_ / "libnvrtc.so.13") << "not a library";
  const auto damaged = Nvrtc::load({folder_});
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(damaged.error().message, HasSubstr("libnvrtc.so.13: "));
  EXPECT_THAT(damaged.error().message, HasSubstr("file too short"));
}

TEST_F(NvrtcSearch, AnotherLibraryIsRefused) {
  const auto other = Nvrtc::load({"libz.so.1"});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error(),
            (Error{ErrorKind::unavailable, "libz.so.1 is no NVRTC that can be used: it has no nvrtcVersion"}));
}

}  // namespace
}  // namespace stitch::codegen
