// The repository itself against docs/design.md: includes and links point one way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/layering/include_table.h"
#include "tests/layering/module_graph.h"

namespace stitch::layering {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

const fs::path root = STITCH_SOURCE_DIR;

std::string contents(const fs::path& path) {
  std::ifstream stream(path);
  EXPECT_TRUE(stream.is_open()) << path;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

IncludeTable design_table() {
  auto table = parse_include_table(contents(root / "docs/design.md"));
  if (!table) throw std::runtime_error("docs/design.md: " + table.error().message);
  return *std::move(table);
}

std::vector<fs::path> sources_in(const fs::path& folder) {
  std::vector<fs::path> sources;
  if (!fs::exists(folder)) return sources;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    if (extension == ".h" || extension == ".cpp") sources.push_back(entry.path());
  }
  return sources;
}

TEST(Layering, TableOfDesignPointsOneWay) { EXPECT_THAT(find_cycle(design_table()), IsEmpty()); }

TEST(Layering, EveryFolderWithSourcesHasARow) {
  const std::set<std::string> outside = {"bench", "cmake", "tests"};
  const IncludeTable table = design_table();
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename();
    const bool ours = entry.is_directory() && !name.starts_with(".") && !name.starts_with("build");
    if (!ours || outside.contains(name) || sources_in(entry.path()).empty()) continue;
    EXPECT_TRUE(table.allowed.contains(name)) << name << "/ is not in the include table of docs/design.md";
  }
}

TEST(Layering, IncludesFollowTheTable) {
  const IncludeTable table = design_table();
  std::vector<std::string> refused;
  std::size_t files = 0;
  for (const std::string& folder : table.folders) {
    for (const fs::path& path : sources_in(root / folder)) {
      const auto here = refused_includes(table, folder, path.lexically_relative(root), contents(path));
      refused.insert(refused.end(), here.begin(), here.end());
      ++files;
    }
  }
  EXPECT_THAT(refused, IsEmpty());
  EXPECT_GT(files, 100U);
}

TEST(Layering, IncludedHeadersExist) {
  for (const std::string& folder : design_table().folders) {
    for (const fs::path& path : sources_in(root / folder)) {
      for (const Include& include : includes_of(contents(path))) {
        if (!include.quoted) continue;
        EXPECT_TRUE(fs::exists(root / include.header)) << path << ":" << include.line << " " << include.header;
      }
    }
  }
}

// This is what shows that these headers compile alone; tests/self_containment compiles the others.
TEST(Layering, SourcesIncludeTheirOwnHeaderFirst) {
  for (const std::string& folder : design_table().folders) {
    for (const fs::path& path : sources_in(root / folder)) {
      const std::string header = fs::path(path).replace_extension(".h").lexically_relative(root);
      if (path.extension() != ".cpp" || !fs::exists(root / header)) continue;
      const auto includes = includes_of(contents(path));
      ASSERT_FALSE(includes.empty()) << path;
      EXPECT_EQ(includes.front().header, header) << path;
    }
  }
}

TEST(Layering, LinksFollowTheTable) {
  const IncludeTable table = design_table();
  const auto layers = parse_layers(contents(root / "CMakeLists.txt"));
  for (const std::string& folder : table.folders) {
    const auto layer = layers.find(folder);
    ASSERT_NE(layer, layers.end()) << "no stitch_layer(" << folder << " …)";
    for (const std::string& other : layer->second) {
      if (!layers.contains(other)) continue;  // a library from outside
      EXPECT_TRUE(table.may_link(folder, other)) << folder << " links " << other;
    }
  }
}

IncludeGraph modules_of_all_folders() {
  IncludeGraph modules;
  for (const std::string& folder : design_table().folders) {
    for (const fs::path& path : sources_in(root / folder)) {
      add_module(modules, path.lexically_relative(root).string(), contents(path));
    }
  }
  return modules;
}

std::string text_of(const std::vector<std::vector<std::string>>& knots) {
  std::string text;
  for (const auto& knot : knots) text += fmt::format("{}\n", fmt::join(knot, " "));
  return text;
}

// Within a folder too: a header with its source includes nothing that leads back to it.
TEST(Layering, NoModulesGoInACircle) {
  const auto knots = knots_of(modules_of_all_folders());
  EXPECT_TRUE(knots.empty()) << text_of(knots);
}

TEST(Layering, NoRoomsGoInACircle) {
  const auto knots = knots_of(rooms_of(modules_of_all_folders()));
  EXPECT_TRUE(knots.empty()) << text_of(knots);
}

// A folder that nobody can take in at a glance wants rooms.
TEST(Layering, NoFolderHoldsMoreThanThirtyModules) {
  std::map<fs::path, std::set<std::string>> held;
  for (const auto& [module, includes] : modules_of_all_folders()) held[fs::path(module).parent_path()].insert(module);
  for (const auto& [folder, modules] : held) EXPECT_LE(modules.size(), 32U) << folder;
}

TEST(Layering, DeviceHeadersIncludeEachOtherAndTheToolkitOnly) {
  const fs::path folder = root / "codegen/device";
  for (const auto& entry : fs::directory_iterator(folder)) {
    for (const Include& include : includes_of(contents(entry.path()))) {
      if (!include.quoted) continue;
      EXPECT_TRUE(include.header.starts_with("stitch/")) << entry.path() << ":" << include.line;
      EXPECT_TRUE(fs::exists(folder / include.header.substr(7))) << entry.path() << ":" << include.line;
    }
  }
}

}  // namespace
}  // namespace stitch::layering
