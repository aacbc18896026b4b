#include "db/sqlite.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "db/record_columns.h"
#include "tests/db/sample_records.h"

namespace stitch::db::sqlite {
namespace {

using samples::expect_error;

std::unique_ptr<Connection> memory() {
  auto connection = Connection::open_memory();
  EXPECT_OK(connection);
  EXPECT_OK((*connection)->run_script("CREATE TABLE thing (id INTEGER PRIMARY KEY, value ANY UNIQUE) STRICT"));
  return std::move(*connection);
}

TEST(SqliteTest, ValuesBindAndReadBack) {
  const auto connection = memory();
  const Provenance provenance = samples::provenance();
  auto rows = connection->query("SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?", std::int64_t{-5}, 2.5, "text",
                                std::string("a\0b", 3), Blob{{"\0\xff", 2}}, samples::hash(1), std::optional<Hash128>(),
                                std::optional<double>(0.5), provenance.tool, provenance.toolkit, provenance.device,
                                provenance.wall_us, provenance.judged);
  ASSERT_OK(rows);
  ASSERT_TRUE(*rows->step());
  Row row(*rows, "row");
  EXPECT_EQ(row.integer(), -5);
  EXPECT_EQ(row.real(), 2.5);
  EXPECT_EQ(row.text(), "text");
  EXPECT_EQ(row.text(), std::string("a\0b", 3));
  EXPECT_EQ(row.view(), std::string_view("\0\xff", 2));
  EXPECT_EQ(row.hash(), samples::hash(1));
  EXPECT_EQ(row.optional_hash(), std::nullopt);
  EXPECT_EQ(row.optional_real(), 0.5);
  Provenance back;
  read_fields(row, back);
  EXPECT_EQ(back, provenance);
  EXPECT_OK(row.status());
  EXPECT_FALSE(*rows->step());
}

TEST(SqliteTest, EmptyTextAndBlobAreNotNull) {
  const auto connection = memory();
  auto rows = connection->query("SELECT ?, ?", std::string_view(), Blob{});
  ASSERT_TRUE(*rows->step());
  EXPECT_FALSE(rows->is_null(0));
  EXPECT_FALSE(rows->is_null(1));
}

TEST(SqliteTest, HashesSortAsTheirHexadecimalDigitsDo) {
  const auto connection = memory();
  const Hash128 hash{0x0123456789abcdef, 0xfedcba9876543210};
  auto rows = connection->query("SELECT lower(hex(?))", hash);
  ASSERT_TRUE(*rows->step());
  EXPECT_EQ(rows->bytes(0), hash.hex());
}

TEST(SqliteTest, AStatementInUseIsNotHandedOutTwice) {
  const auto connection = memory();
  const std::string sql = "SELECT value FROM (SELECT 1 AS value UNION ALL SELECT 2)";
  auto outer = connection->prepare(sql);
  ASSERT_TRUE(*outer->step());
  auto inner = connection->prepare(sql);
  ASSERT_TRUE(*inner->step());
  EXPECT_EQ(inner->integer(0), 1);
  ASSERT_TRUE(*outer->step());
  EXPECT_EQ(outer->integer(0), 2);
}

TEST(SqliteTest, ABorrowedStatementStartsAfresh) {
  const auto connection = memory();
  EXPECT_OK(connection->execute("INSERT INTO thing VALUES (1, ?)", "x"));
  {
    auto half_read = connection->query("SELECT ? FROM thing", "first");
    ASSERT_TRUE(*half_read->step());
  }
  auto rows = connection->prepare("SELECT ? FROM thing");
  ASSERT_TRUE(*rows->step());
  EXPECT_TRUE(rows->is_null(0)) << "its bindings are gone";
}

TEST(SqliteTest, ATransactionEndsAsItWasTold) {
  const auto connection = memory();
  {
    auto transaction = Transaction::begin(*connection, Transaction::Kind::write);
    ASSERT_OK(transaction);
    EXPECT_EQ(*connection->execute("INSERT INTO thing VALUES (1, 'a'), (2, 'b')"), 2);
  }
  EXPECT_EQ(*connection->integer("SELECT count(*) FROM thing"), 0);
  {
    auto transaction = Transaction::begin(*connection, Transaction::Kind::write);
    EXPECT_OK(connection->execute("INSERT INTO thing VALUES (1, 'a')"));
    ASSERT_OK(transaction->commit());
  }
  EXPECT_EQ(*connection->integer("SELECT count(*) FROM thing"), 1);
  EXPECT_FALSE(connection->in_transaction());
}

TEST(SqliteTest, ErrorsHaveTheirKindAndTheStatement) {
  const auto connection = memory();
  EXPECT_OK(connection->execute("INSERT INTO thing VALUES (1, 'a')"));
  expect_error(connection->execute("INSERT INTO thing VALUES (1, 'b')"), ErrorKind::already_exists,
               "INSERT INTO thing");
  expect_error(connection->execute("INSERT INTO thing VALUES (2, 'a')"), ErrorKind::already_exists, "thing.value");
  expect_error(connection->execute("INSERT INTO thing VALUES ('x', 'c')"), ErrorKind::invalid_argument,
               "datatype mismatch");
  expect_error(connection->execute("SELECT nonsense"), ErrorKind::internal, "nonsense");
  expect_error(connection->integer("SELECT id FROM thing WHERE id = 9"), ErrorKind::not_found, "no row");
  expect_error(connection->query("SELECT 1", 5).value().step(), ErrorKind::internal, "column index out of range");
  expect_error(connection->prepare("  -- nothing"), ErrorKind::internal, "not a statement");
}

TEST(SqliteTest, KindsOfResultCodes) {
  struct Case {
    int code;
    ErrorKind kind;
  };
  const Case cases[] = {
      {SQLITE_FULL, ErrorKind::resource_exhausted},
      {SQLITE_TOOBIG, ErrorKind::resource_exhausted},
      {SQLITE_IOERR_NOMEM, ErrorKind::resource_exhausted},
      {SQLITE_BUSY, ErrorKind::timeout},
      {SQLITE_BUSY_SNAPSHOT, ErrorKind::timeout},
      {SQLITE_CORRUPT, ErrorKind::corrupt},
      {SQLITE_CORRUPT_INDEX, ErrorKind::corrupt},
      {SQLITE_NOTADB, ErrorKind::corrupt},
      {SQLITE_IOERR_FSYNC, ErrorKind::io},
      {SQLITE_READONLY_DBMOVED, ErrorKind::io},
      {SQLITE_CANTOPEN, ErrorKind::io},
      {SQLITE_CONSTRAINT_UNIQUE, ErrorKind::already_exists},
      {SQLITE_CONSTRAINT_PRIMARYKEY, ErrorKind::already_exists},
      {SQLITE_CONSTRAINT_CHECK, ErrorKind::invalid_argument},
      {SQLITE_CONSTRAINT_FOREIGNKEY, ErrorKind::invalid_argument},
      {SQLITE_MISUSE, ErrorKind::internal},
  };
  for (const Case& c : cases) EXPECT_EQ(to_string(kind_of(c.code)), to_string(c.kind)) << c.code;
}

TEST(SqliteTest, ValuesThatCannotBeAreCorruptAndNamed) {
  const auto connection = memory();
  auto rows = connection->query("SELECT 'short' AS hash, 'nonsense' AS label, 7");
  ASSERT_TRUE(*rows->step());
  Row row(*rows, "plan");
  EXPECT_EQ(row.hash(), Hash128{});
  EXPECT_EQ(row.word(label_of), Label{});
  EXPECT_EQ(row.integer(), 7) << "reading goes on";
  expect_error(row.status(), ErrorKind::corrupt, "plan: column hash holds 5 bytes where a hash has 16");
}

TEST(SqliteTest, PathsAreNeverTakenForUris) {
  const TestFolder folder;
  for (const char* name : {"file:odd?mode=memory", "per%41cent", "sp ace#hash?"}) {
    OpenOptions options;
    options.path = folder / name;
    options.mode = OpenOptions::Mode::create;
    {
      auto connection = Connection::open(options);
      ASSERT_OK(connection);
      EXPECT_OK((*connection)->run_script("CREATE TABLE t (x)"));
    }
    EXPECT_TRUE(std::filesystem::exists(options.path)) << name;
    options.mode = OpenOptions::Mode::immutable;
    auto reader = Connection::open(options);
    ASSERT_OK(reader);
    EXPECT_EQ(*(*reader)->integer("SELECT count(*) FROM t"), 0) << name;
  }
}

}  // namespace
}  // namespace stitch::db::sqlite
