#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "base/launch_thread.h"
#include "base/parent_watch.h"
#include "base/pipe.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves declaring it to the program

namespace stitch {
namespace {

using namespace std::chrono_literals;

/// Turns SIGPIPE into EPIPE for one write, without touching how the program handles the signal elsewhere.
class SigpipeHeld {
 public:
  SigpipeHeld() {
    sigset_t pending;
    ::sigemptyset(&sigpipe_);
    ::sigaddset(&sigpipe_, SIGPIPE);
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeHeld() {
    const int saved = errno;
    const timespec now{};
    if (!was_pending_) {
      while (::sigtimedwait(&sigpipe_, nullptr, &now) < 0 && errno == EINTR) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved;
  }
  SigpipeHeld(const SigpipeHeld&) = delete;
  SigpipeHeld& operator=(const SigpipeHeld&) = delete;

 private:
  sigset_t sigpipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

timespec time_until(Deadline deadline) {
  const auto left = std::clamp<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now(), 0ns, 3600s);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {seconds.count(), (left - seconds).count()};
}

class RealProcess final : public Process {
 public:
  RealProcess(pid_t pid, Descriptor input, Descriptor output, Descriptor error, const ProcessOptions& options)
      : name_(options.arguments[0]),
        error_limit_(options.standard_error_limit),
        unread_limit_(options.unread_limit),
        pid_(pid),
        input_(std::move(input)),
        output_(std::move(output)),
        error_(std::move(error)) {
    for (const Descriptor* fd : {&input_, &output_, &error_}) {
      if (fd->open()) make_nonblocking(*fd);
    }
  }

  ~RealProcess() override {
    kill();
    if (wait(deadline_in(2))) return;
    // The kernel holds on to it (a driver call that cannot be interrupted): reap it whenever that ends.
    std::thread([pid = pid_] { ::waitpid(pid, nullptr, 0); }).detach();
  }

  Status write(std::string_view data, Deadline deadline) override {
    while (!data.empty()) {
      if (!input_.open()) return closed_input();
      const std::size_t before = data.size();
      const bool expired = std::chrono::steady_clock::now() >= deadline;
      exchange(&data, output_.open() && unread() < unread_limit_, deadline);
      if (expired && input_.open() && data.size() == before) return timed_out("did not read its input");
    }
    return {};
  }

  Result<std::string> read_some(std::size_t limit, Deadline deadline) override {
    if (!await_output(1, deadline)) return timed_out("wrote nothing");
    return take(std::min(limit, unread()));
  }

  Result<std::string> read_exactly(std::size_t size, Deadline deadline) override {
    if (!await_output(size, deadline)) {
      return timed_out(fmt::format("wrote {} of {} bytes", unread(), size));
    }
    if (unread() < size) {
      return make_error(ErrorKind::io, "{}: output ended after {} of {} bytes", label(), unread(), size);
    }
    return take(size);
  }

  void close_input() override { input_.close(); }

  void kill() override {
    // Until it is reaped the id cannot be anybody else's.
    if (!status_) ::kill(-pid_, SIGKILL);
  }

  Result<ExitStatus> wait(Deadline deadline) override {
    auto pause = 50us;
    while (!status_ && !try_reap()) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= deadline) return timed_out("did not end");
      exchange(nullptr, output_.open() && unread() < unread_limit_, std::min<Deadline>(deadline, now + pause));
      pause = std::min(2 * pause, std::chrono::microseconds(5ms));
    }
    return *status_;
  }

  bool running() override { return !status_ && !has_ended(); }

  std::string standard_error() override {
    // A bounded number of chunks: a child that never stops writing must not keep us here.
    for (int chunk = 0; chunk < 32 && error_.open() && receive(error_, error_text_); ++chunk) {
    }
    trim_error();
    return error_text_;
  }

  [[nodiscard]] int id() const override { return pid_; }

 private:
  [[nodiscard]] std::string label() const { return fmt::format("{} (process {})", name_, pid_); }

  [[nodiscard]] Error timed_out(std::string_view what) const {
    return make_error(ErrorKind::timeout, "{}: {} within the deadline", label(), what);
  }
  [[nodiscard]] Error closed_input() const {
    return make_error(ErrorKind::io, "{}: its standard input is closed", label());
  }

  [[nodiscard]] std::size_t unread() const { return output_text_.size() - taken_; }

  std::string take(std::size_t size) {
    std::string result = output_text_.substr(taken_, size);
    taken_ += size;
    if (taken_ == output_text_.size() || taken_ > (1u << 20)) {
      output_text_.erase(0, taken_);
      taken_ = 0;
    }
    return result;
  }

  /// Waits until `size` bytes are there or no more will come; false when the deadline came first.
  bool await_output(std::size_t size, Deadline deadline) {
    while (unread() < size && output_.open()) {
      const std::size_t before = unread();
      const bool expired = std::chrono::steady_clock::now() >= deadline;
      exchange(nullptr, true, deadline);
      if (expired && output_.open() && unread() == before) return false;
    }
    return true;
  }

  /// One round of poll: moves what can be moved on every stream, waiting no longer than the deadline.
  void exchange(std::string_view* to_write, bool read_output, Deadline deadline) {
    std::array<pollfd, 3> fds{};
    fds[0] = {to_write != nullptr ? input_.get() : -1, POLLOUT, 0};
    fds[1] = {read_output ? output_.get() : -1, POLLIN, 0};
    fds[2] = {error_.get(), POLLIN, 0};
    const timespec left = time_until(deadline);
    if (::ppoll(fds.data(), fds.size(), &left, nullptr) <= 0) return;
    if (fds[0].revents != 0) send(*to_write);
    if (fds[1].revents != 0) receive(output_, output_text_);
    if (fds[2].revents != 0) {
      receive(error_, error_text_);
      if (error_text_.size() > 2 * error_limit_) trim_error();
    }
  }

  void send(std::string_view& data) {
    const SigpipeHeld held;
    const ssize_t written = ::write(input_.get(), data.data(), data.size());
    if (written > 0) {
      data.remove_prefix(written);
    } else if (written < 0 && errno != EAGAIN && errno != EINTR) {
      input_.close();
    }
  }

  /// Appends one chunk; closes the stream at its end. True when there may be more at once.
  static bool receive(Descriptor& fd, std::string& text) {
    char chunk[1 << 16];
    const ssize_t got = ::read(fd.get(), chunk, sizeof chunk);
    if (got > 0) text.append(chunk, got);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) fd.close();
    return got > 0;
  }

  void trim_error() {
    if (error_text_.size() > error_limit_) error_text_.erase(0, error_text_.size() - error_limit_);
  }

  [[nodiscard]] bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, pid_, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
  }

  bool try_reap() {
    if (!has_ended()) return false;
    // What the child left running must not outlive it, and can be named only while the child is not reaped.
    ::kill(-pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    status_ = ExitStatus{WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    return true;
  }

  std::string name_;
  std::size_t error_limit_;
  std::size_t unread_limit_;
  pid_t pid_;
  Descriptor input_;
  Descriptor output_;
  Descriptor error_;
  std::string output_text_;  ///< what has arrived; the first taken_ bytes were handed out
  std::size_t taken_ = 0;
  std::string error_text_;
  std::optional<ExitStatus> status_;  ///< set when the child was reaped
};

/// posix_spawn's two opaque objects, destroyed with it.
struct SpawnPlan {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};

  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  /// A group of its own, no signal blocked or ignored, whatever the calling thread has set.
  void isolate() {
    sigset_t none;
    sigset_t defaults;
    ::sigemptyset(&none);
    ::sigemptyset(&defaults);
    for (const int signal : {SIGPIPE, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD}) ::sigaddset(&defaults, signal);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
};

std::string_view variable_name(std::string_view entry) { return entry.substr(0, entry.find('=')); }

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

bool is_inherited(std::string_view name, const ProcessOptions& options) {
  if (!options.inherited) return true;
  return std::ranges::any_of(*options.inherited, [&](std::string_view allowed) {
    return allowed.ends_with('*') ? name.starts_with(allowed.substr(0, allowed.size() - 1)) : name == allowed;
  });
}

std::vector<std::string> environment_of(const ProcessOptions& options) {
  std::vector<std::string> merged = options.environment;
  if (options.ends_with_us) merged.push_back(fmt::format("{}={}", parent_variable, ::getpid()));
  const std::size_t changes = merged.size();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view name = variable_name(*entry);
    const auto replaces = [&](const std::string& change) { return variable_name(change) == name; };
    if (std::any_of(merged.begin(), merged.begin() + static_cast<std::ptrdiff_t>(changes), replaces)) continue;
    if (is_inherited(name, options)) merged.emplace_back(*entry);
  }
  return merged;
}

}  // namespace

Deadline deadline_in(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

std::string ExitStatus::describe() const {
  if (signal == 0) return fmt::format("exit code {}", code);
  const char* text = ::sigdescr_np(signal);
  return fmt::format("signal {} ({})", signal, text != nullptr ? text : "unknown");
}

Result<std::unique_ptr<Process>> RealProcessLauncher::start(const ProcessOptions& options) {
  if (options.arguments.empty()) return make_error(ErrorKind::invalid_argument, "no program to start");
  STITCH_ASSIGN(Pipe input, make_pipe());
  STITCH_ASSIGN(Pipe output, make_pipe());
  Pipe error;
  SpawnPlan plan;
  plan.isolate();
  ::posix_spawn_file_actions_adddup2(&plan.actions, input.read_end.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&plan.actions, output.write_end.get(), STDOUT_FILENO);
  if (options.standard_error == ProcessOptions::Stderr::capture) {
    STITCH_ASSIGN(error, make_pipe());
    ::posix_spawn_file_actions_adddup2(&plan.actions, error.write_end.get(), STDERR_FILENO);
  } else if (options.standard_error == ProcessOptions::Stderr::discard) {
    ::posix_spawn_file_actions_addopen(&plan.actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  // Our own descriptors are close-on-exec; those of libraries need not be.
  ::posix_spawn_file_actions_addclosefrom_np(&plan.actions, STDERR_FILENO + 1);

  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment = environment_of(options);
  pid_t pid = -1;
  const auto spawn = [&] {
    return ::posix_spawnp(&pid, arguments[0].c_str(), &plan.actions, &plan.attributes, pointers_to(arguments).data(),
                          pointers_to(environment).data());
  };
  const int failure = options.ends_with_us ? on_launch_thread(spawn) : spawn();
  if (failure != 0) {
    return make_error(failure == ENOENT ? ErrorKind::not_found : ErrorKind::io, "cannot start {}: {}", arguments[0],
                      std::strerror(failure));
  }
  return std::unique_ptr<Process>(std::make_unique<RealProcess>(
      pid, std::move(input.write_end), std::move(output.read_end), std::move(error.read_end), options));
}

Result<ProcessOutput> run_process(ProcessLauncher& launcher, const ProcessOptions& options, std::string_view input,
                                  Deadline deadline) {
  ProcessOptions unbounded = options;
  unbounded.unread_limit = std::numeric_limits<std::size_t>::max();
  STITCH_ASSIGN(std::unique_ptr<Process> process, launcher.start(unbounded));
  // A program that stops reading has its reasons; its exit code and its messages tell them.
  const Status written = process->write(input, deadline);
  if (!written && written.error().kind == ErrorKind::timeout) return written.error();
  process->close_input();
  ProcessOutput result;
  while (true) {
    STITCH_ASSIGN(const std::string chunk, process->read_some(1u << 20, deadline));
    if (chunk.empty()) break;
    result.standard_output += chunk;
  }
  STITCH_ASSIGN(result.status, process->wait(deadline));
  result.standard_error = process->standard_error();
  return result;
}

}  // namespace stitch
