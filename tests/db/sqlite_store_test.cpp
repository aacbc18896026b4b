#include "db/sqlite_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/forged_bytes.h"
#include "tests/db/sample_records.h"

namespace stitch::db {
namespace {

using samples::expect_error;
using testing::ElementsAre;

/// What every test of the store starts with.
class SqliteStoreTest : public testing::Test {
 protected:
  void SetUp() override { store = samples::opened(folder / "stitch.db", clock); }

  TestFolder folder;
  ManualClock clock;
  std::unique_ptr<Store> store;
};

TEST_F(SqliteStoreTest, DevicesAreInsertedAndRefreshed) {
  Device device = samples::gpu();
  ASSERT_OK(store->put_device(device));
  EXPECT_EQ(*store->get_device(device.key), device);
  device.driver = "590.1";
  device.constants = R"({"launch_us":1.1})";
  ASSERT_OK(store->put_device(device));
  ASSERT_OK(store->put_device(samples::emulated()));
  EXPECT_THAT(*store->list_devices(), ElementsAre(device, samples::emulated()));
  expect_error(store->get_device("GPU-none"), ErrorKind::not_found, "GPU-none");
}

TEST_F(SqliteStoreTest, FragmentsComeBackWhole) {
  const FragmentRecord fragment = samples::fragment(1);
  ASSERT_OK(store->put_fragment(fragment));
  ASSERT_OK(store->put_fragment(fragment));
  EXPECT_EQ(*store->get_fragment(fragment.key), fragment);
  expect_error(store->get_fragment(samples::hash(99)), ErrorKind::not_found, samples::hash(99).hex());

  FragmentRecord stranger = fragment;
  stranger.family = samples::hash(5);
  expect_error(store->put_fragment(stranger), ErrorKind::invalid_argument, "is stored with family");
}

TEST_F(SqliteStoreTest, WorkloadsListTheirFragmentsInOrder) {
  Workload workload;
  workload.key = sha256("a model file");
  workload.name = "bert.onnx";
  workload.format = "onnx";
  workload.report = R"({"launches":12})";
  workload.parts = {{samples::hash(2), 12}, {samples::hash(1), 1}};
  workload.provenance = samples::provenance("imported");
  expect_error(store->put_workload(workload), ErrorKind::invalid_argument, "is not stored");
  ASSERT_OK(store->put_fragment(samples::fragment(1)));
  ASSERT_OK(store->put_fragment(samples::fragment(2)));
  ASSERT_OK(store->put_workload(workload));
  EXPECT_EQ(*store->get_workload(workload.key), workload);

  workload.parts.pop_back();
  workload.report = "{}";
  ASSERT_OK(store->put_workload(workload));
  EXPECT_THAT(store->list_workloads({})->items, ElementsAre(workload));
}

TEST_F(SqliteStoreTest, AModelHasOneProgramPerClassOfGpus) {
  ProgramRecord program;
  program.model = sha256("a model file");
  program.id = samples::hash(7);
  program.device = "h100";
  program.name = "bert.onnx";
  program.document = std::string(5000, 'x');
  program.provenance = samples::provenance();
  expect_error(store->put_program(program), ErrorKind::invalid_argument, "the model " + program.model.hex());
  Workload workload;
  workload.key = program.model;
  workload.format = "onnx";
  workload.provenance = samples::provenance();
  ASSERT_OK(store->put_workload(workload));
  ASSERT_OK(store->put_program(program));
  EXPECT_EQ(*store->get_program(program.model, "h100"), program);
  expect_error(store->get_program(program.model, "l4"), ErrorKind::not_found, "for l4");
  ProgramRecord other = program;
  other.device = "l4";
  ASSERT_OK(store->put_program(other));
  program.document = "another";
  program.id = samples::hash(8);
  ASSERT_OK(store->put_program(program));
  EXPECT_EQ(*store->get_program(program.model, "h100"), program);
  EXPECT_EQ(*store->get_program(program.model, "l4"), other);
  ASSERT_OK(store->put_workload(workload));  // a model that is tuned again keeps its programs
  program.document.clear();
  other.document.clear();
  EXPECT_THAT(store->list_programs("bert.onnx", {})->items, ElementsAre(program, other));
  EXPECT_THAT(store->list_programs("gpt", {})->items, ElementsAre());
  EXPECT_EQ(store->list_programs({}, {.limit = 1})->items.size(), 1U);
}

TEST_F(SqliteStoreTest, APlanIsStoredWithAllThatBelongsToIt) {
  const FragmentRecord fragment = samples::fragment(1);
  const PlanBundle bundle = samples::bundle(fragment, 1);
  ASSERT_OK(store->put_fragment(fragment));
  const Result<PutPlan> put = store->put_plan(bundle, Admission::if_vacant);
  ASSERT_OK(put);
  EXPECT_TRUE(put->inserted);
  EXPECT_TRUE(put->incumbent);
  EXPECT_EQ(put->id, plan_id(bundle.plan));

  PlanBundle expected = bundle;
  expected.plan.status = PlanStatus::incumbent;
  expected.plan.sequence = 1;
  EXPECT_EQ(*store->get_plan_bundle(put->id), expected);
  EXPECT_EQ(*store->get_kernel(bundle.kernels[0].hash), bundle.kernels[0]);
  for (const Artifact& artifact : bundle.artifacts) EXPECT_EQ(*store->get_artifact(artifact.hash), artifact);
}

TEST_F(SqliteStoreTest, StoringAPlanTwiceChangesNothing) {
  const Hash128 id = samples::put(*store, 1);
  const PlanRecord before = *store->get_plan(id);
  const Result<PutPlan> again = store->put_plan(samples::bundle(samples::fragment(1), 1), Admission::if_vacant);
  ASSERT_OK(again);
  EXPECT_FALSE(again->inserted);
  EXPECT_TRUE(again->incumbent);
  EXPECT_EQ(*store->get_plan(id), before);
  EXPECT_EQ(store->statistics()->plans, 1);
}

TEST_F(SqliteStoreTest, AnIncompletePlanLeavesNothingBehind) {
  const FragmentRecord fragment = samples::fragment(1);
  const PlanBundle whole = samples::bundle(fragment, 1);
  expect_error(store->put_plan(whole, Admission::if_vacant), ErrorKind::invalid_argument, "fragment");

  ASSERT_OK(store->put_fragment(fragment));
  PlanBundle without_kernel = whole;
  without_kernel.kernels.clear();
  expect_error(store->put_plan(without_kernel, Admission::if_vacant), ErrorKind::invalid_argument,
               whole.kernels[0].hash.hex());
  PlanBundle without_cubin = whole;
  without_cubin.artifacts.pop_back();
  expect_error(store->put_plan(without_cubin, Admission::if_vacant), ErrorKind::invalid_argument,
               whole.artifacts[2].hash.hex());
  PlanBundle wrong_hash = whole;
  wrong_hash.artifacts[0].bytes += "tampered";
  expect_error(store->put_plan(wrong_hash, Admission::if_vacant), ErrorKind::invalid_argument, "hash is not that");
  PlanBundle unmeasured = whole;
  unmeasured.plan.label = Label::measured;
  expect_error(store->put_plan(unmeasured, Admission::if_vacant), ErrorKind::invalid_argument, "labelled measured");

  const StoreStatistics statistics = *store->statistics();
  EXPECT_EQ(statistics.plans, 0);
  EXPECT_EQ(statistics.kernels, 0);
  EXPECT_EQ(statistics.artifacts, 1) << "the fragment's graph";
}

TEST_F(SqliteStoreTest, ManyPlansAreOneTransaction) {
  const FragmentRecord fragment = samples::fragment(1);
  ASSERT_OK(store->put_fragment(fragment));
  std::vector<PlanBundle> bundles = {samples::bundle(fragment, 1), samples::bundle(fragment, 2)};
  bundles[1].plan.document = "{";
  expect_error(store->put_plans(bundles, Admission::replace), ErrorKind::invalid_argument, "document is not JSON");
  EXPECT_EQ(store->statistics()->plans, 0);
  bundles[1].plan.document = "{}";
  const auto put = store->put_plans(bundles, Admission::replace);
  ASSERT_OK(put);
  EXPECT_EQ(store->get_plan((*put)[0].id)->status, PlanStatus::superseded);
  EXPECT_EQ(store->get_plan((*put)[1].id)->status, PlanStatus::incumbent);
}

struct MissCase {
  const char* what;
  PlanKey asked;
  std::vector<KeyField> differs;
};

TEST_F(SqliteStoreTest, AMissSaysWhichFieldsOfTheKeyDiffer) {
  const Hash128 stored = samples::put(*store, 1);
  ASSERT_OK(store->put_fragment(samples::fragment(2)));
  ASSERT_OK(store->put_fragment(samples::fragment(3, 9)));
  const PlanKey key{samples::hash(1), samples::target()};
  EXPECT_EQ(store->find_plan(key, {})->plan->id, stored);

  const auto with = [&](auto change) {
    PlanKey changed = key;
    change(changed);
    return changed;
  };
  using enum KeyField;
  const MissCase cases[] = {
      {"device", with([](PlanKey& k) { k.target.device = "a100"; }), {device}},
      {"toolkit", with([](PlanKey& k) { k.target.toolkit = "12.9"; }), {toolkit}},
      {"architecture", with([](PlanKey& k) { k.target.architecture = "sm_80"; }), {architecture}},
      {"version", with([](PlanKey& k) { k.target.version = "codegen 2"; }), {version}},
      {"shape", with([](PlanKey& k) { k.fragment = samples::hash(2); }), {shape}},
      {"two of them",
       with([](PlanKey& k) { k.target.device = "a100", k.target.architecture = "sm_80"; }),
       {architecture, device}},
      {"all of them",
       {samples::hash(2), {"t4", "sm_75", "12.0", "codegen 0"}},
       {version, toolkit, architecture, device, shape}},
  };
  for (const MissCase& miss : cases) {
    const Result<Lookup> lookup = store->find_plan(miss.asked, {});
    ASSERT_OK(lookup);
    EXPECT_FALSE(lookup->plan) << miss.what;
    EXPECT_EQ(lookup->miss.differs, miss.differs) << miss.what;
    EXPECT_EQ(lookup->miss.closest, key) << miss.what;
    EXPECT_EQ(lookup->miss.closest_plan, stored) << miss.what;
  }

  const Lookup alien = *store->find_plan({samples::hash(3), samples::target()}, {});
  EXPECT_THAT(alien.miss.differs, ElementsAre(fragment));
  EXPECT_FALSE(alien.miss.closest);
  const Lookup new_shape = *store->find_plan({samples::hash(50), samples::target()}, samples::fragment(1).family);
  EXPECT_THAT(new_shape.miss.differs, ElementsAre(shape)) << "the family is known, the fragment is not";
}

TEST_F(SqliteStoreTest, TheClosestMissDiffersInWhatTellsLeast) {
  const FragmentRecord of = samples::fragment(1);
  ASSERT_OK(store->put_fragment(of));
  const auto put = [&](const Target& target) {
    return store->put_plan(samples::bundle(of, 1, target), Admission::if_vacant)->id;
  };
  const Target asked = samples::target();
  put({"a100", asked.architecture, asked.toolkit, asked.version});
  const Hash128 close = put({asked.device, asked.architecture, "12.9", "codegen 0"});
  put({asked.device, "sm_80", asked.toolkit, asked.version});
  EXPECT_EQ(store->find_plan({of.key, asked}, {})->miss.closest_plan, close);
}

TEST_F(SqliteStoreTest, PromotionSupersedesAndIsAFeed) {
  const Hash128 first = samples::put(*store, 1);
  const Hash128 second = store->put_plan(samples::bundle(samples::fragment(1), 2), Admission::if_vacant)->id;
  EXPECT_EQ(store->get_plan(second)->status, PlanStatus::challenger);
  const std::int64_t before = *store->last_promotion();

  const Result<std::int64_t> sequence = store->promote(second, "faster: 9.1 against 10.2 µs", samples::provenance());
  ASSERT_OK(sequence);
  EXPECT_GT(*sequence, before);
  EXPECT_EQ(*store->promote(second, "again", samples::provenance()), *sequence) << "it is incumbent already";
  EXPECT_EQ(store->get_plan(first)->status, PlanStatus::superseded);
  EXPECT_EQ(store->find_plan({samples::hash(1), samples::target()}, {})->plan->id, second);

  const Listing<Promotion> news = *store->list_promotions({100, before, false});
  ASSERT_EQ(news.items.size(), 1U);
  EXPECT_EQ(news.items[0].sequence, *sequence);
  EXPECT_EQ(news.items[0].plan, second);
  EXPECT_EQ(news.items[0].previous, first);
  EXPECT_EQ(news.items[0].reason, "faster: 9.1 against 10.2 µs");
  EXPECT_EQ(news.items[0].key, (PlanKey{samples::hash(1), samples::target()}));
  expect_error(store->promote(samples::hash(5), "", samples::provenance()), ErrorKind::not_found, "no plan");
}

TEST_F(SqliteStoreTest, AWithdrawnPlanIsNeverServedAgain) {
  const Hash128 id = samples::put(*store, 1);
  ASSERT_OK(store->withdraw(id, "wrong on a new seed", samples::provenance()));
  EXPECT_FALSE(store->find_plan({samples::hash(1), samples::target()}, {})->plan);
  expect_error(store->promote(id, "", samples::provenance()), ErrorKind::invalid_argument, "was withdrawn");
  const Result<PutPlan> again = store->put_plan(samples::bundle(samples::fragment(1), 1), Admission::replace);
  ASSERT_OK(again);
  EXPECT_FALSE(again->incumbent);
  const Promotion last = store->list_promotions({1, 0, true})->items.at(0);
  EXPECT_EQ(last.plan, std::nullopt);
  EXPECT_EQ(last.previous, id);
}

TEST_F(SqliteStoreTest, OnlyAMeasurementMakesAPlanMeasured) {
  const Hash128 id = samples::put(*store, 1);
  PlanJudgement judgement{Label::measured, 9, 1, {}, samples::provenance("a guess")};
  expect_error(store->judge_plan(id, judgement), ErrorKind::invalid_argument, "only a measurement");
  judgement.label = Label::near;
  expect_error(store->judge_plan(id, judgement), ErrorKind::invalid_argument, "neighbour");
  judgement.neighbour = samples::hash(3);
  ASSERT_OK(store->judge_plan(id, judgement));
  EXPECT_EQ(store->get_plan(id)->label, Label::near);

  ASSERT_OK(store->put_device(samples::gpu()));
  ASSERT_OK(store->record_measurement(samples::measurement(MeasurementRecord::Subject::plan, id, {9, 8, 10})));
  PlanRecord plan = *store->get_plan(id);
  EXPECT_EQ(plan.label, Label::measured);
  EXPECT_EQ(plan.measured_us, 9.0);
  EXPECT_EQ(plan.neighbour, std::nullopt);
  EXPECT_EQ(plan.provenance.judged, "measured by CUPTI");

  judgement.predicted_us = 7;
  ASSERT_OK(store->judge_plan(id, judgement));
  plan = *store->get_plan(id);
  EXPECT_EQ(plan.label, Label::measured) << "a prediction never lowers it";
  EXPECT_EQ(plan.predicted_us, 7);
  EXPECT_EQ(plan.provenance.judged, "measured by CUPTI");
}

TEST_F(SqliteStoreTest, TheNewestMeasurementStands) {
  const Hash128 id = samples::put(*store, 1);
  ASSERT_OK(store->put_device(samples::gpu()));
  MeasurementRecord newer = samples::measurement(MeasurementRecord::Subject::plan, id, {5});
  newer.provenance.wall_us += 10;
  ASSERT_OK(store->record_measurement(newer));
  ASSERT_OK(store->record_measurement(samples::measurement(MeasurementRecord::Subject::plan, id, {6})));
  EXPECT_EQ(store->get_plan(id)->measured_us, 5.0);
}

TEST_F(SqliteStoreTest, AMeasurementWithWarmL2DisplacesNoneWithColdL2) {
  const Hash128 id = samples::put(*store, 1);
  ASSERT_OK(store->put_device(samples::gpu()));
  MeasurementRecord warm = samples::measurement(MeasurementRecord::Subject::plan, id, {3});
  warm.cold_l2 = false;
  ASSERT_OK(store->record_measurement(warm));
  EXPECT_EQ(store->get_plan(id)->measured_us, 3.0) << "better than none";
  MeasurementRecord cold = samples::measurement(MeasurementRecord::Subject::plan, id, {5});
  ASSERT_TRUE(cold.cold_l2);
  ASSERT_OK(store->record_measurement(cold));
  EXPECT_EQ(store->get_plan(id)->measured_us, 5.0);
  warm.samples = {2};
  warm.provenance.wall_us += 10;
  ASSERT_OK(store->record_measurement(warm));
  EXPECT_EQ(store->get_plan(id)->measured_us, 5.0);
  EXPECT_EQ(store->list_measurements(id)->size(), 3U) << "it is kept all the same";
}

TEST_F(SqliteStoreTest, EventCountsAreNeverTime) {
  const Hash128 id = samples::put(*store, 1);
  ASSERT_OK(store->put_device(samples::emulated()));
  MeasurementRecord measurement = samples::measurement(MeasurementRecord::Subject::plan, id, {1024, 1024});
  measurement.device = "emulated";
  expect_error(store->record_measurement(measurement), ErrorKind::invalid_argument, "tells no device time");
  measurement.kind = MeasurementRecord::Kind::event_count;
  ASSERT_OK(store->record_measurement(measurement));
  EXPECT_EQ(store->get_plan(id)->label, Label::predicted);
}

TEST_F(SqliteStoreTest, MeasurementsKeepEverySample) {
  const Hash128 id = samples::put(*store, 1);
  const Hash128 kernel = store->get_plan(id)->steps[0].kernel;
  expect_error(store->record_measurement(samples::measurement(MeasurementRecord::Subject::kernel, kernel, {1})),
               ErrorKind::invalid_argument, "device \"GPU-0000\" is not stored");
  ASSERT_OK(store->put_device(samples::gpu()));
  const MeasurementRecord measurement =
      samples::measurement(MeasurementRecord::Subject::kernel, kernel, {4.25, 1e-300, 3.5, 0.1, 4.0});
  const Result<Hash128> recorded = store->record_measurement(measurement);
  ASSERT_OK(recorded);
  EXPECT_EQ(*recorded, measurement.id);
  ASSERT_OK(store->record_measurement(measurement));
  EXPECT_THAT(*store->list_measurements(kernel), ElementsAre(measurement)) << "once per content";
  expect_error(store->record_measurement(samples::measurement(MeasurementRecord::Subject::plan, samples::hash(9), {1})),
               ErrorKind::invalid_argument, "is not stored");
  ASSERT_OK(
      store->record_measurement(samples::measurement(MeasurementRecord::Subject::schedule, samples::hash(9), {1})));
}

TEST_F(SqliteStoreTest, CandidatesKeepTheirOutcomesApart) {
  const FragmentRecord fragment = samples::fragment(1);
  ASSERT_OK(store->put_fragment(fragment));
  std::vector<Candidate> candidates;
  for (int i = 0; i < 7; ++i) candidates.push_back(samples::candidate(fragment, i, static_cast<Outcome>(i)));
  ASSERT_OK(store->record_candidates(candidates));
  EXPECT_EQ(store->list_candidates({fragment.key, {}, {}}, {})->items, candidates);
  for (int i = 0; i < 7; ++i) {
    const CandidateFilter filter{fragment.key, samples::target(), static_cast<Outcome>(i)};
    EXPECT_THAT(store->list_candidates(filter, {})->items, ElementsAre(candidates[i]));
  }
  Target other = samples::target();
  other.toolkit = "12.0";
  EXPECT_TRUE(store->list_candidates({{}, other, {}}, {})->items.empty());
}

TEST_F(SqliteStoreTest, ATestedCandidateDoesNotBecomeUntested) {
  const FragmentRecord fragment = samples::fragment(1);
  ASSERT_OK(store->put_fragment(fragment));
  const auto record = [&](Outcome outcome) {
    const Candidate candidate = samples::candidate(fragment, 1, outcome);
    EXPECT_OK(store->record_candidates({&candidate, 1}));
    return store->list_candidates({}, {})->items.at(0).outcome;
  };
  EXPECT_EQ(record(Outcome::untested), Outcome::untested);
  EXPECT_EQ(record(Outcome::timeout), Outcome::timeout);
  EXPECT_EQ(record(Outcome::untested), Outcome::timeout);
  EXPECT_EQ(record(Outcome::correct), Outcome::correct);
}

TEST_F(SqliteStoreTest, ModelsCountTheirVersions) {
  CostModelRecord model;
  model.name = "residual";
  model.device = "h100";
  model.training_set = samples::hash(4);
  model.bytes = std::string(1000, '\x01');
  model.accuracy = R"({"rank_correlation":0.93})";
  model.seed = 42;
  model.provenance = samples::provenance("trained on 512 measurements");
  EXPECT_EQ(*store->put_model(model), 1);
  const std::string old_bytes = std::exchange(model.bytes, "newer");
  EXPECT_EQ(*store->put_model(model), 2);
  model.version = 2;
  EXPECT_EQ(*store->get_model("residual", "h100", {}), model);
  EXPECT_EQ(store->get_model("residual", "h100", 1)->bytes, old_bytes);
  EXPECT_EQ(store->list_models()->size(), 2U);
  expect_error(store->get_model("residual", "a100", {}), ErrorKind::not_found, "no model \"residual\"");
  expect_error(store->get_model("residual", "h100", 3), ErrorKind::not_found, "version 3");
}

TEST_F(SqliteStoreTest, ListingsArePaged) {
  std::vector<Hash128> stored;
  for (int i = 0; i < 7; ++i) stored.push_back(samples::put(*store, i));
  for (const bool newest_first : {false, true}) {
    std::vector<Hash128> listed;
    Page page{3, 0, newest_first};
    do {
      const Listing<PlanRecord> plans = *store->list_plans({}, page);
      EXPECT_LE(plans.items.size(), 3U);
      for (const PlanRecord& plan : plans.items) listed.push_back(plan.id);
      page.after = plans.next;
    } while (page.after != 0);
    if (newest_first) std::reverse(listed.begin(), listed.end());
    EXPECT_EQ(listed, stored);
  }
  EXPECT_EQ(store->list_fragments({7, 0, false})->next, 0) << "a full last page ends the listing";
  expect_error(store->list_plans({}, {0, 0, false}), ErrorKind::invalid_argument, "page limit");
  expect_error(store->list_plans({}, {1001, 0, false}), ErrorKind::invalid_argument, "page limit");
}

TEST_F(SqliteStoreTest, PlansAreFiltered) {
  const Hash128 first = samples::put(*store, 1);
  samples::put(*store, 2);
  ASSERT_OK(store->put_fragment(samples::fragment(3, 9)));
  Target a100 = samples::target();
  a100.device = "a100";
  const Hash128 other = store->put_plan(samples::bundle(samples::fragment(3, 9), 3, a100), Admission::challenger)->id;
  const auto ids = [&](const PlanFilter& filter) {
    std::vector<Hash128> found;
    const Listing<PlanRecord> plans = *store->list_plans(filter, {});
    for (const PlanRecord& plan : plans.items) found.push_back(plan.id);
    return found;
  };
  EXPECT_THAT(ids({.fragment = samples::hash(1)}), ElementsAre(first));
  EXPECT_THAT(ids({.family = samples::fragment(3, 9).family}), ElementsAre(other));
  EXPECT_THAT(ids({.device = "a100"}), ElementsAre(other));
  EXPECT_THAT(ids({.status = PlanStatus::challenger}), ElementsAre(other));
  EXPECT_EQ(ids({.label = Label::predicted}).size(), 3U);
  EXPECT_TRUE(ids({.fragment = samples::hash(1), .device = "a100"}).empty());
}

TEST_F(SqliteStoreTest, StatisticsCountWhatIsThere) {
  for (int i = 0; i < 3; ++i) samples::put(*store, i);
  ASSERT_OK(store->put_plan(samples::bundle(samples::fragment(0), 9), Admission::challenger));
  ASSERT_OK(store->put_device(samples::gpu()));
  ASSERT_OK(store->record_measurement(samples::measurement(
      MeasurementRecord::Subject::plan, plan_id(samples::bundle(samples::fragment(0), 0).plan), {1})));
  ASSERT_OK(store->enqueue_job(samples::job()));
  const StoreStatistics statistics = *store->statistics();
  EXPECT_EQ(statistics.fragments, 3);
  EXPECT_EQ(statistics.plans, 4);
  EXPECT_EQ(statistics.incumbents, 3);
  EXPECT_EQ(statistics.kernels, 4);
  EXPECT_EQ(statistics.artifacts, 4 * 3 + 3);
  EXPECT_EQ(statistics.incumbents_by_label[static_cast<int>(Label::measured)], 1);
  EXPECT_EQ(statistics.incumbents_by_label[static_cast<int>(Label::predicted)], 2);
  EXPECT_EQ(statistics.jobs[static_cast<int>(JobState::queued)], 1);
  EXPECT_GT(statistics.artifact_raw_bytes, 4 * 2000);
  EXPECT_LT(statistics.artifact_stored_bytes, 4 * 2000);
  EXPECT_GT(statistics.file_bytes + statistics.log_bytes, 0);
}

TEST_F(SqliteStoreTest, PruningKeepsWhatIsServedMeasuredOrReferredTo) {
  const FragmentRecord fragment = samples::fragment(1);
  ASSERT_OK(store->put_fragment(fragment));
  ASSERT_OK(store->put_device(samples::gpu()));
  const auto put = [&](int number) {
    return store->put_plan(samples::bundle(fragment, number), Admission::replace)->id;
  };
  const Hash128 measured = put(1);
  ASSERT_OK(store->record_measurement(samples::measurement(MeasurementRecord::Subject::plan, measured, {1})));
  const Hash128 forgotten = put(2);
  const Hash128 served = put(3);
  const std::int64_t later = samples::provenance().wall_us + 1;
  EXPECT_EQ(store->prune({later, samples::provenance().wall_us})->plans, 0) << "nothing is older than itself";

  const PruneReport report = *store->prune({later, later});
  EXPECT_EQ(report.plans, 1);
  EXPECT_EQ(report.kernels, 1);
  EXPECT_EQ(report.artifacts, 3);
  expect_error(store->get_plan(forgotten), ErrorKind::not_found, "no plan");
  EXPECT_OK(store->get_plan_bundle(measured));
  EXPECT_OK(store->get_plan_bundle(served));
  EXPECT_THAT(store->integrity_check(true)->problems, ElementsAre());
}

TEST_F(SqliteStoreTest, PruningKeepsModelsThatAJobIsStillAbout) {
  const auto put = [&](std::string bytes) {
    const Sha256 hash = sha256(bytes);
    EXPECT_OK(store->put_upload({hash, std::move(bytes), samples::provenance()}));
    return hash;
  };
  const Sha256 wanted = put("a model"), done = put("another");
  Job job = samples::job();
  job.payload = fmt::format(R"({{"model":"{}"}})", wanted.hex());
  ASSERT_OK(store->enqueue_job(job));
  const std::int64_t now = samples::provenance().wall_us;
  EXPECT_EQ(store->prune({0, 0, now})->models, 0) << "nothing is older than itself";
  EXPECT_EQ(store->prune({0, 0, now + 1})->models, 1);
  EXPECT_OK(store->get_upload(wanted));
  expect_error(store->get_upload(done), ErrorKind::not_found, done.hex());
}

/// Contents long enough that other bytes of the same XXH3-128 are made in no time.
std::string long_code(std::string_view begin) {
  std::string code(begin);
  while (code.size() < 3000) code += fmt::format("ex2.approx.f32 %f{}, %f1;\n", code.size());
  return code;
}

TEST_F(SqliteStoreTest, AnUploadNeverStandsForWhatWasGenerated) {
  const FragmentRecord fragment = samples::fragment(1);
  PlanBundle genuine = samples::bundle(fragment, 1);
  Kernel& kernel = genuine.kernels[0];
  genuine.artifacts[1] = samples::artifact(Artifact::Kind::ptx, long_code(".version 9.0\n"));
  genuine.artifacts[2] = samples::artifact(Artifact::Kind::cubin, long_code("\177ELF"));
  kernel.ptx = genuine.artifacts[1].hash;
  kernel.cubin = genuine.artifacts[2].hash;
  kernel.hash = kernel_hash(kernel);
  genuine.plan.steps[0].kernel = kernel.hash;
  genuine.plan.id = plan_id(genuine.plan);

  // As a client does who tuned the same fragment elsewhere: forged bytes first, and the genuine ones themselves, too.
  const std::string forged = ForgedBytes::like(genuine.artifacts[1].bytes, "abs.f32 %f1, %f1; ret;");
  ASSERT_EQ(hash_bytes(forged), hash_bytes(genuine.artifacts[1].bytes));
  ASSERT_OK(store->put_upload({sha256(forged), forged, samples::provenance()}));
  const std::string cubin = genuine.artifacts[2].bytes;
  ASSERT_OK(store->put_upload({sha256(cubin), cubin, samples::provenance()}));
  expect_error(store->put_upload({sha256(cubin), forged, samples::provenance()}), ErrorKind::invalid_argument, "hash");
  expect_error(store->put_artifact({kernel.ptx, Artifact::Kind::ptx, forged, samples::provenance()}),
               ErrorKind::invalid_argument, "hash is not that of its bytes");

  ASSERT_OK(store->put_fragment(fragment));
  const auto put = store->put_plan(genuine, Admission::if_vacant);
  ASSERT_OK(put);
  for (const Artifact& artifact : genuine.artifacts) EXPECT_EQ(*store->get_artifact(artifact.hash), artifact);
  expect_error(store->get_artifact(sha256(forged)), ErrorKind::not_found, "no artifact");
  EXPECT_THAT(store->integrity_check(true)->problems, ElementsAre());

  // Nothing that was sent is referred to, so that nothing that was sent keeps the store from being pruned.
  const std::int64_t later = samples::provenance().wall_us + 1;
  const auto pruned = store->prune({later, later, later});
  ASSERT_OK(pruned);
  EXPECT_EQ(pruned->models, 2);
  EXPECT_OK(store->get_plan_bundle(put->id));
}

TEST_F(SqliteStoreTest, ArtifactsHaveOneKindAndKernelsWantTheRightOnes) {
  const std::string bytes = "a graph that somebody sent";
  ASSERT_OK(store->put_artifact(samples::artifact(Artifact::Kind::graph, bytes)));
  expect_error(store->put_artifact(samples::artifact(Artifact::Kind::cubin, bytes)), ErrorKind::invalid_argument,
               "is stored as graph, not as cubin");
  PlanBundle bundle = samples::bundle(samples::fragment(1), 1);
  bundle.artifacts.pop_back();
  bundle.kernels[0].cubin = sha256(bytes);
  ASSERT_OK(store->put_fragment(samples::fragment(1)));
  expect_error(store->put_plan(bundle, Admission::if_vacant), ErrorKind::invalid_argument, "its cubin, artifact");
}

TEST_F(SqliteStoreTest, AnotherGraphUnderTheSameKeyIsRefused) {
  ASSERT_OK(store->put_fragment(samples::fragment(1)));
  FragmentRecord forged = samples::fragment(1);
  forged.graph = "another graph";
  expect_error(store->put_fragment(forged), ErrorKind::already_exists, "another graph is stored under this key");
  EXPECT_EQ(store->get_fragment(forged.key)->graph, samples::fragment(1).graph);
}

TEST_F(SqliteStoreTest, EverythingIsThereAfterReopening) {
  const Hash128 id = samples::put(*store, 1);
  const PlanBundle before = *store->get_plan_bundle(id);
  store.reset();
  store = samples::opened(folder / "stitch.db", clock);
  EXPECT_EQ(*store->get_plan_bundle(id), before);
  EXPECT_THAT(store->integrity_check(true)->problems, ElementsAre());
}

}  // namespace
}  // namespace stitch::db
