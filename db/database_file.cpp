#include "db/database_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "db/migrations.h"

namespace stitch::db {
namespace {

using sqlite::Connection;
using sqlite::OpenOptions;
using Mode = OpenOptions::Mode;
namespace fs = std::filesystem;

Error system_error(std::string_view what, const fs::path& path, int code) {
  return make_error(code == ENOENT ? ErrorKind::not_found : ErrorKind::io, "cannot {} {}: {}", what, path.string(),
                    std::strerror(code));
}

bool has_log(const fs::path& database) {
  std::error_code code;
  const auto size = fs::file_size(log_path(database), code);
  return !code && size > 0;
}

OpenOptions with_mode(OpenOptions options, Mode mode) {
  options.mode = mode;
  return options;
}

/// What the first bytes of the file say; SQLite is not asked before this looks right.
struct Header {
  std::int32_t application = 0;
  std::int32_t version = 0;
};

Result<Header> read_header(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error("open", path, errno);
  struct stat status {};
  std::array<unsigned char, 100> bytes{};
  const bool seen = ::fstat(fd, &status) == 0;
  const ssize_t got = seen && S_ISREG(status.st_mode) ? ::pread(fd, bytes.data(), bytes.size(), 0) : 0;
  const int code = errno;
  ::close(fd);
  if (!seen || got < 0) return system_error("read", path, code);
  if (!S_ISREG(status.st_mode)) return make_error(ErrorKind::io, "{} is not a regular file", path.string());
  if (got == 0)
    return make_error(ErrorKind::corrupt, "{} is empty, not a Stitch database (remove it to start a new one)",
                      path.string());
  constexpr std::string_view magic("SQLite format 3\0", 16);
  if (static_cast<std::size_t>(got) < bytes.size() || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
    return make_error(ErrorKind::corrupt, "{} is not an SQLite database", path.string());
  const auto word = [&](std::size_t at) {
    return static_cast<std::int32_t>(std::uint32_t{bytes[at]} << 24 | std::uint32_t{bytes[at + 1]} << 16 |
                                     std::uint32_t{bytes[at + 2]} << 8 | std::uint32_t{bytes[at + 3]});
  };
  // What is missing at the end may be in the log. Where there is none, SQLite itself misses only pages that are in use.
  const std::int64_t page_bytes = bytes[16] << 8 | bytes[17], wanted = std::int64_t{word(28)} * page_bytes;
  if (wanted > status.st_size && !has_log(path))
    return make_error(ErrorKind::corrupt, "{} is cut short: {} bytes of {}", path.string(), status.st_size, wanted);
  return Header{word(68), word(60)};
}

Status check_header(const Header& header, const fs::path& path) {
  if (header.application != application_id)
    return make_error(ErrorKind::corrupt, "{} is an SQLite database, but not one of Stitch (application id {:#x})",
                      path.string(), static_cast<std::uint32_t>(header.application));
  if (header.version > schema_version())
    return make_error(ErrorKind::version_mismatch,
                      "{} has schema version {}, written by a newer Stitch; this one reads up to {}", path.string(),
                      header.version, schema_version());
  return {};
}

Status quick_check(Connection& connection) {
  STITCH_ASSIGN(sqlite::Statement rows, connection.query("PRAGMA quick_check(1)"));
  STITCH_ASSIGN(const bool found, rows.step());
  const std::string_view verdict = found ? rows.bytes(0) : "no answer";
  if (verdict == "ok") return {};
  return make_error(ErrorKind::corrupt, "{} is damaged: {}", connection.path(), verdict);
}

/// The same questions again, of the database as its log has it.
Result<int> inspect_contents(Connection& connection, bool check) {
  STITCH_ASSIGN(const std::int64_t application, connection.integer("PRAGMA application_id"));
  STITCH_ASSIGN(const std::int64_t version, connection.integer("PRAGMA user_version"));
  const Header header{static_cast<std::int32_t>(application), static_cast<std::int32_t>(version)};
  STITCH_TRY(check_header(header, connection.path()));
  if (version < 1)
    return make_error(ErrorKind::corrupt, "{} has the impossible schema version {}", connection.path(), version);
  if (check) STITCH_TRY(quick_check(connection));
  STITCH_TRY(check_schema(connection, header.version));
  return header.version;
}

/// Whatever SQLite finds odd in a file that it can open is damage, to whoever wanted a database.
Error as_damage(const Error& error, const fs::path& path) {
  if (error.kind != ErrorKind::internal && error.kind != ErrorKind::not_found) return error;
  return make_error(ErrorKind::corrupt, "{} is damaged: {}", path.string(), error.message);
}

Status sync(const fs::path& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) return system_error("open", path, errno);
  const bool done = ::fsync(fd) == 0;
  const int code = errno;
  ::close(fd);
  if (!done) return system_error("sync", path, code);
  return {};
}

Status build(const OpenOptions& options, std::int64_t now_us) {
  STITCH_ASSIGN(const std::unique_ptr<Connection> connection, Connection::open(options));
  // Nobody knows of the file yet: it is synced once, before it is moved into place.
  STITCH_TRY(connection->run_script(
      fmt::format("PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY; PRAGMA application_id={}", application_id)));
  STITCH_TRY(migrate(*connection, migrations(), now_us));
  // Steps leave pages behind that nothing is on; without them a file that was cut short is seen to be.
  STITCH_TRY(connection->run_script("VACUUM"));
  // Last: the mode is part of the file, and every later connection finds it there.
  return connection->run_script("PRAGMA journal_mode=WAL");
}

/// Moves `from` to `to` unless something is there already, which is as good.
Status move_into_place(const fs::path& from, const fs::path& to) {
  if (::link(from.c_str(), to.c_str()) == 0 || errno == EEXIST) return {};
  if (errno != EPERM && errno != ENOTSUP) return system_error("create", to, errno);
  // A file system without hard links.
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0 || errno == EEXIST) return {};
  return system_error("create", to, errno);
}

void remove_with_side_files(const fs::path& path) {
  std::error_code ignored;
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) fs::remove(path.string() + suffix, ignored);
}

}  // namespace

fs::path log_path(const fs::path& database) { return database.string() + "-wal"; }

Status create_database(const OpenOptions& options, std::int64_t now_us) {
  static std::atomic<unsigned> counter{0};
  std::error_code code;
  const fs::path path = fs::absolute(options.path, code);
  const fs::path folder = path.parent_path();
  fs::create_directories(folder, code);
  if (code) return make_error(ErrorKind::io, "cannot create folder {}: {}", folder.string(), code.message());
  if (has_log(path))
    return make_error(ErrorKind::corrupt, "{} is missing, but its log {} is there: restore the database or remove it",
                      path.string(), log_path(path).string());

  OpenOptions building = with_mode(options, Mode::create);
  building.path = folder / fmt::format(".{}.{}.{}.new", path.filename().string(), ::getpid(), counter++);
  Status status = build(building, now_us);
  if (status) status = sync(building.path, O_RDWR);
  if (status) status = move_into_place(building.path, path);
  remove_with_side_files(building.path);
  if (status) status = sync(folder, O_RDONLY | O_DIRECTORY);
  return status;
}

Result<std::unique_ptr<Connection>> open_reader(const OpenOptions& options) {
  auto opened = Connection::open(with_mode(options, Mode::read_only));
  if (opened) {
    const auto read = (*opened)->integer("PRAGMA schema_version");
    if (read) return opened;
    if (read.error().kind != ErrorKind::io || has_log(options.path)) return read.error();
  } else if (opened.error().kind != ErrorKind::io || has_log(options.path)) {
    return opened;
  }
  return Connection::open(with_mode(options, Mode::immutable));
}

Result<int> inspect_database(const OpenOptions& options, bool check) {
  constexpr int most_looks = 3;
  for (int look = 1;; ++look) {
    STITCH_ASSIGN(const Header header, read_header(options.path));
    STITCH_TRY(check_header(header, options.path));
    std::error_code ignored;
    // Without a log nobody has the file open, and looking at it as immutable leaves nothing behind.
    const bool quiet = !fs::exists(log_path(options.path), ignored);
    const auto written = fs::last_write_time(options.path, ignored);
    auto connection = quiet ? Connection::open(with_mode(options, Mode::immutable)) : open_reader(options);
    Result<int> version = connection ? inspect_contents(**connection, check) : Result<int>(connection.error());
    if (version) return version;
    // Unless somebody opened it just now: then what we saw may have been half of a change.
    const bool disturbed =
        quiet && (fs::exists(log_path(options.path), ignored) || fs::last_write_time(options.path, ignored) != written);
    if (!disturbed || look == most_looks) return as_damage(version.error(), options.path);
  }
}

}  // namespace stitch::db
