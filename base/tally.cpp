#include "base/tally.h"

#include <fmt/format.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>

#include "base/json_text.h"

namespace stitch::tally {
namespace {

/// A program may go on for months, with reasons that name a job or an id each time.
constexpr std::size_t most_listed = 256;

struct PhaseSum {
  std::int64_t count = 0, us = 0, failed = 0;
};

/// Counts by what makes an entry another one.
template <std::size_t Fields>
using Listed = std::map<std::array<std::string, Fields>, std::int64_t>;

struct Sums {
  std::map<std::string, PhaseSum, std::less<>> phases;
  std::map<std::string, std::int64_t, std::less<>> plans, labels, events;
  Listed<4> misses, fell_back;
  std::int64_t left_out = 0;
};

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<std::int64_t> kernels_launched{0};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

/// Never freed: threads that outlive main count, too.
std::mutex& mutex() {
  static auto* const one = [] {
    auto* const made = new std::mutex;
    // A child must not find it taken by a thread that it does not have.
    ::pthread_atfork([] { mutex().lock(); }, [] { mutex().unlock(); }, [] { mutex().unlock(); });
    return made;
  }();
  return *one;
}

Sums& sums() {
  static auto* const one = new Sums;
  return *one;
}

template <class Counts>
void add(Counts& to, std::string_view name, std::int64_t by) {
  const auto known = to.find(name);
  if (known != to.end()) {
    known->second += by;
  } else {
    to.emplace(name, by);
  }
}

template <std::size_t Fields>
void add(Listed<Fields>& to, std::array<std::string, Fields> entry) {
  const auto known = to.find(entry);
  if (known != to.end()) {
    ++known->second;
  } else if (to.size() < most_listed) {
    to.emplace(std::move(entry), 1);
  } else {
    ++sums().left_out;
  }
}

std::string text_of(const std::map<std::string, std::int64_t, std::less<>>& counts) {
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", json_text(name), count);
  return "{" + text + "}";
}

template <std::size_t Fields>
std::string text_of(const Listed<Fields>& listed, const std::array<std::string_view, Fields>& names) {
  std::string text;
  for (const auto& [entry, count] : listed) {
    text += text.empty() ? "{" : ",{";
    for (std::size_t i = 0; i < Fields; ++i) text += fmt::format(R"("{}":{},)", names[i], json_text(entry[i]));
    text += fmt::format(R"("count":{}}})", count);
  }
  return "[" + text + "]";
}

}  // namespace

void phase(std::string_view name, std::int64_t took_us, bool failed) {
  const std::lock_guard lock(mutex());
  auto& phases = sums().phases;
  auto known = phases.find(name);
  if (known == phases.end()) known = phases.emplace(name, PhaseSum{}).first;
  ++known->second.count;
  known->second.us += took_us;
  known->second.failed += failed ? 1 : 0;
}

void count(std::string_view event, std::int64_t by) {
  const std::lock_guard lock(mutex());
  add(sums().events, event, by);
}

void plan(std::string_view source, std::string_view label) {
  const std::lock_guard lock(mutex());
  add(sums().plans, source, 1);
  if (!label.empty()) add(sums().labels, label, 1);
}

void miss(std::string_view fragment, std::string_view name, std::string_view reason, std::string_view served) {
  const std::lock_guard lock(mutex());
  add(sums().misses, {std::string(fragment), std::string(name), std::string(reason), std::string(served)});
}

void fell_back(std::string_view what, std::string_view reason, std::string_view to, std::string_view where) {
  const std::lock_guard lock(mutex());
  add(sums().fell_back, {std::string(what), std::string(reason), std::string(to), std::string(where)});
}

void launched(std::int64_t kernels) noexcept { kernels_launched.fetch_add(kernels, std::memory_order_relaxed); }

std::string json() {
  const std::lock_guard lock(mutex());
  const Sums& all = sums();
  std::string phases;
  for (const auto& [name, sum] : all.phases) {
    phases += fmt::format(R"({}{}:{{"count":{},"us":{},"failed":{}}})", phases.empty() ? "" : ",", json_text(name),
                          sum.count, sum.us, sum.failed);
  }
  return fmt::format(
      R"({{"phases":{{{}}},"plans_by_source":{},"plans_by_label":{},"events":{},"missed":{},"fell_back":{},"launches":{},"left_out":{}}})",
      phases, text_of(all.plans), text_of(all.labels), text_of(all.events),
      text_of(all.misses, {"fragment", "name", "reason", "source"}),
      text_of(all.fell_back, {"what", "reason", "to", "where"}), kernels_launched.load(std::memory_order_relaxed),
      all.left_out);
}

void reset() {
  const std::lock_guard lock(mutex());
  sums() = {};
  kernels_launched = 0;
}

}  // namespace stitch::tally
