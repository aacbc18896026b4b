#include "codegen/generator_version.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/file.h"
#include "base/subprocess.h"
#include "base/version.h"
#include "tests/base/test_folder.h"

namespace stitch::codegen {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

/// What cmake/HashSources.cmake writes for sources with these names and contents.
std::string hashed(const std::map<std::string, std::string>& sources) {
  RealFileSystem files;
  const TestFolder folder;
  std::filesystem::create_directories(folder / "");
  std::string list;
  for (const auto& [name, contents] : sources) {
    std::ofstream(folder / name, std::ios::binary) << contents;
    list += (list.empty() ? "" : ";") + (folder / name).string();
  }
  RealProcessLauncher launcher;
  ProcessOptions options;
  options.arguments = {"cmake", "-DOUTPUT=" + (folder / "hash.out").string(), "-DSOURCES=" + list, "-P",
                       STITCH_SOURCE_DIR "/cmake/HashSources.cmake"};
  const auto output = run_process(launcher, options, "", deadline_in(60));
  EXPECT_TRUE(output && output->status.success());
  const auto written = files.read(folder / "hash.out");
  return written ? *written : "nothing was written";
}

TEST(GeneratorVersion, NamesTheToolAndAHash) {
  EXPECT_THAT(generator_version(), StartsWith(std::string(tool_version) + "-"));
  EXPECT_THAT(generator_version(), MatchesRegex("[0-9.]+-[0-9a-f]{12}"));
  EXPECT_THAT(std::string(emitters_hash()), MatchesRegex("[0-9a-f]{64}"));
}

TEST(GeneratorVersion, EverySourceThatWritesCodeCounts) {
  const std::string before = hashed({{"a_emitter.cpp", "one"}, {"b_emitter.cpp", "two"}});
  EXPECT_THAT(before, MatchesRegex("(.|\n)*\"[0-9a-f]{64}\"(.|\n)*"));
  EXPECT_EQ(hashed({{"a_emitter.cpp", "one"}, {"b_emitter.cpp", "two"}}), before);
  EXPECT_NE(hashed({{"a_emitter.cpp", "one"}, {"b_emitter.cpp", "too"}}), before);
  EXPECT_NE(hashed({{"a_emitter.cpp", "one"}, {"c_emitter.cpp", "two"}}), before);
  EXPECT_NE(hashed({{"a_emitter.cpp", "one"}}), before);
}

// A file with the device code in it that the build does not hash would leave plans of another generator in use.
TEST(GeneratorVersion, IsOfTheEmittersAsTheyLieInTheFolder) {
  RealFileSystem files;
  std::map<std::string, std::string> emitters;
  // Operators are spelled by their table.
  emitters["op_table.inl"] = *files.read(std::filesystem::path(STITCH_SOURCE_DIR) / "graph/op_table.inl");
  for (const auto& entry : files.list(std::filesystem::path(STITCH_SOURCE_DIR) / "codegen")) {
    const std::string name = entry.path.filename().string(), extension = entry.path.extension().string();
    if (extension != ".cpp" && extension != ".h") continue;
    const std::string contents = *files.read(entry.path);
    // Those that write device code do so through the writer, which a group's scope and emitter hand on.
    const bool emits = name == "writer.h" || name.starts_with("kernel") || name.starts_with("group_") ||
                       name.starts_with("spelling.") || name.starts_with("scan_tuple.") ||
                       name.starts_with("index_text.") || name.find("_emitter.") != std::string::npos ||
                       name.find("_printer.") != std::string::npos ||
                       contents.find("codegen/writer.h") != std::string::npos ||
                       contents.find("codegen/group_scope.h") != std::string::npos ||
                       contents.find("codegen/group_emitter.h") != std::string::npos;
    if (emits) emitters[name] = contents;
  }
  for (const auto& entry : files.list(std::filesystem::path(STITCH_SOURCE_DIR) / "codegen/contraction"))
    emitters[entry.path.filename().string()] = *files.read(entry.path);
  // And all that they read: programs as kernel/ derives them, and the options that their sources are compiled with.
  const std::filesystem::path root = STITCH_SOURCE_DIR;
  emitters["compiler.cpp"] = *files.read(root / "codegen/compile/compiler.cpp");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "kernel")) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".cpp" && extension != ".h") continue;
    const bool inserted = emitters.emplace(entry.path().filename().string(), *files.read(entry.path())).second;
    EXPECT_TRUE(inserted) << entry.path() << ": another source has its name, and the hash goes by names";
  }
  ASSERT_GE(emitters.size(), 60U);
  EXPECT_THAT(hashed(emitters), HasSubstr(std::string(emitters_hash())));
  // Each of them counts, to the last byte.
  std::vector<std::string> names;
  for (const auto& [name, contents] : emitters) names.push_back(name);
  for (std::size_t i = 0; i < names.size(); i += 25) {
    auto edited = emitters;
    edited[names[i]] += " ";
    EXPECT_THAT(hashed(edited), Not(HasSubstr(std::string(emitters_hash())))) << names[i];
  }
  emitters.erase("writer.h");
  EXPECT_THAT(hashed(emitters), Not(HasSubstr(std::string(emitters_hash()))));
}

}  // namespace
}  // namespace stitch::codegen
