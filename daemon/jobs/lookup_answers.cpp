#include "daemon/jobs/lookup_answers.h"

#include <utility>

namespace stitch::daemon {

std::optional<KeptAnswer> LookupAnswers::at_once(const AskedBytes& asked) {
  const auto version = store_.version();
  if (!version) return std::nullopt;
  auto found = cache_.find(asked, version);
  if (!found || !found->is_current) return std::nullopt;
  return std::move(found->answer);
}

std::optional<KeptAnswer> LookupAnswers::checked(const AskedBytes& asked) {
  // From before the store is asked: what is committed meanwhile is asked for again.
  const auto version = store_.version();
  auto found = cache_.find(asked, version);
  if (!found) {
    cache_.count_miss();
    return std::nullopt;
  }
  if (found->is_current) return std::move(found->answer);
  const auto served = store_.served_plan(found->answer.served->key);
  if (!served || *served != *found->answer.served) {
    cache_.forget(asked);
    return std::nullopt;
  }
  if (version) cache_.confirm(asked, *version);
  return std::move(found->answer);
}

void LookupAnswers::keep(const AskedBytes& asked, const std::optional<db::StoreVersion>& begun, const db::PlanKey& key,
                         std::shared_ptr<const std::string> body, graph::Encoding encoding) {
  if (!begun) return;
  auto served = store_.served_plan(key);
  // Something was committed since the answer was begun, and it may be of before or after: the next one is kept.
  if (!served || !*served || store_.version() != begun) return;
  cache_.keep(asked, {std::move(body), encoding, std::make_shared<const db::PlanRecord>(**std::move(served))}, *begun);
}

}  // namespace stitch::daemon
