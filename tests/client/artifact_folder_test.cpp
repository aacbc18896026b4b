#include "client/artifact_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>

#include "tests/base/test_folder.h"

namespace stitch::client {
namespace {

class ArtifactFolderTest : public testing::Test {
 protected:
  ArtifactFolder open(std::int64_t max_bytes = 1 << 20) { return {files_, clock_, folder_ / "artifacts", max_bytes}; }
  std::filesystem::path path_of(std::string_view bytes) const { return folder_ / "artifacts" / sha256(bytes).hex(); }

  const TestFolder folder_;
  RealFileSystem files_;
  ManualClock clock_;
};

TEST_F(ArtifactFolderTest, KeepsWhatItWasGiven) {
  ArtifactFolder artifacts = open();
  EXPECT_FALSE(artifacts.find(sha256("cubin")));
  ASSERT_TRUE(artifacts.store(sha256("cubin"), "cubin").ok());
  EXPECT_EQ(artifacts.find(sha256("cubin")), "cubin");
  EXPECT_EQ(open().find(sha256("cubin")), "cubin");
}

TEST_F(ArtifactFolderTest, DamageIsAMissAndMended) {
  ArtifactFolder artifacts = open();
  for (const std::string damage : {"", "cubim", "cubin and more"}) {
    ASSERT_TRUE(artifacts.store(sha256("cubin"), "cubin").ok());
    std::ofstream(path_of("cubin"), std::ios::binary) << damage;
    EXPECT_FALSE(artifacts.find(sha256("cubin"))) << damage;
    EXPECT_FALSE(std::filesystem::exists(path_of("cubin")));
  }
}

TEST_F(ArtifactFolderTest, TheLeastRecentlyUsedGoFirst) {
  ArtifactFolder artifacts = open(3000);
  const auto name = [](int i) { return std::string(900, static_cast<char>('a' + i)); };
  for (int i = 0; i < 3; ++i) {
    clock_.advance_us(1'000'000);
    ASSERT_TRUE(artifacts.store(sha256(name(i)), name(i)).ok());
    EXPECT_TRUE(artifacts.find(sha256(name(i)))) << "marks it as used now";
  }
  clock_.advance_us(1'000'000);
  EXPECT_TRUE(artifacts.find(sha256(name(0))));
  ASSERT_TRUE(artifacts.store(sha256(name(3)), name(3)).ok());
  EXPECT_TRUE(artifacts.find(sha256(name(0))));
  EXPECT_FALSE(artifacts.find(sha256(name(1))));
}

TEST_F(ArtifactFolderTest, WhatIsNotAnArtifactStays) {
  ArtifactFolder artifacts = open(1000);
  ASSERT_TRUE(artifacts.store(sha256("x"), "x").ok());
  const std::filesystem::path notes = folder_ / "artifacts/notes.txt", hidden = folder_ / "artifacts/.profile";
  for (const auto& path : {notes, hidden}) std::ofstream(path) << std::string(2000, 'n');
  const std::filesystem::path remnant = folder_ / ("artifacts/." + sha256("y").hex() + ".4711.0");
  std::ofstream(remnant) << "of a killed process";
  for (const auto& path : {notes, hidden, remnant}) ASSERT_TRUE(files_.set_modified(path, 1).ok());
  clock_.advance_us(std::int64_t{3} * 3600 * 1'000'000);
  const std::string large(900, 'z');
  ASSERT_TRUE(artifacts.store(sha256(large), large).ok());
  EXPECT_TRUE(files_.exists(notes));
  EXPECT_TRUE(files_.exists(hidden));
  EXPECT_FALSE(files_.exists(remnant));
  EXPECT_TRUE(artifacts.find(sha256("x")));
}

TEST_F(ArtifactFolderTest, AFolderThatCannotBeWrittenIsAnError) {
  std::ofstream(folder_ / "artifacts") << "a file";
  EXPECT_EQ(open().store(sha256("x"), "x").error().kind, ErrorKind::io);
  EXPECT_FALSE(open().find(sha256("x")));
}

// Whoever may write to the folder must not be able to hang or to end the program that reads it.
TEST_F(ArtifactFolderTest, WhatIsNoRegularFileIsAMissAndIsReplaced) {
  ArtifactFolder artifacts = open();
  const Sha256 name = sha256("cubin");
  const std::filesystem::path path = path_of("cubin");
  std::filesystem::create_directories(path.parent_path());
  const std::function<void()> others[] = {
      [&] { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); },
      [&] { std::filesystem::create_symlink("/dev/zero", path); },
      [&] { std::filesystem::create_symlink(path, path); },
  };
  for (const auto& put : others) {
    put();
    EXPECT_FALSE(artifacts.find(name));
    ASSERT_TRUE(artifacts.store(name, "cubin").ok());
    EXPECT_EQ(artifacts.find(name), "cubin");
    std::filesystem::remove(path);
  }
}

}  // namespace
}  // namespace stitch::client
