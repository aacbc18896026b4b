#include "tuning/programs/step_order.h"

#include <algorithm>
#include <functional>
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

/// The steps of which all that read what they write are taken, while an order is made from its end.
class BackwardScheduler {
 public:
  BackwardScheduler(std::span<const UnorderedStep> steps, std::span<const std::int64_t> bytes,
                    std::span<const int> kept)
      : steps_(steps), bytes_(bytes), writers_(bytes.size()), alive_(bytes.size(), false), left_(steps.size(), 0) {
    for (std::size_t s = 0; s < steps.size(); ++s) {
      for (const int value : steps[s].writes) writers_[value].push_back(s);
    }
    for (std::size_t s = 0; s < steps.size(); ++s) {
      for (const std::size_t writer : writers_of_what_is_read(s)) ++left_[writer];
    }
    for (const int value : kept) alive_[value] = true;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      if (left_[s] == 0) ready_.insert(s);
    }
  }

  [[nodiscard]] const std::set<std::size_t>& ready() const { return ready_; }

  /// How many bytes more are alive before the step than behind it.
  [[nodiscard]] std::int64_t growth(std::size_t s) const {
    std::int64_t bytes = 0;
    const std::set<int> reads(steps_[s].reads.begin(), steps_[s].reads.end());
    for (const int value : reads) bytes += alive_[value] ? 0 : bytes_[value];
    for (const int value : steps_[s].writes) bytes -= alive_[value] ? bytes_[value] : 0;
    return bytes;
  }

  void take(std::size_t s) {
    ready_.erase(s);
    for (const int value : steps_[s].writes) alive_[value] = false;
    for (const int value : steps_[s].reads) alive_[value] = true;
    for (const std::size_t writer : writers_of_what_is_read(s)) {
      if (--left_[writer] == 0) ready_.insert(writer);
    }
  }

 private:
  [[nodiscard]] std::set<std::size_t> writers_of_what_is_read(std::size_t s) const {
    std::set<std::size_t> writers;
    for (const int value : steps_[s].reads) writers.insert(writers_[value].begin(), writers_[value].end());
    writers.erase(s);
    return writers;
  }

  const std::span<const UnorderedStep> steps_;
  const std::span<const std::int64_t> bytes_;
  std::vector<std::vector<std::size_t>> writers_;  ///< per value
  std::vector<bool> alive_;                        ///< values, behind the steps that are not taken yet
  std::vector<int> left_;                          ///< per step, readers that are not taken
  std::set<std::size_t> ready_;
};

using Rank = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

/// The steps in the order in which the least of those that are ready are taken.
std::vector<std::size_t> taken(auto& scheduler, const auto& rule) {
  std::vector<std::size_t> order;
  while (!scheduler.ready().empty()) {
    const std::size_t next =
        *std::ranges::min_element(scheduler.ready(), {}, [&](std::size_t s) { return rule(scheduler, s); });
    scheduler.take(next);
    order.push_back(next);
  }
  return order;
}

}  // namespace

std::vector<std::vector<std::size_t>> step_orders(std::span<const UnorderedStep> steps,
                                                  std::span<const std::int64_t> bytes, std::span<const int> kept) {
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
  using BackwardRule = std::function<Rank(const BackwardScheduler&, std::size_t)>;
  const BackwardRule backward_rules[] = {
      [&](const BackwardScheduler& all, std::size_t s) { return Rank(all.growth(s), -steps[s].last, -s); },
      [&](const BackwardScheduler& all, std::size_t s) {
        return Rank(std::min<std::int64_t>(0, all.growth(s)), -steps[s].last, -s);
      },
  };
  std::vector<std::vector<std::size_t>> orders;
  for (const Rule& rule : rules) {
    Scheduler scheduler(steps, bytes, kept);
    orders.push_back(taken(scheduler, rule));
  }
  for (const BackwardRule& rule : backward_rules) {
    BackwardScheduler scheduler(steps, bytes, kept);
    orders.push_back(taken(scheduler, rule));
    std::ranges::reverse(orders.back());
  }
  if (std::ranges::any_of(orders, [&](const auto& order) { return order.size() != steps.size(); })) return {};
  const auto peak = [&](const std::vector<std::size_t>& order) {
    Scheduler scheduler(steps, bytes, kept);
    for (const std::size_t s : order) scheduler.take(s);
    return scheduler.peak();
  };
  std::vector<std::pair<std::int64_t, std::vector<std::size_t>>> ranked;
  for (std::vector<std::size_t>& order : orders) {
    if (std::ranges::find(ranked, order, [](const auto& known) { return known.second; }) != ranked.end()) continue;
    const std::int64_t most = peak(order);
    ranked.emplace_back(most, std::move(order));
  }
  std::ranges::stable_sort(ranked, {}, [](const auto& known) { return known.first; });
  orders.clear();
  for (auto& [most, order] : ranked) orders.push_back(std::move(order));
  return orders;
}

}  // namespace stitch::tuning
