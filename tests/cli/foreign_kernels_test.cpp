// Kernels that nobody here wrote, on the emulated device: each ends, with the results that its maker's reference has,
// and sets off exactly the detectors that it is known for. tests/data/foreign/README.md says where they come from.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "cli/emulate/kernel_corpus.h"
#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

const std::filesystem::path corpora = std::filesystem::path(STITCH_SOURCE_DIR) / "tests/data/foreign";

struct CorpusFile {
  const char* name;
  std::size_t kernels;  ///< at least; a generator that lost some is seen
};
void PrintTo(const CorpusFile& file, std::ostream* out) { *out << file.name; }

class ForeignKernelsEmulated : public testing::TestWithParam<CorpusFile> {};

TEST_P(ForeignKernelsEmulated, AreRight) {
  const RealFileSystem files;
  const Result<KernelCorpus> corpus = read_corpus(corpora / (std::string(GetParam().name) + ".json.gz"), files);
  ASSERT_TRUE(corpus.ok()) << corpus.error().message;
  const std::vector<CorpusRow> rows = run_corpus(*corpus, "", [](const CorpusRow&) {});
  EXPECT_GE(rows.size(), GetParam().kernels);
  for (const CorpusRow& row : rows) EXPECT_EQ(row.failure, "") << row.name;
}

INSTANTIATE_TEST_SUITE_P(Makers, ForeignKernelsEmulated,
                         testing::Values(CorpusFile{"triton", 120}, CorpusFile{"triton_blackwell", 16},
                                         CorpusFile{"liger", 160}, CorpusFile{"cub", 100}, CorpusFile{"cutlass", 52},
                                         CorpusFile{"cutlass_blackwell", 3}, CorpusFile{"xla", 330}),
                         [](const auto& file) { return std::string(file.param.name); });

/// A corpus of one kernel that doubles four numbers.
std::string small_corpus(std::string_view argument, std::string_view expected, std::string_view findings = "") {
  return fmt::format(R"({{"maker": "test", "origin": "here", "licence": "MIT", "modules": {{"m0": ".version 8.0\n.target
sm_80\n.address_size 64\n.visible .entry twice(.param .u64 p) {{ .reg .b64 %a, %o; .reg .b32 %t; .reg .f32 %x;\n
ld.param.u64 %a, [p]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o;\n
ld.global.f32 %x, [%a]; add.f32 %x, %x, %x; st.global.f32 [%a], %x; ret; }}\n"}},
"kernels": [{{"name": "twice", "module": "m0", "grid": [1], "block": [4], "arguments": ["{}"], "expect": [{}]{}}}]}})",
                     argument, expected, findings);
}

CorpusRow only_row(const std::string& text) {
  const Folder folder;
  // The text is written over several lines, which JSON strings are not.
  std::string joined = text;
  std::ranges::replace(joined, '\n', ' ');
  const RealFileSystem files;
  const Result<KernelCorpus> corpus = read_corpus(folder.write("small.json", joined), files);
  if (!corpus) {
    CorpusRow row;
    row.failure = corpus.error().message;
    return row;
  }
  const std::vector<CorpusRow> rows = run_corpus(*corpus, "", [](const CorpusRow&) {});
  return rows.at(0);
}

// 1, 2, 3, 4 as f32; 2, 4, 6, 8.
constexpr const char* four = "x=data:f32[4]:AACAPwAAAEAAAEBAAACAQA==";
constexpr const char* doubled = R"({"argument": "x", "type": "f32", "values": "AAAAQAAAgEAAAMBAAAAAQQ=="})";

TEST(KernelCorpusEmulated, ComparesAndNamesWhatIsWrong) {
  EXPECT_EQ(only_row(small_corpus(four, doubled)).failure, "");
  const std::string wrong = R"({"argument": "x", "type": "f32", "values": "AAAAQAAAgEAAAMBAAACAQA=="})";
  EXPECT_EQ(only_row(small_corpus(four, wrong)).failure, "wrong: 1 of 4 elements of 'x': element 3 is 8, expected 4");
  const std::string near =
      R"({"argument": "x", "type": "f32", "values": "AAAAQAAAgEAAAMBAAACAQA==", "relative": 0.5, "absolute": 2})";
  EXPECT_EQ(only_row(small_corpus(four, near)).failure, "");
  const std::string strided = R"({"argument": "x", "type": "f32", "stride": 3, "values": "AAAAQAAAAEE="})";
  EXPECT_EQ(only_row(small_corpus(four, strided)).failure, "");
  EXPECT_EQ(only_row(small_corpus(four, "")).failure, "nothing is expected of it");
}

TEST(KernelCorpusEmulated, KnownFindingsMustBeThere) {
  const auto unwritten = only_row(small_corpus("x=out:f32[4]", doubled));
  EXPECT_NE(unwritten.failure.find("wrong: 4 of 4"), std::string::npos) << unwritten.failure;
  EXPECT_EQ(only_row(small_corpus(four, doubled, R"(, "findings": ["shared_race"])")).failure,
            "it no longer sets off shared_race, which it is known for");
  const std::string read_of_nothing = R"({"argument": "x", "type": "u8", "stride": 16, "values": "zQ=="})";
  const std::string unread = only_row(small_corpus("x=out:f32[4]", read_of_nothing)).failure;
  EXPECT_NE(unread.find("uninitialised"), std::string::npos) << unread;
}

TEST(KernelCorpusEmulated, DamagedFilesAreRefused) {
  EXPECT_NE(only_row("{").failure.find("is no corpus of kernels"), std::string::npos);
  EXPECT_NE(only_row(small_corpus("x=data:f32[5]:AAAA", doubled)).failure.find("kernel twice: argument 0"),
            std::string::npos);
  const std::string elsewhere = R"({"argument": "y", "type": "f32", "values": "AAAAQA=="})";
  EXPECT_EQ(only_row(small_corpus(four, elsewhere)).failure, "'y' is expected to hold something, but is no buffer");
}

}  // namespace
}  // namespace stitch::cli
