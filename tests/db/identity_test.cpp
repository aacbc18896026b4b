// What a plan, a kernel and a measurement are known by: every field but those that are named here, whether it was
// thought of or not. Whoever adds a field finds it here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "db/record_fields.h"
#include "tests/graph/changed_field.h"
#include "tests/graph/filled_record.h"

namespace stitch::db {
namespace {

/// Whether a field, or what it is a part of, is among those.
bool is_among(const std::string& path, const std::set<std::string>& fields) {
  return fields.contains(path) || fields.contains(path.substr(0, path.find('.')));
}

/// Every field but `others` is part of what `identity` makes of the record, and each by itself; those are not.
template <class Record, class Identity>
void expect_identity_of_all_but(const std::set<std::string>& others, const Identity& identity) {
  const auto record = graph::filled<Record>();
  std::set<Hash128> seen = {identity(record)};
  std::set<std::string> met;
  graph::for_each_changed_field(record, [&](const std::string& path, const Record& changed) {
    ASSERT_NE(changed, record) << path << ": this test changed nothing";
    if (is_among(path, others)) {
      met.insert(others.contains(path) ? path : path.substr(0, path.find('.')));
      EXPECT_EQ(identity(changed), identity(record)) << path;
    } else {
      EXPECT_TRUE(seen.insert(identity(changed)).second) << path << " is told apart by nothing";
    }
  });
  EXPECT_EQ(met, others) << "those that there are";
  EXPECT_GT(seen.size(), 5U);
}

TEST(IdentityTest, APlanIsEverythingThatItsKernelsAreMadeOf) {
  expect_identity_of_all_but<PlanRecord>(
      {"id",
       // Judgements about it, which change.
       "label", "status", "predicted_us", "measured_us", "sequence", "verified_share", "neighbour",
       // Who made it, when and where: of the host.
       "provenance"},
      plan_id);
}

TEST(IdentityTest, AKernelIsEverythingThatIsRun) {
  expect_identity_of_all_but<Kernel>({"hash", "provenance"}, kernel_hash);
}

// Plans are looked for by all of it.
TEST(IdentityTest, ATargetIsEveryFieldOfIt) {
  const auto target = graph::filled<Target>();
  std::set<Target> seen = {target};
  graph::for_each_changed_field(target, [&](const std::string& path, const Target& changed) {
    EXPECT_TRUE(seen.insert(changed).second) << path;
    PlanRecord own, other;
    own.key.target = target;
    other.key.target = changed;
    EXPECT_NE(plan_id(own), plan_id(other)) << path;
  });
  EXPECT_EQ(seen.size(), 5U) << "device, architecture, toolkit, generator";
}

}  // namespace
}  // namespace stitch::db
