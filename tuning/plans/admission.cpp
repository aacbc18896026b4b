#include "tuning/plans/admission.h"

#include <fmt/format.h>

namespace stitch::tuning {

Standing standing_of(double verified_share, bool measured) {
  if (verified_share <= 0) return Standing::unverified;
  return measured ? Standing::measured : Standing::verified;
}

bool compares_nothing(const db::PlanRecord& plan) {
  return plan.verified_share <= 0 && !plan.provenance.device.empty();
}

AdmissionRuling rule_on(const std::optional<db::PlanRecord>& incumbent, const db::PlanRecord& challenger,
                        const std::optional<profiler::SampleComparison>& comparison) {
  using db::Admission;
  const bool verified = challenger.verified_share > 0;
  if (!incumbent) return {Admission::if_vacant, "nothing was served"};
  if (incumbent->verified_share <= 0 && verified) return {Admission::replace, "the incumbent was never verified"};
  if (incumbent->verified_share <= 0 && compares_nothing(challenger) && !compares_nothing(*incumbent))
    return {Admission::replace, "the incumbent was never run"};
  if (!verified) return {Admission::challenger, "not verified"};
  if (!comparison) return {Admission::challenger, "the two were not measured side by side"};
  const bool faster = comparison->verdict == profiler::Comparison::faster;
  return {faster ? Admission::replace : Admission::challenger, "measured at " + comparison->describe()};
}

}  // namespace stitch::tuning
