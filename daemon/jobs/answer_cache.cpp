#include "daemon/jobs/answer_cache.h"

#include <utility>

#include "base/hash.h"

namespace stitch::daemon {
namespace {

std::uint64_t hash_of(const AskedBytes& asked) {
  return mix(mix(hash_bytes(asked.body).low, hash_bytes(asked.content_type).low), hash_bytes(asked.accept).low);
}

/// What an entry takes, list and table included.
std::int64_t size_of(const AskedBytes& asked, const KeptAnswer& answer) {
  constexpr std::size_t links = 512;
  const db::PlanRecord& served = *answer.served;
  return static_cast<std::int64_t>(links + sizeof(db::PlanRecord) + served.document.size() + asked.content_type.size() +
                                   asked.accept.size() + asked.body.size() + answer.body->size());
}

}  // namespace

AnswerCache::Entries::iterator AnswerCache::find_entry(const AskedBytes& asked) {
  const auto found = by_hash_.find(hash_of(asked));
  if (found == by_hash_.end()) return entries_.end();
  const Entry& entry = *found->second;
  const bool same =
      entry.body == asked.body && entry.content_type == asked.content_type && entry.accept == asked.accept;
  return same ? found->second : entries_.end();
}

std::optional<AnswerCache::Found> AnswerCache::find(const AskedBytes& asked,
                                                    const std::optional<db::StoreVersion>& now) {
  const std::lock_guard lock(mutex_);
  const auto entry = find_entry(asked);
  if (entry == entries_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, entry);
  Found found{entry->answer, now == entry->right_at};
  if (found.is_current) ++counts_.hits;
  return found;
}

void AnswerCache::confirm(const AskedBytes& asked, const db::StoreVersion& version) {
  const std::lock_guard lock(mutex_);
  ++counts_.checked;
  if (const auto entry = find_entry(asked); entry != entries_.end()) entry->right_at = version;
}

void AnswerCache::forget(const AskedBytes& asked) {
  const std::lock_guard lock(mutex_);
  ++counts_.stale;
  if (const auto entry = find_entry(asked); entry != entries_.end()) erase(entry);
}

void AnswerCache::count_miss() {
  const std::lock_guard lock(mutex_);
  ++counts_.misses;
}

void AnswerCache::keep(const AskedBytes& asked, KeptAnswer answer, const db::StoreVersion& version) {
  const std::int64_t bytes = size_of(asked, answer);
  if (bytes > options_.largest_bytes) return;
  const std::uint64_t hash = hash_of(asked);
  const std::lock_guard lock(mutex_);
  if (const auto found = by_hash_.find(hash); found != by_hash_.end()) erase(found->second);
  while (!entries_.empty() && counts_.bytes + bytes > options_.most_bytes) {
    erase(std::prev(entries_.end()));
    ++counts_.evictions;
  }
  entries_.push_front({hash, std::string(asked.content_type), std::string(asked.accept), std::string(asked.body),
                       std::move(answer), version, bytes});
  by_hash_.emplace(hash, entries_.begin());
  counts_.bytes += bytes;
}

AnswerCache::Counts AnswerCache::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.answers = std::ssize(entries_);
  return counts;
}

void AnswerCache::erase(Entries::iterator entry) {
  counts_.bytes -= entry->bytes;
  by_hash_.erase(entry->hash);
  entries_.erase(entry);
}

}  // namespace stitch::daemon
