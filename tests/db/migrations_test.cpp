#include "db/migrations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/db/sample_records.h"

namespace stitch::db {
namespace {

using samples::expect_error;
using testing::ElementsAre;

TEST(MigrationsTest, VersionsCountUpFromOne) {
  int version = 0;
  for (const Migration& step : migrations()) {
    EXPECT_EQ(step.version, ++version);
    EXPECT_NE(step.subject, "");
  }
  EXPECT_EQ(schema_version(), version);
}

TEST(MigrationsTest, EveryVersionPassesItsOwnCheck) {
  for (int version = 1; version <= schema_version(); ++version) {
    auto connection = sqlite::Connection::open_memory();
    ASSERT_OK(migrate(**connection, migrations().first(static_cast<std::size_t>(version)), 0));
    EXPECT_OK(check_schema(**connection, version));
  }
}

TEST(MigrationsTest, AFailingStepTakesTheOthersWithIt) {
  auto connection = sqlite::Connection::open_memory();
  ASSERT_OK(migrate(**connection, migrations().first(1), 0));
  const Migration steps[] = {migrations()[0],
                             {2, "something good", "CREATE TABLE good (x)"},
                             {3, "something bad", "CREATE TABLE bad (x); INSERT INTO nowhere VALUES (1)"}};
  expect_error(migrate(**connection, steps, 0), ErrorKind::internal, "migration to version 3 (something bad)");
  EXPECT_EQ(*(*connection)->integer("PRAGMA user_version"), 1);
  EXPECT_EQ(*(*connection)->integer("SELECT count(*) FROM sqlite_schema WHERE name IN ('good', 'bad')"), 0);
  EXPECT_EQ(*(*connection)->integer("SELECT max(version) FROM schema_version"), 1);
}

TEST(MigrationsTest, AStepThatBreaksReferencesIsRefused) {
  auto connection = sqlite::Connection::open_memory();
  const Migration steps[] = {{1, "dangling", R"(
    CREATE TABLE schema_version (version INTEGER, applied_us INTEGER, tool TEXT);
    CREATE TABLE parent (id INTEGER PRIMARY KEY);
    CREATE TABLE child (parent INTEGER REFERENCES parent (id));
    INSERT INTO child VALUES (7))"}};
  expect_error(migrate(**connection, steps, 0), ErrorKind::corrupt, "table child refers to a row of parent");
  EXPECT_EQ(*(*connection)->integer("PRAGMA user_version"), 0);
}

/// Makes a database file of the text of one.
void restore(const std::filesystem::path& path, int version) {
  const std::filesystem::path text =
      std::filesystem::path(STITCH_SOURCE_DIR) / "tests" / "data" / "db" / fmt::format("version{}.sql", version);
  auto connection = sqlite::Connection::open({path, sqlite::OpenOptions::Mode::create, 0, 0, ""});
  ASSERT_OK(connection);
  ASSERT_OK((*connection)->run_script(samples::read_file(text)));
  ASSERT_EQ(*(*connection)->integer("PRAGMA user_version"), version);
}

TEST(MigrationsTest, AReadOnlyStoreAsksForTheMigration) {
  const TestFolder folder;
  SqliteOptions options;
  options.path = folder / "old.db";
  restore(options.path, 1);
  const std::string before = samples::read_file(options.path);
  options.read_only = true;
  expect_error(open_sqlite_store(options, ManualClock()), ErrorKind::version_mismatch, "open it for writing once");
  EXPECT_EQ(samples::read_file(options.path), before);
}

TEST(MigrationsTest, VersionOneKeepsAllItHad) {
  const TestFolder folder;
  const std::filesystem::path path = folder / "old.db";
  restore(path, 1);
  ManualClock clock;
  const auto store = samples::opened(path, clock);
  ASSERT_TRUE(store);
  EXPECT_THAT(store->integrity_check(true)->problems, ElementsAre());

  const FragmentRecord fragment = samples::fragment(1);
  EXPECT_EQ(*store->get_fragment(fragment.key), fragment);
  EXPECT_THAT(*store->list_devices(), ElementsAre(samples::gpu()));
  EXPECT_EQ(store->list_workloads({})->items.at(0).parts.at(0).occurrences, 12);
  EXPECT_THAT(store->list_candidates({}, {})->items, ElementsAre(samples::candidate(fragment, 1, Outcome::correct),
                                                                 samples::candidate(fragment, 2, Outcome::compile)));

  PlanBundle served = samples::bundle(fragment, 1);
  served.measurements = {samples::measurement(MeasurementRecord::Subject::plan, served.plan.id, {9.5, 9.25, 10})};
  served.plan.label = Label::measured;
  served.plan.measured_us = 9.5;
  served.plan.status = PlanStatus::incumbent;
  served.plan.sequence = 1;
  served.plan.provenance = samples::provenance("measured by CUPTI");
  EXPECT_EQ(*store->get_plan_bundle(served.plan.id), served);
  EXPECT_EQ(store->find_plan(served.plan.key, {})->plan->id, served.plan.id);

  const PlanRecord once_near = *store->get_plan(plan_id(samples::bundle(fragment, 2).plan));
  EXPECT_EQ(once_near.label, Label::predicted) << "version 1 did not say near what";

  EXPECT_GT(store->statistics()->artifact_stored_bytes, 7 * 20) << "seven artifacts, counted after the fact";

  EXPECT_THAT(*store->requeue_orphans({.everyone = true}), ElementsAre(1));
  const Job resumed = store->claim_job("daemon of today", 1000, {})->value();
  EXPECT_EQ(resumed.id, 1);
  EXPECT_EQ(resumed.fence, 2);
  EXPECT_EQ(resumed.progress, 0.5);
  EXPECT_EQ(resumed.max_stalled, 10);
}

TEST(MigrationsTest, VersionThreeIsNamedAnewAndLosesNothing) {
  const TestFolder folder;
  const std::filesystem::path path = folder / "old.db";
  restore(path, 3);
  const ManualClock clock;
  const auto store = samples::opened(path, clock);
  ASSERT_TRUE(store);
  EXPECT_THAT(store->integrity_check(true)->problems, ElementsAre());
  const auto plans = store->list_plans({}, {});
  ASSERT_EQ(plans->items.size(), 2U);
  for (const PlanRecord& listed : plans->items) {
    // The whole bundle: each kernel and artifact was found by its new name, and checked against it.
    const auto bundle = store->get_plan_bundle(listed.id);
    ASSERT_OK(bundle);
    ASSERT_EQ(bundle->kernels.size(), 1U);
    const Kernel& kernel = bundle->kernels[0];
    EXPECT_NE(bundle->plan.document.find("\"cubin\":\"" + kernel.cubin.hex() + "\""), std::string::npos);
    EXPECT_NE(bundle->plan.document.find("\"ptx\":\"" + kernel.ptx.hex() + "\""), std::string::npos);
    EXPECT_EQ(store->get_artifact(kernel.ptx)->kind, Artifact::Kind::ptx);
    EXPECT_EQ(store->find_plan(listed.key, {})->plan->id, listed.id) << "it is still served";
    EXPECT_OK(store->get_fragment(listed.key.fragment));
  }
  const auto promotions = store->list_promotions({});
  ASSERT_EQ(promotions->items.size(), 2U);
  EXPECT_EQ(promotions->items[0].plan, plans->items[0].id);
  EXPECT_EQ(promotions->items[1].plan, plans->items[1].id);
  const auto candidates = store->list_candidates({}, {});
  EXPECT_FALSE(candidates->items.empty());

  // Files of models are uploads now, and both models and jobs say so.
  const auto workloads = store->list_workloads({});
  ASSERT_EQ(workloads->items.size(), 2U);
  for (const Workload& workload : workloads->items) EXPECT_OK(store->get_upload(workload.key));
  const auto jobs = store->list_jobs({}, {});
  ASSERT_EQ(jobs->items.size(), 3U);
  for (const Job& listed : jobs->items) {
    const Job job = *store->get_job(listed.id);
    const std::string model = job.payload.substr(std::string("{\"model\":\"").size(), 64);
    ASSERT_TRUE(Sha256::from_hex(model)) << job.payload;
    EXPECT_OK(store->get_upload(*Sha256::from_hex(model)));
    EXPECT_NE(job.dedupe_key.find(" " + model + " h100"), std::string::npos) << job.dedupe_key;
  }
}

TEST(MigrationsTest, VersionFourGetsPrograms) {
  const TestFolder folder;
  const std::filesystem::path path = folder / "old.db";
  restore(path, 4);
  const ManualClock clock;
  const auto store = samples::opened(path, clock);
  ASSERT_TRUE(store);
  EXPECT_THAT(store->integrity_check(true)->problems, ElementsAre());
  const auto models = store->list_workloads({});
  ASSERT_EQ(models->items.size(), 1U);
  ASSERT_EQ(models->items[0].parts.size(), 1U);
  const auto plans = store->list_plans({}, {});
  ASSERT_EQ(plans->items.size(), 1U);
  EXPECT_OK(store->get_plan_bundle(plans->items[0].id));
  EXPECT_EQ(store->list_programs({}, {})->items.size(), 0U) << "made when the model is tuned again";
  ProgramRecord program{models->items[0].key, samples::hash(1), "h100", "small", "document", samples::provenance()};
  EXPECT_OK(store->put_program(program));
}

TEST(MigrationsTest, WhatWasDamagedStaysSoAndWhatWasPlantedIsNotTrusted) {
  const TestFolder folder;
  const std::filesystem::path path = folder / "old.db";
  restore(path, 3);
  {
    auto connection = sqlite::Connection::open({path, sqlite::OpenOptions::Mode::read_write, 0, 0, ""});
    ASSERT_OK(connection);
    // A cubin of the first plan has lost a byte; the PTX of the second was sent in as a model.
    ASSERT_OK((*connection)->run_script("UPDATE artifact SET data = zeroblob(20) WHERE kind = 'cubin' AND row < 6"));
    ASSERT_EQ((*connection)->changes(), 1);
    ASSERT_OK((*connection)->run_script("UPDATE artifact SET kind = 'model' WHERE kind = 'ptx' AND row > 6"));
    ASSERT_EQ((*connection)->changes(), 1);
  }
  const ManualClock clock;
  const auto store = samples::opened(path, clock);
  ASSERT_TRUE(store);
  EXPECT_EQ(store->integrity_check(true)->problems.size(), 2U) << "each is found on reading";
  const auto plans = store->list_plans({}, {});
  ASSERT_EQ(plans->items.size(), 2U);
  for (const PlanRecord& plan : plans->items) {
    EXPECT_OK(store->get_plan(plan.id));
    expect_error(store->get_plan_bundle(plan.id), ErrorKind::corrupt, "artifact ");
  }
  // The daily upkeep of such a database works, and drops what was planted.
  const std::int64_t later = std::int64_t{1} << 60;
  const auto pruned = store->prune({later, later, later});
  ASSERT_OK(pruned);
  EXPECT_EQ(pruned->models, 3) << "two files of ended jobs and what was planted; one is of a job that was interrupted";
}

TEST(MigrationsTest, VersionTwoLosesItsQuarantineAlone) {
  const TestFolder folder;
  const std::filesystem::path path = folder / "old.db";
  restore(path, 2);
  const ManualClock clock;
  const auto store = samples::opened(path, clock);
  ASSERT_TRUE(store);
  EXPECT_THAT(store->integrity_check(true)->problems, ElementsAre());
  const FragmentRecord fragment = samples::fragment(1);
  EXPECT_EQ(*store->get_fragment(fragment.key), fragment);
  const PlanRecord near = *store->get_plan(plan_id(samples::bundle(fragment, 2).plan));
  EXPECT_EQ(near.label, Label::near);
  EXPECT_EQ(near.neighbour, samples::bundle(fragment, 1).plan.id);
  const CostModelRecord model = *store->get_model("residual", "h100", 1);
  EXPECT_EQ(model.bytes, "trees");
  EXPECT_EQ(model.seed, ~std::uint64_t{0});
  EXPECT_EQ(model.training_set, samples::hash(5));
  EXPECT_EQ(store->list_jobs({}, {})->items.size(), 2U);
  const auto connection = sqlite::Connection::open({path, sqlite::OpenOptions::Mode::read_only, 0, 0, ""});
  EXPECT_EQ(*(*connection)->integer("SELECT count(*) FROM sqlite_schema WHERE name = 'quarantine'"), 0);
}

}  // namespace
}  // namespace stitch::db
