#include "db/portable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/bundle_codec.h"
#include "tests/db/sample_records.h"

namespace stitch::db {
namespace {

namespace fs = std::filesystem;
using samples::expect_error;
using testing::ElementsAre;
using testing::IsEmpty;

/// A store with one fragment about which everything is known, and a second one.
class PortableTest : public testing::Test {
 protected:
  void SetUp() override {
    store = samples::opened(folder / "source.db", clock);
    const FragmentRecord fragment = samples::fragment(1);
    ASSERT_OK(store->put_device(samples::gpu()));
    ASSERT_OK(store->put_device(samples::gpu(1)));
    measured = samples::put(*store, 1);
    ASSERT_OK(store->record_measurement(samples::measurement(MeasurementRecord::Subject::plan, measured, {1.5, 2.5})));
    withdrawn = store->put_plan(samples::bundle(fragment, 2), Admission::challenger)->id;
    ASSERT_OK(store->withdraw(withdrawn, "wrong", samples::provenance()));
    PlanBundle near = samples::bundle(fragment, 3);
    near.plan.label = Label::near;
    near.plan.neighbour = measured;
    ASSERT_OK(store->put_plan(near, Admission::challenger));
    Candidate tried = samples::candidate(fragment, 1, Outcome::correct);
    tried.kernel = near.kernels[0].hash;
    const std::vector<Candidate> candidates = {tried, samples::candidate(fragment, 2, Outcome::compile)};
    ASSERT_OK(store->record_candidates(candidates));
    ASSERT_OK(store->record_measurement(samples::measurement(MeasurementRecord::Subject::schedule, tried.schedule_hash,
                                                             {0.1, 0.2, 0.30000000000000004})));
    samples::put(*store, 4);
  }

  TestFolder folder;
  ManualClock clock;
  std::unique_ptr<Store> store;
  Hash128 measured, withdrawn;
};

void expect_same(const FragmentBundle& a, const FragmentBundle& b) {
  EXPECT_EQ(a.fragment, b.fragment);
  EXPECT_EQ(a.devices, b.devices);
  EXPECT_EQ(a.artifacts, b.artifacts);
  EXPECT_EQ(a.kernels, b.kernels);
  EXPECT_EQ(a.candidates, b.candidates);
  EXPECT_EQ(a.measurements, b.measurements);
  ASSERT_EQ(a.plans.size(), b.plans.size());
  for (std::size_t i = 0; i < a.plans.size(); ++i) {
    PlanRecord plan = a.plans[i];
    plan.sequence = b.plans[i].sequence;  // counted by each store for itself
    EXPECT_EQ(plan, b.plans[i]);
  }
}

TEST_F(PortableTest, AFragmentMovesToAnEmptyStore) {
  const FragmentBundle original = *store->get_fragment_bundle(samples::hash(1));
  ASSERT_EQ(original.plans.size(), 3U);
  ASSERT_EQ(original.measurements.size(), 2U);
  EXPECT_THAT(original.devices, ElementsAre(samples::gpu())) << "only the devices that are referred to";
  const Hash128 keys[] = {samples::hash(1), samples::hash(4)};
  ASSERT_OK(export_fragments(*store, keys, folder / "out.stitch"));

  const auto other = samples::opened(folder / "other.db", clock);
  const Result<MergeReport> report = import_fragments(*other, folder / "out.stitch");
  ASSERT_OK(report);
  EXPECT_EQ(report->fragments, 2);
  EXPECT_EQ(report->plans, 4);
  EXPECT_EQ(report->known, 0);
  expect_same(*other->get_fragment_bundle(samples::hash(1)), original);
  EXPECT_EQ(other->find_plan({samples::hash(1), samples::target()}, {})->plan->id, measured);
  EXPECT_EQ(other->get_plan(withdrawn)->status, PlanStatus::withdrawn);
  EXPECT_THAT(other->integrity_check(true)->problems, IsEmpty());

  const Result<MergeReport> again = import_fragments(*other, folder / "out.stitch");
  ASSERT_OK(again);
  EXPECT_EQ(
      again->fragments + again->plans + again->kernels + again->artifacts + again->candidates + again->measurements, 0);
  EXPECT_GT(again->known, 0);
}

TEST_F(PortableTest, AnImportDoesNotReplaceWhatIsServed) {
  const auto other = samples::opened(folder / "other.db", clock);
  ASSERT_OK(other->put_fragment(samples::fragment(1)));
  const Hash128 own = other->put_plan(samples::bundle(samples::fragment(1), 77), Admission::if_vacant)->id;
  const Hash128 keys[] = {samples::hash(1)};
  ASSERT_OK(export_fragments(*store, keys, folder / "out.stitch"));
  ASSERT_OK(import_fragments(*other, folder / "out.stitch"));
  EXPECT_EQ(other->find_plan({samples::hash(1), samples::target()}, {})->plan->id, own);
  EXPECT_EQ(other->get_plan(measured)->status, PlanStatus::challenger);
  EXPECT_EQ(other->get_plan(measured)->label, Label::measured);
}

TEST_F(PortableTest, BundlesRoundTripThroughTheirBytes) {
  const FragmentBundle original = *store->get_fragment_bundle(samples::hash(1));
  const std::string bytes = encode_bundle(original);
  const Result<FragmentBundle> read = decode_bundle(bytes);
  ASSERT_OK(read);
  EXPECT_EQ(encode_bundle(*read), bytes);
  EXPECT_EQ(hash_bytes(bytes).hex(), "c48f7922a2e9c3e34123c910b7bced3a")
      << "the format of portable files is not what it was";
}

TEST_F(PortableTest, AFileOfTheFirstVersionIsReadAndNamedAnew) {
  const fs::path file = fs::path(STITCH_SOURCE_DIR) / "tests" / "data" / "db" / "portable1.stitch";
  const auto other = samples::opened(folder / "other.db", clock);
  const Result<MergeReport> report = import_fragments(*other, file);
  ASSERT_OK(report);
  EXPECT_EQ(report->fragments, 2);
  EXPECT_EQ(report->artifacts, 6);
  EXPECT_THAT(other->integrity_check(true)->problems, IsEmpty());
  const auto plans = other->list_plans({}, {});
  ASSERT_EQ(plans->items.size(), 2U);
  for (const PlanRecord& listed : plans->items) {
    const auto bundle = other->get_plan_bundle(listed.id);
    ASSERT_OK(bundle);
    EXPECT_NE(bundle->plan.document.find(bundle->kernels.at(0).cubin.hex()), std::string::npos);
    EXPECT_EQ(other->find_plan(listed.key, {})->plan->id, listed.id);
  }
  const Result<MergeReport> again = import_fragments(*other, file);
  ASSERT_OK(again);
  EXPECT_EQ(again->plans + again->kernels + again->artifacts, 0);

  // What is written now is of the second version, and the same.
  std::vector<Hash128> keys;
  for (const PlanRecord& plan : plans->items) keys.push_back(plan.key.fragment);
  ASSERT_OK(export_fragments(*other, keys, folder / "new.stitch"));
  const auto third = samples::opened(folder / "third.db", clock);
  ASSERT_OK(import_fragments(*third, folder / "new.stitch"));
  for (const Hash128& key : keys) expect_same(*third->get_fragment_bundle(key), *other->get_fragment_bundle(key));
}

TEST_F(PortableTest, WhatDoesNotValidateIsNamed) {
  const FragmentBundle good = *store->get_fragment_bundle(samples::hash(1));
  const auto spoiled = [&](auto spoil) {
    FragmentBundle bundle = good;
    spoil(bundle);
    return decode_bundle(encode_bundle(bundle));
  };
  expect_error(spoiled([](FragmentBundle& b) { b.plans[1].bytes = 1; }), ErrorKind::corrupt, "plans[1].id");
  expect_error(spoiled([](FragmentBundle& b) { b.kernels[0].launch = "{}"; }), ErrorKind::corrupt, "kernels[0].hash");
  expect_error(spoiled([](FragmentBundle& b) { b.artifacts[2].bytes = ""; }), ErrorKind::corrupt,
               "artifacts[2]: artifact: hash is not");
  expect_error(spoiled([](FragmentBundle& b) { b.measurements[0].samples[1] = 1; }), ErrorKind::corrupt,
               "measurements[0].id");
  expect_error(spoiled([](FragmentBundle& b) { b.plans[0].label = static_cast<Label>(9); }), ErrorKind::corrupt,
               "plans[0].label is the unknown word \"invalid\"");
  expect_error(spoiled([](FragmentBundle& b) { b.candidates[0].provenance.tool = ""; }), ErrorKind::corrupt,
               "tool is empty");
  expect_error(spoiled([](FragmentBundle& b) { b.fragment.key.low ^= 1; }), ErrorKind::corrupt, "another fragment");
  expect_error(decode_bundle("\xa0"), ErrorKind::corrupt, "fragment is missing");
  expect_error(decode_bundle("\x81\xf6"), ErrorKind::corrupt, "fragment is missing");
}

TEST_F(PortableTest, ABundleThatClaimsTooMuchIsRefusedWhole) {
  FragmentBundle bundle = *store->get_fragment_bundle(samples::hash(1));
  bundle.measurements.clear();
  const auto other = samples::opened(folder / "other.db", clock);
  expect_error(other->merge_fragment(bundle), ErrorKind::invalid_argument, "labelled measured");
  bundle = *store->get_fragment_bundle(samples::hash(1));
  bundle.kernels.pop_back();
  expect_error(other->merge_fragment(bundle), ErrorKind::invalid_argument, "is not stored");
  EXPECT_EQ(other->statistics()->fragments, 0);
  EXPECT_EQ(other->statistics()->artifacts, 0);
}

TEST_F(PortableTest, AnyDamageIsFoundAndImportsNothing) {
  const Hash128 keys[] = {samples::hash(1), samples::hash(4)};
  ASSERT_OK(export_fragments(*store, keys, folder / "out.stitch"));
  const std::string good = samples::read_file(folder / "out.stitch");
  const auto other = samples::opened(folder / "other.db", clock);
  const auto import = [&](const std::string& bytes) {
    samples::write_file(folder / "damaged.stitch", bytes);
    return import_fragments(*other, folder / "damaged.stitch");
  };
  expect_error(import(""), ErrorKind::parse, "ends at byte 0");
  expect_error(import("SQLite format 3 and so on"), ErrorKind::parse, "is not an export of Stitch");
  std::string newer = good;
  newer[8] = 3;
  expect_error(import(newer), ErrorKind::version_mismatch, "export format 3; this Stitch reads formats 1 to 2");
  std::string older = good;
  older[8] = 1;
  expect_error(import(older), ErrorKind::corrupt, "artifacts[0].hash is not that of the record");
  expect_error(import(good + "x"), ErrorKind::corrupt, "bytes after the end");
  expect_error(import_fragments(*other, folder / "absent"), ErrorKind::not_found, "absent");
  expect_error(import_fragments(*other, folder.path()), ErrorKind::io, folder.path().string());

  for (std::size_t size = 12; size < good.size(); size += good.size() / 97 + 1) {
    expect_error(import(good.substr(0, size)), ErrorKind::corrupt, "damaged.stitch");
  }
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    std::string damaged = good;
    damaged[12 + random.below(good.size() - 12)] ^= static_cast<char>(1 + random.below(255));
    expect_error(import(damaged), ErrorKind::corrupt, "damaged.stitch");
  }
  EXPECT_EQ(other->statistics()->fragments, 0);
}

TEST_F(PortableTest, AnExportThatFailsLeavesNoFile) {
  const Hash128 keys[] = {samples::hash(1), samples::hash(1234)};
  expect_error(export_fragments(*store, keys, folder / "out.stitch"), ErrorKind::not_found, samples::hash(1234).hex());
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_THAT(entry.path().filename().string(), testing::StartsWith("source.db"));
  expect_error(export_fragments(*store, {}, folder / "no" / "such" / "folder"), ErrorKind::io, "cannot create");
}

}  // namespace
}  // namespace stitch::db
