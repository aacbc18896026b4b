#include "db/database_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "db/migrations.h"
#include "tests/db/sample_records.h"

namespace stitch::db {
namespace {

namespace fs = std::filesystem;
using samples::expect_error;
using samples::read_file;
using samples::write_file;
using testing::IsEmpty;

/// A database with a plan in it, closed, and a way to change it behind the store's back.
class DatabaseFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path = folder / "stitch.db";
    plan = samples::put(*samples::opened(path, clock), 1);
  }

  std::unique_ptr<sqlite::Connection> raw(sqlite::OpenOptions::Mode mode = sqlite::OpenOptions::Mode::read_write) {
    auto connection = sqlite::Connection::open({path, mode, 0, 0, ""});
    EXPECT_OK(connection);
    return std::move(*connection);
  }

  Result<std::unique_ptr<Store>> open(bool read_only = false) {
    SqliteOptions options;
    options.path = path;
    options.read_only = read_only;
    return open_sqlite_store(options, clock);
  }

  /// Opening fails like this, for reading and for writing, and changes no byte of file or log.
  void expect_refused(ErrorKind kind, std::string_view text) {
    const std::string before = read_file(path);
    const std::string log_before = read_file(log_path(path));
    for (const bool read_only : {true, false}) expect_error(open(read_only), kind, text);
    EXPECT_EQ(read_file(path), before) << "the refused file was changed";
    EXPECT_EQ(read_file(log_path(path)), log_before) << "its log was changed";
  }

  TestFolder folder;
  ManualClock clock;
  fs::path path;
  Hash128 plan;
};

TEST_F(DatabaseFileTest, ANewDatabaseIsOneFileOfTheNewestVersion) {
  path = folder / "a" / "b" / "new.db";
  clock.advance_us(77);
  ASSERT_OK(open());
  EXPECT_EQ(std::distance(fs::directory_iterator(path.parent_path()), fs::directory_iterator()), 1)
      << "nothing of the making is left, and the log is gone with the last connection";
  const auto connection = raw();
  EXPECT_EQ(*connection->integer("PRAGMA user_version"), schema_version());
  EXPECT_EQ(*connection->integer("PRAGMA application_id"), application_id);
  EXPECT_EQ(*connection->integer("SELECT count(*) FROM schema_version WHERE applied_us = 77"), schema_version());
}

TEST_F(DatabaseFileTest, AMissingFileIsMadeOnlyOnRequest) {
  path = folder / "absent.db";
  expect_error(open(true), ErrorKind::not_found, "absent.db");
  SqliteOptions options;
  options.path = path;
  options.create = false;
  expect_error(open_sqlite_store(options, clock), ErrorKind::not_found, "absent.db");
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(DatabaseFileTest, WhatIsNoDatabaseOfOursIsRefused) {
  write_file(path, "");
  expect_refused(ErrorKind::corrupt, "is empty, not a Stitch database");
  write_file(path, "SQLite format 3");
  expect_refused(ErrorKind::corrupt, "is not an SQLite database");
  write_file(path, std::string(100'000, 'x'));
  expect_refused(ErrorKind::corrupt, "is not an SQLite database");
  fs::remove(path);
  ASSERT_OK(raw(sqlite::OpenOptions::Mode::create)->run_script("CREATE TABLE other (x)"));
  expect_refused(ErrorKind::corrupt, "not one of Stitch (application id 0x0)");
  path = folder.path();
  expect_error(open(), ErrorKind::io, "is not a regular file");
}

TEST_F(DatabaseFileTest, ANewerVersionIsRefused) {
  ASSERT_OK(raw()->run_script("PRAGMA user_version=99"));
  expect_refused(ErrorKind::version_mismatch, "has schema version 99, written by a newer Stitch; this one reads up to");
}

TEST_F(DatabaseFileTest, ANewerVersionThatIsStillInTheLogIsRefused) {
  const fs::path copy = folder / "copy.db";
  {
    const auto writer = raw();
    ASSERT_OK(writer->run_script("PRAGMA wal_autocheckpoint=0; PRAGMA user_version=99"));
    fs::copy_file(path, copy);
    fs::copy_file(log_path(path), log_path(copy));
  }
  path = copy;
  ASSERT_NE(read_file(log_path(copy)), "");
  expect_refused(ErrorKind::version_mismatch, "has schema version 99");
}

TEST_F(DatabaseFileTest, AnImpossibleVersionIsRefused) {
  ASSERT_OK(raw()->run_script("PRAGMA user_version=0"));
  expect_refused(ErrorKind::corrupt, "impossible schema version 0");
}

TEST_F(DatabaseFileTest, ATruncatedFileIsRefused) {
  const std::string whole = read_file(path);
  for (const std::size_t size : {std::size_t{100}, std::size_t{512}, std::size_t{4096}, whole.size() / 2,
                                 whole.size() - 4096, whole.size() - 1}) {
    write_file(path, whole.substr(0, size));
    expect_refused(ErrorKind::corrupt, "stitch.db");
  }
}

TEST_F(DatabaseFileTest, ADamagedPageIsRefused) {
  std::string bytes = read_file(path);
  for (std::size_t page = 1; page * 4096 < bytes.size(); ++page) bytes[page * 4096] = '\x77';  // page type
  write_file(path, bytes);
  expect_refused(ErrorKind::corrupt, "stitch.db");
}

TEST_F(DatabaseFileTest, ADamagedSchemaIsRefused) {
  ASSERT_OK(raw()->run_script("DROP INDEX plan_incumbent"));
  expect_refused(ErrorKind::corrupt, "index plan_incumbent is missing from the schema");
  ASSERT_OK(raw()->run_script("CREATE INDEX plan_incumbent ON plan (fragment)"));
  expect_refused(ErrorKind::corrupt, "index plan_incumbent is not what version");
}

TEST_F(DatabaseFileTest, AStatisticsTableDoesNotDisturb) {
  ASSERT_OK(raw()->run_script("ANALYZE; CREATE INDEX mine ON plan (bytes)"));
  EXPECT_OK(open());
}

TEST_F(DatabaseFileTest, ALogWithoutItsDatabaseIsNotPlayedIntoANewOne) {
  fs::remove(path);
  write_file(log_path(path), "frames of something that is gone");
  expect_error(open(), ErrorKind::corrupt, "is missing, but its log");
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(read_file(log_path(path)), "frames of something that is gone");
}

TEST_F(DatabaseFileTest, ManyMayMakeItAtOnce) {
  path = folder / "raced.db";
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] { samples::put(*samples::opened(path, clock), i); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ((*open())->statistics()->plans, 8) << "nobody's database was replaced by another's";
}

TEST_F(DatabaseFileTest, AReadOnlyStoreReadsAndNeverWrites) {
  const std::string before = read_file(path);
  {
    const auto store = open(true);
    ASSERT_OK(store);
    EXPECT_EQ((*store)->get_plan(plan)->id, plan);
    expect_error((*store)->put_device(samples::gpu()), ErrorKind::io, "was opened read-only");
  }
  EXPECT_EQ(read_file(path), before);
}

/// Runs a check in a child that may not write to the folder, also where the tests run as root.
template <class Check>
int status_without_rights(const fs::path& folder, const Check& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool dropped = ::geteuid() != 0 || ::seteuid(65534) == 0;
    ::_exit(dropped && ::access(folder.c_str(), X_OK) == 0 ? check() : 100);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}

TEST_F(DatabaseFileTest, ReadOnlyMediaServeReaders) {
  const std::string before = read_file(path);
  ::chmod(path.c_str(), 0444);
  ::chmod(folder.path().c_str(), 0555);
  const int status = status_without_rights(folder.path(), [this] {
    const auto reader = open(true);
    if (!reader || !(*reader)->get_plan_bundle(plan)) return 1;
    const auto writer = open();
    if (writer || writer.error().kind != ErrorKind::io) return 2;
    path = folder / "new.db";
    const auto fresh = open();
    return !fresh && fresh.error().kind == ErrorKind::io ? 0 : 3;
  });
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(path), before);
}

}  // namespace
}  // namespace stitch::db
