#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "base/result.h"
#include "base/sha256.h"

struct sqlite3;
struct sqlite3_stmt;

// A thin, owning layer over SQLite's C interface: connections, cached prepared statements, transactions. It knows
// nothing of the tables.
namespace stitch::db::sqlite {

/// What an SQLite result code means for a caller: FULL, NOMEM, TOOBIG → resource_exhausted; BUSY, LOCKED → timeout;
/// CORRUPT, NOTADB → corrupt; IOERR, CANTOPEN, READONLY, PERM, AUTH → io; unique and primary keys → already_exists;
/// other constraints, MISMATCH → invalid_argument; INTERRUPT → cancelled; anything else → internal.
ErrorKind kind_of(int extended_code);

struct OpenOptions {
  std::filesystem::path path;
  enum class Mode : std::uint8_t {
    immutable,  ///< read-only, nobody writes: no locks, no side files
    read_only,
    read_write,
    create,  ///< read_write; makes the file when it is missing
  } mode = Mode::read_write;
  int busy_timeout_ms = 0;
  std::int64_t max_pages = 0;  ///< 0: no limit of ours
  std::string vfs;             ///< empty: the default
};

/// Bytes that are bound as a BLOB, not as text.
struct Blob {
  std::string_view bytes;
};

class Connection;

/// A prepared statement, borrowed from its connection's cache and given back, reset, on destruction. Parameters are
/// bound in order. Binding errors are kept and returned by the next step.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  void bind(std::int64_t value);
  void bind(int value) { bind(static_cast<std::int64_t>(value)); }
  void bind(bool value) { bind(static_cast<std::int64_t>(value)); }
  void bind(double value);
  void bind(std::string_view text);
  void bind(const std::string& text) { bind(std::string_view(text)); }
  void bind(const char* text) { bind(std::string_view(text)); }
  void bind(Blob blob);
  void bind(const Hash128& hash);  ///< 16 bytes, most significant first
  void bind(const Sha256& name);   ///< 32 bytes
  void bind(std::nullopt_t);
  template <class T>
  void bind(const std::optional<T>& value) {
    value ? bind(*value) : bind(std::nullopt);
  }

  /// True: a row is there. False: done.
  Result<bool> step();
  /// Steps to the end, ignoring rows.
  Status run();

  [[nodiscard]] std::string column_name(int column) const;
  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double real(int column) const;
  /// Text or blob; valid until the next step.
  [[nodiscard]] std::string_view bytes(int column) const;

 private:
  friend class Connection;
  Statement(Connection& connection, sqlite3_stmt* handle, bool* borrowed)
      : connection_(&connection), handle_(handle), borrowed_(borrowed) {}
  void note(int code);

  Connection* connection_;
  sqlite3_stmt* handle_;
  bool* borrowed_;  ///< the cache's mark; null for a statement that is not in the cache
  int next_ = 1;
  int bind_code_ = 0;
};

/// One connection; to be used by one thread at a time. Foreign keys on, synchronous=FULL, untrusted schema, defensive,
/// no checkpoint on close when read-only.
class Connection {
 public:
  static Result<std::unique_ptr<Connection>> open(const OpenOptions& options);
  /// A private database in memory.
  static Result<std::unique_ptr<Connection>> open_memory();
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Statements are cached by their text; `sql` is one statement.
  Result<Statement> prepare(std::string_view sql);

  /// prepare and bind.
  template <class... Arguments>
  Result<Statement> query(std::string_view sql, const Arguments&... arguments) {
    Result<Statement> statement = prepare(sql);
    if (statement) (statement->bind(arguments), ...);
    return statement;
  }
  /// prepare, bind and run; returns the number of rows changed.
  template <class... Arguments>
  Result<std::int64_t> execute(std::string_view sql, const Arguments&... arguments) {
    STITCH_ASSIGN(Statement statement, query(sql, arguments...));
    STITCH_TRY(statement.run());
    return changes();
  }
  /// Whether the query has a row.
  template <class... Arguments>
  Result<bool> exists(std::string_view sql, const Arguments&... arguments) {
    STITCH_ASSIGN(Statement statement, query(sql, arguments...));
    return statement.step();
  }
  /// The first column of the first row, as an integer; not_found when there is no row.
  template <class... Arguments>
  Result<std::int64_t> integer(std::string_view sql, const Arguments&... arguments) {
    STITCH_ASSIGN(Statement statement, query(sql, arguments...));
    return first_integer(statement, sql);
  }

  /// The header of the write-ahead log's index, in memory that is shared with all who have the database open; there for
  /// as long as the connection is. A statement must have been run before. Error: io when there is no such memory.
  Result<const volatile std::uint32_t*> log_index();

  /// Runs a script of statements without parameters.
  Status run_script(const std::string& sql);

  [[nodiscard]] std::int64_t changes() const;
  [[nodiscard]] std::int64_t last_row() const;
  [[nodiscard]] bool in_transaction() const;
  [[nodiscard]] const std::string& path() const { return path_; }
  /// The error of the last call, seen as `doing`.
  [[nodiscard]] Error error(int code, std::string_view doing) const;

 private:
  friend class Statement;
  Connection(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  Status configure(const OpenOptions& options);
  static Result<std::int64_t> first_integer(Statement& statement, std::string_view sql);

  struct Cached {
    sqlite3_stmt* handle = nullptr;
    bool borrowed = false;
  };
  sqlite3* handle_;
  std::string path_;
  std::unordered_map<std::string, Cached> cache_;  ///< its nodes stay where they are
};

/// A transaction that is rolled back unless it was committed.
class Transaction {
 public:
  enum class Kind : std::uint8_t { read, write };
  /// `write` takes the write lock at once, waiting up to the connection's busy timeout.
  static Result<Transaction> begin(Connection& connection, Kind kind);
  Transaction(Transaction&& other) noexcept : connection_(std::exchange(other.connection_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(Connection& connection) : connection_(&connection) {}
  Connection* connection_;
};

/// Reads the columns of a row one after the other. Values that cannot be what the schema says make it `corrupt`, to be
/// asked for once at the end; until then the readers return zeros.
class Row {
 public:
  /// `record` is what errors call it, `first` the column to begin with.
  Row(const Statement& statement, std::string_view record, int first = 0)
      : statement_(&statement), record_(record), column_(first) {}

  std::int64_t integer() { return statement_->integer(column_++); }
  int small() { return static_cast<int>(integer()); }
  bool flag() { return integer() != 0; }
  double real() { return statement_->real(column_++); }
  std::string text() { return std::string(statement_->bytes(column_++)); }
  std::string_view view() { return statement_->bytes(column_++); }  ///< valid until the next step
  Hash128 hash();
  Sha256 content_name();
  std::optional<Hash128> optional_hash();
  std::optional<double> optional_real();
  /// An enumeration by its text.
  template <class Enum>
  Enum word(std::optional<Enum> (*parse)(std::string_view)) {
    const std::string_view text = statement_->bytes(column_);
    const std::optional<Enum> value = parse(text);
    if (!value) fail(fmt::format("\"{}\" is no known word", text));
    ++column_;
    return value.value_or(Enum{});
  }
  bool next_is_null() { return statement_->is_null(column_); }
  void skip() { ++column_; }

  void fail(std::string_view what);
  [[nodiscard]] Status status() const;

 private:
  const Statement* statement_;
  std::string_view record_;
  int column_;
  std::optional<Error> error_;
};

}  // namespace stitch::db::sqlite
