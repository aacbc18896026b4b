#pragma once

#include <optional>
#include <string>

#include "daemon/jobs/answer_cache.h"
#include "db/store.h"

namespace stitch::daemon {

/// Answers of look-ups that hit, as they are sent. One that was given is given again for as long as the store serves
/// what it tells of: while nobody has committed anything, in any process, that is seen without asking the store; after
/// a commit the store is asked, once, for the one row that would differ. Nothing is told to it: a promotion, a
/// withdrawal or a new judgement by whomever makes the answer another one.
class LookupAnswers {
 public:
  /// The store must outlive it.
  LookupAnswers(const db::Store& store, AnswerCacheOptions options) : store_(store), cache_(options) {}

  /// Nothing when the store would have to be asked; never blocks.
  std::optional<KeptAnswer> at_once(const AskedBytes& asked);
  /// Asks the store if need be. Nothing when there is no answer, or it is not right any more.
  std::optional<KeptAnswer> checked(const AskedBytes& asked);
  /// Keeps an answer that was made of what the store serves for this key, not before `begun`.
  void keep(const AskedBytes& asked, const std::optional<db::StoreVersion>& begun, const db::PlanKey& key,
            std::shared_ptr<const std::string> body, graph::Encoding encoding);

  [[nodiscard]] AnswerCache::Counts counts() const { return cache_.counts(); }

 private:
  const db::Store& store_;
  AnswerCache cache_;
};

}  // namespace stitch::daemon
