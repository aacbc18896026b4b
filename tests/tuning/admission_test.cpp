#include "tuning/plans/admission.h"

#include <gtest/gtest.h>

namespace stitch::tuning {
namespace {

using db::Admission;

db::PlanRecord plan(double verified, std::optional<double> measured = {}) {
  db::PlanRecord made;
  made.verified_share = verified;
  made.measured_us = measured;
  return made;
}

/// Of whose results nothing could be compared.
db::PlanRecord run_in_vain() {
  db::PlanRecord made = plan(0);
  made.provenance.device = "emulated";
  return made;
}

profiler::SampleComparison compared(profiler::Comparison verdict) {
  profiler::SampleComparison comparison;
  comparison.verdict = verdict;
  comparison.ratio = 0.9;
  comparison.low = 0.88;
  comparison.high = 0.92;
  return comparison;
}

TEST(AdmissionTest, WhoTakesWhosePlace) {
  using profiler::Comparison;
  const auto faster = compared(Comparison::faster);
  struct Case {
    std::string name;
    std::optional<db::PlanRecord> incumbent;
    db::PlanRecord challenger;
    std::optional<profiler::SampleComparison> comparison;
    Admission expected;
  };
  const Case cases[] = {
      {"nobody is served", {}, plan(0), {}, Admission::if_vacant},
      {"nobody is served, verified", {}, plan(1), {}, Admission::if_vacant},
      {"predictions do not replace each other", plan(0), plan(0), {}, Admission::challenger},
      {"what was run replaces a prediction", plan(0), run_in_vain(), {}, Admission::replace},
      {"and is not replaced by one", run_in_vain(), plan(0), {}, Admission::challenger},
      {"nor by what was run like it", run_in_vain(), run_in_vain(), {}, Admission::challenger},
      {"what was run never replaces a verified plan", plan(1), run_in_vain(), {}, Admission::challenger},
      {"a prediction never replaces a verified plan", plan(1), plan(0), {}, Admission::challenger},
      {"verified replaces predicted", plan(0), plan(0.1), {}, Admission::replace},
      {"without measurements the incumbent stays", plan(1), plan(1), {}, Admission::challenger},
      {"measurements of different runs do not compare", plan(1, 10), plan(1, 5), {}, Admission::challenger},
      {"clearly faster", plan(1, 10), plan(1, 9), faster, Admission::replace},
      {"too close to tell", plan(1, 10), plan(1, 9.9), compared(Comparison::ambiguous), Admission::challenger},
      {"slower", plan(1, 10), plan(1, 11), compared(Comparison::slower), Admission::challenger},
      {"measured as faster, but never verified", plan(1, 10), plan(0, 1), faster, Admission::challenger},
  };
  for (const Case& one : cases)
    EXPECT_EQ(rule_on(one.incumbent, one.challenger, one.comparison).admission, one.expected) << one.name;
  EXPECT_EQ(rule_on(plan(1, 10), plan(1, 9), faster).reason,
            "measured at 0.900 of the incumbent (0.880 … 0.920): faster");
}

}  // namespace
}  // namespace stitch::tuning
