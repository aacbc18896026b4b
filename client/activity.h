#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

namespace stitch::client {

/// What clients count of their work (Activity::Event, by name for reports).
enum class Event : std::uint8_t {
  plan_stored,       ///< a plan that the server had, for a look-up or in a program
  plan_predicted,    ///< a plan that the server made for a look-up
  miss,              ///< a fragment, or a tuned model's program, that the server has none for where none may be made
  deadline_passed,   ///< a look-up that had no plan at its deadline
  tuning,            ///< a fragment or model that was handed in to be tuned
  program,           ///< a program that came from the server
  artifact_kept,     ///< code that the client's folder had
  artifact_fetched,  ///< code that came from the server
  plan_loaded,       ///< a plan that a handle loaded onto its device
  swap,              ///< another plan took the place of one in use
};
inline constexpr std::array<std::pair<std::string_view, Event>, 10> event_names = {
    {{"plans_stored", Event::plan_stored},
     {"plans_predicted", Event::plan_predicted},
     {"misses", Event::miss},
     {"deadlines_passed", Event::deadline_passed},
     {"tunings", Event::tuning},
     {"programs", Event::program},
     {"artifacts_kept", Event::artifact_kept},
     {"artifacts_fetched", Event::artifact_fetched},
     {"plans_loaded", Event::plan_loaded},
     {"swaps", Event::swap}}};

/// What several clients of one program have in common: counts of what they did since it was made, and whether anything
/// may still be made for them. Every client has one (ClientOptions::activity); the Python package gives all clients of
/// a process the same. Safe to use from any thread, and in forked children, which go on from their parent's counts.
class Activity {
 public:
  /// From now on nothing is predicted, compiled or tuned for these clients: what the server has not stored is not_found
  /// at once (FetchOptions::predict), work is not handed in, and the plans of their handles stay those that are in use
  /// (PlanHandle::freeze). It cannot be taken back. What was asked for before may still be under way.
  void freeze() { frozen_ = true; }
  [[nodiscard]] bool is_frozen() const { return frozen_; }

  void add(Event event, std::int64_t by = 1) { counts_[static_cast<std::size_t>(event)] += by; }
  [[nodiscard]] std::int64_t count(Event event) const { return counts_[static_cast<std::size_t>(event)]; }

 private:
  std::array<std::atomic<std::int64_t>, event_names.size()> counts_{};
  std::atomic<bool> frozen_ = false;
};

}  // namespace stitch::client
