#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/random.h"
#include "driver/state/stream_clock.h"

namespace stitch::driver {

/// One thing in a queue.
struct Operation {
  std::uint32_t queue = 0;
  std::uint64_t time = 0;         ///< its place in the queue, from 1
  std::uint64_t order = 0;        ///< of submission, among all queues
  StreamClock after;              ///< what must have ended before it begins
  std::function<bool()> may_run;  ///< asked again and again; empty: at once
  std::function<void()> run;
};

/// Where everything asynchronous happens: queues of operations, of which one thread runs one at a time, each after all
/// that its clock names. Which one comes next is the oldest that may, or, with a seed, any that may: a program whose
/// result depends on that left something unordered.
///
/// Safe to use from any thread; operations may submit others. Never destroyed: the thread may be in an endless kernel
/// when the process ends.
class Engine {
 public:
  /// `seed`: 0 runs operations in the order of their submission.
  explicit Engine(std::uint64_t seed) : random_(seed), shuffled_(seed != 0) {}

  /// Puts an operation behind the others of its queue and returns its time.
  std::uint64_t submit(std::uint32_t queue, StreamClock after, std::function<void()> run,
                       std::function<bool()> may_run = {});
  /// Waits until every queue has got as far as `clock` says.
  void wait(const StreamClock& clock);
  [[nodiscard]] bool is_done(const StreamClock& clock);
  /// Waits for everything, at most for so long; whether it came to that.
  bool wait_for_all(double seconds);
  /// Whether this is the engine's thread: functions of the host that a stream calls run there.
  [[nodiscard]] bool is_own_thread() const { return std::this_thread::get_id() == thread_id_; }
  /// The time of the queue's last operation.
  [[nodiscard]] std::uint64_t last(std::uint32_t queue);
  /// What has been submitted to all queues, and nothing known beyond it.
  [[nodiscard]] StreamClock all();

 private:
  struct Queue {
    std::deque<Operation> waiting;
    std::uint64_t submitted = 0;
    std::uint64_t ended = 0;
  };
  void work();
  [[nodiscard]] bool has_ended(const StreamClock& clock) const;
  /// The queue whose first operation comes next, or null.
  Queue* choose();

  std::mutex mutex_;
  std::condition_variable submitted_, ended_;
  std::map<std::uint32_t, Queue> queues_;
  std::uint64_t submissions_ = 0;
  std::size_t pending_ = 0;  ///< submitted and not ended
  Random random_;
  bool shuffled_;
  bool started_ = false;
  bool polls_ = false;  ///< something waits for its may_run
  std::thread::id thread_id_;
};

}  // namespace stitch::driver
