#include "db/change_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "db/sqlite_store.h"
#include "tests/base/test_folder.h"

namespace stitch::db {
namespace {

Device device(int number) {
  Device device;
  device.key = "device " + std::to_string(number);
  device.kind = "emulated";
  device.target = "h100";
  device.provenance.tool = "test";
  device.provenance.wall_us = 1;
  return device;
}

class ChangeMarkTest : public testing::Test {
 protected:
  std::unique_ptr<Store> open() const {
    SqliteOptions options;
    options.path = folder_ / "stitch.db";
    auto opened = open_sqlite_store(options, clock_);
    EXPECT_TRUE(opened.ok()) << (opened ? "" : opened.error().message);
    return *std::move(opened);
  }
  const TestFolder folder_;
  const SystemClock clock_;
};

TEST_F(ChangeMarkTest, EveryCommitIsAnotherVersionAndReadingIsNone) {
  const auto store = open(), other = open();
  ASSERT_TRUE(store->version().has_value());
  for (int i = 0; i < 600; ++i) {  // beyond several checkpoints, where the log begins anew
    const auto before = store->version();
    ASSERT_EQ(before, other->version());
    ASSERT_TRUE(store->list_devices().ok());
    ASSERT_EQ(store->version(), before);
    const Status put = (i % 2 == 0 ? store : other)->put_device(device(i % 50));
    ASSERT_TRUE(put.ok()) << put.error().message;
    ASSERT_NE(store->version(), before) << i;
    ASSERT_EQ(store->version(), other->version());
  }
}

TEST_F(ChangeMarkTest, AWriteThatFailsIsNone) {
  const auto store = open();
  const auto before = store->version();
  EXPECT_FALSE(store->put_device(Device()).ok());
  EXPECT_EQ(store->version(), before);
}

TEST_F(ChangeMarkTest, ItIsSeenWhenAnotherProcessCommits) {
  // SQLite must not be carried over a fork: the child begins before there is any.
  int go_on[2];
  ASSERT_EQ(::pipe(go_on), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    if (::read(go_on[0], &byte, 1) != 1) ::_exit(2);
    SqliteOptions options;
    options.path = folder_ / "stitch.db";
    const auto opened = open_sqlite_store(options, clock_);
    ::_exit(opened.ok() && (*opened)->put_device(device(1)).ok() ? 0 : 1);
  }
  const auto store = open();
  const auto before = store->version();
  ASSERT_EQ(::write(go_on[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_NE(store->version(), before);
  EXPECT_EQ(store->list_devices()->size(), 1U);
}

TEST_F(ChangeMarkTest, WhoSeesTheSameVersionTwiceHasReadNothingOld) {
  const auto writer = open(), reader = open();
  ASSERT_TRUE(writer->put_device(device(0)).ok());
  std::jthread writes([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      Device changed = device(0);
      changed.provenance.wall_us = i + 2;
      EXPECT_TRUE(writer->put_device(changed).ok());
    }
  });
  for (int i = 0; i < 3000; ++i) {
    const auto version = reader->version();
    const auto first = reader->get_device("device 0"), second = reader->get_device("device 0");
    ASSERT_TRUE(first.ok() && second.ok());
    if (!version || reader->version() != version) continue;
    ASSERT_EQ(first->provenance.wall_us, second->provenance.wall_us);
  }
}

TEST_F(ChangeMarkTest, AReadOnlyStoreCannotTell) {
  open();
  SqliteOptions options;
  options.path = folder_ / "stitch.db";
  options.read_only = true;
  const auto opened = open_sqlite_store(options, clock_);
  ASSERT_TRUE(opened.ok());
  EXPECT_FALSE((*opened)->version().has_value());
}

}  // namespace
}  // namespace stitch::db
