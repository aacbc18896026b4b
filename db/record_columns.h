#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "db/record_fields.h"
#include "db/sqlite.h"

// The archives for tables: a record's fields (db/record_fields.h) as columns, as values of an INSERT, and out of a row.
// A record within a record is its columns, a Target the row of table `target` (alias `t` in a SELECT), a list of
// records a table of its own.
namespace stitch::db {

/// Names of the columns of a Record's table.
class Columns {
 public:
  enum class Purpose : std::uint8_t { select, insert };
  template <class Record>
  static Columns of(Purpose purpose, std::string_view prefix = {}) {
    Columns columns(purpose, prefix);
    const Record record{};
    visit_fields(columns, record);
    return columns;
  }

  /// "kind, name, …"
  [[nodiscard]] std::string list() const;
  /// "?, ?, …"
  [[nodiscard]] std::string places() const;
  /// "kind = ?, name = ?, …"
  [[nodiscard]] std::string settings() const;
  /// "kind = excluded.kind, …": for an INSERT of what is known already.
  [[nodiscard]] std::string replacements() const;
  /// Selects `expression` where the column would stand.
  Columns& instead_of(std::string_view column, std::string expression);

  template <class T, class... Notes>
  Columns& operator()(std::string_view name, const T& value, const Notes&... notes) {
    if constexpr ((std::same_as<Notes, Apart> || ...)) return *this;
    if ((std::same_as<Notes, Counted> || ...) && purpose_ == Purpose::insert) return *this;
    ((name = column_of(name, notes)), ...);
    add(name, value);
    return *this;
  }
  template <class... Notes>
  Columns& bytes(std::string_view name, const std::string& value, const Notes&... notes) {
    return (*this)(name, value, notes...);
  }
  template <class T, class... Notes>
  Columns& stored(std::string_view name, const T& value, const Notes&... notes) {
    return (*this)(name, value, notes...);
  }

 private:
  Columns(Purpose purpose, std::string_view prefix) : purpose_(purpose), prefix_(prefix) {}

  static std::string_view column_of(std::string_view, const Column& column) { return column.name; }
  template <class Note>
  static std::string_view column_of(std::string_view name, const Note&) {
    return name;
  }
  void add(std::string_view name, const Target& target);
  void add(std::string_view name, const std::optional<Error>& error);
  template <class T>
  void add(std::string_view name, const T& value) {
    if constexpr (graph::fields::Record<T>) {
      visit_fields(*this, value);
    } else {
      names_.push_back(prefix_ + std::string(name));
    }
  }
  template <graph::fields::Record T>
  void add(std::string_view, const std::vector<T>&) {}

  Purpose purpose_;
  std::string prefix_;
  std::vector<std::string> names_;
};

/// Binds a record's values to a statement, in the order of Columns::of<Record>(insert).
class Binder {
 public:
  Binder(sqlite::Statement& statement, std::int64_t target_row) : statement_(statement), target_row_(target_row) {}

  template <class T, class... Notes>
  Binder& operator()(std::string_view, const T& value, const Notes&...) {
    constexpr bool left_out = ((std::same_as<Notes, Apart> || std::same_as<Notes, Counted>) || ...);
    if constexpr (!left_out) bind(value);
    return *this;
  }
  template <class... Notes>
  Binder& bytes(std::string_view name, const std::string& value, const Notes&... notes) {
    return (*this)(name, sqlite::Blob{value}, notes...);
  }
  template <class T, class... Notes>
  Binder& stored(std::string_view name, const T& value, const Notes&... notes) {
    return (*this)(name, value, notes...);
  }

 private:
  void bind(const Target&) { statement_.bind(target_row_); }
  void bind(std::uint64_t value);
  void bind(const std::vector<double>& samples);
  void bind(const std::optional<Error>& error);
  template <class T>
  void bind(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      statement_.bind(to_string(value));
    } else if constexpr (graph::fields::Record<T>) {
      visit_fields(*this, value);
    } else {
      statement_.bind(value);
    }
  }
  template <graph::fields::Record T>
  void bind(const std::vector<T>&) {}

  sqlite::Statement& statement_;
  std::int64_t target_row_;
};

/// Reads a record out of a row that was selected by Columns::of<Record>(select).
class RowReader {
 public:
  explicit RowReader(sqlite::Row& row) : row_(row) {}

  template <class T, class... Notes>
  RowReader& operator()(std::string_view, T& into, const Notes&...) {
    if constexpr (!(std::same_as<Notes, Apart> || ...)) read(into);
    return *this;
  }
  template <class... Notes>
  RowReader& bytes(std::string_view name, std::string& into, const Notes&... notes) {
    return (*this)(name, into, notes...);
  }
  template <class T, class... Notes>
  RowReader& stored(std::string_view name, T& into, const Notes&... notes) {
    return (*this)(name, into, notes...);
  }

 private:
  void read(bool& into) { into = row_.flag(); }
  void read(int& into) { into = row_.small(); }
  void read(std::int64_t& into) { into = row_.integer(); }
  void read(std::uint64_t& into);
  void read(double& into) { into = row_.real(); }
  void read(std::string& into) { into = row_.text(); }
  void read(Hash128& into) { into = row_.hash(); }
  void read(Sha256& into) { into = row_.content_name(); }
  void read(std::optional<double>& into) { into = row_.optional_real(); }
  void read(std::optional<Hash128>& into) { into = row_.optional_hash(); }
  void read(std::optional<Error>& into);
  void read(std::vector<double>& samples);
  template <class T>
  void read(T& into) {
    if constexpr (std::is_enum_v<T>) {
      into = row_.word(graph::fields::value_named<T>);
    } else {
      visit_fields(*this, into);
    }
  }
  template <graph::fields::Record T>
  void read(std::vector<T>&) {}

  sqlite::Row& row_;
};

/// An INSERT of one record.
struct Insertion {
  std::string_view table;
  std::int64_t target = 0;                          ///< row of the record's Target, if it has one
  std::vector<std::string_view> more_columns = {};  ///< whose values follow those of the record
  std::string then = {};                            ///< "ON CONFLICT …", "RETURNING …"
};

/// The statement, bound and not run yet. `more`: values of the columns that are not among the record's fields.
template <class Record, class... More>
Result<sqlite::Statement> insertion(sqlite::Connection& connection, const Insertion& how, const Record& record,
                                    const More&... more) {
  static const Columns columns = Columns::of<Record>(Columns::Purpose::insert);
  std::string names = columns.list();
  std::string places = columns.places();
  for (const std::string_view column : how.more_columns) {
    names += fmt::format(", {}", column);
    places += ", ?";
  }
  STITCH_ASSIGN(sqlite::Statement statement, connection.prepare(fmt::format("INSERT INTO {} ({}) VALUES ({}) {}",
                                                                            how.table, names, places, how.then)));
  Binder binder(statement, how.target);
  visit_fields(binder, record);
  (statement.bind(more), ...);
  return statement;
}

/// Runs the INSERT; returns whether there is a row more.
template <class Record, class... More>
Result<bool> insert(sqlite::Connection& connection, const Insertion& how, const Record& record, const More&... more) {
  STITCH_ASSIGN(sqlite::Statement statement, insertion(connection, how, record, more...));
  STITCH_TRY(statement.run());
  return connection.changes() > 0;
}

/// "key, kind, …", each column behind `prefix` ("p.").
template <class Record>
std::string columns_of(std::string_view prefix = {}) {
  return Columns::of<Record>(Columns::Purpose::select, prefix).list();
}

/// Reads the columns of a Record, from where the row stands.
template <class Record>
void read_fields(sqlite::Row& row, Record& into) {
  RowReader reader(row);
  visit_fields(reader, into);
}

/// The record in the current row; `name` is what errors call it. Its columns begin at `first`.
template <class Record>
Result<Record> read_record(const sqlite::Statement& rows, std::string_view name, int first = 0) {
  sqlite::Row row(rows, name, first);
  Record record;
  read_fields(row, record);
  STITCH_TRY(row.status());
  return record;
}

/// All rows of a query whose columns are those of a Record.
template <class Record>
Result<std::vector<Record>> read_records(sqlite::Statement& rows, std::string_view name) {
  std::vector<Record> records;
  while (true) {
    STITCH_ASSIGN(const bool more, rows.step());
    if (!more) return records;
    STITCH_ASSIGN(Record record, read_record<Record>(rows, name));
    records.push_back(std::move(record));
  }
}

}  // namespace stitch::db
