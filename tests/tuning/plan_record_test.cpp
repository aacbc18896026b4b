#include "tuning/plans/plan_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tuning/sample_plan.h"

namespace stitch::tuning {
namespace {

using testing::HasSubstr;

TEST(PlanRecordTest, AStoredPlanComesBackWithWhatTheRecordKnows) {
  const api::Plan plan = samples::plan();
  db::PlanRecord record;
  record.id = plan.id;
  record.key = {plan.fragment, to_record(plan.target)};
  record.document = api::plan_document(plan);
  record.bytes = plan.bytes;
  record.label = db::Label::measured;
  record.predicted_us = plan.predicted_us;
  record.measured_us = plan.measured_us;
  record.verified_share = plan.verified_share;
  record.sequence = plan.sequence;
  record.provenance.judged = plan.judged;
  const Result<api::Plan> back = plan_from_record(record);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, plan);

  record.document = R"({"parameters":[]})";
  EXPECT_EQ(plan_from_record(record).error(),
            (Error{ErrorKind::corrupt, "plan " + plan.id.hex() + ": document: results: missing"}));
  record.document = "{";
  EXPECT_THAT(plan_from_record(record).error().message, HasSubstr("document: byte 2"));
}

}  // namespace
}  // namespace stitch::tuning
