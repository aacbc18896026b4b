#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "tests/base/test_folder.h"
#include "tests/base/test_variable.h"

namespace stitch {
namespace {

using ::testing::HasSubstr;

class RealFileSystemTest : public ::testing::Test {
 protected:
  const TestFolder folder_;
  RealFileSystem files_;
};

TEST_F(RealFileSystemTest, WhatIsPublishedIsRead) {
  const std::string big(200'000, 'x');
  for (const std::string& contents : {std::string(), std::string("text"), std::string("a\0b", 3), big}) {
    ASSERT_TRUE(files_.publish(folder_ / "file", contents));
    const auto read = files_.read(folder_ / "file");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, contents);
  }
  EXPECT_EQ(files_.list(folder_).size(), 1u) << "no temporary file stays behind";
}

TEST_F(RealFileSystemTest, AFailedPublicationLeavesNothing) {
  const Status status = files_.publish(folder_ / "absent" / "file", "text");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::not_found);
  ASSERT_TRUE(files_.make_directories(folder_ / "taken" / "inside"));
  EXPECT_FALSE(files_.publish(folder_ / "taken", "text")) << "a folder stands there";
  EXPECT_TRUE(files_.list(folder_).empty());
}

TEST_F(RealFileSystemTest, AbsenceIsItsOwnKindOfError) {
  const auto read = files_.read(folder_ / "none");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::not_found);
  EXPECT_THAT(read.error().message, HasSubstr((folder_ / "none").string() + ": No such file or directory"));
  EXPECT_FALSE(files_.exists(folder_ / "none"));
  EXPECT_TRUE(files_.remove(folder_ / "none")) << "what is gone already was removed";
  EXPECT_TRUE(files_.list(folder_ / "none").empty());
}

TEST_F(RealFileSystemTest, ListsRegularFilesByNameWithSizeAndTime) {
  ASSERT_TRUE(files_.make_directories(folder_ / "subfolder"));
  ASSERT_TRUE(files_.publish(folder_ / "b", "22"));
  ASSERT_TRUE(files_.publish(folder_ / "a", "1"));
  ASSERT_TRUE(files_.set_modified(folder_ / "a", 1'700'000'000'123'456));
  ASSERT_TRUE(files_.set_modified(folder_ / "b", 1'600'000'000'000'001));
  const auto entries = files_.list(folder_);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].path, folder_ / "a");
  EXPECT_EQ(entries[0].bytes, 1);
  EXPECT_EQ(entries[0].modified_us, 1'700'000'000'123'456);
  EXPECT_EQ(entries[1].path, folder_ / "b");
  EXPECT_EQ(entries[1].bytes, 2);
  EXPECT_EQ(entries[1].modified_us, 1'600'000'000'000'001);
}

TEST_F(RealFileSystemTest, TheTimeOfAnAbsentFileCannotBeSet) {
  const Status status = files_.set_modified(folder_ / "none", 1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::not_found);
}

TEST(TemporaryFolder, GoesWithItsContentsAndIsNobodyElses) {
  std::filesystem::path path;
  {
    const auto first = TemporaryFolder::make("purpose"), second = TemporaryFolder::make("purpose");
    ASSERT_TRUE(first && second);
    path = first->path();
    EXPECT_NE(path, second->path());
    EXPECT_THAT(path.filename().string(), HasSubstr("stitch-purpose-"));
    std::filesystem::create_directories(*first / "a" / "b");
    std::ofstream(*first / "a" / "file") << "text";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryFolder, AMissingParentIsNamed) {
  const TestFolder folder;
  const TestVariable variable("TMPDIR", folder / "absent");
  const auto made = TemporaryFolder::make("purpose");
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("temporary files"));
}

TEST_F(RealFileSystemTest, AFileOfOurOwnIsRegularAndBounded) {
  const TestFolder folder;
  const RealFileSystem files;
  const std::filesystem::path path = folder / "file";
  std::ofstream(path) << "contents";
  EXPECT_EQ(*files.read_own(path, 8), "contents");
  EXPECT_EQ(files.read_own(path, 7).error().kind, ErrorKind::resource_exhausted);
  EXPECT_EQ(files.read_own(folder / "none", 8).error().kind, ErrorKind::not_found);
  EXPECT_THAT(files.read_own(folder.path(), 8).error().message, testing::HasSubstr("not a regular file"));
  std::filesystem::create_symlink(path, folder / "link");
  EXPECT_EQ(files.read_own(folder / "link", 8).error().kind, ErrorKind::io);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(files.read_own(folder / "pipe", 8).error().message, testing::HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace stitch
