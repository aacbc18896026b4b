#include "codegen/compile/compiler_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/frame.h"
#include "base/processors.h"
#include "codegen/compile/compile_messages.h"
#include "codegen/compile/confined_process.h"

namespace stitch::codegen {
namespace {

/// How soon a stop token is seen by who waits for a child.
constexpr double look_seconds = 0.02;
/// Beyond a source's time, in which NVRTC ends it itself where it can; then its process is killed.
constexpr double grace_seconds = 1;
constexpr std::size_t most_words = 400;

Error stopped() { return make_error(ErrorKind::cancelled, "nobody waits for it any more"); }

/// Calls `step` with deadlines that come soon until it ends otherwise than by one of them, or there is no time left, or
/// nobody wants it any more. What `step` has done before stays done.
template <class Step>
auto attend(Deadline until, const std::stop_token& stop, Step step) -> decltype(step(until)) {
  while (true) {
    if (stop.stop_requested()) return stopped();
    auto done = step(std::min(until, deadline_in(look_seconds)));
    if (done || done.error().kind != ErrorKind::timeout || std::chrono::steady_clock::now() >= until) return done;
  }
}

/// A write that runs into a deadline does not tell how far it came, so it gets all the time there is: a child that
/// waits for work reads it at once, and one that does not read is killed.
Status write_frame_to(Process& process, const std::string& frame, Deadline until) {
  return process.write(frame, std::min(until, deadline_in(10)));
}

Result<std::string> read_frame_of(Process& process, Deadline until, const std::stop_token& stop) {
  const auto read = [&](std::size_t bytes) {
    return attend(until, stop, [&](Deadline soon) { return process.read_exactly(bytes, soon); });
  };
  STITCH_ASSIGN(const std::string prefix, read(frame_prefix_bytes));
  STITCH_ASSIGN(const std::uint32_t length, frame_length(prefix));
  return read(length);
}

/// How a child ended, and the last that it said.
std::string end_of(Process& process) {
  auto ended = process.wait(deadline_in(1));
  if (!ended) {
    process.kill();
    ended = process.wait(deadline_in(2));
  }
  std::string text = ended ? ended->describe() : "it cannot be killed";
  std::string words = process.standard_error();
  if (words.size() > most_words) words.erase(0, words.size() - most_words);
  while (!words.empty() && (words.back() == '\n' || words.back() == ' ')) words.pop_back();
  std::ranges::replace(words, '\n', ' ');
  if (!words.empty()) text += "; its last words: " + words;
  return text;
}

ProcessOptions process_of(const CompilerPoolOptions& options) {
  ProcessOptions process = compiler_process(options.program);
  const auto argue = [&](std::string name, std::string value) {
    process.arguments.push_back(std::move(name));
    process.arguments.push_back(std::move(value));
  };
  if (!options.nvrtc.library.empty()) argue("--nvrtc", options.nvrtc.library.string());
  for (const auto& path : options.readable) argue("--readable", path.string());
  argue("--memory", std::to_string(options.memory_bytes));
  return process;
}

}  // namespace

/// A child that works for one caller; back among the free ones at the end.
class CompilerPool::Lease {
 public:
  explicit Lease(const CompilerPool& pool) : pool_(pool) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (child_ == nullptr) return;
    {
      const std::lock_guard lock(pool_.mutex_);
      child_->busy = false;
    }
    pool_.freed_.notify_one();
  }

  /// Waits for a free child, one that has its process if there is one. Error: cancelled.
  Status take(const std::stop_token& stop) {
    std::unique_lock lock(pool_.mutex_);
    const auto find = [&] {
      for (Child& child : pool_.children_) {
        if (!child.busy && (child_ == nullptr || (child.process && !child_->process))) child_ = &child;
      }
      return child_ != nullptr;
    };
    if (!pool_.freed_.wait(lock, stop, find)) return stopped();
    child_->busy = true;
    const int busy = static_cast<int>(std::ranges::count_if(pool_.children_, &Child::busy));
    pool_.counts_.most_at_once = std::max(pool_.counts_.most_at_once, busy);
    return {};
  }
  [[nodiscard]] Child& child() const { return *child_; }

 private:
  const CompilerPool& pool_;
  Child* child_ = nullptr;
};

CompilerPool::CompilerPool(CompilerPoolOptions options) : options_(std::move(options)) {
  children_.resize(options_.children > 0 ? options_.children : usable_processors() + 2);
}

CompilerPool::~CompilerPool() = default;

Result<std::shared_ptr<const CompilerPool>> CompilerPool::start(CompilerPoolOptions options) {
  std::shared_ptr<CompilerPool> pool(new CompilerPool(std::move(options)));
  STITCH_ASSIGN(pool->facts_, pool->greet(pool->children_.front(), {}));
  return std::shared_ptr<const CompilerPool>(std::move(pool));
}

Result<NvrtcFacts> CompilerPool::greet(Child& child, const std::stop_token& stop) const {
  RealProcessLauncher launcher;
  child.compiles = 0;
  STITCH_ASSIGN(std::unique_ptr<Process> process, launcher.start(process_of(options_)));
  count(&CompilerPoolCounts::started);
  const auto words = read_frame_of(*process, deadline_in(options_.start_seconds), stop);
  if (!words && words.error().kind == ErrorKind::io) {
    return make_error(ErrorKind::runtime, "stitch-compiler did not greet: {}", end_of(*process));
  }
  if (!words) return words.error().within("stitch-compiler did not greet");
  STITCH_ASSIGN(const CompilerGreeting greeting, decode_greeting(*words));
  {
    const std::lock_guard lock(mutex_);
    child.process = std::move(process);
    if (std::exchange(complained_, true) || !options_.complain) return greeting.facts;
  }
  for (const std::string& what : greeting.unconfined) options_.complain("compilers are less confined: " + what);
  return greeting.facts;
}

Result<NvrtcOutput> CompilerPool::compile(const NvrtcInput& input) const {
  STITCH_ASSIGN(const std::string frame, make_frame(encode(SentCompilation(input))));
  Lease lease(*this);
  STITCH_TRY(lease.take(input.stop));
  Child& child = lease.child();
  for (bool again = false;; again = true) {
    if (child.process && !child.process->running()) (void)take_process(child);
    if (!child.process) {
      STITCH_ASSIGN(const NvrtcFacts facts, greet(child, input.stop));
      // Keys say which toolkit compiled; one that was exchanged under a running program would make them lie.
      if (facts != facts_) {
        (void)take_process(child);
        return make_error(ErrorKind::unavailable, "NVRTC was {} ({}) and is {} ({}) now: start again", facts_.toolkit,
                          facts_.path.string(), facts.toolkit, facts.path.string());
      }
    }
    bool died = false;
    auto output = compile_in(child, frame, input, died);
    if (!died || again) return output;
  }
}

Result<NvrtcOutput> CompilerPool::compile_in(Child& child, const std::string& frame, const NvrtcInput& input,
                                             bool& died) const {
  const double seconds = input.timeout_seconds > 0 ? input.timeout_seconds + grace_seconds : 86'400;
  const Deadline until = deadline_in(seconds);
  if (const Status sent = write_frame_to(*child.process, frame, until); !sent) {
    return lost(child, sent.error(), input, died);
  }
  const auto answer = read_frame_of(*child.process, until, input.stop);
  if (!answer) return lost(child, answer.error(), input, died);
  auto reply = decode_compile_reply(*answer);
  if (!reply) return lost(child, reply.error(), input, died);
  count(&CompilerPoolCounts::compiled);
  if (++child.compiles >= options_.compiles_per_child || reply->peak_bytes >= options_.retire_at_bytes) {
    (void)take_process(child);
    count(&CompilerPoolCounts::retired);
  }
  return std::move(reply->output);
}

/// Ends a child that did not answer, and says what that means for the source.
Error CompilerPool::lost(Child& child, const Error& why, const NvrtcInput& input, bool& died) const {
  const std::unique_ptr<Process> process = take_process(child);
  switch (why.kind) {
    case ErrorKind::cancelled: count(&CompilerPoolCounts::cancelled); return why.within("compilation of " + input.name);
    case ErrorKind::timeout:
      count(&CompilerPoolCounts::timed_out);
      return make_error(ErrorKind::timeout, "compilation of {} took more than {} s", input.name, input.timeout_seconds);
    case ErrorKind::io: {
      died = true;
      count(&CompilerPoolCounts::died);
      return make_error(ErrorKind::compile, "NVRTC died of {}: stitch-compiler (process {}) ended with {}", input.name,
                        process->id(), end_of(*process));
    }
    default: count(&CompilerPoolCounts::died); return why.within("stitch-compiler");
  }
}

/// The process of a child that gets another one; its end is not waited for while others wait for the lock.
std::unique_ptr<Process> CompilerPool::take_process(Child& child) const {
  const std::lock_guard lock(mutex_);
  return std::move(child.process);
}

void CompilerPool::count(std::int64_t CompilerPoolCounts::*counter) const {
  const std::lock_guard lock(mutex_);
  ++(counts_.*counter);
}

CompilerPoolCounts CompilerPool::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::vector<int> CompilerPool::children() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> ids;
  for (const Child& child : children_) {
    if (child.process) ids.push_back(child.process->id());
  }
  return ids;
}

}  // namespace stitch::codegen
