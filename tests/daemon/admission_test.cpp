#include "daemon/admission.h"

#include <gtest/gtest.h>

namespace stitch::daemon {
namespace {

using db::Admission;

db::Plan plan(double verified, std::optional<double> measured = {}) {
  db::Plan made;
  made.verified_share = verified;
  made.measured_us = measured;
  return made;
}

TEST(AdmissionTest, WhoTakesWhosePlace) {
  struct Case {
    std::string name;
    std::optional<db::Plan> incumbent;
    db::Plan challenger;
    Admission expected;
  };
  const Case cases[] = {
      {"nobody is served", {}, plan(0), Admission::if_vacant},
      {"nobody is served, verified", {}, plan(1), Admission::if_vacant},
      {"predictions do not replace each other", plan(0), plan(0), Admission::challenger},
      {"a prediction never replaces a verified plan", plan(1), plan(0), Admission::challenger},
      {"verified replaces predicted", plan(0), plan(0.1), Admission::replace},
      {"without measurements the incumbent stays", plan(1), plan(1), Admission::challenger},
      {"a measurement alone does not compare", plan(1), plan(1, 5), Admission::challenger},
      {"clearly faster", plan(1, 10), plan(1, 9), Admission::replace},
      {"too close to tell", plan(1, 10), plan(1, 9.9), Admission::challenger},
      {"slower", plan(1, 10), plan(1, 11), Admission::challenger},
      {"measured as faster, but never verified", plan(1, 10), plan(0, 1), Admission::challenger},
  };
  for (const Case& one : cases) EXPECT_EQ(rule_on(one.incumbent, one.challenger).admission, one.expected) << one.name;
  EXPECT_EQ(rule_on(plan(1, 10), plan(1, 9)).reason, "measured at 0.900 of the incumbent");
}

}  // namespace
}  // namespace stitch::daemon
