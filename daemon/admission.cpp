#include "daemon/admission.h"

#include <fmt/format.h>

namespace stitch::daemon {

AdmissionRuling rule_on(const std::optional<db::Plan>& incumbent, const db::Plan& challenger) {
  using db::Admission;
  const bool verified = challenger.verified_share > 0;
  if (!incumbent) return {Admission::if_vacant, "nothing was served"};
  if (incumbent->verified_share <= 0 && verified) return {Admission::replace, "the incumbent was never verified"};
  if (!verified) return {Admission::challenger, "not verified"};
  if (!incumbent->measured_us || !challenger.measured_us) {
    return {Admission::challenger, "without two measured times the incumbent stays"};
  }
  const double share = *challenger.measured_us / *incumbent->measured_us;
  if (share < clearly_faster) return {Admission::replace, fmt::format("measured at {:.3f} of the incumbent", share)};
  return {Admission::challenger, fmt::format("measured at {:.3f} of the incumbent: not clearly faster", share)};
}

}  // namespace stitch::daemon
