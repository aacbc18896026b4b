#include "base/trace.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/tally.h"
#include "base/version.h"

namespace stitch::trace {
namespace {

constexpr const char* variable = "STITCH_TRACE";

/// The folder that is asked for now; empty: none.
std::string_view asked_folder() {
  const char* const folder = std::getenv(variable);
  return folder != nullptr ? folder : "";
}

/// The rank that a launcher gave this process, if it is a number.
std::string rank() {
  for (const char* const name : {"RANK", "LOCAL_RANK"}) {
    const char* const value = std::getenv(name);
    const std::string_view text = value != nullptr ? value : "";
    constexpr std::size_t most_digits = 9;
    const bool digits = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    if (!text.empty() && text.size() <= most_digits && digits) return std::string(text);
  }
  return {};
}

/// "python3 train.py", "stitch run": program and first word, without folders; options and what follows are not told.
std::string program() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  std::string told;
  std::size_t at = 0;
  for (int word = 0; word < 2 && at < line.size(); ++word) {
    const std::string text = line.substr(at, line.find('\0', at) - at);
    at += text.size() + 1;
    if (word > 0 && text.starts_with('-')) break;
    told += (word > 0 ? " " : "") + std::filesystem::path(text).filename().string();
  }
  return told;
}

std::string host() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

void warn(const std::string& path, int code) {
  std::fprintf(stderr, "stitch: %s: cannot write %s: %s; what follows is not traced\n", variable, path.c_str(),
               std::strerror(code));
}

/// This process's file in one folder. Never freed, since threads may come to write at any time; closed when another one
/// has taken its place and nobody is writing any more.
class File {
 public:
  /// `before`: the one that was in use, which other threads may be writing to.
  File(std::string_view folder, const File* before) : folder_(folder), process_(::getpid()), before_(before) { open(); }
  /// Whether it is the one of this process and this folder.
  [[nodiscard]] bool is_for(std::string_view folder) const { return folder_ == folder && process_ == ::getpid(); }
  /// Nobody but itself has written to it, and nobody will.
  void discard();
  void write(std::string_view name, std::int64_t at_us, std::int64_t took_us, std::string_view members);
  /// Another one has taken its place.
  void retire();
  /// Says so where it could not be begun.
  void say_why_none() const;

 private:
  void open();
  [[nodiscard]] std::string line(std::string_view name, std::int64_t at_us, std::int64_t took_us,
                                 std::string_view members) const;
  [[nodiscard]] std::string beginning() const;
  int append(std::string_view line);
  void close();

  const std::string folder_;
  const pid_t process_;
  [[maybe_unused]] const File* const before_;
  std::string path_;
  int why_none_ = 0;                             ///< the operating system's reason; 0: it was begun
  std::int64_t wall_us_ = 0, monotonic_us_ = 0;  ///< one moment by both clocks
  std::atomic<int> file_{-1};
  rlim_t most_bytes_ = RLIM_INFINITY;
  std::atomic<bool> usable_{false}, retired_{false};
  std::atomic<int> writing_{0};  ///< threads
  std::atomic<rlim_t> bytes_{0};
};

void File::open() {
  const SystemClock clock;
  wall_us_ = clock.wall_us();
  monotonic_us_ = clock.now_us();
  std::error_code code;
  std::filesystem::create_directories(folder_, code);
  const std::string rank_part = rank().empty() ? "" : "rank" + rank() + "-";
  // Another thread, or a process of another machine with this one's number, may have begun at the same moment.
  constexpr int most_attempts = 100;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const std::string name = fmt::format("stitch-{}{}-{}.jsonl", rank_part, process_, wall_us_ + attempt);
    path_ = (std::filesystem::path(folder_) / name).string();
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file_ >= 0 || errno != EEXIST) break;
  }
  why_none_ = file_ >= 0 ? 0 : code ? code.value() : errno;
  // Who writes beyond this is killed by a signal.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0) most_bytes_ = limit.rlim_cur;
  if (file_ >= 0) why_none_ = append(beginning());  // before anybody else can write
  usable_ = why_none_ == 0;
}

void File::discard() {
  if (file_ < 0) return;
  ::unlink(path_.c_str());
  close();
}

void File::close() {
  if (const int file = file_.exchange(-1); file >= 0) ::close(file);
}

void File::retire() {
  usable_ = false;
  retired_ = true;
  if (writing_ == 0) close();
}

std::string File::line(std::string_view name, std::int64_t at_us, std::int64_t took_us,
                       std::string_view members) const {
  std::string text = fmt::format(R"({{"event":{},"ts":{})", json_text(name), wall_us_ + (at_us - monotonic_us_));
  if (took_us >= 0) text += fmt::format(R"(,"dur":{})", took_us);
  return text + fmt::format(R"(,"tid":{}{}{}}})", ::syscall(SYS_gettid), members.empty() ? "" : ",", members) + '\n';
}

std::string File::beginning() const {
  const std::string of_rank = rank().empty() ? "" : fmt::format(R"(,"rank":{})", std::stoll(rank()));
  return line(
      "begin", monotonic_us_, -1,
      fmt::format(R"("format":"stitch-trace","version":1,"pid":{},"parent":{}{},"host":{},"program":{},"stitch":{})",
                  process_, ::getppid(), of_rank, json_text(host()), json_text(program()), json_text(tool_version)));
}

/// The operating system's reason; 0: it is there.
int File::append(std::string_view line) {
  if (most_bytes_ != RLIM_INFINITY && bytes_.fetch_add(line.size()) + line.size() > most_bytes_) return EFBIG;
  ssize_t written = 0;
  do {
    written = ::write(file_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) return errno;
  return written == std::ssize(line) ? 0 : ENOSPC;
}

void File::write(std::string_view name, std::int64_t at_us, std::int64_t took_us, std::string_view members) {
  const std::string text = usable_ ? line(name, at_us, took_us, members) : "";
  ++writing_;
  const int why_not = usable_ ? append(text) : 0;
  if (--writing_ == 0 && retired_) close();
  // What was written stays, and the program goes on without. Of a part of a line the rest cannot follow where others
  // write, too, and what came behind it would be read with it.
  if (why_not != 0 && usable_.exchange(false)) warn(path_, why_not);
}

void File::say_why_none() const {
  if (why_none_ != 0) warn(path_, why_none_);
}

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<File*> current{nullptr};
std::atomic<bool> ends_with_end{false};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

/// Of the process that ends, not of a child that another thread's fork left without end.
void write_end() {
  File* const file = current.load();
  if (file != nullptr && file->is_for(asked_folder())) file->write("end", now_us(), -1, "");
}

/// The file for what is asked now; null: nothing is. Without a lock, which a child forked meanwhile would find taken.
File* file() {
  const std::string_view folder = asked_folder();
  if (folder.empty()) return nullptr;
  File* known = current.load();
  if (known != nullptr && known->is_for(folder)) return known;
  auto* const made = new File(folder, known);
  if (!current.compare_exchange_strong(known, made)) {
    made->discard();
    delete made;
    return known->is_for(folder) ? known : nullptr;
  }
  if (!ends_with_end.exchange(true)) std::atexit(write_end);
  if (known != nullptr) known->retire();
  made->say_why_none();
  return made;
}

std::string member(const Field& field) { return json_text(field.name) + ":" + field.json; }

}  // namespace

std::string Field::number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

bool enabled() { return !asked_folder().empty(); }

std::int64_t now_us() { return SystemClock().now_us(); }

void event_of(std::string_view name, std::string_view members) {
  if (File* const to = file()) to->write(name, now_us(), -1, members);
}

void event_since(std::string_view name, std::int64_t began_us, std::string_view members) {
  if (File* const to = file()) to->write(name, began_us, std::max<std::int64_t>(0, now_us() - began_us), members);
}

void event(std::string_view name, std::initializer_list<Field> fields) {
  if (!enabled()) return;
  std::string members;
  for (const Field& field : fields) members += (members.empty() ? "" : ",") + member(field);
  event_of(name, members);
}

Phase::Phase(std::string_view name, std::initializer_list<Field> fields) : enabled_(enabled()), name_(name) {
  for (const Field& field : fields) add(field);
  began_us_ = now_us();
}

Phase::~Phase() {
  tally::phase(name_, now_us() - began_us_, failed_);
  if (enabled_) event_since(name_, began_us_, members_);
}

void Phase::add(const Field& field) {
  failed_ = failed_ || field.name == "error";
  if (enabled_) members_ += (members_.empty() ? "" : ",") + member(field);
}

}  // namespace stitch::trace
