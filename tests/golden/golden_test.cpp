// What Stitch makes of two dozen graphs for an H100 — sources, explanations, counts of the emulator — against the files
// in tests/golden/kernels. scripts/golden writes them anew; the diff is reviewed like code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "tests/golden/kernel_golden.h"

namespace stitch::golden {
namespace {

namespace fs = std::filesystem;

const fs::path kernels = fs::path(STITCH_SOURCE_DIR) / "tests" / "golden" / "kernels";

bool rewriting() { return std::getenv("STITCH_UPDATE_GOLDEN") != nullptr; }

std::string regenerate_hint(const std::string& name) {
  return fmt::format("`scripts/golden {}` writes it anew; review the diff", name);
}

std::vector<std::string> folder_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kernels)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::set<std::string> entries_of(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

class GoldenEmulated : public testing::TestWithParam<std::string> {};

TEST_P(GoldenEmulated, KernelsAreAsRecorded) {
  const fs::path folder = kernels / GetParam();
  const auto graph = graph_file(folder);
  ASSERT_TRUE(graph) << graph.error().message;
  const auto made = make_golden(*graph, 0);
  ASSERT_TRUE(made) << to_string(made.error().kind) << ": " << made.error().message;
  RealFileSystem files;
  std::set<std::string> expected = {graph->filename().string()};
  bool other_toolkit = false;
  for (const GoldenFile& file : made->files) {
    expected.insert(file.name);
    if (rewriting()) {
      const auto old = files.read(folder / file.name);
      if (old && *old == file.contents) continue;
      const Status written = files.publish(folder / file.name, file.contents);
      ASSERT_TRUE(written) << written.error().message;
      continue;
    }
    const auto recorded = files.read(folder / file.name);
    if (!recorded) {
      ADD_FAILURE() << recorded.error().message << "\n" << regenerate_hint(GetParam());
      continue;
    }
    if (file.name == "counts.txt" && toolkit_of(*recorded) != made->toolkit) {
      other_toolkit = true;
      continue;
    }
    EXPECT_TRUE(*recorded == file.contents) << GetParam() << "/" << file.name << " differs from what is made now, "
                                            << first_difference(*recorded, file.contents) << "\n"
                                            << regenerate_hint(GetParam());
  }
  EXPECT_EQ(entries_of(folder), expected) << "a golden folder holds one graph and what is made of it, nothing else";
  if (other_toolkit && !HasFailure()) {
    GTEST_SKIP() << "counts are not compared: recorded with another toolkit than this machine's " << made->toolkit;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenEmulated, testing::ValuesIn(folder_names()),
                         [](const auto& each) { return each.param; });

TEST(Golden, FoldersHoldFoldersOnly) {
  const std::vector<std::string> folders = folder_names();
  EXPECT_GE(folders.size(), 20u);
  EXPECT_EQ(entries_of(kernels), std::set<std::string>(folders.begin(), folders.end()));
}

class GoldenThreadsEmulated : public testing::TestWithParam<const char*> {};

// Planned by one thread, by several, and once more: the same text.
TEST_P(GoldenThreadsEmulated, AnyNumberGivesTheSameText) {
  const auto graph = graph_file(kernels / GetParam());
  ASSERT_TRUE(graph) << graph.error().message;
  const auto one = make_golden(*graph, 1);
  ASSERT_TRUE(one) << one.error().message;
  for (const int threads : {2, 5}) {
    const auto several = make_golden(*graph, threads);
    ASSERT_TRUE(several) << several.error().message;
    for (std::size_t i = 0; i < one->files.size(); ++i) {
      EXPECT_TRUE(several->files[i].contents == one->files[i].contents)
          << threads << " threads: " << first_difference(one->files[i].contents, several->files[i].contents);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenThreadsEmulated, testing::Values("full_sum", "clip_gradients"),
                         [](const auto& each) { return std::string(each.param); });

TEST(Golden, TheFirstDifferenceIsShown) {
  const struct {
    const char *recorded, *made, *hint;
  } rows[] = {
      {"a\nb\nc\n", "a\nx\nc\n", "line 2\n  recorded: b\n  made:     x"},
      {"a\n", "a\nb\n", "line 2\n  recorded: (end)\n  made:     b"},
      {"a\nb\n", "a\n", "line 2\n  recorded: b\n  made:     (end)"},
      {"a\n\n", "a\n", "line 2\n  recorded: \n  made:     (end)"},
      {"a\n", "a\n", "no line differs"},
  };
  for (const auto& row : rows) EXPECT_EQ(first_difference(row.recorded, row.made), row.hint);
}

TEST(Golden, TheToolkitIsReadFromTheFirstLine) {
  EXPECT_EQ(toolkit_of("toolkit 13.0.88\n\nfragment 0"), "13.0.88");
  EXPECT_EQ(toolkit_of("fragment 0\ntoolkit 13.0.88"), "");
  EXPECT_EQ(toolkit_of(""), "");
}

}  // namespace
}  // namespace stitch::golden
