#pragma once

#include <optional>
#include <string>

#include "db/records.h"
#include "db/store_types.h"

namespace stitch::daemon {

/// A challenger's measured time must be below this share of the incumbent's to replace it.
inline constexpr double clearly_faster = 0.98;

struct AdmissionRuling {
  db::Admission admission = db::Admission::challenger;
  std::string reason;  ///< for people
};

/// Whether a plan takes the place of the one that is served for its key. A plan that nobody verified makes way for one
/// that was; between verified plans only measured times decide, and an ambiguous comparison keeps the incumbent.
AdmissionRuling rule_on(const std::optional<db::Plan>& incumbent, const db::Plan& challenger);

}  // namespace stitch::daemon
