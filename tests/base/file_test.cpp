#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace stitch {
namespace {

using ::testing::HasSubstr;

class RealFileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) /
        fmt::format("stitch_file_{}_{}", ::getpid(), ::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_TRUE(files_.make_directories(folder_));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
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

}  // namespace
}  // namespace stitch
