#include "daemon/jobs/program_answers.h"

#include <algorithm>
#include <utility>

namespace stitch::daemon {

Result<ProgramAnswers::Basis> ProgramAnswers::basis_of(const ProgramQuestion& question,
                                                       const std::vector<db::PlanKey>& keys) const {
  STITCH_ASSIGN(const db::ProgramRecord record, store_.get_program(question.model, device_));
  Basis basis{.document = sha256(record.document), .keys = keys, .served = {}};
  for (const db::PlanKey& key : keys) {
    STITCH_ASSIGN(std::optional<db::PlanRecord> served, store_.served_plan(key));
    basis.served.push_back(std::move(served));
  }
  return basis;
}

std::optional<ProgramAnswer> ProgramAnswers::find(const ProgramQuestion& question) {
  // From before the store is asked: what is committed meanwhile is asked for again.
  const auto version = store_.version();
  std::optional<Entry> found;
  {
    const std::lock_guard lock(mutex_);
    if (const auto entry = find_entry(question); entry == entries_.end()) {
      ++counts_.misses;
    } else {
      entries_.splice(entries_.begin(), entries_, entry);
      found = *entry;
    }
  }
  if (!found) return std::nullopt;
  const bool untouched = version == found->right_at;
  const auto now = untouched ? Result<Basis>(Basis{}) : basis_of(question, found->basis->keys);
  const bool right = untouched || (now && *now == *found->basis);
  const std::lock_guard lock(mutex_);
  ++(right ? counts_.hits : counts_.stale);
  const auto entry = find_entry(question);
  // Another thread may have kept a newer one meanwhile.
  if (entry == entries_.end() || entry->basis != found->basis)
    return right ? std::optional(found->answer) : std::nullopt;
  if (!right) {
    erase(entry);
    return std::nullopt;
  }
  if (version) entry->right_at = *version;
  return std::move(found->answer);
}

void ProgramAnswers::keep(const ProgramQuestion& question, const std::optional<db::StoreVersion>& begun,
                          const std::vector<db::PlanKey>& plans, const ProgramAnswer& answer) {
  const auto bytes = std::ssize(*answer.body);
  if (!begun || bytes > options_.largest_bytes) return;
  auto basis = basis_of(question, plans);
  // Something was committed since the answer was begun, and it may be of before or after: the next one is kept.
  if (!basis || store_.version() != begun) return;
  const std::lock_guard lock(mutex_);
  if (const auto entry = find_entry(question); entry != entries_.end()) erase(entry);
  while (!entries_.empty() && counts_.bytes + bytes > options_.most_bytes) erase(std::prev(entries_.end()));
  entries_.push_front({question, answer, std::make_shared<const Basis>(*std::move(basis)), *begun, bytes});
  counts_.bytes += bytes;
}

ProgramAnswers::Counts ProgramAnswers::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.answers = std::ssize(entries_);
  return counts;
}

ProgramAnswers::Entries::iterator ProgramAnswers::find_entry(const ProgramQuestion& question) {
  return std::ranges::find(entries_, question, &Entry::question);
}

void ProgramAnswers::erase(Entries::iterator entry) {
  counts_.bytes -= entry->bytes;
  entries_.erase(entry);
}

}  // namespace stitch::daemon
