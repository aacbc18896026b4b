#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "db/records.h"
#include "db/store_types.h"
#include "graph/codec/codec.h"

namespace stitch::daemon {

struct AnswerCacheOptions {
  std::int64_t most_bytes = std::int64_t{64} << 20;    ///< of requests, answers and records together
  std::int64_t largest_bytes = std::int64_t{1} << 20;  ///< of one request with its answer; larger ones are not kept
};

/// A look-up as it came: all that its answer depends on besides the store.
struct AskedBytes {
  std::string_view content_type, accept, body;
};

/// An answer as it is sent, and what has to be so for it to be right.
struct KeptAnswer {
  std::shared_ptr<const std::string> body;
  graph::Encoding encoding = graph::Encoding::json;
  std::shared_ptr<const db::PlanRecord> served;  ///< what the store served, as db::Store::served_plan tells it
};

/// Answers to look-ups by the bytes that asked for them, the least recently used forgotten first. Requests are compared
/// byte for byte: who makes requests whose hashes collide makes the cache forget, and never gets another's answer. Safe
/// to use from any number of threads; nothing is done under its lock but finding and linking.
class AnswerCache {
 public:
  struct Counts {
    std::int64_t hits = 0;                ///< answered without asking the store
    std::int64_t checked = 0;             ///< answered after the store was asked whether it is still right
    std::int64_t misses = 0;              ///< not there
    std::int64_t stale = 0;               ///< no longer right, and forgotten
    std::int64_t evictions = 0;           ///< forgotten for want of room
    std::int64_t answers = 0, bytes = 0;  ///< kept now
  };
  struct Found {
    KeptAnswer answer;
    bool is_current = false;  ///< known to be right at the version asked for
  };

  explicit AnswerCache(AnswerCacheOptions options) : options_(options) {}

  /// Counts a hit when what it finds is current.
  std::optional<Found> find(const AskedBytes& asked, const std::optional<db::StoreVersion>& now);
  /// The answer that was found is right at this version, too.
  void confirm(const AskedBytes& asked, const db::StoreVersion& version);
  /// The answer that was found is not right any more.
  void forget(const AskedBytes& asked);
  void count_miss();
  /// `version`: one at which the answer is right.
  void keep(const AskedBytes& asked, KeptAnswer answer, const db::StoreVersion& version);

  [[nodiscard]] Counts counts() const;

 private:
  struct Entry {
    std::uint64_t hash = 0;
    std::string content_type, accept, body;
    KeptAnswer answer;
    db::StoreVersion right_at;
    std::int64_t bytes = 0;
  };
  using Entries = std::list<Entry>;

  Entries::iterator find_entry(const AskedBytes& asked);
  void erase(Entries::iterator entry);

  const AnswerCacheOptions options_;
  mutable std::mutex mutex_;  ///< guards everything below
  Entries entries_;           ///< most recently used first
  std::unordered_map<std::uint64_t, Entries::iterator> by_hash_;
  Counts counts_;
};

}  // namespace stitch::daemon
