#pragma once

#include <chrono>
#include <cstdint>

namespace stitch {

/// Time as its consumers need it: a monotonic clock for durations and deadlines, the wall clock for provenance.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Monotonic, µs from an arbitrary origin.
  [[nodiscard]] virtual std::int64_t now_us() const = 0;
  /// µs since 1970-01-01T00:00:00Z.
  [[nodiscard]] virtual std::int64_t wall_us() const = 0;
};

/// The machine's clocks.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] std::int64_t now_us() const override {
    using namespace std::chrono;
    return duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
  }
  [[nodiscard]] std::int64_t wall_us() const override {
    using namespace std::chrono;
    return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
  }
};

/// A clock that stands still until it is told otherwise; for tests.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] std::int64_t now_us() const override { return now_; }
  [[nodiscard]] std::int64_t wall_us() const override { return now_; }
  void advance_us(std::int64_t by) { now_ += by; }

 private:
  std::int64_t now_ = 0;
};

/// Measures a stretch of code in seconds.
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace stitch
