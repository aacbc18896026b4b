#include "tuning/programs/step_order.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

namespace stitch::tuning {
namespace {

/// The steps that have what they need, while an order is made.
class Scheduler {
 public:
  Scheduler(std::span<const UnorderedStep> steps, std::span<const std::int64_t> bytes, std::span<const int> kept)
      : steps_(steps), bytes_(bytes), readers_(bytes.size()), missing_(steps.size(), 0), left_(bytes.size(), 0) {
    std::vector<bool> is_written(bytes.size(), false);
    for (const UnorderedStep& step : steps) {
      for (const int value : step.writes) is_written[value] = true;
    }
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const std::set<int> reads(steps[s].reads.begin(), steps[s].reads.end());
      for (const int value : reads) {
        ++left_[value];
        if (!is_written[value]) continue;
        readers_[value].push_back(s);
        ++missing_[s];
      }
      if (missing_[s] == 0) ready_.insert(s);
    }
    for (const int value : kept) ++left_[value];
  }

  [[nodiscard]] const std::set<std::size_t>& ready() const { return ready_; }
  [[nodiscard]] std::int64_t peak() const { return peak_; }

  /// How many bytes more are alive after the step than before it.
  [[nodiscard]] std::int64_t growth(std::size_t s) const {
    std::int64_t bytes = 0;
    for (const int value : steps_[s].writes) bytes += left_[value] > 0 ? bytes_[value] : 0;
    const std::set<int> reads(steps_[s].reads.begin(), steps_[s].reads.end());
    for (const int value : reads) bytes -= left_[value] == 1 ? bytes_[value] : 0;
    return bytes;
  }

  void take(std::size_t s) {
    ready_.erase(s);
    for (const int value : steps_[s].writes) alive_ += bytes_[value];
    peak_ = std::max(peak_, alive_ + steps_[s].scratch);
    const std::set<int> reads(steps_[s].reads.begin(), steps_[s].reads.end());
    for (const int value : reads) {
      if (--left_[value] == 0) alive_ -= bytes_[value];
    }
    for (const int value : steps_[s].writes) {
      if (left_[value] == 0) alive_ -= bytes_[value];
      for (const std::size_t reader : readers_[value]) {
        if (--missing_[reader] == 0) ready_.insert(reader);
      }
    }
  }

 private:
  const std::span<const UnorderedStep> steps_;
  const std::span<const std::int64_t> bytes_;
  std::vector<std::vector<std::size_t>> readers_;  ///< per value, of those that a step writes
  std::vector<int> missing_;                       ///< per step, values that are not there yet
  std::vector<int> left_;                          ///< per value, reads to come
  std::set<std::size_t> ready_;
  std::int64_t alive_ = 0, peak_ = 0;
};

}  // namespace

std::vector<std::size_t> order_steps(std::span<const UnorderedStep> steps, std::span<const std::int64_t> bytes,
                                     std::span<const int> kept) {
  using Rank = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  using Rule = std::function<Rank(const Scheduler&, std::size_t)>;
  const Rule rules[] = {
      [&](const Scheduler&, std::size_t s) { return Rank(steps[s].first, steps[s].last, s); },
      [&](const Scheduler&, std::size_t s) { return Rank(steps[s].last, steps[s].first, s); },
      [&](const Scheduler& all, std::size_t s) { return Rank(all.growth(s), steps[s].first, s); },
      // What shrinks memory comes at once, everything else by the source's order.
      [&](const Scheduler& all, std::size_t s) {
        return Rank(std::min<std::int64_t>(0, all.growth(s)), steps[s].first, s);
      },
  };
  std::vector<std::size_t> best;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Rule& rule : rules) {
    Scheduler scheduler(steps, bytes, kept);
    std::vector<std::size_t> order;
    while (!scheduler.ready().empty()) {
      std::size_t next = 0;
      std::optional<Rank> rank;
      for (const std::size_t s : scheduler.ready()) {
        const Rank own = rule(scheduler, s);
        if (rank && *rank <= own) continue;
        rank = own;
        next = s;
      }
      scheduler.take(next);
      order.push_back(next);
    }
    if (order.size() != steps.size()) return {};
    if (scheduler.peak() >= least) continue;
    least = scheduler.peak();
    best = std::move(order);
  }
  return best;
}

}  // namespace stitch::tuning
