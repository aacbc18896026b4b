#include "base/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/base/test_folder.h"

namespace stitch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class PrivateFolder : public testing::Test {
 protected:
  void expect_refused(std::string_view why) const {
    for (const Status& status : {check_private_folder(folder_), make_private_folder(folder_)}) {
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().kind, ErrorKind::unavailable);
      EXPECT_THAT(status.error().message, AllOf(HasSubstr(folder_.string()), HasSubstr(why)));
    }
  }

  const TestFolder parent_;
  const std::filesystem::path folder_ = parent_ / "run" / "stitch";
};

TEST_F(PrivateFolder, IsMadeForItsUserAlone) {
  EXPECT_TRUE(check_private_folder(folder_).ok()) << "it is not there";
  const mode_t mask = ::umask(0);
  const Status made = make_private_folder(folder_);
  ::umask(mask);
  ASSERT_TRUE(made.ok()) << made.error().message;
  struct stat found {};
  ASSERT_EQ(::lstat(folder_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0700U);
  EXPECT_TRUE(make_private_folder(folder_).ok()) << "it is there";
}

TEST_F(PrivateFolder, ThatOthersMayWriteToIsRefused) {
  std::filesystem::create_directories(folder_);
  for (const mode_t mode : {0770, 0777}) {
    ASSERT_EQ(::chmod(folder_.c_str(), mode), 0);
    expect_refused("others may write to it");
  }
}

TEST_F(PrivateFolder, ThatIsALinkIsRefused) {
  std::filesystem::create_directory(parent_ / "run");
  std::filesystem::create_directory_symlink(parent_.path(), folder_);
  expect_refused("not a folder");
}

TEST_F(PrivateFolder, OfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  std::filesystem::create_directories(folder_);
  ASSERT_EQ(::chown(folder_.c_str(), 65534, 65534), 0);
  expect_refused("belongs to user 65534");
}

TEST_F(PrivateFolder, ThatCannotBeMadeIsAnError) {
  const Status status = make_private_folder("/proc/stitch");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::io);
  EXPECT_THAT(status.error().message, HasSubstr("/proc/stitch"));
}

}  // namespace
}  // namespace stitch
