#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "db/records.h"
#include "db/store_types.h"
#include "profiler/measure/sample_comparison.h"

namespace stitch::tuning {

struct AdmissionRuling {
  db::Admission admission = db::Admission::challenger;
  std::string reason;  ///< for people
};

/// How much was found out about a plan, as far as it is worth waiting for: nothing, that it is right, how long it
/// takes.
enum class Standing : std::uint8_t { unverified, verified, measured };
Standing standing_of(double verified_share, bool measured);

/// Whether a plan was run for verification and nothing of its results compared, since the reference says nothing of
/// them. It is not verified, and running it again would not change that.
bool compares_nothing(const db::PlanRecord& plan);

/// Whether a plan takes the place of the one that is served for its key. A plan that nobody verified makes way for one
/// that was, or that was run at least; between verified plans only `comparison` decides, of samples taken side by side,
/// and an ambiguous one keeps the incumbent.
AdmissionRuling rule_on(const std::optional<db::PlanRecord>& incumbent, const db::PlanRecord& challenger,
                        const std::optional<profiler::SampleComparison>& comparison);

}  // namespace stitch::tuning
