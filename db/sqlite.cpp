#include "db/sqlite.h"

#include <sqlite3.h>

#include <utility>

namespace stitch::db::sqlite {
namespace {

constexpr int most_value_bytes = 512 << 20;
constexpr int least_version = 3037000;  // STRICT tables

std::string shortened(std::string_view sql) {
  std::string text;
  for (const char c : sql) {
    const bool space = c == ' ' || c == '\n';
    if (space && (text.empty() || text.back() == ' ')) continue;
    text += space ? ' ' : c;
  }
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

/// The path as a URI that says nobody else writes.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
                       c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri + "?immutable=1";
}

int open_flags(OpenOptions::Mode mode) {
  switch (mode) {
    case OpenOptions::Mode::immutable: return SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
    case OpenOptions::Mode::read_only: return SQLITE_OPEN_READONLY;
    case OpenOptions::Mode::read_write: return SQLITE_OPEN_READWRITE;
    case OpenOptions::Mode::create: return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  }
  return SQLITE_OPEN_READONLY;
}

}  // namespace

ErrorKind kind_of(int extended_code) {
  switch (extended_code) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID: return ErrorKind::already_exists;
    case SQLITE_IOERR_NOMEM: return ErrorKind::resource_exhausted;
    case SQLITE_IOERR_CORRUPTFS: return ErrorKind::corrupt;
    default: break;
  }
  switch (extended_code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG: return ErrorKind::resource_exhausted;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return ErrorKind::timeout;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return ErrorKind::corrupt;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return ErrorKind::io;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH: return ErrorKind::invalid_argument;
    case SQLITE_INTERRUPT: return ErrorKind::cancelled;
    default: return ErrorKind::internal;
  }
}

// ---- Statement

Statement::Statement(Statement&& other) noexcept
    : connection_(other.connection_),
      handle_(std::exchange(other.handle_, nullptr)),
      borrowed_(other.borrowed_),
      next_(other.next_),
      bind_code_(other.bind_code_) {}

Statement::~Statement() {
  if (!handle_) return;
  if (borrowed_) {
    sqlite3_reset(handle_);  // its code repeats what step returned
    sqlite3_clear_bindings(handle_);
    *borrowed_ = false;
  } else {
    sqlite3_finalize(handle_);
  }
}

void Statement::note(int code) {
  if (bind_code_ == SQLITE_OK) bind_code_ = code;
}

void Statement::bind(std::int64_t value) { note(sqlite3_bind_int64(handle_, next_++, value)); }
void Statement::bind(double value) { note(sqlite3_bind_double(handle_, next_++, value)); }
void Statement::bind(std::nullopt_t) { note(sqlite3_bind_null(handle_, next_++)); }

void Statement::bind(std::string_view text) {
  const char* data = text.data() ? text.data() : "";  // a null pointer would bind NULL
  note(sqlite3_bind_text64(handle_, next_++, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Statement::bind(Blob blob) {
  const char* data = blob.bytes.data() ? blob.bytes.data() : "";
  note(sqlite3_bind_blob64(handle_, next_++, data, blob.bytes.size(), SQLITE_TRANSIENT));
}

void Statement::bind(const Hash128& hash) {
  char bytes[16];
  for (int i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>(hash.high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<char>(hash.low >> (56 - 8 * i));
  }
  bind(Blob{{bytes, sizeof bytes}});
}

void Statement::bind(const Sha256& name) {
  bind(Blob{{reinterpret_cast<const char*>(name.octets.data()), Sha256::size}});
}

Result<bool> Statement::step() {
  if (bind_code_ != SQLITE_OK) return connection_->error(bind_code_, sqlite3_sql(handle_));
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return connection_->error(code, sqlite3_sql(handle_));
}

Status Statement::run() {
  while (true) {
    STITCH_ASSIGN(const bool row, step());
    if (!row) return {};
  }
}

std::string Statement::column_name(int column) const {
  const char* name = sqlite3_column_name(handle_, column);
  return name ? name : "";
}
bool Statement::is_null(int column) const { return sqlite3_column_type(handle_, column) == SQLITE_NULL; }
std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }
double Statement::real(int column) const { return sqlite3_column_double(handle_, column); }

std::string_view Statement::bytes(int column) const {
  const void* data = sqlite3_column_blob(handle_, column);  // text comes as its UTF-8 bytes
  const int size = sqlite3_column_bytes(handle_, column);
  return data ? std::string_view(static_cast<const char*>(data), size) : std::string_view();
}

// ---- Connection

Result<std::unique_ptr<Connection>> Connection::open(const OpenOptions& options) {
  if (sqlite3_libversion_number() < least_version)
    return make_error(ErrorKind::unsupported, "SQLite {} is too old: 3.37 or newer is needed", sqlite3_libversion());
  std::error_code ignored;
  // Absolute, because Debian's SQLite would take a relative "file:…" for a URI.
  const std::string path = std::filesystem::absolute(options.path, ignored).string();
  const std::string name = options.mode == OpenOptions::Mode::immutable ? immutable_uri(path) : path;
  sqlite3* handle = nullptr;
  const int flags = open_flags(options.mode) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags, options.vfs.empty() ? nullptr : options.vfs.c_str());
  std::unique_ptr<Connection> connection(new Connection(handle, path));
  if (code != SQLITE_OK) return connection->error(code, "open");
  STITCH_TRY(connection->configure(options));
  return connection;
}

Result<std::unique_ptr<Connection>> Connection::open_memory() {
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(":memory:", &handle, flags, nullptr);
  std::unique_ptr<Connection> connection(new Connection(handle, ":memory:"));
  if (code != SQLITE_OK) return connection->error(code, "open");
  return connection;
}

Status Connection::configure(const OpenOptions& options) {
  sqlite3_busy_timeout(handle_, options.busy_timeout_ms);
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, most_value_bytes);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_FKEY, 1, nullptr);
  const bool writes = options.mode == OpenOptions::Mode::read_write || options.mode == OpenOptions::Mode::create;
  // A reader that happens to be the last to close must not write the log back into the file.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, writes ? 0 : 1, nullptr);
  std::string script = "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16384;";
  if (writes) script += "PRAGMA synchronous=FULL; PRAGMA journal_size_limit=67108864;";
  if (options.max_pages > 0) script += fmt::format("PRAGMA max_page_count={};", options.max_pages);
  return run_script(script);
}

Connection::~Connection() {
  for (auto& [sql, cached] : cache_) sqlite3_finalize(cached.handle);
  sqlite3_close_v2(handle_);
}

Result<Statement> Connection::prepare(std::string_view sql) {
  std::string key(sql);
  const auto found = cache_.find(key);
  if (found != cache_.end() && !found->second.borrowed) {
    found->second.borrowed = true;
    return Statement(*this, found->second.handle, &found->second.borrowed);
  }
  const bool cache = found == cache_.end();  // the cached one is in use further out: make one for once
  sqlite3_stmt* handle = nullptr;
  const int code =
      sqlite3_prepare_v3(handle_, key.c_str(), key.size() + 1, cache ? SQLITE_PREPARE_PERSISTENT : 0, &handle, nullptr);
  if (code != SQLITE_OK) return error(code, sql);
  if (!handle) return make_error(ErrorKind::internal, "not a statement: {}", shortened(sql));
  if (!cache) return Statement(*this, handle, nullptr);
  Cached& cached = cache_[std::move(key)] = {handle, true};
  return Statement(*this, handle, &cached.borrowed);
}

Result<std::int64_t> Connection::first_integer(Statement& statement, std::string_view sql) {
  STITCH_ASSIGN(const bool row, statement.step());
  if (!row) return make_error(ErrorKind::not_found, "no row: {}", shortened(sql));
  return statement.integer(0);
}

Status Connection::run_script(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code, sql);
  return {};
}

std::int64_t Connection::changes() const { return sqlite3_changes64(handle_); }
std::int64_t Connection::last_row() const { return sqlite3_last_insert_rowid(handle_); }
bool Connection::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

Result<const volatile std::uint32_t*> Connection::log_index() {
  constexpr int region_bytes = 32 * 1024;  // as SQLite maps it
  constexpr std::string_view doing = "map the log's index";
  sqlite3_file* file = nullptr;
  if (const int code = sqlite3_file_control(handle_, "main", SQLITE_FCNTL_FILE_POINTER, &file); code != SQLITE_OK)
    return error(code, doing);
  if (file == nullptr || file->pMethods == nullptr || file->pMethods->iVersion < 2)
    return make_error(ErrorKind::io, "{}: this file system shares no memory", path_);
  volatile void* region = nullptr;
  if (const int code = file->pMethods->xShmMap(file, 0, region_bytes, 0, &region); code != SQLITE_OK)
    return error(code, doing);
  if (region == nullptr) return make_error(ErrorKind::io, "{}: its log has no index", path_);
  return static_cast<const volatile std::uint32_t*>(region);
}

Error Connection::error(int code, std::string_view doing) const {
  const int extended =
      handle_ && (sqlite3_extended_errcode(handle_) & 0xff) == (code & 0xff) ? sqlite3_extended_errcode(handle_) : code;
  const char* text = handle_ ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  return make_error(kind_of(extended), "{}: {} (SQLite {}, while: {})", path_, text, extended, shortened(doing));
}

// ---- Transaction

Result<Transaction> Transaction::begin(Connection& connection, Kind kind) {
  const Result<std::int64_t> begun = connection.execute(kind == Kind::write ? "BEGIN IMMEDIATE" : "BEGIN");
  if (!begun) return begun.error();
  return Transaction(connection);
}

Transaction::~Transaction() {
  // SQLite rolls back by itself after a full disk or an I/O error.
  if (connection_ && connection_->in_transaction()) (void)connection_->run_script("ROLLBACK");
}

Status Transaction::commit() {
  STITCH_TRY(connection_->execute("COMMIT"));
  connection_ = nullptr;
  return {};
}

// ---- Row

Hash128 Row::hash() {
  const std::string_view bytes = statement_->bytes(column_);
  Hash128 hash;
  if (bytes.size() != 16) {
    fail(fmt::format("holds {} bytes where a hash has 16", bytes.size()));
  } else {
    for (std::size_t i = 0; i < 8; ++i) {
      hash.high = hash.high << 8 | static_cast<unsigned char>(bytes[i]);
      hash.low = hash.low << 8 | static_cast<unsigned char>(bytes[8 + i]);
    }
  }
  ++column_;
  return hash;
}

Sha256 Row::content_name() {
  const std::string_view bytes = statement_->bytes(column_);
  const std::optional<Sha256> name = Sha256::from_bytes(bytes);
  if (!name) fail(fmt::format("holds {} bytes where a SHA-256 has {}", bytes.size(), Sha256::size));
  ++column_;
  return name.value_or(Sha256{});
}

std::optional<Hash128> Row::optional_hash() {
  if (!next_is_null()) return hash();
  skip();
  return std::nullopt;
}

std::optional<double> Row::optional_real() {
  if (!next_is_null()) return real();
  skip();
  return std::nullopt;
}

void Row::fail(std::string_view what) {
  if (!error_)
    error_ = make_error(ErrorKind::corrupt, "{}: column {} {}", record_, statement_->column_name(column_), what);
}

Status Row::status() const {
  if (error_) return *error_;
  return {};
}

}  // namespace stitch::db::sqlite
