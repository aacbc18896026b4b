#include "base/launch_thread.h"

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace stitch {
namespace {

/// A thread and what it is to do, one after the other.
class LaunchThread {
 public:
  LaunchThread() {
    std::thread([this] {
      while (true) take()();
    }).detach();
  }

  int run(const std::function<int()>& work) {
    std::packaged_task<int()> task(work);
    std::future<int> done = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
    return done.get();
  }

 private:
  std::packaged_task<int()> take() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return !tasks_.empty(); });
    std::packaged_task<int()> task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::packaged_task<int()>> tasks_;
};

}  // namespace

int on_launch_thread(const std::function<int()>& work) {
  static auto* const thread = new LaunchThread;  // never destroyed: its thread goes on to the program's end
  return thread->run(work);
}

}  // namespace stitch
