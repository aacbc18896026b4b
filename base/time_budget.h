#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace stitch {

/// Asks for a stop when the time is over, or when somebody else asks for one.
class TimeBudget {
 public:
  /// Nothing: there is no limit.
  TimeBudget(std::optional<double> seconds, const std::stop_token& other);

  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::stop_callback<std::function<void()>> other_;
  std::mutex mutex_;
  std::condition_variable_any never_;
  std::jthread clock_;
};

}  // namespace stitch
