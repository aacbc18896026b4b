// Plans of other toolkits and generators than the one that asks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/db/sample_records.h"

namespace stitch::db {
namespace {

class StalePlanTest : public testing::Test {
 protected:
  StalePlanTest() {
    SqliteOptions options;
    options.path = folder_ / "stitch.db";
    store_ = *open_sqlite_store(options, clock_);
    EXPECT_TRUE(store_->put_device(samples::emulated()).ok());
    EXPECT_TRUE(store_->put_device(samples::gpu()).ok());
    EXPECT_TRUE(store_->put_fragment(fragment_).ok());
  }
  static Target made_by(std::string toolkit, std::string version) {
    return {"h100", "sm_90a", std::move(toolkit), std::move(version)};
  }
  Hash128 put(const Target& target, double verified_share = 1, Admission admission = Admission::replace) {
    PlanBundle bundle = samples::bundle(fragment_, ++number_, target);
    bundle.plan.verified_share = verified_share;
    const auto put = store_->put_plan(bundle, admission);
    EXPECT_TRUE(put.ok()) << (put ? "" : put.error().message);
    return put ? put->id : Hash128();
  }
  std::optional<Hash128> stale(const Target& target) const {
    const auto found = store_->find_stale_plan({fragment_.key, target});
    EXPECT_TRUE(found.ok()) << (found ? "" : found.error().message);
    return found && *found ? std::optional((*found)->id) : std::nullopt;
  }

  const TestFolder folder_;
  SystemClock clock_;
  std::unique_ptr<Store> store_;
  const FragmentRecord fragment_ = samples::fragment(1);
  int number_ = 0;
};

TEST_F(StalePlanTest, TheOneServedLastInAnotherEnvironmentIsFoundAndNoOther) {
  EXPECT_EQ(stale(made_by("13.0", "b")), std::nullopt);
  const Hash128 first = put(made_by("13.0", "a"));
  EXPECT_EQ(stale(made_by("13.0", "a")), std::nullopt) << "its own environment's is none";
  EXPECT_EQ(stale(made_by("13.0", "b")), first);
  EXPECT_EQ(stale(made_by("13.1", "a")), first);
  const Hash128 second = put(made_by("12.9", "b"));
  EXPECT_EQ(stale(made_by("13.0", "c")), second);
  EXPECT_EQ(stale(made_by("12.9", "b")), std::nullopt) << "machine code of toolkit 13 is none for drivers of 12";
  EXPECT_EQ(stale(made_by("13.0", "a")), second);
  put(made_by("13.0", "d"), 1, Admission::challenger);
  put(made_by("13.0", "e"), 0);
  EXPECT_EQ(stale(made_by("13.0", "c")), second) << "never served, and never verified";
  put({"h200", "sm_90a", "13.0", "f"});
  put({"h100", "sm_90", "13.0", "f"});
  EXPECT_EQ(stale(made_by("13.0", "c")), second) << "another device and another architecture are no other environment";
  ASSERT_TRUE(store_->withdraw(second, "wrong", samples::provenance()).ok());
  EXPECT_EQ(stale(made_by("13.0", "c")), first);
}

TEST_F(StalePlanTest, EachEnvironmentKeepsItsOwn) {
  const Hash128 before = put(made_by("13.0", "a"));
  const Hash128 after = put(made_by("13.1", "b"));
  // Upgraded and downgraded: both find what they made, and neither took the other's place.
  EXPECT_EQ(store_->find_plan({fragment_.key, made_by("13.1", "b")}, {})->plan->id, after);
  EXPECT_EQ(store_->find_plan({fragment_.key, made_by("13.0", "a")}, {})->plan->id, before);
  EXPECT_EQ(store_->get_plan(before)->status, PlanStatus::incumbent);
  PrunePolicy all;
  all.jobs_before_us = all.plans_before_us = all.models_before_us = std::int64_t{1} << 62;
  ASSERT_TRUE(store_->prune(all).ok());
  EXPECT_EQ(store_->find_plan({fragment_.key, made_by("13.0", "a")}, {})->plan->id, before) << "nor does time";
}

TEST_F(StalePlanTest, AnIncumbentIsAnnouncedOnceMore) {
  const Hash128 id = put(made_by("13.0", "a"));
  const auto sequence = store_->announce(id, "verified", samples::provenance());
  ASSERT_TRUE(sequence.ok()) << sequence.error().message;
  const auto promotions = store_->list_promotions({});
  ASSERT_EQ(promotions->items.size(), 2U);
  EXPECT_EQ(promotions->items[1].plan, id);
  EXPECT_EQ(promotions->items[1].previous, std::nullopt);
  EXPECT_EQ(promotions->items[1].sequence, *sequence);
  EXPECT_EQ(store_->get_plan(id)->sequence, *sequence);
  EXPECT_TRUE(store_->integrity_check(true)->problems.empty());
  const Hash128 other = put(made_by("13.0", "a"), 1, Admission::challenger);
  EXPECT_EQ(store_->announce(other, "", samples::provenance()).error().kind, ErrorKind::invalid_argument);
  EXPECT_EQ(store_->announce(hash_bytes("none"), "", samples::provenance()).error().kind, ErrorKind::not_found);
}

}  // namespace
}  // namespace stitch::db
